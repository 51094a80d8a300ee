"""The log on disk: segments, indexes, recovery, retention, compaction; one seam to the files."""
