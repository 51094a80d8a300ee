"""Kafka's definitions of the records of share groups must say the same as ours."""

import json
import re
import zipfile
from typing import Any

import pytest

from strom.wire.kafka import share_group_records as group
from strom.wire.kafka import share_state_topic as state
from strom.wire.kafka.schema import Struct, parse_versions
from tests.wire.kafka.messages.test_definitions_against_kafka import kafka_fields, our_fields
from tools import kafka

pytestmark = pytest.mark.oracle

OURS: dict[str, tuple[type[Struct], int]] = {
    "ShareGroupMemberMetadataKey": (group.ShareMemberKey, group.MEMBER_KEY),
    "ShareGroupMemberMetadataValue": (group.ShareMemberValue, group.MEMBER_KEY),
    "ShareGroupMetadataKey": (group.ShareGroupKey, group.GROUP_KEY),
    "ShareGroupMetadataValue": (group.ShareGroupValue, group.GROUP_KEY),
    "ShareGroupTargetAssignmentMetadataKey": (group.ShareGroupKey, group.TARGET_KEY),
    "ShareGroupTargetAssignmentMetadataValue": (group.ShareTargetValue, group.TARGET_KEY),
    "ShareGroupTargetAssignmentMemberKey": (group.ShareMemberKey, group.TARGET_MEMBER_KEY),
    "ShareGroupTargetAssignmentMemberValue": (
        group.ShareTargetMemberValue,
        group.TARGET_MEMBER_KEY,
    ),
    "ShareGroupCurrentMemberAssignmentKey": (group.ShareMemberKey, group.CURRENT_KEY),
    "ShareGroupCurrentMemberAssignmentValue": (group.ShareCurrentValue, group.CURRENT_KEY),
    "ShareGroupStatePartitionMetadataKey": (group.ShareGroupKey, group.STATE_KEY),
    "ShareGroupStatePartitionMetadataValue": (group.ShareStateValue, group.STATE_KEY),
    "ShareSnapshotKey": (state.StateKey, state.SNAPSHOT_KEY),
    "ShareSnapshotValue": (state.SnapshotValue, state.SNAPSHOT_KEY),
    "ShareUpdateKey": (state.StateKey, state.UPDATE_KEY),
    "ShareUpdateValue": (state.UpdateValue, state.UPDATE_KEY),
}


def definition(name: str) -> Any:
    for jar in sorted((kafka.home() / "libs").glob("kafka-*-coordinator-*.jar")):
        with zipfile.ZipFile(jar) as opened:
            path = f"common/message/{name}.json"
            if path in opened.namelist():
                text = opened.read(path).decode()
                return json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    pytest.skip("there are no Kafka jars; `make kafka` fetches them")


@pytest.mark.parametrize("name", OURS)
def test_the_record_is_kafkas(name):
    theirs = definition(name)
    ours, number = OURS[name]
    versions = parse_versions(theirs["validVersions"])
    assert (theirs["apiKey"], ours.SCHEMA.versions) == (number, versions)
    assert ours.SCHEMA.flexible == parse_versions(theirs["flexibleVersions"])
    structs = {one["name"]: one["fields"] for one in theirs.get("commonStructs", [])}
    expected = kafka_fields(theirs["fields"], structs, 0, versions)
    assert our_fields(ours, 0, versions) == expected
