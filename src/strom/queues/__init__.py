"""Message queues as pure state: exchanges, bindings, queues, delivery, dead letters. No I/O, no clock."""
