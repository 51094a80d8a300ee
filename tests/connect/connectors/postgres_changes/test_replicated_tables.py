"""Which tables are followed, under which names, and that snapshot and stream agree on it."""

from typing import Any

import pytest

from strom.connect.api import ConnectError, InvalidSettings, SourceRecord
from strom.connect.connectors.databases.dialect import TableId
from strom.connect.connectors.postgres_changes.names import TopicNames, matches, parse_list
from strom.connect.connectors.postgres_changes.settings import PostgresChangesSettings
from strom.connect.connectors.postgres_changes.source import PostgresChanges
from tests.connect.connectors.other_side import PostgresSide
from tests.connect.connectors.postgres_changes.following import changes, following, summaries
from tools.postgres import RealPostgres

PARTITIONED = """
CREATE TABLE log (id INT PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE log_1 PARTITION OF log FOR VALUES FROM (0) TO (10);
CREATE TABLE log_2 PARTITION OF log FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (id);
CREATE TABLE log_2a PARTITION OF log_2 FOR VALUES FROM (10) TO (20);
INSERT INTO log VALUES (1), (11);
"""
MINIMAL = {
    "database.hostname": "h",
    "database.user": "u",
    "database.dbname": "d",
    "topic.prefix": "shop",
}


@pytest.fixture
def side(postgres_server: RealPostgres) -> PostgresSide:
    return PostgresSide(postgres_server)


def rows(records: list[SourceRecord]) -> list[tuple[str, int]]:
    return [
        (record.topic.removeprefix("shop.public."), record.value["after"]["id"])
        for record in records
    ]


@pytest.mark.postgres
@pytest.mark.parametrize("mode", ["filtered", "all_tables"])
def test_rows_of_tables_that_inherit_come_once_and_as_theirs(side: PostgresSide, mode: str) -> None:
    side.run(
        "CREATE TABLE parent (id INT PRIMARY KEY);"
        "CREATE TABLE child (PRIMARY KEY (id)) INHERITS (parent);"
        "INSERT INTO parent VALUES (1); INSERT INTO child VALUES (2);"
    )
    with changes(side, publication_autocreate_mode=mode) as driver:
        snapshot = driver.read(2)
        following(driver)
        side.run("INSERT INTO parent VALUES (3); INSERT INTO child VALUES (4);")
        stream = driver.read(2)
    assert rows(snapshot) == [("child", 2), ("parent", 1)]
    assert rows(stream) == [("parent", 3), ("child", 4)]


@pytest.mark.postgres
def test_a_table_is_followed_without_those_that_inherit_from_it(side: PostgresSide) -> None:
    side.run(
        "CREATE TABLE parent (id INT PRIMARY KEY); CREATE TABLE child () INHERITS (parent);"
        "INSERT INTO child VALUES (2); INSERT INTO parent VALUES (1);"
    )
    with changes(side, table_include_list="public.parent") as driver:
        snapshot = driver.read(1)
        following(driver)
        side.run("UPDATE child SET id = 5; INSERT INTO parent VALUES (3);")
        stream = driver.read(1)
    assert rows(snapshot + stream) == [("parent", 1), ("parent", 3)]
    published = side.run("SELECT tablename FROM pg_publication_tables")
    assert published == [("parent",)]


@pytest.mark.postgres
@pytest.mark.parametrize("mode", ["filtered", "disabled"])
@pytest.mark.parametrize("via_root", [True, False])
def test_partitions_have_one_name_in_snapshot_and_stream(
    side: PostgresSide, mode: str, via_root: bool
) -> None:
    side.run(PARTITIONED)
    side.run(
        "CREATE PUBLICATION strom_shop FOR TABLE log "
        f"WITH (publish_via_partition_root = {via_root});"
    )
    with changes(side, publication_autocreate_mode=mode) as driver:
        snapshot = driver.read(2)
        following(driver)
        side.run("INSERT INTO log VALUES (2), (12);")
        stream = driver.read(2)
    names = ["log", "log"] if via_root else ["log_1", "log_2a"]
    assert rows(snapshot) == [*zip(names, (1, 11), strict=True)]
    assert rows(stream) == [*zip(names, (2, 12), strict=True)]


@pytest.mark.postgres
def test_a_partition_that_is_published_alone_is_one_table(side: PostgresSide) -> None:
    side.run(PARTITIONED)
    side.run(
        "CREATE PUBLICATION strom_shop FOR TABLE log_1 WITH (publish_via_partition_root = true);"
    )
    with changes(side, publication_autocreate_mode="disabled") as driver:
        snapshot = driver.read(1)
        following(driver)
        side.run("INSERT INTO log VALUES (12), (2);")
        stream = driver.read(1)
    assert rows(snapshot + stream) == [("log_1", 1), ("log_1", 2)]


