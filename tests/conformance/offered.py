"""The requests this suite is about, with the versions that Apache Kafka 4.3.1 advertises."""

ADVERTISED = {
    "produce": (0, 13),
    "fetch": (4, 18),
    "list_offsets": (1, 11),
    "metadata": (0, 13),
    "offset_commit": (2, 10),
    "offset_fetch": (1, 10),
    "find_coordinator": (0, 6),
    "join_group": (0, 9),
    "heartbeat": (0, 4),
    "leave_group": (0, 5),
    "sync_group": (0, 5),
    "describe_groups": (0, 6),
    "list_groups": (0, 5),
    "api_versions": (0, 4),
    "create_topics": (2, 7),
    "delete_topics": (1, 6),
    "delete_records": (0, 2),
    "init_producer_id": (0, 5),
    "offset_for_leader_epoch": (2, 4),
    "add_partitions_to_txn": (0, 5),
    "add_offsets_to_txn": (0, 4),
    "end_txn": (0, 5),
    "write_txn_markers": (1, 2),
    "txn_offset_commit": (0, 5),
    "describe_configs": (1, 4),
    "alter_configs": (0, 2),
    "alter_replica_log_dirs": (1, 2),
    "describe_log_dirs": (1, 5),
    "create_partitions": (0, 3),
    "incremental_alter_configs": (0, 1),
    "delete_groups": (0, 2),
    "elect_leaders": (0, 2),
    "alter_partition_reassignments": (0, 1),
    "list_partition_reassignments": (0, 0),
    "offset_delete": (0, 0),
    "describe_quorum": (0, 2),
    "update_features": (0, 2),
    "describe_cluster": (0, 2),
    "unregister_broker": (0, 0),
    "list_config_resources": (0, 1),
    "consumer_group_heartbeat": (0, 1),
    "consumer_group_describe": (0, 1),
    "describe_producers": (0, 0),
    "describe_transactions": (0, 0),
    "list_transactions": (0, 2),
    "describe_topic_partitions": (0, 0),
    "share_group_heartbeat": (1, 1),
    "share_group_describe": (1, 1),
    "share_fetch": (1, 2),
    "share_acknowledge": (1, 2),
    "describe_share_group_offsets": (0, 1),
    "alter_share_group_offsets": (0, 0),
    "delete_share_group_offsets": (0, 0),
}

NOT_YET = frozenset(
    {
        *(17, 36),  # SASL
        *(29, 30, 31),  # ACLs
        *(38, 39, 40, 41),  # delegation tokens
        *(48, 49),  # quotas
        *(50, 51),  # SCRAM credentials
        *(88, 89),  # groups of Kafka Streams, KIP-1071
    }
)
"""The api keys that Kafka advertises and strom does not support yet."""

NOT_ON_ONE_NODE = frozenset(
    {
        *(80, 81),  # voters of the metadata quorum join and leave: there is one
        *(83, 84, 85, 86, 87),  # brokers among each other, about the state of share groups
    }
)
"""The api keys that have no meaning between a client and a single broker."""

FIRST_PRODUCE_VERSION = 3
"""Produce 0 to 2 are advertised for the sake of old librdkafka versions, and refused when sent."""


def versions_of(api: str) -> range:
    """Every version of a request that Kafka 4.3.1 serves."""
    first, last = ADVERTISED[api]
    return range(FIRST_PRODUCE_VERSION if api == "produce" else first, last + 1)
