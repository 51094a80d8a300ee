"""AMQP 0-9-1: connections and channels of queue clients, one handler module per class of methods."""
