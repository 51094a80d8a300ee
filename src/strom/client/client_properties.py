"""Client properties: parsing, and translation between the names of the Java client and librdkafka's.

strom uses librdkafka's names. Properties files written for Java clients are translated to them, and the
TLS and SASL properties are translated back for the Java client inside Spark.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

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
JAVA_ONLY = frozenset(
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
_SAME_IN_JAVA = (
    "security.protocol",
    "sasl.mechanism",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
)
_PEM_IN_JAVA = {
    "ssl.ca": "ssl.truststore.certificates",
    "ssl.certificate": "ssl.keystore.certificate.chain",
    "ssl.key": "ssl.keystore.key",
}
_LOGIN_MODULES = {
    "PLAIN": "plain.PlainLoginModule",
    "SCRAM-SHA-256": "scram.ScramLoginModule",
    "SCRAM-SHA-512": "scram.ScramLoginModule",
}
_JAAS_OPTION = re.compile(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"')
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_JAAS_ESCAPES = str.maketrans(
    {"\\": "\\\\", '"': '\\"', "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
)


@dataclass(frozen=True)
class Translation:
    """Properties by librdkafka's names, and the names that only a Java client knows."""

    settings: dict[str, str]
    ignored: tuple[str, ...] = ()


def parse_properties(text: str) -> dict[str, str]:
    """Parse a Java properties file: comments, `=`, `:` or blank between name and value, escapes."""
    found = {}
    for line in _logical_lines(text):
        match = re.match(r"((?:[^\\=:\s]|\\.)+)(?:\s*[=:]\s*|\s+|$)(.*)", line, re.DOTALL)
        if match:
            found[_unescape(match[1])] = _unescape(match[2])
    return found


def parse_assignment(text: str) -> tuple[str, str]:
    """Split `name=value`; UserError if the text has another form."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UserError(f"{text!r} is not of the form name=value.")
    return name.strip(), value


def to_librdkafka(properties: Mapping[str, str]) -> Translation:
    """Translate the names and values that differ between the Java client and librdkafka.

    UserError for what librdkafka does not support: a JKS store, or a login other than PLAIN and SCRAM.
    """
    settings: dict[str, str] = {}
    ignored = []
    for name, value in properties.items():
        if name in JAVA_ONLY:
            ignored.append(name)
        elif name == "sasl.jaas.config":
            settings |= _credentials(value)
        elif name == "ssl.endpoint.identification.algorithm":
            settings[name] = value.strip().lower() or "none"
        elif name == "buffer.memory":
            settings[RENAMED[name]] = _kilobytes(name, value)
        elif name == "ssl.keystore.location" and _store_type(properties, "ssl.keystore") == "PEM":
            # Java's PEM store is one file with key and certificates; librdkafka's keystore is PKCS#12.
            settings |= {"ssl.certificate.location": value, "ssl.key.location": value}
        else:
            settings[RENAMED.get(name, name)] = value
    _reject_java_keystores(properties)
    return Translation(settings, tuple(ignored))


def to_java(properties: Mapping[str, str]) -> dict[str, str]:
    """Translate the TLS and SASL properties from librdkafka's names to those of the Java client.

    Certificates and keys are inlined: a Java client reads PEM files only as combined stores. All other
    properties are dropped, because fetching and batching are tuned on the Java side.
    """
    # `sasl.mechanisms` is librdkafka's alias; the last one given wins there, and so it does here.
    given = {
        "sasl.mechanism" if name == "sasl.mechanisms" else name: value
        for name, value in properties.items()
    }
    found = {name: given[name] for name in _SAME_IN_JAVA if name in given}
    if found.get("ssl.endpoint.identification.algorithm", "").lower() == "none":
        found["ssl.endpoint.identification.algorithm"] = ""
    if "sasl.mechanism" in given:
        found["sasl.jaas.config"] = _jaas(given)
    for name, in_java in _PEM_IN_JAVA.items():
        if (text := _pem(given, name)) is not None:
            found[in_java] = text
            found[f"{'.'.join(in_java.split('.')[:2])}.type"] = "PEM"
    return found


def _jaas(properties: Mapping[str, str]) -> str:
    mechanism = properties["sasl.mechanism"]
    module = _LOGIN_MODULES.get(mechanism.upper())
    if module is None:
        known = ", ".join(_LOGIN_MODULES)
        raise UserError(
            f"sasl.mechanism {mechanism} is not supported by Spark. Supported: {known}."
        )
    username, password = (
        properties.get(f"sasl.{one}", "").translate(_JAAS_ESCAPES)
        for one in ("username", "password")
    )
    return (
        f"org.apache.kafka.common.security.{module} required "
        f'username="{username}" password="{password}";'
    )


def _pem(properties: Mapping[str, str], name: str) -> str | None:
    if (text := properties.get(f"{name}.pem")) is not None:
        return text
    if (path := properties.get(f"{name}.location")) is None:
        return None
    try:
        return Path(path).read_text("utf-8")
    except OSError as error:
        raise UserError(f"{name}.location: {path} cannot be read ({error.strerror}).") from None


def _kilobytes(name: str, value: str) -> str:
    try:
        return str(max(1, int(value) // 1024))
    except ValueError:
        raise UserError(f"{name} must be a number of bytes, not {value!r}.") from None


def _store_type(properties: Mapping[str, str], store: str) -> str:
    return properties.get(f"{store}.type", "").strip().upper()


def _credentials(jaas: str) -> dict[str, str]:
    options = dict(_JAAS_OPTION.findall(jaas))
    if "username" not in options or "password" not in options:
        raise UserError(
            "sasl.jaas.config has no username and password; only the PLAIN and SCRAM login "
            "modules are supported. For others, set librdkafka's sasl.* properties."
        )
    return {
        "sasl.username": _unescape(options["username"]),
        "sasl.password": _unescape(options["password"]),
    }


def _reject_java_keystores(properties: Mapping[str, str]) -> None:
    for store in ("ssl.truststore", "ssl.keystore"):
        location = properties.get(f"{store}.location", "")
        if _store_type(properties, store) == "JKS" or location.endswith(".jks"):
            raise UserError(
                f"{store}.location is a JKS store, which only Java supports. Convert it to PEM with "
                "keytool and openssl, and set ssl.ca.location (or PKCS12 for ssl.keystore.location)."
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
