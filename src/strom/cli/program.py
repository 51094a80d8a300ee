"""The program `strom`: its commands, imported on demand, and how it reports errors.

A user error is one line on stderr and exit code 1 (2 for a usage error). Ctrl-C ends with 130
and a closed pipe (`strom consume clicks | head`) with 141, both without output.
"""

import difflib
import importlib
import os
import sys
from typing import Any, NoReturn

import click

import strom
from strom.cli.options import with_option
from strom.client.kafka_errors import kafka_exceptions, kafka_reason
from strom.model.errors import StromError, UserError
from strom.supervision.ending import Terminated
from strom.supervision.log_lines import escape_unconfigured_logs

INTERRUPTED = 130
TERMINATED = 143
PIPE_CLOSED = 141

# By section: name, module and attribute, one-line help. `strom --help` imports none of them.
SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Commands": {
        "start": ("strom.cli.start:start", "Run a broker in the foreground."),
        "demo": ("strom.cli.demo:demo", "Watch a shop's clicks become views, live."),
        "topics": ("strom.cli.topics:topics", "Create, list, describe, alter and delete topics."),
        "produce": ("strom.cli.produce:produce", "Send lines to a topic."),
        "consume": ("strom.cli.consume:consume", "Print the records of topics."),
        "groups": (
            "strom.cli.groups:groups",
            "Show the lag of consumer groups; reset their offsets.",
        ),
        "share-groups": (
            "strom.cli.share_groups:share_groups",
            "Show the progress of share groups; reset their offsets.",
        ),
        "transactions": (
            "strom.cli.transactions:transactions",
            "Show transactional producers; abort open transactions.",
        ),
        "verify": (
            "strom.cli.verify:verify",
            "Check a data directory; salvage damaged partitions.",
        ),
        "bench": ("strom.cli.bench:bench", "Measure a broker's throughput."),
    },
    "Views on Spark": {
        "init": ("strom.cli.init:init", "Create a project: a stream, and views of it."),
        "plan": ("strom.cli.plan:plan", "Show what a project runs, and where."),
        "run": (
            "strom.cli.run:run",
            "Run a project: broker, archive, speed and batch layer, serving.",
        ),
        "query": ("strom.cli.query:query", "Run a SELECT over views."),
        "batch": ("strom.cli.batch:batch", "Recompute a view from the master dataset."),
        "replay": ("strom.cli.replay:replay", "Compute a new version of a view from the log."),
        "views": ("strom.cli.views:views", "Show views and their versions; roll back, drop."),
    },
    "Schemas and connectors": {
        "registry": ("strom.cli.registry:registry", "Run a schema registry on any Kafka."),
        "schemas": (
            "strom.cli.schemas:schemas",
            "List, show, register, check and compare schemas.",
        ),
        "connect": (
            "strom.cli.connect:connect",
            "List, add, change and remove connectors; run a worker.",
        ),
    },
    "Message queues": {
        "queues": (
            "strom.cli.queues:queues",
            "List, declare, inspect, purge and delete message queues.",
        ),
        "exchanges": ("strom.cli.exchanges:exchanges", "List, declare and delete exchanges."),
        "bindings": (
            "strom.cli.exchanges:bindings",
            "List, add and remove bindings between exchanges and queues.",
        ),
    },
    "Kafka's own commands, with Kafka's flags": {
        "kafka-topics": (
            "strom.cli.kafka_tools.topics:kafka_topics",
            "Create, delete, describe or change a topic.",
        ),
        "kafka-console-producer": (
            "strom.cli.kafka_tools.console_producer:kafka_console_producer",
            "Read lines from standard input and send them to a topic.",
        ),
        "kafka-console-consumer": (
            "strom.cli.kafka_tools.console_consumer:kafka_console_consumer",
            "Read a topic and write it to standard output.",
        ),
        "kafka-consumer-groups": (
            "strom.cli.kafka_tools.consumer_groups:kafka_consumer_groups",
            "List, describe, move and delete consumer groups.",
        ),
    },
}
COMMANDS = {name: command for commands in SECTIONS.values() for name, command in commands.items()}


class UsageProblem(click.ClickException):
    """A usage error as one line, with the command whose help to read."""

    exit_code = 2

    def __init__(self, error: click.UsageError) -> None:
        command = error.ctx.command_path if error.ctx else "strom"
        text = " ".join(error.format_message().split())
        super().__init__(f"{text} See: {command} --help")


class Program(click.Group):
    """A group that imports a command when it is called, and reports every error in one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands, in the order of the help."""
        return [*COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command; None if there is no such name."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry[0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command to run; the error for an unknown name suggests the nearest one."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            near = difflib.get_close_matches(name, self.list_commands(ctx), n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise click.UsageError(f"Unknown command {name!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the tables above, without importing them."""
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, text) for name, (_, text) in commands.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; Ctrl-C and a closed pipe end it without output."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except Terminated:
            ctx.exit(TERMINATED)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:
            _abandon_stdout()
            ctx.exit(PIPE_CLOSED)
        return result

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run from the command line's arguments and exit."""
        extra["standalone_mode"] = False
        escape_unconfigured_logs()
        try:
            result = super().main(*args, **extra)
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(error.exit_code)
        except click.UsageError as error:
            _fail(UsageProblem(error))
        except click.ClickException as error:
            _fail(error)
        except click.Abort:
            sys.exit(INTERRUPTED)
        except StromError as error:
            setting = error.setting if isinstance(error, UserError) else None
            _fail(click.ClickException(with_option(str(error), setting)))
        except kafka_exceptions() as error:
            _fail(click.ClickException(kafka_reason(error)))
        except OSError as error:
            _fail(click.ClickException(_os_error_text(error)))
        sys.exit(result if isinstance(result, int) else 0)


def _fail(error: click.ClickException) -> NoReturn:
    text = " ".join(error.format_message().splitlines())
    click.echo(f"Error: {text}", err=True)
    sys.exit(error.exit_code)


def _os_error_text(error: OSError) -> str:
    """An error of the operating system, such as a full disk, with the files that it concerns."""
    files = " → ".join(str(one) for one in (error.filename, error.filename2) if one is not None)
    reason = error.strerror or str(error) or type(error).__name__
    return f"{reason}: {files}" if files else reason


def _abandon_stdout() -> None:
    """Redirect the interpreter's last flush to the null device: the pipe's reader has closed it."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


@click.group(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with: strom start, or: strom demo",
)
@click.version_option(strom.__version__, prog_name="strom")
def program() -> None:
    """A streaming platform on one event log: Kafka and AMQP, schemas, connectors and views."""


def main() -> NoReturn:
    """Entry point of the command `strom`."""
    program.main(prog_name="strom")
