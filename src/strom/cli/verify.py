"""`strom verify`: check a data directory, and salvage what is whole of damaged partitions."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from strom.cli.options import json_option
from strom.cli.printing import human_bytes, human_count, notice, print_json, print_table
from strom.cli.progress import progress_bar
from strom.model.broker_settings import BrokerSettings

if TYPE_CHECKING:
    from strom.storage.directory_check import DirectoryCheck
    from strom.storage.salvage import Salvaged
    from strom.storage.verification import PartitionCheck, PartitionFinding


@click.command()
@click.argument(
    "data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=BrokerSettings.definition("log.dirs").documented_default,
)
@click.option(
    "--repair", is_flag=True, help="Copy damaged partitions, then keep only what is whole of them."
)
@json_option
def verify(data: Path, repair: bool, as_json: bool) -> int:
    """Check a data directory; salvage damaged partitions.

    Every batch in DATA is compared with its checksum, and missing files are reported. While a broker
    runs, only what its last checkpoint covers is checked. A repair needs it stopped; the files as they
    were are kept in DATA/damaged. Exit code 0: all is whole or repaired; 1: damage.
    """
    from strom.storage.directory_check import open_for_check
    from strom.storage.files import DiskFiles

    with open_for_check(DiskFiles(), data.as_posix(), repair=repair) as directory:
        if directory.holder is not None:
            notice(
                f"In use by {directory.holder}: only what its last checkpoint covers is checked."
            )
        checks = _check(directory)
        damaged = [one for one in checks if one.findings]
        salvaged: list[Salvaged] = []
        if repair and damaged:
            stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
            with progress_bar(len(damaged), "repair") as report:
                for one in directory.salvage(damaged, stamp):
                    salvaged.append(one)
                    report(len(salvaged))
        problems = directory.problems
    if as_json:
        repaired = {one.name: one for one in salvaged}
        partitions = [_to_json(one, repaired.get(one.name)) for one in checks]
        print_json({"data": str(data), "problems": problems, "partitions": partitions})
    else:
        _print_report(data, checks, salvaged, problems)
    is_whole = not problems and len(salvaged) == len(damaged)
    return 0 if is_whole else 1


def _check(directory: "DirectoryCheck") -> "list[PartitionCheck]":
    done = 0
    with progress_bar(directory.size_bytes, "verify") as report:

        def on_bytes(count: int) -> None:
            nonlocal done
            done += count
            report(done)

        return list(directory.partitions(on_bytes))


def _print_report(
    data: Path,
    checks: "list[PartitionCheck]",
    salvaged: "list[Salvaged]",
    problems: list[str],
) -> None:
    from strom.storage.verification import INDEX

    batches = sum(one.batches for one in checks)
    size = sum(one.size_bytes for one in checks)
    facts = f"{len(checks)} partitions, {human_count(batches)} batches, {human_bytes(size)}"
    found = [(one.name, finding) for one in checks for finding in one.findings]
    if not found:
        click.echo(f"{data} is whole: {facts}." if not problems else f"Checked {facts}.")
    else:
        click.echo(f"Checked {facts}. Damage:\n")
        rows = [(name, each.kind, _offsets(each), Path(each.path).name) for name, each in found]
        print_table(("PARTITION", "DAMAGE", "OFFSETS", "FILE"), rows)
    for problem in problems:
        notice(f"Problem: {problem}.")
    if salvaged:
        click.echo("\nRepaired:\n")
        kept = [(one.name, one.batches, _aborted(one), one.copy) for one in salvaged]
        print_table(("PARTITION", "BATCHES KEPT", "ABORTED FROM", "COPY"), kept)
    elif found and all(finding.kind == INDEX for _, finding in found):
        notice(
            "\nThe broker rebuilds these transaction indexes from the log: missing ones when it starts, "
            "damaged ones when a consumer of committed records reads them."
        )
    elif found:
        notice("\nRestore the files from a backup, or salvage what is whole: strom verify --repair")


def _offsets(finding: "PartitionFinding") -> str | None:
    if finding.next_offset <= finding.first_offset:
        return None
    return f"{finding.first_offset}-{finding.next_offset - 1}"


def _aborted(salvaged: "Salvaged") -> str | None:
    return ", ".join(map(str, salvaged.aborted)) or None


def _to_json(check: "PartitionCheck", salvaged: "Salvaged | None") -> dict[str, object]:
    return {
        "partition": check.name,
        "batches": check.batches,
        "bytes": check.size_bytes,
        "end_offset": check.end_offset,
        "torn_bytes": check.torn_bytes,
        "damage": [
            {
                "kind": each.kind,
                "file": each.path,
                "first_offset": each.first_offset,
                "last_offset": each.next_offset - 1,
            }
            for each in check.findings
        ],
        "repair": None
        if salvaged is None
        else {
            "batches_kept": salvaged.batches,
            "aborted_transactions": salvaged.aborted,
            "copy": salvaged.copy,
        },
    }
