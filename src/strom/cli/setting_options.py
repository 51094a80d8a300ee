"""Which command-line option changes a setting: errors name settings, only `cli` knows its options."""

_FREE_PORT = "Use --port N, or --port 0 for a free one."
_OPTIONS = {
    "advertised.host": "Use --advertised HOST:PORT.",
    "amqp.management.port": "Use --set amqp.management.port=N, or 0 to disable it.",
    "amqp.port": "Use --amqp-port N, or --amqp-port 0 to disable AMQP.",
    "host": "Use --host ADDRESS.",
    "log.dirs": "Use --data DIR.",
    "metrics.port": "Use --metrics-port N, or --metrics-port 0 to disable it.",
    "node.id": "Use --set node.id=N, or --data DIR.",
    "port": _FREE_PORT,
    "rest.port": _FREE_PORT,
}


def with_option(message: str, setting: str | None) -> str:
    """A message about a setting, followed by the option to use if there is one."""
    option = _OPTIONS.get(setting or "")
    return f"{message} {option}" if option else message
