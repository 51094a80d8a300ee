"""Which topics there are, with their ids, partitions and settings."""
