"""How fast views are, beside the same views written by hand in Spark Structured Streaming."""
