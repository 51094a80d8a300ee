"""`strom queues`, `strom exchanges` and `strom bindings`."""

import json

import pytest

from strom.testing import LocalBroker


@pytest.fixture(scope="module")
def queue_broker():
    with LocalBroker(queues=True) as running:
        yield running


@pytest.fixture
def call(strom, queue_broker):
    def call(*arguments):
        return strom(*arguments, STROM_MANAGEMENT_URL=queue_broker.management_url)

    return call


def test_a_queue_from_declaring_to_deleting(call):
    assert (
        call("queues", "declare", "work", "-a", "x-max-length=2").stdout == "Declared queue work.\n"
    )
    for text in ("1", "2", "3"):
        assert call("queues", "publish", "work", text).stdout == "Published.\n"
    [shown] = json.loads(call("queues", "list", "--json").stdout)
    assert (shown["name"], shown["messages_ready"], shown["arguments"]) == (
        "work",
        2,
        {"x-max-length": 2},
    )
    assert call("queues", "list").stdout.splitlines()[1].split() == ["work", "2", "0", "0"]
    assert call("queues", "get", "work", "-n", "5").stdout == "2\n3\n"
    assert call("queues", "get", "work", "--take").stdout == "2\n"
    assert call("queues", "purge", "work").exit_code == 0
    assert call("queues", "get", "work").stdout == ""
    assert call("queues", "delete", "work").stdout == "Deleted queue work.\n"
    assert "no queues yet" in call("queues", "list").stderr


def test_messages_go_along_bindings(call):
    call("queues", "declare", "german", "--transient")
    assert call("exchanges", "declare", "orders", "--type", "topic").exit_code == 0
    assert call("bindings", "add", "orders", "german", "-k", "de.#").exit_code == 0
    published = call("queues", "publish", "de.berlin", "hallo", "--exchange", "orders")
    assert published.stdout == "Published.\n"
    nobody = call("queues", "publish", "fr", "salut", "--exchange", "orders")
    assert nobody.stdout == "Published, but not routed to any queue.\n"
    assert call("queues", "get", "german").stdout == "hallo\n"
    assert ["orders", "german", "queue", "de.#"] in [
        line.split() for line in call("bindings", "list").stdout.splitlines()
    ]
    assert call("bindings", "remove", "orders", "german", "-k", "de.#").exit_code == 0
    assert json.loads(call("bindings", "list", "--json").stdout) == []
    assert "orders" in call("exchanges", "list").stdout
    assert call("exchanges", "delete", "orders").exit_code == 0
    call("queues", "delete", "german")


@pytest.mark.parametrize(
    "arguments",
    [
        ["queues", "get", "nothing"],
        ["queues", "declare", "q", "-a", "x-max-length=-1"],
        ["queues", "declare", "q", "-a", "nonsense"],
        ["exchanges", "declare", "x", "--type", "nonsense"],
        ["queues", "list", "--login", "guest:wrong"],
        ["queues", "list", "--url", "http://127.0.0.1:1"],
        ["queues", "list", "--url", "file:///etc/passwd"],
    ],
)
def test_a_mistake_is_one_line(call, arguments):
    result = call(*arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
