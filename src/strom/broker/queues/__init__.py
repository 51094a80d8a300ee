"""Message queues at work: each queue is a log, and the topology is one too."""
