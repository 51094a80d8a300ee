"""How the rows of each table become records, as the table was when they changed."""

from collections.abc import Iterator

from strom.connect.connectors.databases.dialect import TableId
from strom.connect.connectors.postgres_changes.catalog import Catalog
from strom.connect.connectors.postgres_changes.envelope import Entry, TableForm, Where
from strom.connect.connectors.postgres_changes.keys import FULL, Keys
from strom.connect.connectors.postgres_changes.names import TopicNames
from strom.connect.connectors.postgres_changes.pgoutput import Change, Relation, Truncate
from strom.connect.connectors.postgres_changes.publication import Publication
from strom.connect.connectors.postgres_changes.settings import PostgresChangesSettings


class TableForms:
    """The forms of all tables that the stream, or the snapshot, has described."""

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
        self._forms: dict[int, TableForm | None] = {}
        """By OID; None if the table is not followed."""
        self._announced: dict[int, Relation] = {}
        """Tables as the stream has described them last, until there is a record to be made."""

    def learn_keys(self, lsn: int) -> None:
        """Remember the keys of followed tables that the stream does not tell."""
        present = {
            oid: key
            for oid, (table, key) in self._catalog.full_keys().items()
            if self._publication.follows(table)
        }
        self._keys.learn(present, lsn)

    def announce(self, relation: Relation) -> None:
        """Changes of this table follow that were made when it was like this."""
        self._announced[relation.oid] = relation

    def entries(
        self, change: Change, where: Where, now_ms: int
    ) -> Iterator[tuple[TableForm, Entry] | None]:
        """The records of a change; None for what settings leave out, which is counted too."""
        oids = change.relations if isinstance(change, Truncate) else (change.relation,)
        for form in map(self._of, oids):
            if form is None:
                yield None
                continue
            for entry in form.entries(change, where, now_ms):
                yield None if entry is None else (form, entry)

    def make(self, relation: Relation) -> TableForm:
        """How a table's rows become records from now on."""
        present = self._catalog.key(relation.oid) if relation.identity == FULL else None
        dimensions = self._catalog.dimensions(relation.oid)
        form = TableForm(
            relation,
            self._keys.of(relation, present),
            lambda one: self._catalog.mapped(one.type, one.modifier, dimensions.get(one.name, 1)),
            topic=self._topics.topic(TableId(relation.schema, relation.name)),
            server=self._settings.topic_prefix,
            database=self._settings.database,
            unavailable=self._settings.unavailable,
            tombstones=self._settings.tombstones,
        )
        known = self._forms.get(relation.oid)
        if known is not None and known.same_as(form):
            return known
        self._forms[relation.oid] = form
        return form

    def _of(self, oid: int) -> TableForm | None:
        """The form of a table; None if it is not followed.

        It is made when there is a record to be made, so that what is not followed, or was delivered
        before a restart, cannot be refused.
        """
        relation = self._announced.get(oid)
        if relation is not None:
            if self._publication.follows(TableId(relation.schema, relation.name)):
                self.make(relation)
            else:
                self._forms[oid] = None
            del self._announced[oid]
        return self._forms[oid]
