"""A source and a sink that do what a test tells them, inside the test's own process."""

import threading
from collections import defaultdict
from dataclasses import dataclass

from strom.connect.api import (
    ConnectorSettings,
    Kind,
    SinkConnector,
    SinkTask,
    SourceConnector,
    SourceRecord,
    SourceTask,
    setting,
)


class Scene:
    """What one connector shall do, and what it did."""

    def __init__(self):
        self.items = []
        """What the source gives."""
        self.delivered = []
        self.idle = []
        """Offsets that the source has without records."""
        self.ends = False
        """Whether the source ends its transaction."""
        self.put = []
        """What the sink was given, put by put, since it was last opened."""
        self.stored = []
        """What the sink has flushed."""
        self.positions = {}
        self.keeps_positions = False
        self.trouble = {}
        """Call → errors that it raises, one after the other; None: that call succeeds."""
        self.on_put = lambda records: None
        self.calls = defaultdict(int)
        self.settings = None
        self.lock = threading.Lock()

    def call(self, name):
        with self.lock:
            self.calls[name] += 1
            errors = self.trouble.get(name, [])
            error = errors.pop(0) if errors else None
            if error is not None:
                raise error


scenes: defaultdict[str, Scene] = defaultdict(Scene)


@dataclass(frozen=True, kw_only=True)
class TroubledSettings(ConnectorSettings):
    scene: str = setting("scene", Kind.STRING, "Which scene it plays.", required=True)
    topic: str = setting("topic", Kind.STRING, "Where the source writes.", "troubled")
    token: str | None = setting("token", Kind.PASSWORD, "A secret.")


class TroubledSourceTask(SourceTask[TroubledSettings]):
    def start(self):
        self.scene = scenes[self.settings.scene]
        self.scene.settings = self.settings
        self.scene.call("start")
        self.at = (self.context.offset({"p": 0}) or {"at": 0})["at"]

    def poll(self):
        self.scene.call("poll")
        items = self.scene.items[self.at : self.at + 10]
        if not items:
            self.context.stopping.wait(0.02)
        records = [
            SourceRecord({"p": 0}, {"at": self.at + place}, self.settings.topic, item)
            for place, item in enumerate(items, 1)
        ]
        self.at += len(items)
        return records

    def delivered(self, offsets):
        self.scene.delivered += offsets

    def idle_offsets(self):
        found, self.scene.idle = self.scene.idle, []
        return found

    def stop(self):
        self.scene.calls["stop"] += 1


class TroubledSource(SourceConnector[TroubledSettings]):
    settings_class = TroubledSettings
    task_class = TroubledSourceTask

    def check(self):
        wrong = self.settings.token == "wr0ng-token"
        return {"token": f"{self.settings.token} is wrong."} if wrong else {}


class BoundarySourceTask(TroubledSourceTask):
    def ends_transaction(self):
        return self.scene.ends


class BoundarySource(TroubledSource):
    task_class = BoundarySourceTask
    defines_transactions = True


class AtLeastOnceSource(TroubledSource):
    exactly_once = False


class TroubledSinkTask(SinkTask[TroubledSettings]):
    def start(self):
        self.scene = scenes[self.settings.scene]
        self.scene.settings = self.settings
        self.scene.call("start")

    def open(self, partitions):
        self.scene.call("open")
        self.scene.put = []
        return dict(self.scene.positions) if self.scene.keeps_positions else {}

    def put(self, records):
        self.scene.call("put")
        self.scene.on_put(records)
        self.scene.put += records

    def flush(self):
        self.scene.call("flush")
        for record in self.scene.put:
            self.scene.stored.append(record.value)
            self.scene.positions[record.origin] = record.offset + 1
        self.scene.put = []

    def close(self, partitions):
        self.scene.calls["close"] += 1

    def stop(self):
        self.scene.calls["stop"] += 1


class TroubledSink(SinkConnector[TroubledSettings]):
    settings_class = TroubledSettings
    task_class = TroubledSinkTask
