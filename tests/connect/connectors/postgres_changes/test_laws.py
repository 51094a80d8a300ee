"""Change capture keeps the laws of every source, those about a server that is away among them."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from strom.connect.api import SourceRecord
from strom.connect.connectors.postgres_changes.source import PostgresChanges
from strom.testing.connectors import SourceLaws, StoredOffsets
from tests.connect.connectors.other_side import PostgresSide
from tools import postgres

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def server_of_laws() -> Iterator[postgres.RealPostgres]:
    """A server of their own, for they take it away."""
    try:
        postgres.locate()
    except postgres.UnavailableError as reason:
        pytest.skip(f"no real PostgreSQL: {reason}")
    with postgres.RealPostgres(settings=postgres.FOR_TESTS, password="näïve pass") as server:
        yield server


class ChangesLaws(SourceLaws):
    connector = PostgresChanges
    misspelt = ("table.include.lst", "table.include.list")
    side: ClassVar[PostgresSide]
    more: ClassVar[Mapping[str, str]] = {}

    @pytest.fixture(autouse=True)
    def database(self, server_of_laws: postgres.RealPostgres) -> None:
        type(self).side = PostgresSide(server_of_laws)
        self.side.run("CREATE TABLE items (id INT PRIMARY KEY);")

    def settings(self, folder: Path) -> Mapping[str, str]:
        return {**self.side.change_settings, "table.include.list": "public.items", **self.more}

    def seed(self, folder: Path, items: Sequence[int]) -> None:
        self.side.run(f"INSERT INTO items VALUES {', '.join(f'({item})' for item in items)};")

    def item(self, record: SourceRecord) -> int:
        number: int = record.value["after"]["id"]
        return number

    def take_away(self, folder: Path) -> bool:
        self.side.server.stop()
        return True

    def bring_back(self, folder: Path) -> None:
        self.side.server.start()


class TestChangesAfterASnapshot(ChangesLaws):
    def test_offsets_are_json_and_lead_on_from_every_single_record(self, tmp_path: Path) -> None:
        """But a snapshot that was not finished begins anew, which is what can be promised."""
        self.seed(tmp_path, range(6))
        with self._running(tmp_path) as first:
            records = first.read(6, deliver=False)
        offsets = StoredOffsets()
        offsets.keep(records[:4])
        with self._running(tmp_path, offsets) as second:
            self._same(second.read(6), range(6))


class TestChangesFromASlotThatWaits(ChangesLaws):
    more: ClassVar = {"snapshot.mode": "no_data", "max.batch.size": "3"}

    @pytest.fixture(autouse=True)
    def slot(self, database: None) -> None:
        self.side.run("CREATE PUBLICATION strom_shop FOR TABLE items;")
        self.side.run("SELECT pg_create_logical_replication_slot('strom_shop', 'pgoutput')")
