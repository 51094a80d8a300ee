"""MongoDB: collections as sources and sinks."""
