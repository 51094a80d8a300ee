"""Protocol Buffers: texts and descriptors, one canonical text for both, and who can read what."""
