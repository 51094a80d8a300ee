"""Groups of every type, and their committed offsets."""
