"""A queue at work, step by step, against lists."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from strom.queues.consumers import Consumer
from tests.queues.memory_store import CollectingOutlet, make_message, make_queue


class QueueMachine(RuleBasedStateMachine):
    """What waits is kept sorted by arrival; what is out is a dictionary."""

    consumers = Bundle("consumers")

    def __init__(self):
        super().__init__()
        self.queue = make_queue()
        self.waiting = []
        self.out = {}
        self.returned = set()
        self.arrived = 0
        self.outlets = []

    def _expect_deliveries(self):
        """Take note of what was delivered; it must be the oldest that waited."""
        for consumer, outlet in self.outlets:
            for _, position, body, redelivered in outlet.got:
                number = int(body)
                assert redelivered == (number in self.returned)
                self.waiting.remove(number)
                if not consumer.no_ack:
                    assert number not in self.out
                    self.out[number] = (consumer, position)
            outlet.got.clear()

    @rule(target=consumers, limit=st.integers(0, 3), no_ack=st.booleans())
    def consume(self, limit, no_ack):
        outlet = CollectingOutlet()
        consumer = Consumer(self.queue, outlet, f"c{len(self.outlets)}", no_ack=no_ack, limit=limit)
        self.queue.consumers.add(consumer)
        self.outlets.append((consumer, outlet))
        self.queue.serve(0)
        self._expect_deliveries()
        return consumer

    @rule(consumer=consumers, takes=st.booleans())
    def pause_or_go_on(self, consumer, takes):
        consumer.outlet.takes = takes
        self.queue.consumers.wake(consumer)
        self.queue.serve(0)
        self._expect_deliveries()

    @rule(count=st.integers(1, 4))
    def publish(self, count):
        for _ in range(count):
            self.waiting.append(self.arrived)
            self.queue.publish(make_message(str(self.arrived).encode()), 0)
            self.arrived += 1
        self._expect_deliveries()

    @rule(data=st.data(), what=st.sampled_from(["ack", "reject", "requeue"]))
    def settle(self, data, what):
        if not self.out:
            return
        number = data.draw(st.sampled_from(sorted(self.out)))
        consumer, position = self.out.pop(number)
        consumer.unacked -= 1
        self.queue.consumers.wake(consumer)
        if what == "requeue":
            self.returned.add(number)
            self.waiting = sorted([*self.waiting, number])
            self.queue.requeue([position])
        elif what == "ack":
            self.queue.acknowledge(position)
        else:
            self.queue.reject(position)
        self.queue.serve(0)
        self._expect_deliveries()

    @rule()
    def get(self):
        got = self.queue.get(0, no_ack=True)
        if got is None:
            assert self.waiting == []
        else:
            assert int(got.message.body) == self.waiting.pop(0)
            assert got.left == len(self.waiting)

    @rule()
    def purge(self):
        assert self.queue.purge() == len(self.waiting)
        self.waiting = []

    @invariant()
    def counts_agree(self):
        assert self.queue.waiting == len(self.waiting)
        assert len(self.queue.unacked) == len(self.out)
        assert len(self.queue.store.messages) == len(self.waiting) + len(self.out)
        assert self.queue.backlog.size == sum(len(str(number)) for number in self.waiting)

    @invariant()
    def nobody_who_may_take_is_left_waiting(self):
        if self.waiting:
            assert not any(consumer.can_take for consumer, _ in self.outlets)

    @invariant()
    def limits_are_kept(self):
        for consumer, _ in self.outlets:
            mine = sum(1 for owner, _ in self.out.values() if owner is consumer)
            assert consumer.unacked == mine
            assert not consumer.limit or mine <= consumer.limit


QueueMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
test_a_queue_is_a_list_with_things_out = QueueMachine.TestCase
