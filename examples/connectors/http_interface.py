"""An HTTP interface with pages is polled for what is new, and records are sent to another."""

import json
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

REST = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8083"
ORDERS = [{"id": number, "what": f"tea {number}"} for number in range(1, 6)]
PAGE = 2


class Shop(BaseHTTPRequestHandler):
    """GET /orders?after=N gives two orders and a link to the next; PUT /copies/N takes one."""

    def do_GET(self) -> None:
        """Answer a page of orders."""
        after = int(parse_qs(urlsplit(self.path).query).get("after", ["0"])[0])
        newer = [order for order in ORDERS if int(str(order["id"])) > after]
        page = newer[:PAGE]
        more = len(newer) > PAGE
        link = f"/orders?after={page[-1]['id']}" if more else None
        self._answer(json.dumps({"orders": page, "next": link}).encode())

    def do_PUT(self) -> None:
        """Take an order."""
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        copies.append(f"{self.path}: {order['what']}")
        self._answer(b"")

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


def ask(method: str, path: str, config: dict[str, str] | None = None) -> None:
    """Ask the Connect worker for something."""
    request = urllib.request.Request(f"{REST}/connectors/{path}", method=method)
    request.add_header("Content-Type", "application/json")
    body = None if config is None else json.dumps(config).encode()
    urllib.request.urlopen(request, body, timeout=30).close()


copies: list[str] = []
shop = ThreadingHTTPServer(("127.0.0.1", 0), Shop)
threading.Thread(target=shop.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{shop.server_address[1]}"
as_json = {"value.converter": "JSON", "value.converter.schemas.enable": "false"}

ask(
    "PUT",
    "example-orders-in/config",
    {
        "connector.class": "HttpSource",
        "url": f"{address}/orders",
        "topic": "example-orders",
        "records.pointer": "/orders",
        "paging": "link",
        "paging.pointer": "/next",
        "incremental.pointer": "/id",
        "incremental.parameter": "after",
        "poll.interval.ms": "200",
        **as_json,
    },
)
ask(
    "PUT",
    "example-orders-out/config",
    {
        "connector.class": "HttpSink",
        "topics": "example-orders",
        "url": address + "/copies/{id}",
        "method": "PUT",
        **as_json,
    },
)
while len(copies) < 5:
    time.sleep(0.1)
ORDERS.append({"id": 6, "what": "a cup"})  # only this one is asked for from now on
while len(copies) < 6:
    time.sleep(0.1)
print("\n".join(copies))
for name in ("example-orders-in", "example-orders-out"):
    ask("DELETE", name)
shop.shutdown()
