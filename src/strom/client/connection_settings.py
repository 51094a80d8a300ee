"""How a program connects to a Kafka: servers, TLS and SASL, for every kind of client.

Properties have librdkafka's names. `client_properties` translates them from and to Java's.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from strom.model.errors import UserError

if TYPE_CHECKING:
    from ssl import SSLContext

DEFAULT_PORT: Final = 9092
SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
DEFAULT_MECHANISM: Final = "GSSAPI"
"""Kafka's default. A client without it must fail rather than fall back to a password in PLAIN."""


@dataclass(frozen=True)
class ConnectionSettings:
    """Which Kafka to connect to, and how. Its repr shows no property: passwords are among them."""

    servers: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """librdkafka's properties, as the user gave them."""

    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of every bootstrap server; UserError if one is not an address."""
        return [parse_address(server) for server in self.servers.split(",")]

    @property
    def security_protocol(self) -> str:
        """One of SECURITY_PROTOCOLS, in upper case; UserError for any other."""
        given = self.properties.get("security.protocol", "PLAINTEXT").strip().upper()
        if given not in SECURITY_PROTOCOLS:
            known = ", ".join(SECURITY_PROTOCOLS)
            raise UserError(f"security.protocol is {given}; it must be one of {known}.")
        return given

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.security_protocol.endswith("SSL")

    @property
    def sasl_mechanism(self) -> str | None:
        """The mechanism to authenticate with, in upper case; None without SASL."""
        if not self.security_protocol.startswith("SASL"):
            return None
        # librdkafka accepts both names, and the last one given wins; Java knows the first only.
        names = ("sasl.mechanism", "sasl.mechanisms")
        given = [value for name, value in self.properties.items() if name in names and value]
        return (given[-1] if given else DEFAULT_MECHANISM).strip().upper()

    @property
    def sasl_username(self) -> str:
        """The user to authenticate as; empty if none is given."""
        return self.properties.get("sasl.username", "")

    @property
    def sasl_password(self) -> str:
        """The password of that user; empty if none is given."""
        return self.properties.get("sasl.password", "")

    @property
    def verifies_certificates(self) -> bool:
        """Whether a broker's certificate must be signed by a trusted authority."""
        return _is_true(self.properties.get("enable.ssl.certificate.verification", "true"))

    @property
    def verifies_host_names(self) -> bool:
        """Whether a broker's certificate must be issued for the host that the client connects to."""
        algorithm = self.properties.get("ssl.endpoint.identification.algorithm", "https")
        return self.verifies_certificates and algorithm.strip().lower() == "https"

    def ssl_context(self) -> "SSLContext | None":
        """The context for connections to brokers; None without TLS.

        UserError if a certificate or key cannot be read. Every call reads the files: keep the context for
        the lifetime of the client.
        """
        import ssl  # here, so that commands without TLS start faster

        if not self.uses_tls:
            return None
        if "ssl.keystore.location" in self.properties:
            raise UserError(
                "ssl.keystore.location is a PKCS#12 store, which only librdkafka supports. Convert it "
                "to PEM with openssl, and set ssl.certificate.location and ssl.key.location."
            )
        context = self._trusting_context()
        if not self.verifies_host_names:
            context.check_hostname = False
        if not self.verifies_certificates:
            context.verify_mode = ssl.CERT_NONE
        self._load_client_certificate(context)
        return context

    def _trusting_context(self) -> "SSLContext":
        import ssl

        text = self.properties.get("ssl.ca.pem")
        path = self.properties.get("ssl.ca.location")
        if path == "probe":  # librdkafka's name for the system's trust store
            path = None
        name = "ssl.ca.pem" if text else "ssl.ca.location"
        with _reported(name):
            if path and os.path.isdir(path):
                return ssl.create_default_context(capath=path, cadata=text)
            return ssl.create_default_context(cafile=path or None, cadata=text)

    def _load_client_certificate(self, context: "SSLContext") -> None:
        password = self.properties.get("ssl.key.password")
        with contextlib.ExitStack() as files:
            certificate = files.enter_context(self._file_of("ssl.certificate"))
            key = files.enter_context(self._file_of("ssl.key"))
            if certificate is None:
                return
            with _reported("ssl.certificate.location, ssl.key.location or ssl.key.password"):
                # Without a password, OpenSSL would prompt for one at the terminal.
                context.load_cert_chain(certificate, key, password or "")

    @contextlib.contextmanager
    def _file_of(self, name: str) -> Iterator[str | None]:
        """The path of a certificate or key: Python's ssl loads a chain only from files."""
        import tempfile

        text = self.properties.get(f"{name}.pem")
        if text is None:
            yield self.properties.get(f"{name}.location")
            return
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:  # its mode is 0600
            file.write(text)
            file.flush()
            yield file.name


def parse_address(server: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`, `PROTOCOL://HOST:PORT` or `HOST`."""
    address = server.strip().rpartition("://")[2]
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):
        return address.strip("[]"), DEFAULT_PORT
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise UserError(f"{server.strip()!r} is not an address of the form HOST:PORT.")
    return host.strip("[]"), int(port)


def _is_true(text: str) -> bool:
    return text.strip().lower() not in {"false", "f", "0"}


@contextlib.contextmanager
def _reported(name: str) -> Iterator[None]:
    """Report an unreadable value by the property's name: the value may be a private key."""
    try:
        yield
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or "not PEM"
        raise UserError(f"{name} cannot be used for TLS: {reason}.") from None
