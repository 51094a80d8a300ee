"""Message queues on the broker's logs: each queue is a log, and the topology is one too."""