@pytest.mark.postgres
def test_a_partition_that_is_added_is_followed_at_once(side: PostgresSide) -> None:
    side.run(PARTITIONED)
    side.run("CREATE PUBLICATION strom_shop FOR TABLE log;")
    with changes(side, publication_autocreate_mode="disabled") as driver:
        driver.read(2)
        following(driver)
        side.run("CREATE TABLE log_3 PARTITION OF log FOR VALUES FROM (20) TO (30);")
        side.run("INSERT INTO log VALUES (21);")
        assert rows(driver.read(1)) == [("log_3", 21)]


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("publication", "mode", "include", "reason"),
    [
        ("FOR TABLE log", "disabled", "public.log", "partitioned table public.log.* partitions"),
        ("FOR TABLE log", "filtered", "public.log", "publish_via_partition_root = true"),
        (None, "filtered", "public.log_1", "partition public.log_1.* partitioned table"),
        ("FOR TABLE log", "disabled", "public.b", 'ADD TABLE "public"."b"'),
        ("FOR TABLE log", "disabled", "public.c", "Unknown table public.c"),
    ],
)
def test_a_name_under_which_no_change_can_come_is_refused(
    side: PostgresSide, publication: str | None, mode: str, include: str, reason: str
) -> None:
    side.run(PARTITIONED + "CREATE TABLE b (id INT PRIMARY KEY);")
    if publication:
        side.run(f"CREATE PUBLICATION strom_shop {publication};")
    texts = {
        **side.change_settings,
        "publication.autocreate.mode": mode,
        "table.include.list": include,
    }
    problems = PostgresChanges(PostgresChangesSettings.read(texts)).check()
    with pytest.raises(ConnectError, match=reason):
        raise ConnectError(problems["table.include.list"])


@pytest.mark.postgres
def test_odd_names_of_tables_and_publications_are_followed(side: PostgresSide) -> None:
    odd = ["a,b", 'Quo"te', "Größe mit 'Leer'", "x.y"]
    for number, name in enumerate(odd):
        quoted = name.replace('"', '""')
        side.run(f'CREATE TABLE "{quoted}" (id INT PRIMARY KEY);')
        side.run(f'INSERT INTO "{quoted}" VALUES ({number})')
    settings = {
        "table_include_list": r"public.a\,b, public.Quo.te, Größe mit 'Leer', public\.x\.y",
        "publication_name": """Öl, "quoted" and 'so'""",
    }
    with changes(side, **settings) as driver:
        snapshot = driver.read(4)
        following(driver)
        side.run('INSERT INTO "a,b" VALUES (9);')
        stream = driver.read(1)
    assert sorted(rows(snapshot)) == [
        ("Gr__e_mit__Leer_", 2), ("Quo_te", 1), ("a_b", 0), ("x.y", 3),
    ]  # fmt: skip
    assert rows(stream) == [("a_b", 9)]
    assert stream[0].value["source"]["table"] == "a,b"


@pytest.mark.postgres
def test_tables_that_would_share_a_topic_are_refused(side: PostgresSide) -> None:
    side.run('CREATE TABLE "a,b" (id INT PRIMARY KEY); CREATE TABLE "a;b" (id INT PRIMARY KEY);')
    with (
        pytest.raises(ConnectError, match=r'"a,b" and "public"\."a;b".* topic shop\.public\.a_b'),
        changes(side),
    ):
        pass


def test_patterns_are_separated_by_commas_that_are_not_escaped() -> None:
    assert parse_list(r" a\,b , c{1\,2},,c\\d, a\,b") == ("a,b", "c{1,2}", r"c\\d")
    assert parse_list("") == ()
    table = TableId("Öl", "a+b, (c)")
    assert matches("Öl.a+b, (c)", table)
    assert matches(r"a\+b, \(c\)", table)
    assert not matches("a+b", table)


def test_a_topic_that_is_too_long_is_refused() -> None:
    with pytest.raises(ConnectError, match=r"250 characters.* limit of 249"):
        TopicNames("p" * 239).topic(TableId("public", "abc"))


@pytest.mark.parametrize(
    ("texts", "setting"),
    [
        ({"topic.prefix": "my shop"}, "topic.prefix"),
        ({"topic.heartbeat.prefix": "Öl"}, "topic.heartbeat.prefix"),
        ({"slot.name": "My,Slot"}, "slot.name"),
        ({"publication.name": "ü" * 32}, "publication.name"),
        ({"table.include.list": "a(b"}, "table.include.list"),
        ({"table.exclude.list": "a\\"}, "table.exclude.list"),
    ],
)
def test_names_that_cannot_be_are_refused(texts: dict[str, str], setting: str) -> None:
    with pytest.raises(InvalidSettings) as refused:
        PostgresChangesSettings.read({**MINIMAL, **texts})
    problems: Any = refused.value.problems
    assert list(problems) == [setting]


@pytest.mark.postgres
def test_the_snapshot_has_the_columns_and_rows_that_are_published(side: PostgresSide) -> None:
    side.run(
        "CREATE TABLE p (id INT PRIMARY KEY, name TEXT, secret TEXT);"
        "INSERT INTO p VALUES (1, 'a', 's'), (200, 'b', 's');"
        "CREATE PUBLICATION strom_shop FOR TABLE p (id, name) WHERE (id < 100);"
    )
    with changes(side, publication_autocreate_mode="disabled") as driver:
        records = driver.read(1)
        following(driver)
        side.run("INSERT INTO p VALUES (201, 'c', 's'), (2, 'd', 's');")
        records += driver.read(1)
    assert summaries(records) == [
        ("r", None, {"id": 1, "name": "a"}),
        ("c", None, {"id": 2, "name": "d"}),
    ]
    assert records[0].value_schema == records[1].value_schema
