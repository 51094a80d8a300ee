"""Names of tables with commas, dots, quotes, blanks and umlauts, in settings of both connectors."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.connect.api import ConnectError, InvalidSettings, SinkRecord, TopicPartition
from strom.connect.api.schema import INT64, struct
from strom.connect.connectors.databases.dialect import TableId
from strom.connect.connectors.databases.sink import JdbcSink, table_of
from strom.connect.connectors.databases.sink_settings import JdbcSinkSettings
from strom.connect.connectors.databases.source import JdbcSource
from strom.connect.connectors.databases.source_settings import JdbcSourceSettings
from strom.connect.connectors.databases.table_names import find_table, name_parts, written_name
from strom.testing.connectors import SinkDriver, SourceDriver, StoredOffsets
from tests.connect.connectors.other_side import Side

ODD = ["a,b", "a.b", 'a"b', '"a"', " a ", "Größe", "Upper", "a b", "'", 'x",".y', "."]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def read_list(text: str) -> tuple[str, ...]:
    settings = {"connection.url": "jdbc:sqlite:/x", "topic.prefix": "p", "mode": "bulk"}
    return JdbcSourceSettings.read({**settings, "table.whitelist": text}).whitelist


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("a, b ,,a", ("a", "b")),
        ('"a,b",c', ('"a,b"', "c")),
        ('s."a, b" , c', ('s."a, b"', "c")),
        ('"a"",b"', ('"a"",b"',)),
        ('it"s,b"', ('it"s', 'b"')),
    ],
)
def test_commas_in_quotes_part_nothing(text: str, items: Sequence[str]) -> None:
    assert read_list(text) == items


def test_a_quote_that_is_not_closed_is_refused() -> None:
    with pytest.raises(InvalidSettings, match=r"table\.whitelist: it contains a quoted name"):
        read_list('a,"b')


def test_a_format_with_a_quote_that_is_not_closed_is_refused() -> None:
    with pytest.raises(InvalidSettings, match="not closed"):
        JdbcSinkSettings.read({"connection.url": "jdbc:sqlite:/x", "table.name.format": '"a.b'})


NAMES = st.text('ab.," \'"Ä', min_size=1, max_size=5)


@given(schema=st.one_of(st.none(), NAMES), name=NAMES, more=st.lists(NAMES, max_size=3))
def test_a_written_name_means_its_table_alone(schema, name, more) -> None:
    table = TableId(schema, name)
    text = written_name(table)
    assert read_list(f"{text},x") == tuple(dict.fromkeys((text, "x")))
    assert name_parts(text) == tuple(part for part in table if part is not None)
    others = [TableId(schema, one) for one in more] + [TableId(one, name) for one in more]
    assert find_table(text, [*dict.fromkeys([*others, table])]) == table


def test_a_name_of_tables_in_several_schemas_has_to_say_which() -> None:
    tables = [TableId("archive", "orders"), TableId("public", "orders")]
    assert find_table("public.orders", tables) == tables[1]
    assert find_table("people", tables) is None
    with pytest.raises(
        ConnectError, match=r"The table name orders is ambiguous: archive\.orders, public\.ord"
    ):
        find_table("orders", tables)


def test_names_are_taken_literally_where_they_can_be() -> None:
    """As they were written before there were quotes."""
    tables = [TableId("s", "a.b"), TableId("s", 'it"s')]
    assert find_table("a.b", tables) == find_table("s.a.b", tables) == tables[0]
    assert find_table('it"s', tables) == tables[1]


@pytest.mark.parametrize("listed", [",".join(map(quoted, ODD)), ""], ids=["listed", "all"])
@pytest.mark.parametrize("max_tasks", [1, 3])
def test_tables_with_any_name_are_read(side: Side, listed: str, max_tasks: int) -> None:
    for name in ODD:
        side.run(f"CREATE TABLE {quoted(name)} (id INTEGER PRIMARY KEY);")
        side.run(f"INSERT INTO {quoted(name)} VALUES (7);")
    settings = {"topic.prefix": "db-", "mode": "bulk", "table.whitelist": listed}
    driver = SourceDriver(JdbcSource, {**side.settings, **settings}, max_tasks=max_tasks)
    driver.start()
    records = driver.read(len(ODD))
    driver.stop()
    assert sorted(record.topic for record in records) == sorted(f"db-{name}" for name in ODD)


def test_a_position_under_the_name_of_an_earlier_release_is_read(side: Side) -> None:
    side.run('CREATE TABLE "a.b" (id INTEGER PRIMARY KEY); INSERT INTO "a.b" VALUES (1), (2);')
    schema = "public." if "postgres" in side.settings["connection.url"] else ""
    offsets = StoredOffsets()
    settings = {**side.settings, "topic.prefix": "db-", "mode": "incrementing"}
    driver = SourceDriver(JdbcSource, settings, offsets)
    driver.start()
    (first, _) = driver.read(2, deliver=False)
    driver.stop()
    assert first.source_partition == {"table": f'{schema}"a.b"'}
    offsets.keep([first._replace(source_partition={"table": f"{schema}a.b"})])
    driver = SourceDriver(JdbcSource, settings, offsets)
    driver.start()
    assert [record.value["id"] for record in driver.read(1)] == [2]
    driver.stop()


def test_tables_with_any_name_are_written(side: Side) -> None:
    for name in ODD:
        settings = {"auto.create": "true", "table.name.format": quoted(name)}
        driver = SinkDriver(JdbcSink, {**side.settings, **settings}, name=name)
        driver.start([TopicPartition("t", 0)])
        driver.task.put([SinkRecord("t", 0, 0, {"id": 7}, struct({"id": INT64}))])
        driver.stop()
        assert side.run(f"SELECT id FROM {quoted(name)}") == [(7,)]


def test_a_format_may_have_quotes() -> None:
    assert table_of("a.b", '"my.schema"."t,${topic}"') == ("my.schema", "t,a.b")
    assert table_of("a.b", '"x.${topic}"') == (None, "x.a.b")
    assert table_of("a.b", "x.y.${topic}") == ("x", "y.a.b")
