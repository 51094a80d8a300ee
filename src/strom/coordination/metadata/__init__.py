"""The cluster metadata: topics with their ids, partitions and settings."""
