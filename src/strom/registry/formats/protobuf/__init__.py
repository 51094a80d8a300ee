"""Protocol Buffers: texts and descriptors, one canonical text for both, and compatibility."""
