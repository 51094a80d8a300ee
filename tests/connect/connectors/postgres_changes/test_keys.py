"""A change has the key that its table had when it was made, or it is refused; never another one."""

import pytest

from strom.connect.api import ConnectError
from strom.connect.connectors.postgres_changes.keys import Keys, TableKey
from strom.connect.connectors.postgres_changes.pgoutput import Relation, RelationColumn
from tests.connect.connectors.other_side import PostgresSide
from tests.connect.connectors.postgres_changes.following import changes, following
from tools.postgres import RealPostgres

FULL_TABLE = """
CREATE TABLE t (id INT PRIMARY KEY, code INT NOT NULL); ALTER TABLE t REPLICA IDENTITY FULL;
INSERT INTO t VALUES (1, 10);
"""
OTHER_KEY = "ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD PRIMARY KEY (code);"


@pytest.fixture
def side(postgres_server: RealPostgres) -> PostgresSide:
    return PostgresSide(postgres_server)


@pytest.mark.postgres
def test_a_change_before_another_primary_key_is_refused_until_the_user_chooses(
    side: PostgresSide,
) -> None:
    side.run(FULL_TABLE)
    with changes(side) as driver:
        driver.read(1)
    side.run("INSERT INTO t VALUES (2, 20);")
    side.run(OTHER_KEY)
    refusal = r"table public.t was \(id\) and is \(code\) now.*message.key.columns=public.t:code"
    with (
        pytest.raises(ConnectError, match=refusal),
        changes(side, driver.offsets) as again,
    ):
        again.read(1)
    with changes(side, driver.offsets, message_key_columns="public.t:id") as again:
        assert [record.key for record in again.read(1)] == [{"id": 2}]
    side.run("INSERT INTO t VALUES (3, 30);")
    with changes(side, driver.offsets, message_key_columns="public.t:code") as again:
        assert [record.key for record in again.read(1)] == [{"code": 30}]
    side.run("INSERT INTO t VALUES (4, 40);")
    with changes(side, driver.offsets) as again:
        assert [record.key for record in again.read(1)] == [{"code": 40}]


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("alter", "key"),
    [
        ("ALTER TABLE t RENAME COLUMN id TO number;", "number"),
        (
            "ALTER TABLE t ADD COLUMN place INT DEFAULT 7; ALTER TABLE t DROP CONSTRAINT t_pkey;"
            "ALTER TABLE t ADD PRIMARY KEY (place, id); ALTER TABLE t DROP COLUMN code;"
            "ALTER TABLE t RENAME COLUMN id TO other;",
            "place",
        ),
    ],
)
def test_changes_before_and_after_have_the_key_that_they_can_have(
    side: PostgresSide, alter: str, key: str
) -> None:
    side.run(FULL_TABLE)
    with changes(side) as driver:
        driver.read(1)
        following(driver)
        side.run("INSERT INTO t VALUES (2, 20);")
        side.run(alter)
        side.run("INSERT INTO t VALUES (3, 30);")
        before, after = driver.read(2)
    assert before.key == {"id": 2}
    assert key in after.key


@pytest.mark.postgres
def test_changes_of_a_table_that_was_dropped_have_its_key(side: PostgresSide) -> None:
    side.run(FULL_TABLE + "CREATE TABLE u (id INT PRIMARY KEY);")
    with changes(side, table_include_list="public.t,public.u") as driver:
        driver.read(1)
        following(driver)
        side.run("DELETE FROM t; INSERT INTO t VALUES (2, 20);")
        side.run("DROP TABLE t;")
        records = driver.read(3, deliver=False)
    assert [record.key for record in records] == [{"id": 1}, {"id": 1}, {"id": 2}]
    with changes(side, driver.offsets, table_include_list="public.t,public.u") as driver:
        again = driver.read(3)
    assert [record.key for record in again] == [{"id": 1}, {"id": 1}, {"id": 2}]


def table(identity: str, *columns: str, marked: tuple[str, ...] = ()) -> Relation:
    described = (RelationColumn(name, 23, -1, name in marked) for name in columns)
    return Relation(7, "public", "t", identity, tuple(described))


def known(*key: str) -> Keys:
    keys = Keys(())
    keys.load({"keys": {"7": list(key)}})
    return keys


def test_the_key_is_the_only_one_that_can_be() -> None:
    full = table("f", "a", "b")
    a, b, nothing = frozenset("a"), frozenset("b"), frozenset[str]()
    assert known("a").of(full, a) == TableKey(a)
    assert known("a").of(full, None) == TableKey(a)
    assert known("a").of(full, frozenset("x")) == TableKey(a)
    assert known("x").of(full, b) == TableKey(b)
    assert known().of(full, nothing) == TableKey(nothing)
    assert Keys(()).of(full, b) == TableKey(b)
    assert Keys(()).of(table("d", "a", "b", marked=("a",)), None) == TableKey(a)
    for keys, present in (
        (known("a"), b),
        (known(), a),
        (known("a"), nothing),
        (known("x"), None),
        (known("x"), frozenset("y")),
        (Keys(()), None),
    ):
        with pytest.raises(
            ConnectError, match=r"table public.t .*message\.key\.columns=public\.t:"
        ):
            keys.of(full, present)


def test_a_table_that_gets_full_identity_has_the_key_that_was_marked() -> None:
    keys = Keys(())
    keys.of(table("d", "a", "b", marked=("a",)), None)
    with pytest.raises(ConnectError, match=r"was \(a\) and is \(b\)"):
        keys.of(table("f", "a", "b"), frozenset("b"))


def test_a_chosen_key_can_be_null_and_must_be_one_that_deletes_have() -> None:
    keys = Keys([("public.t", frozenset("b"))])
    assert keys.of(table("f", "a", "b"), frozenset("a")) == TableKey(frozenset("b"), True)
    assert keys.of(table("f", "a", "b"), frozenset("b")) == TableKey(frozenset("b"))
    with pytest.raises(ConnectError, match="REPLICA IDENTITY FULL"):
        keys.of(table("d", "a", "b", marked=("a",)), None)
    with pytest.raises(ConnectError, match=r"no column \(b\)"):
        keys.of(table("f", "a", "c"), None)


def test_keys_of_tables_that_are_gone_are_forgotten_behind_their_last_change() -> None:
    keys = known("a")
    keys.learn({8: frozenset("b")}, 100)
    before = keys.stored
    assert before == {"7": ["a"], "8": ["b"]}
    keys.passed(99)
    assert keys.stored == before
    keys.passed(100)
    assert keys.stored == {"8": ["b"]}
    assert before == {"7": ["a"], "8": ["b"]}, "offsets that were returned stay as they are"


def test_what_comes_again_after_a_lost_connection_has_the_key_that_it_had_before() -> None:
    keys = known("a")
    keys.returned({"keys": keys.stored})
    assert keys.of(table("f", "b"), frozenset("b")) == TableKey(frozenset("b"))
    keys.rewind()
    keys.learn({7: frozenset("b")}, 100)
    with pytest.raises(ConnectError, match=r"was \(a\) and is \(b\)"):
        keys.of(table("f", "a", "b"), frozenset("b"))
