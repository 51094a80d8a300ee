"""Whose turn it is, against a list that is searched; and what thousands of consumers cost."""

from hypothesis import given
from hypothesis import strategies as st

from strom.queues.consumers import Consumer, Consumers
from tests.queues.memory_store import CollectingOutlet, make_queue


class AskedConsumer(Consumer):
    """Counts how often it is asked whether it takes a message."""

    __slots__ = ("asked",)

    def __init__(self, tag, **options):
        super().__init__(make_queue(), CollectingOutlet(), tag, **options)
        self.asked = 0

    @property
    def can_take(self):
        self.asked += 1
        return super().can_take


class ModelOfConsumers:
    """The one that was served longest ago, of the highest priority that takes a message."""

    def __init__(self, single_active):
        self.single_active = single_active
        self.consumers = []
        self.served = {}
        self.time = 0

    def add(self, consumer):
        self.consumers.append(consumer)
        self.serve(consumer)

    def remove(self, consumer):
        self.consumers.remove(consumer)

    def next(self):
        active = self.consumers[:1] if self.single_active else self.consumers
        able = [consumer for consumer in active if consumer.can_take]
        if not able:
            return None
        found = min(able, key=lambda one: (-one.priority, self.served[one]))
        if len(self.consumers) > 1:
            self.serve(found)
        return found

    def serve(self, consumer):
        self.time += 1
        self.served[consumer] = self.time


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "remove", "block", "unblock", "next", "next", "next"]),
        st.integers(0, 9),
        st.integers(0, 1),
    ),
    max_size=60,
)


@given(STEPS, st.booleans())
def test_the_consumer_that_was_served_longest_ago_is_next(steps, single_active):
    consumers, model = Consumers(single_active=single_active), ModelOfConsumers(single_active)
    for number, (step, which, priority) in enumerate(steps):
        there = model.consumers
        if step == "add":
            consumer = Consumer(
                make_queue(), CollectingOutlet(), str(number), arguments={"x-priority": priority}
            )
            consumers.add(consumer)
            model.add(consumer)
        elif step == "next":
            assert consumers.next() is model.next()
        elif there:
            consumer = there[which % len(there)]
            if step == "remove":
                consumers.remove(consumer)
                model.remove(consumer)
            else:
                consumer.outlet.takes = step == "unblock"
                consumers.wake(consumer)
        assert list(consumers) == model.consumers


@given(st.integers(2, 6), st.integers(0, 20))
def test_without_obstacles_it_is_a_round(count, turns):
    consumers = Consumers(single_active=False)
    everyone = [AskedConsumer(str(number)) for number in range(count)]
    for consumer in everyone:
        consumers.add(consumer)
    assert [consumers.next() for _ in range(turns)] == [
        everyone[turn % count] for turn in range(turns)
    ]


def test_a_channel_that_stops_after_every_message_does_not_prefer_its_first_consumer():
    consumers = Consumers(single_active=False)
    everyone = [AskedConsumer(str(number)) for number in range(3)]
    for consumer in everyone:
        consumers.add(consumer)
    turns = []
    for _ in range(6):
        for consumer in everyone:
            consumer.outlet.takes = True
            consumers.wake(consumer)
        turns.append(consumers.next().tag)
        for consumer in everyone:
            consumer.outlet.takes = False
        assert consumers.next() is None
    assert turns == ["0", "1", "2"] * 2


def test_thousands_that_cannot_take_are_asked_once_and_not_for_every_message():
    consumers = Consumers(single_active=False)
    blocked = [AskedConsumer(str(number), limit=1) for number in range(5000)]
    for consumer in blocked:
        consumers.add(consumer)
        consumer.unacked = 1
    for _ in range(100):
        assert consumers.next() is None
    assert sum(consumer.asked for consumer in blocked) == 5000
    blocked[17].unacked = 0
    consumers.wake(blocked[17])
    assert consumers.next() is blocked[17]
    assert sum(consumer.asked for consumer in blocked) == 5001


def test_consumers_that_come_and_go_leave_nothing_behind():
    consumers = Consumers(single_active=False)
    stays = AskedConsumer("stays")
    consumers.add(stays)
    for number in range(1000):
        passing = AskedConsumer(str(number))
        consumers.add(passing)
        consumers.remove(passing)
    assert len(consumers._turns) < 50
    assert consumers.next() is stays
