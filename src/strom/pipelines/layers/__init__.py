"""The layers that compute views: master dataset, batch, speed, replay, and compaction."""
