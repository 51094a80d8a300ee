"""`strom share-groups`: list, describe, reset-offsets and delete."""

import json
from typing import Any

import pytest
from confluent_kafka import ShareConsumer

from tests.conformance.raw import RawClient
from tests.conformance.sharers import set_group_configs


@pytest.fixture
def group(broker, filled_topic):
    """A share group that has dealt with all ten records, and has no members."""
    name = f"{filled_topic}-workers"
    with RawClient(broker.bootstrap_servers) as client:
        set_group_configs(client, name, {"share.auto.offset.reset": "earliest"})
    consumer = ShareConsumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": name})
    consumer.subscribe([filled_topic])
    read = []
    for _ in range(60):
        read += list(consumer.poll(0.5))
        if len(read) == 10:
            break
    consumer.commit_sync(20)
    consumer.close()
    assert len(read) == 10
    return name


def test_share_groups_are_listed_and_described(strom_at_broker, filled_topic, group):
    rows = [line.split() for line in strom_at_broker("share-groups", "list").stdout.splitlines()]
    assert rows[0] == ["GROUP", "STATE"]
    assert [group, "Empty"] in rows
    listed = json.loads(strom_at_broker("share-groups", "list", "--json").stdout)
    assert {"name": group, "state": "Empty"} in listed
    described = strom_at_broker("share-groups", "describe", group).stdout.splitlines()
    assert described[:4] == [
        f"Group        {group}",
        "State        Empty",
        "Members      0",
        "Assignor     simple",
    ]
    assert described[-1].split() == [filled_topic, "0", "10", "0", "-"]
    (found,) = json.loads(strom_at_broker("share-groups", "describe", group, "--json").stdout)
    assert found["partitions"] == [
        {"topic": filled_topic, "partition": 0, "start": 10, "lag": 0, "members": []}
    ]


def test_members_are_shown_with_what_they_read(strom_at_broker, broker, filled_topic, group):
    consumer = ShareConsumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    consumer.subscribe([filled_topic])
    found: dict[str, Any] = {}
    try:
        for _ in range(60):
            consumer.poll(0.2)
            shown = strom_at_broker("share-groups", "describe", group, "--json").stdout
            (found,) = json.loads(shown)
            if found["members"]:
                break
        (member,) = found["members"]
        assert found["partitions"][0]["members"] == [member["id"]]
        refused = strom_at_broker("share-groups", "reset-offsets", group, "--to", "start")
        assert refused.exit_code == 1
        assert "has members" in refused.stderr
        assert strom_at_broker("share-groups", "delete", group, "--yes").exit_code == 1
    finally:
        consumer.close()


@pytest.mark.parametrize(("where", "offset"), [("start", 0), ("7", 7), ("-3", 7), ("@-1h", 0)])
def test_a_share_group_is_moved(strom_at_broker, filled_topic, group, where, offset):
    def place():
        shown = strom_at_broker("share-groups", "describe", group, "--json").stdout
        (found,) = json.loads(shown)
        return found["partitions"][0]["start"], found["partitions"][0]["lag"]

    shown = strom_at_broker("share-groups", "reset-offsets", group, "--to", where)
    assert shown.stdout.splitlines()[-1].split() == [filled_topic, "0", "10", str(offset)]
    assert shown.stderr == "Nothing was changed. To reset the offsets, add --execute.\n"
    assert place() == (10, 0)
    done = strom_at_broker(
        "share-groups", "reset-offsets", group, "--to", where, "--execute", "--json"
    )
    (moved,) = json.loads(done.stdout)
    assert moved == {"topic": filled_topic, "partition": 0, "before": 10, "offset": offset}
    assert place() == (offset, 10 - offset)


def test_a_share_group_that_is_not_there_yet_can_be_placed(strom_at_broker, filled_topic):
    name = f"{filled_topic}-new"
    refused = strom_at_broker("share-groups", "reset-offsets", name, "--to", "4")
    assert "Name the topics" in refused.stderr
    arguments = ("share-groups", "reset-offsets", name, filled_topic, "--to", "4", "--execute")
    assert strom_at_broker(*arguments).exit_code == 0
    (found,) = json.loads(strom_at_broker("share-groups", "describe", name, "--json").stdout)
    assert (found["partitions"][0]["start"], found["partitions"][0]["lag"]) == (4, 6)


def test_a_share_group_is_deleted(strom_at_broker, group):
    assert "add --yes" in strom_at_broker("share-groups", "delete", group).stderr
    assert strom_at_broker("share-groups", "delete", group, "--yes").stdout == (
        f"Deleted share group {group}.\n"
    )
    gone = strom_at_broker("share-groups", "describe", group)
    assert gone.exit_code == 1
    assert "does not exist" in gone.stderr


def test_a_missing_server_is_reported_in_one_line(strom):
    result = strom("share-groups", "list", STROM_BOOTSTRAP_SERVERS="127.0.0.1:1")
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
