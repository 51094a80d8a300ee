"""A log file that is rotated while it is read becomes a topic, and the topic becomes a CSV file."""

import json
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

REST = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8083"


def ask(method: str, path: str, config: dict[str, str] | None = None) -> None:
    """Ask the Connect worker for something."""
    request = urllib.request.Request(f"{REST}/connectors/{path}", method=method)
    request.add_header("Content-Type", "application/json")
    body = None if config is None else json.dumps(config).encode()
    urllib.request.urlopen(request, body, timeout=30).close()


folder = Path(tempfile.mkdtemp(prefix="strom-example-"))
log, table = folder / "visits.log", folder / "visits.csv"
json_lines = {"value.converter": "JSON", "value.converter.schemas.enable": "false"}

log.write_text('{"page": "/", "ms": 12}\n{"page": "/tea", "ms": 30}\n')
ask(
    "PUT",
    "example-visits-in/config",
    {
        "connector.class": "FileStreamSource",
        "file": str(log),
        "format": "json",
        "topic": "example-visits",
        **json_lines,
    },
)
ask(
    "PUT",
    "example-visits-out/config",
    {
        "connector.class": "FileStreamSink",
        "topics": "example-visits",
        "file": str(table),
        "format": "csv",
        "csv.columns": "page,ms",
        **json_lines,
    },
)


def wait_for_lines(count: int) -> None:
    """Wait until the table has so many."""
    while not table.exists() or table.read_text().count("\n") < count:
        time.sleep(0.1)


wait_for_lines(3)
# The log is rotated: renamed, and begun anew. What was written before that is read first.
with log.open("a") as file:
    file.write('{"page": "/cup", "ms": 8}\n')
log.rename(folder / "visits.log.1")
log.write_text('{"page": "/", "ms": 10}\n')

wait_for_lines(5)
print(table.read_text(), end="")
for name in ("example-visits-in", "example-visits-out"):
    ask("DELETE", name)
