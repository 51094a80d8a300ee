"""A store of messages in a dictionary, a host that remembers, an outlet that collects."""

from strom.broker.queues.message_properties import read_properties
from strom.queues.definitions import QueueDefinition
from strom.queues.message import Message
from strom.queues.queue import Queue
from strom.queues.store import MessageUnavailable
from strom.wire.amqp.content import BasicProperties, encode_properties


class MemoryStore:
    is_damaged = False

    def __init__(self):
        self.messages = {}
        self.next = 0
        self.delivered_before = 0
        self.reads = 0
        self.is_readable = True

    def add(self, message, receipt):
        self.messages[self.next] = message
        self.next += 1
        return self.next - 1

    def get(self, position):
        self.reads += 1
        if not self.is_readable:
            raise MessageUnavailable
        return self.messages.get(position)

    def mark_leaving(self, position):
        pass

    def remove(self, position):
        del self.messages[position]

    def remove_range(self, span):
        for position in range(*span):
            self.messages.pop(position, None)

    def mark_delivered(self, position):
        self.delivered_before = max(self.delivered_before, position + 1)

    def mark_returned(self, position, count):
        pass


class RememberingHost:
    def __init__(self):
        self.given_up = []
        self.wakes = []

    def give_up(self, queue, message, reason, receipt):
        self.given_up.append((message.body, reason))

    def wake(self, queue, at_ms):
        self.wakes.append(at_ms)


class CollectingOutlet:
    def __init__(self):
        self.takes = True
        self.got = []

    def deliver(self, consumer, position, message, redelivered):
        self.got.append((consumer.tag, position, message.body, redelivered))

    def consumer_cancelled(self, consumer):
        self.got.append((consumer.tag, "cancelled"))


def make_queue(**arguments):
    definition = QueueDefinition(
        "/",
        "q",
        arguments={f"x-{name.replace('_', '-')}": value for name, value in arguments.items()},
    )
    return Queue(definition, MemoryStore(), RememberingHost())


def make_message(body, now_ms=0, **properties):
    parsed = read_properties(encode_properties(BasicProperties(**properties)))
    return Message("", "q", parsed, body, now_ms)
