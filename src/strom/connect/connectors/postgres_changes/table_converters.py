"""The converter of each table, as the table was at its changes."""

from collections.abc import Iterator

from strom.connect.connectors.databases.dialect import TableId
from strom.connect.connectors.postgres_changes.catalog import Catalog
from strom.connect.connectors.postgres_changes.envelope import Entry, SourceInfo, TableConverter
from strom.connect.connectors.postgres_changes.keys import FULL, Keys
from strom.connect.connectors.postgres_changes.names import TopicNames
from strom.connect.connectors.postgres_changes.pgoutput import Change, Relation, Truncate
from strom.connect.connectors.postgres_changes.publication import Publication
from strom.connect.connectors.postgres_changes.settings import PostgresChangesSettings


class TableConverters:
    """The converters of all tables that the stream or the snapshot has described."""

    def __init__(
        self,
        catalog: Catalog,
        publication: Publication,
        keys: Keys,
        settings: PostgresChangesSettings,
    ) -> None:
        self._catalog = catalog
        self._publication = publication
        self._keys = keys
        self._settings = settings
        self._topics = TopicNames(settings.topic_prefix)
        self._converters: dict[int, TableConverter | None] = {}
        """By OID; None if the table is not followed."""
        self._announced: dict[int, Relation] = {}
        """The last descriptions in the stream, until a record of the table needs a converter."""

    def learn_keys(self, lsn: int) -> None:
        """Store the keys of followed tables that the stream does not contain."""
        present = {
            oid: key
            for oid, (table, key) in self._catalog.full_keys().items()
            if self._publication.follows(table)
        }
        self._keys.learn(present, lsn)

    def announce(self, relation: Relation) -> None:
        """Note the description of a table: it applies to the changes that follow."""
        self._announced[relation.oid] = relation

    def entries(
        self, change: Change, where: SourceInfo, now_ms: int
    ) -> Iterator[tuple[TableConverter, Entry] | None]:
        """The records of a change; None for those that the settings exclude, which count too."""
        oids = change.relations if isinstance(change, Truncate) else (change.relation,)
        for converter in map(self._of, oids):
            if converter is None:
                yield None
                continue
            for entry in converter.entries(change, where, now_ms):
                yield None if entry is None else (converter, entry)

    def make(self, relation: Relation) -> TableConverter:
        """Make the converter of a table for the changes that follow."""
        present = self._catalog.key(relation.oid) if relation.identity == FULL else None
        dimensions = self._catalog.dimensions(relation.oid)
        converter = TableConverter(
            relation,
            self._keys.of(relation, present),
            lambda one: self._catalog.mapped(one.type, one.modifier, dimensions.get(one.name, 1)),
            topic=self._topics.topic(TableId(relation.schema, relation.name)),
            server=self._settings.topic_prefix,
            database=self._settings.database,
            unavailable=self._settings.unavailable,
            tombstones=self._settings.tombstones,
        )
        known = self._converters.get(relation.oid)
        if known is not None and known.same_as(converter):
            return known
        self._converters[relation.oid] = converter
        return converter

    def _of(self, oid: int) -> TableConverter | None:
        """The converter of a table; None if it is not followed.

        Made for the first record only: a table that is not followed, or whose changes were delivered
        before a restart, must not fail the task.
        """
        relation = self._announced.get(oid)
        if relation is not None:
            if self._publication.follows(TableId(relation.schema, relation.name)):
                self.make(relation)
            else:
                self._converters[oid] = None
            del self._announced[oid]
        return self._converters[oid]
