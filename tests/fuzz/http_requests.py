"""Requests that no honest client sends, from a seed: well-formed ones, and bytes that are almost HTTP."""

import base64
import json
import random
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

LOGIN = b"Authorization: Basic " + base64.b64encode(b"guest:guest") + b"\r\n"
HOST = b"Host: localhost\r\n" + LOGIN
JSON = b"Content-Type: application/json\r\n"
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS")
TEXTS = (
    "",
    "a",
    "é/%",
    "\0",
    "a" * 3000,
    "../..",
    "-1",
    "9" * 25,
    "9" * 4400,
    "NaN",
    "true",
    "*",
    "~",
)
"""What stands where a name or a number is expected."""
LEAVES = (None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**400, 0.5, 1e308, *TEXTS)


@dataclass(frozen=True)
class Vocabulary:
    """The words of one interface."""

    paths: tuple[str, ...]
    """Words in braces are replaced by texts."""
    names: tuple[str, ...]
    """Names in JSON objects and of parameters."""
    values: tuple[Any, ...]


class Requests:
    """Makes requests for one interface."""

    def __init__(self, vocabulary: Vocabulary, seed: int) -> None:
        self._words = vocabulary
        self._random = random.Random(seed)

    def structured(self) -> bytes:
        """A well-formed request, with anything in it."""
        choose = self._random
        method = choose.choice(METHODS)
        path = "/".join(
            quote(str(choose.choice((*TEXTS, "q", "s"))), safe="") if "{" in part else part
            for part in choose.choice(self._words.paths).split("/")
        )
        if choose.random() < 0.3:
            pairs = [(self._name(), str(self._leaf())) for _ in range(choose.randrange(4))]
            path += "?" + urlencode(pairs)
        body = b""
        if method not in ("GET", "HEAD") or choose.random() < 0.1:
            body = self._body()
        head = f"{method} {path} HTTP/1.1\r\n".encode("ascii") + HOST
        if body:
            head += JSON + b"Content-Length: %d\r\n" % len(body)
        return head + b"Connection: close\r\n\r\n" + body

    def mutated(self) -> bytes:
        """A request with some bytes changed, removed, repeated or added."""
        choose = self._random
        data = bytearray(self.structured())
        for _ in range(choose.randrange(1, 6)):
            start = choose.randrange(len(data))
            end = min(len(data), start + choose.choice((1, 1, 2, 10, 100)))
            match choose.randrange(5):
                case 0:
                    data[start] = choose.randrange(256)
                case 1:
                    del data[start:end]
                case 2:
                    data[start:start] = data[start:end]
                case 3:
                    data[start:start] = choose.choice(_PIECES)
                case 4:
                    data[start:end] = choose.randbytes(end - start)
            if not data:
                break
        return bytes(data)

    def _body(self) -> bytes:
        if self._random.random() < 0.1:
            return self._random.choice(_BODIES)
        value = {self._name(): self._value(3) for _ in range(self._random.randrange(5))}
        return json.dumps(value).encode()

    def _value(self, depth: int) -> Any:
        choose = self._random
        if depth and choose.random() < 0.4:
            some = range(choose.randrange(4))
            if choose.random() < 0.5:
                return [self._value(depth - 1) for _ in some]
            return {self._name(): self._value(depth - 1) for _ in some}
        return self._leaf()

    def _name(self) -> str:
        return str(self._random.choice((*self._words.names, *self._words.names, *TEXTS[:4])))

    def _leaf(self) -> Any:
        return self._random.choice(self._words.values if self._random.random() < 0.5 else LEAVES)


_PIECES = (
    *(b"\r\n", b"\n", b"\r\n\r\n", b"\0", b"\xff\xfe", b"%00", b"%", b" ", b":", b"?", b"#", b"//"),
    *(b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"Expect: 100-continue\r\n"),
    *(
        b"5\r\n{}\r\n",
        b"ffffffffffffffff\r\n",
        b"0\r\n\r\n",
        b"HTTP/1.0",
        b"HTTP/9.9",
        b"http://x/",
    ),
    *(b"Upgrade: websocket\r\nConnection: upgrade\r\n", b"Content-Encoding: gzip\r\n"),
    *(b"Host: x\r\n", b"Connection: keep-alive\r\n", b"Range: bytes=0-\r\n", b"Accept: \xff\r\n"),
)
_BODIES = (
    *(b"[" * 100_000, b'{"a":' * 50_000, b"9" * 10_000, b'{"a":1e999}', b"1e99999", b"nul", b"[]"),
    *(
        b'"\\ud800"',
        b"\xff\xfe{\0}\0",
        b"\x1f\x8b\x08\0",
        b"{}{}",
        b'{"a":1,"a":2}',
        b"\xef\xbb\xbf{}",
    ),
)

