"""Files as sources and sinks: lines, CSV and JSON lines."""
