"""Joins storage and coordination into a broker: topics, partitions, waiting, background work."""
