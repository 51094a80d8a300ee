"""Misfortunes that a sound broker stands: planted beside bugs to bring them to light."""

import json
import os
import sys
import threading
import time
from pathlib import Path

from strom.model.errors import ProtocolError
from strom.server.kafka.dispatch import Dispatcher
from strom.storage.flush import Flush
from tests.history.planting import Plant, around, every
from tests.history.workers import TOPIC

PRODUCE = 0
SLOW_SYNC_SECONDS = 0.2


def lose_answers() -> None:
    """Now and then the connection breaks when a batch is appended, but before the answer is sent."""
    due = every(10)

    @around(Dispatcher, "_respond")
    def respond(original, self, outcome, header, *rest, **options):
        if header.api_key == PRODUCE and due():
            raise ProtocolError("the connection breaks here")
        return original(self, outcome, header, *rest, **options)


def lose_unsynced() -> None:
    """Syncing takes its time, and what was not synced is gone after the next start."""
    data = sys.argv[sys.argv.index("--data") + 1]
    book = Path(f"{data}.synced")
    sizes: dict[str, int] = json.loads(book.read_text()) if book.exists() else {}
    for path in Path(data).glob(f"{TOPIC}-*/*.log"):
        safe = sizes.get(str(path), 0)
        if path.stat().st_size > safe:
            os.truncate(path, safe)
    lock = threading.Lock()

    @around(Flush, "sync")
    def sync(original, self):
        if not Path(self._folder).name.startswith(f"{TOPIC}-"):
            return original(self)
        time.sleep(SLOW_SYNC_SECONDS)
        original(self)
        with lock:
            for dirty in self.segments:
                path = dirty.segment.log_path
                sizes[path] = max(sizes.get(path, 0), dirty.size_bytes)
            book.with_suffix(".new").write_text(json.dumps(sizes))
            book.with_suffix(".new").replace(book)
        return None


MISFORTUNES: dict[str, Plant] = {"lose_answers": lose_answers, "lose_unsynced": lose_unsynced}
