"""A load generator with the clicks of a shop: python -m strom.cli.clickstream SERVERS TOPIC RATE SECONDS.

Popular pages are visited more often, users come in sessions, one click in a hundred is late by minutes,
and one in a thousand is malformed. At the end it prints, as JSON, how many clicks it has sent.
"""

import json
import os
import random
import sys
import time
from datetime import UTC, datetime, timedelta
from itertools import accumulate

from strom.cli.clicks import PAGES
from strom.client.connection_settings import ConnectionSettings
from strom.client.factories import HIGH_THROUGHPUT, KafkaClients
from strom.supervision.lifeline import LIFELINE, end_with_parent

USERS = 200_000
SESSIONS = 5_000
LATE, MALFORMED = 0.01, 0.001
_TICK_S = 0.05
_WEIGHTS = list(accumulate(1 / rank for rank in range(1, len(PAGES) + 1)))


class Visitors:
    def __init__(self, seed: int = 2026, sessions: int = SESSIONS) -> None:
        self._chance = random.Random(seed)  # noqa: S311 - not for cryptography
        self._sessions = [self._new_user() for _ in range(sessions)]
        self.malformed = 0

    def clicks(self, count: int, now: datetime) -> list[bytes]:
        """The values of `count` records with the timestamp `now`."""
        chance = self._chance
        pages = chance.choices(PAGES, cum_weights=_WEIGHTS, k=count)
        users = chance.choices(self._sessions, k=count)
        times = chance.choices(range(20, 2000), k=count)
        at = now.isoformat(timespec="milliseconds")
        texts = [
            f'{{"user":"{user}","page":"{page}","ms":{ms},"at":"{at}"}}'
            for user, page, ms in zip(users, pages, times, strict=True)
        ]
        made = "\n".join(texts).encode().split(b"\n") if texts else []  # faster than one by one
        late = (now - timedelta(minutes=chance.randint(2, 30))).isoformat(timespec="milliseconds")
        for _ in range(int(count * LATE)):
            index = chance.randrange(count)
            made[index] = made[index].replace(at.encode(), late.encode())
        wrong = (
            sum(chance.random() < MALFORMED for _ in range(count // 10)) * 10 if count > 10 else 0
        )
        for index in chance.sample(range(count), min(wrong, count)):
            made[index] = made[index][: chance.randrange(1, 30)]
        self.malformed += min(wrong, count)
        for _ in range(count // 20):  # sessions end and new ones begin
            self._sessions[chance.randrange(len(self._sessions))] = self._new_user()
        return made

    def _new_user(self) -> str:
        return f"user-{int(USERS * self._chance.random() ** 3)}"


def send(servers: str, topic: str, rate: float, seconds: float) -> tuple[int, int]:
    """Send clicks at a steady rate (0 for the maximum); how many, and how many of them malformed."""
    producer = KafkaClients(ConnectionSettings(servers)).producer(
        {**HIGH_THROUGHPUT, "linger.ms": 20}
    )
    visitors = Visitors()
    began = time.monotonic()
    sent = 0
    while (passed := time.monotonic() - began) < seconds:
        due = int(rate * (passed + _TICK_S)) - sent if rate else 50_000
        for value in visitors.clicks(due, datetime.now(UTC)):
            while True:
                try:
                    producer.produce(topic, value)
                    break
                except BufferError:
                    producer.poll(0.01)
        producer.poll(0)
        sent += due
        # Sleep until these are due: a busy loop would occupy a core.
        time.sleep(max(0.0, began + sent / rate - time.monotonic()) if rate else 0)
    producer.flush()
    return sent, visitors.malformed


if __name__ == "__main__":
    if LIFELINE in sys.argv:
        end_with_parent(lambda: os._exit(1))
    address, name, per_second, duration = sys.argv[1:5]
    total, malformed = send(address, name, float(per_second), float(duration))
    print(json.dumps({"sent": total, "malformed": malformed}))
