"""Java's client properties in librdkafka's words, so that one properties file serves both."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from strom.model.errors import UserError

RENAMED = {
    "buffer.memory": "queue.buffering.max.kbytes",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.truststore.location": "ssl.ca.location",
}
WITHOUT_MEANING = frozenset(
    {
        "default.api.timeout.ms",
        "exclude.internal.topics",
        "interceptor.classes",
        "key.deserializer",
        "key.serializer",
        "max.block.ms",
        "max.poll.records",
        "metric.reporters",
        "partition.assignment.strategy",
        "partitioner.class",
        "ssl.keystore.type",
        "ssl.truststore.password",
        "ssl.truststore.type",
        "value.deserializer",
        "value.serializer",
    }
)
_JAAS_OPTION = re.compile(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"')
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True)
class Translation:
    """Settings as librdkafka wants them, and the names that only a Java client needs."""

    settings: dict[str, str]
    ignored: tuple[str, ...] = ()


def parse_properties(text: str) -> dict[str, str]:
    """Read a Java properties file: comments, `=`, `:` or blank between name and value, escapes."""
    found = {}
    for line in _logical_lines(text):
        match = re.match(r"((?:[^\\=:\s]|\\.)+)(?:\s*[=:]\s*|\s+|$)(.*)", line, re.DOTALL)
        if match:
            found[_unescape(match[1])] = _unescape(match[2])
    return found


def parse_assignment(text: str) -> tuple[str, str]:
    """Split `name=value`; a UserError if it is not one."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UserError(f"{text!r} is not of the form name=value.")
    return name.strip(), value


def to_librdkafka(properties: Mapping[str, str]) -> Translation:
    """Translate the names and values that differ between the Java client and librdkafka."""
    settings: dict[str, str] = {}
    ignored = []
    for name, value in properties.items():
        if name in WITHOUT_MEANING:
            ignored.append(name)
        elif name == "sasl.jaas.config":
            settings |= _credentials(value)
        elif name == "ssl.endpoint.identification.algorithm":
            settings[name] = value.strip().lower() or "none"
        elif name == "buffer.memory":
            settings[RENAMED[name]] = str(max(1, int(value) // 1024))
        else:
            settings[RENAMED.get(name, name)] = value
    _refuse_java_keystores(properties)
    return Translation(settings, tuple(ignored))


def _credentials(jaas: str) -> dict[str, str]:
    options = dict(_JAAS_OPTION.findall(jaas))
    if "username" not in options or "password" not in options:
        raise UserError(
            "sasl.jaas.config holds no username and password; only the PLAIN and SCRAM login "
            "modules can be used. For others, set librdkafka's sasl.* settings with -X."
        )
    return {
        "sasl.username": _unescape(options["username"]),
        "sasl.password": _unescape(options["password"]),
    }


def _refuse_java_keystores(properties: Mapping[str, str]) -> None:
    for store in ("ssl.truststore", "ssl.keystore"):
        kind = properties.get(f"{store}.type", "").upper()
        if kind == "JKS" or properties.get(f"{store}.location", "").endswith(".jks"):
            raise UserError(
                f"{store}.location is a JKS store, which only Java reads. Convert it with keytool "
                "and openssl to PEM, and set ssl.ca.location (or PKCS12 for ssl.keystore.location)."
            )


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    continued = False
    for raw in text.splitlines():
        line = raw.lstrip()
        if not continued and (not line or line[0] in "#!"):
            continue
        odd_backslashes = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        body = line[:-1] if odd_backslashes else line
        if continued:
            lines[-1] += body
        else:
            lines.append(body)
        continued = odd_backslashes
    return lines


def _unescape(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return _ESCAPES.get(match[2], match[2])

    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", replace, text, flags=re.DOTALL)
