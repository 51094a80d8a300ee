"""HTTP interfaces as sources and sinks, and web pages as sources."""