VOCABULARIES = {
    "registry": Vocabulary(
        (
            *("/", "/health", "/contexts", "/subjects", "/subjects/{}", "/schemas", "/config"),
            *("/subjects/{}/versions", "/subjects/{}/versions", "/subjects/{}/versions/{}"),
            *("/subjects/{}/versions/{}/schema", "/subjects/{}/versions/{}/referencedby"),
            *("/schemas/ids/{}", "/schemas/ids/{}/schema", "/schemas/ids/{}/versions", "/mode/{}"),
            *("/config/{}", "/compatibility/subjects/{}/versions", "/schemas/types"),
            "/compatibility/subjects/{}/versions/{}",
        ),
        (
            *("schema", "schema", "schemaType", "references", "id", "version", "compatibility"),
            *(
                "name",
                "subject",
                "metadata",
                "ruleSet",
                "normalize",
                "deleted",
                "permanent",
                "limit",
            ),
            *("offset", "subjectPrefix", "format", "verbose", "defaultToGlobal", "alias", "mode"),
        ),
        (
            *('"int"', '{"type":"record","name":"a","fields":[]}', "AVRO", "JSON", "PROTOBUF", "{"),
            *('syntax = "proto3"; message A {}', '{"type":"string"}', "FULL", "NONE", "s", "q"),
            *([{"name": "a", "subject": "s", "version": 1}], "serialized", "latest", "READWRITE"),
        ),
    ),
    "connect": Vocabulary(
        (
            *("/", "/health", "/connectors", "/connectors/{}", "/connectors/{}/config"),
            *("/connectors/{}/status", "/connectors/{}/tasks", "/connectors/{}/tasks/{}/status"),
            *("/connectors/{}/tasks/{}/restart", "/connectors/{}/restart", "/connectors/{}/pause"),
            *("/connectors/{}/resume", "/connectors/{}/stop", "/connectors/{}/offsets"),
            *("/connectors/{}/topics", "/connectors/{}/topics/reset", "/connector-plugins"),
            *(
                "/connector-plugins/{}/config",
                "/connector-plugins/FileStreamSource/config/validate",
            ),
        ),
        (
            *("name", "config", "connector.class", "tasks.max", "topic", "topics", "topics.regex"),
            *("offsets", "partition", "offset", "initial_state", "transforms", "transforms.a.type"),
            *("expand", "includeTasks", "onlyFailed", "key.converter", "producer.override.acks"),
        ),
        (
            *("FileStreamSource", "FileStreamSink", "PAUSED", "STOPPED", "status", "info", "a,b"),
            *("x:y", "[", "(a+)+$", "${file:/etc/passwd:a}", "${", "RegexRouter", 3),
        ),
    ),
    "management": Vocabulary(
        (
            *("/api/overview", "/api/whoami", "/api/vhosts", "/api/vhosts/{}", "/api/exchanges"),
            *("/api/exchanges/%2F", "/api/exchanges/%2F/{}", "/api/exchanges/%2F/{}/publish"),
            *("/api/exchanges/%2F/amq.default/publish", "/api/queues", "/api/queues/%2F/{}"),
            *("/api/queues/%2F/q", "/api/queues/%2F/q/get", "/api/queues/%2F/q/contents"),
            *("/api/bindings/%2F/e/{}/q/{}", "/api/bindings/%2F/e/amq.topic/q/q", "/api/bindings"),
            *("/api/queues/%2F/q/bindings", "/api/definitions", "/api/definitions/%2F", "/api/{}"),
        ),
        (
            *(
                "count",
                "ackmode",
                "payload",
                "payload_encoding",
                "routing_key",
                "properties",
                "type",
            ),
            *(
                "durable",
                "auto_delete",
                "arguments",
                "internal",
                "name",
                "vhost",
                "queues",
                "source",
            ),
            *("exchanges", "bindings", "vhosts", "destination", "destination_type", "headers"),
            *(
                "x-message-ttl",
                "x-max-length",
                "x-queue-type",
                "x-dead-letter-exchange",
                "priority",
            ),
            *(
                "x-expires",
                "x-max-priority",
                "x-overflow",
                "expiration",
                "delivery_mode",
                "timestamp",
            ),
            *("x-match", "x-delayed-type", "x-single-active-consumer", "alternate-exchange"),
        ),
        (
            *(
                "q",
                "/",
                "direct",
                "topic",
                "fanout",
                "headers",
                "x-delayed-message",
                "queue",
                "base64",
            ),
            *(
                "ack_requeue_false",
                "reject_requeue_true",
                "ack_requeue_true",
                "amq.topic",
                5,
                "100",
            ),
            *(
                {"x-message-ttl": "a"},
                {"x-max-length": -1},
                {"headers": {"a": [1, {}]}},
                "drop-head",
            ),
        ),
    ),
    "serving": Vocabulary(
        (*("/", "/views", "/views/{}", "/views/page_minutes", "/views/page_minutes", "/query"),),
        (
            *("sql", "sql", "select", "order", "limit", "format", "page", "views", "views.gte"),
            *("page.ne", "window_start", "visitors.lt", "page.eq.eq"),
        ),
        (
            *("SELECT 1", "SELECT * FROM page_minutes", "SELECT", "DROP VIEW page_minutes", "json"),
            *(
                "SELECT * FROM 'a.csv'",
                "((((",
                "SELECT 1; SELECT 2",
                "csv",
                "arrow",
                "-views",
                "page",
            ),
            *("SELECT '" + "x" * 5000, "SELECT " + "(" * 2000 + "1" + ")" * 2000, "10", "SELECT ?"),
            *(
                "SELECT 1/0, 'NaN'::DOUBLE, 1e300*1e300",
                "SELECT * FROM range(5)",
                "FROM page_minutes",
            ),
            *(
                "SELECT error('x')",
                "PIVOT page_minutes ON page",
                "SELECT '9999-12-31'::DATE + 999999",
            ),
        ),
    ),
    "metrics": Vocabulary(
        ("/metrics", "/metrics/", "/", "/health/live", "/health/ready", "/{}"),
        ("name", "a"),
        ("1",),
    ),
}
