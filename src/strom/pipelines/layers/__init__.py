"""What computes views: master dataset, batch, speed, replay, and compaction of what they wrote."""
