"""The protocols as bytes and values, without any I/O."""
