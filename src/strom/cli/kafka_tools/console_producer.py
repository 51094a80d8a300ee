"""`strom kafka-console-producer`: Kafka's console producer."""

import sys
from pathlib import Path
from typing import Any

import click

from strom.cli.connection import CliConnection
from strom.cli.kafka_tools.flags import is_true, properties_of, server_flags
from strom.cli.options import CODECS, EXISTING_FILE, assignments_option
from strom.cli.outgoing import LineFormat
from strom.cli.produce import numbered_line
from strom.cli.sending import RecordSender, read_lines
from strom.model.errors import UserError

# Kafka's name of each reader property, the field of LineFormat, and how its text is read.
READER_PROPERTIES: dict[str, tuple[str, Any]] = {
    "parse.key": ("parse_key", is_true),
    "parse.headers": ("parse_headers", is_true),
    "ignore.error": ("ignore_error", is_true),
    "key.separator": ("key_separator", str),
    "headers.delimiter": ("headers_delimiter", str),
    "headers.separator": ("headers_separator", str),
    "headers.key.separator": ("headers_key_separator", str),
    "null.marker": ("null_marker", str),
}
# Flags that are nothing but a client property.
CLIENT_FLAGS = {
    "batch_size": "batch.size",
    "message_send_max_retries": "retries",
    "metadata_expiry_ms": "metadata.max.age.ms",
    "request_timeout_ms": "request.timeout.ms",
    "retry_backoff_ms": "retry.backoff.ms",
    "socket_buffer_size": "socket.send.buffer.bytes",
    "timeout": "linger.ms",
}


@click.command("kafka-console-producer")
@click.option("--topic", required=True, help="The topic to send to.")
@assignments_option(
    "--reader-property",
    "--property",
    "reader_properties",
    doc=f"How a line holds a record: {', '.join(READER_PROPERTIES)}.",
)
@click.option("--reader-config", type=EXISTING_FILE, help="A file of reader properties.")
@click.option("--sync", is_flag=True, help="Wait for each record before the next.")
@click.option(
    "--compression-codec",
    type=click.Choice(CODECS),
    is_flag=False,
    flag_value="gzip",
    help="The codec; gzip without a value.",
)
@click.option("--request-required-acks", type=click.Choice(["all", "-1", "0", "1"]), help="acks.")
@click.option("--batch-size", "--max-partition-memory-bytes", type=int, help="batch.size.")
@click.option("--max-memory-bytes", type=click.IntRange(min=1024), help="buffer.memory.")
@click.option("--max-block-ms", type=int, help="Accepted; sending waits as long as needed.")
@click.option("--message-send-max-retries", type=int, help="retries.")
@click.option("--metadata-expiry-ms", type=int, help="metadata.max.age.ms.")
@click.option("--request-timeout-ms", type=int, help="request.timeout.ms.")
@click.option("--retry-backoff-ms", type=int, help="retry.backoff.ms.")
@click.option("--socket-buffer-size", type=int, help="send.buffer.bytes.")
@click.option("--timeout", type=int, help="linger.ms.")
@server_flags(
    "--command-property",
    "--producer-property",
    config_flags=("--command-config", "--producer.config"),
)
def kafka_console_producer(
    topic: str,
    reader_properties: tuple[str, ...],
    reader_config: Path | None,
    sync: bool,
    connection: CliConnection,
    **client_flags: Any,
) -> None:
    """Read lines from standard input and send them to a topic."""
    line_format = _line_format(properties_of(reader_properties, reader_config, READER_PROPERTIES))
    interactive = sys.stdin.isatty()
    sender = RecordSender(connection, topic, _client_settings(client_flags))
    try:
        lines = read_lines([], prompt=">" if interactive else None)
        for number, line in enumerate(lines, 1):
            with numbered_line(number):
                sender.send(line_format.read(line))
            if sync or interactive:
                sender.finish()
    finally:
        sender.flush()
    sender.check()


def _line_format(properties: dict[str, str]) -> LineFormat:
    fields = {}
    for name, text in properties.items():
        field, parse = READER_PROPERTIES[name]
        fields[field] = parse(text)
        if name.endswith(("separator", "delimiter")) and not text:
            raise UserError(f"{name} must not be empty.")
    return LineFormat(**fields)


def _client_settings(flags: dict[str, Any]) -> dict[str, Any]:
    settings = {
        setting: flags[flag] for flag, setting in CLIENT_FLAGS.items() if flags[flag] is not None
    }
    if flags["max_memory_bytes"] is not None:
        settings["queue.buffering.max.kbytes"] = flags["max_memory_bytes"] // 1024
    if flags["request_required_acks"] is not None:
        settings["acks"] = flags["request_required_acks"]
    if flags["compression_codec"] is not None:
        settings["compression.type"] = flags["compression_codec"]
    return settings
