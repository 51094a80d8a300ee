"""How a Kafka lets one in, from librdkafka's words into those of the Java client that Spark reads with.

`[kafka.settings]` of a project is written once, for confluent-kafka. Only what concerns encryption
and identity is translated: Spark's connector has its own ideas of fetching.
"""

from collections.abc import Mapping
from pathlib import Path

from strom.model.errors import UserError

_SAME = (
    "security.protocol",
    "sasl.mechanism",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
)
_PEM = {
    "ssl.ca": "ssl.truststore.certificates",
    "ssl.certificate": "ssl.keystore.certificate.chain",
    "ssl.key": "ssl.keystore.key",
}
_LOGIN_MODULES = {
    "PLAIN": "plain.PlainLoginModule",
    "SCRAM-SHA-256": "scram.ScramLoginModule",
    "SCRAM-SHA-512": "scram.ScramLoginModule",
}


def java_client_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings of encryption and identity, as a Java client wants them."""
    given = dict(settings)
    if "sasl.mechanisms" in given:  # librdkafka knows both
        given.setdefault("sasl.mechanism", given["sasl.mechanisms"])
    found = {name: given[name] for name in _SAME if name in given}
    if found.get("ssl.endpoint.identification.algorithm") == "none":
        found["ssl.endpoint.identification.algorithm"] = ""
    if "sasl.mechanism" in given:
        found["sasl.jaas.config"] = _login(given)
    for ours, theirs in _PEM.items():
        if (text := _pem(given, ours)) is not None:
            found[theirs] = text
            found[f"{'.'.join(theirs.split('.')[:2])}.type"] = "PEM"
    return found


def _login(settings: Mapping[str, str]) -> str:
    mechanism = settings["sasl.mechanism"]
    module = _LOGIN_MODULES.get(mechanism)
    if module is None:
        known = ", ".join(_LOGIN_MODULES)
        raise UserError(f"Views can be let in by sasl.mechanism {known}, not by {mechanism}.")
    username, password = (
        settings.get(f"sasl.{one}", "").replace("\\", "\\\\").replace('"', '\\"')
        for one in ("username", "password")
    )
    return (
        f"org.apache.kafka.common.security.{module} required "
        f'username="{username}" password="{password}";'
    )


def _pem(settings: Mapping[str, str], name: str) -> str | None:
    """The text itself, or of the file that is named."""
    if (text := settings.get(f"{name}.pem")) is not None:
        return text
    if (path := settings.get(f"{name}.location")) is None:
        return None
    try:
        return Path(path).read_text("utf-8")
    except OSError as error:
        raise UserError(f"{name}.location: {path} cannot be read ({error.strerror}).") from None
