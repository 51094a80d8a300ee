"""All errors of strom.

StromError
├── ApiError            a Kafka error code, with a message for the client
├── QueueError          a request that queues refuse, with the reason (`queues/errors.py`)
├── ProtocolError       bytes that do not follow the protocol
│   └── AmqpError       with a reply code for the client (`wire/amqp/protocol.py`)
├── StorageError        the disk or the data on it
│   ├── CorruptData     bytes on disk that are not what was written
│   │   └── MalformedRecords  an undamaged batch whose records cannot be decoded
│   └── DirectoryOffline  a write or sync failed; nothing in it can be trusted until a restart
└── UserError           a mistake of the user, reported in one line with what to do about it
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Self


class ErrorCode(IntEnum):
    """Kafka's error codes: number, whether a client may retry, and what it means."""

    retriable: bool
    text: str

    def __new__(cls, code: int, retriable: bool, text: str) -> Self:
        """Make a member that equals its code, with the rest as attributes."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.retriable = retriable
        member.text = text
        return member

    UNKNOWN_SERVER_ERROR = (
        -1,
        False,
        "The broker had an unexpected error; see its log.",
    )
    NONE = 0, False, "No error."
    OFFSET_OUT_OF_RANGE = (
        1,
        False,
        "The offset is outside the partition: it was deleted, or not written yet.",
    )
    CORRUPT_MESSAGE = (
        2,
        True,
        "The records are corrupt: their checksum or format is invalid.",
    )
    UNKNOWN_TOPIC_OR_PARTITION = 3, True, "This broker does not have this topic or partition."
    INVALID_FETCH_SIZE = 4, False, "The fetch size is invalid."
    LEADER_NOT_AVAILABLE = 5, True, "The partition has no leader at the moment."
    NOT_LEADER_OR_FOLLOWER = (
        6,
        True,
        "This broker is not the leader or a replica of the partition; refresh the metadata.",
    )
    REQUEST_TIMED_OUT = 7, True, "The request timed out."
    BROKER_NOT_AVAILABLE = 8, False, "The broker cannot be reached."
    REPLICA_NOT_AVAILABLE = 9, True, "The replica is not available at the moment."
    MESSAGE_TOO_LARGE = 10, False, "The batch exceeds the topic's `max.message.bytes`."
    STALE_CONTROLLER_EPOCH = 11, False, "The controller that sent this has been replaced."
    OFFSET_METADATA_TOO_LARGE = (
        12,
        False,
        "The metadata of the committed offset exceeds `offset.metadata.max.bytes`.",
    )
    NETWORK_EXCEPTION = 13, True, "The connection was closed before the response arrived."
    COORDINATOR_LOAD_IN_PROGRESS = (
        14,
        True,
        "The coordinator is still loading its state; retry.",
    )
    COORDINATOR_NOT_AVAILABLE = 15, True, "The coordinator is not available at the moment."
    NOT_COORDINATOR = (
        16,
        True,
        "This broker is not the coordinator; find the coordinator again.",
    )
    INVALID_TOPIC_EXCEPTION = (
        17,
        False,
        "The topic name is invalid, or the topic is internal.",
    )
    RECORD_LIST_TOO_LARGE = 18, False, "The batch exceeds the topic's `segment.bytes`."
    NOT_ENOUGH_REPLICAS = (
        19,
        True,
        "There are too few in-sync replicas; nothing was written.",
    )
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        True,
        "The records were written, but to fewer in-sync replicas than required.",
    )
    INVALID_REQUIRED_ACKS = 21, False, "`acks` must be 0, 1 or -1 (all)."
    ILLEGAL_GENERATION = 22, False, "The generation is not the current generation of the group."
    INCONSISTENT_GROUP_PROTOCOL = (
        23,
        False,
        "The member's protocols are not compatible with those of the group.",
    )
    INVALID_GROUP_ID = 24, False, "The group id is invalid."
    UNKNOWN_MEMBER_ID = 25, False, "The group does not have this member; it must rejoin."
    INVALID_SESSION_TIMEOUT = 26, False, "The session timeout is outside the limits of the broker."
    REBALANCE_IN_PROGRESS = 27, False, "The group is rebalancing; rejoin."
    INVALID_COMMIT_OFFSET_SIZE = 28, False, "The commit exceeds the limit of the offsets topic."
    TOPIC_AUTHORIZATION_FAILED = 29, False, "Not authorized to access the topic."
    GROUP_AUTHORIZATION_FAILED = 30, False, "Not authorized to access the group."
    CLUSTER_AUTHORIZATION_FAILED = 31, False, "Not authorized to access the cluster."
    INVALID_TIMESTAMP = 32, False, "The timestamp of a record is out of range."
    UNSUPPORTED_SASL_MECHANISM = 33, False, "The broker does not support this SASL mechanism."
    ILLEGAL_SASL_STATE = (
        34,
        False,
        "The request is invalid in the current SASL state.",
    )
    UNSUPPORTED_VERSION = 35, False, "The broker does not support this version of the request."
    TOPIC_ALREADY_EXISTS = 36, False, "A topic with this name already exists."
    INVALID_PARTITIONS = 37, False, "The number of partitions is invalid."
    INVALID_REPLICATION_FACTOR = (
        38,
        False,
        "The replication factor is below 1, or exceeds the number of brokers.",
    )
    INVALID_REPLICA_ASSIGNMENT = 39, False, "The replica assignment is invalid."
    INVALID_CONFIG = 40, False, "The name or value of a setting is invalid."
    NOT_CONTROLLER = 41, True, "This broker is not the controller; refresh the metadata."
    INVALID_REQUEST = 42, False, "The request is inconsistent or incomplete."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, False, "The record format does not support this."
    POLICY_VIOLATION = 44, False, "The request violates a policy of the broker."
    OUT_OF_ORDER_SEQUENCE_NUMBER = (
        45,
        False,
        "The sequence number is out of order: earlier records are missing.",
    )
    DUPLICATE_SEQUENCE_NUMBER = (
        46,
        False,
        "The sequence number is a duplicate: the records are already stored.",
    )
    INVALID_PRODUCER_EPOCH = 47, False, "The producer epoch is older than the current epoch."
    INVALID_TXN_STATE = 48, False, "The transaction is in an invalid state for this request."
    INVALID_PRODUCER_ID_MAPPING = (
        49,
        False,
        "The producer id does not belong to this transactional id.",
    )
    INVALID_TRANSACTION_TIMEOUT = (
        50,
        False,
        "The transaction timeout exceeds the broker's `transaction.max.timeout.ms`.",
    )
    CONCURRENT_TRANSACTIONS = (
        51,
        True,
        "The previous transaction of this producer is still ending; retry.",
    )
    TRANSACTION_COORDINATOR_FENCED = (
        52,
        False,
        "The transaction coordinator has been fenced by a newer one.",
    )
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = (
        53,
        False,
        "Not authorized to use this transactional id.",
    )
    SECURITY_DISABLED = 54, False, "Security features are disabled on the broker."
    OPERATION_NOT_ATTEMPTED = (
        55,
        False,
        "Not attempted, because an earlier part of the request failed.",
    )
    KAFKA_STORAGE_ERROR = 56, True, "Disk error in the broker while accessing the log."
    LOG_DIR_NOT_FOUND = 57, False, "The broker does not have this log directory."
    SASL_AUTHENTICATION_FAILED = 58, False, "Authentication failed: the credentials are invalid."
    UNKNOWN_PRODUCER_ID = (
        59,
        False,
        "The broker does not know this producer id: its records have expired.",
    )
    REASSIGNMENT_IN_PROGRESS = 60, False, "The partition is already being reassigned."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, False, "Delegation tokens are disabled on the broker."
    DELEGATION_TOKEN_NOT_FOUND = 62, False, "The delegation token does not exist."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, False, "The delegation token belongs to another user."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (
        64,
        False,
        "Delegation tokens cannot be requested over this connection.",
    )
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = (
        65,
        False,
        "Not authorized to access the delegation token.",
    )
    DELEGATION_TOKEN_EXPIRED = 66, False, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, False, "The type of the principal is invalid."
    NON_EMPTY_GROUP = 68, False, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, False, "The group does not exist."
    FETCH_SESSION_ID_NOT_FOUND = (
        70,
        True,
        "The fetch session was evicted; start a new one.",
    )
    INVALID_FETCH_SESSION_EPOCH = (
        71,
        True,
        "The fetch session epoch is invalid; start a new session.",
    )
    LISTENER_NOT_FOUND = (
        72,
        True,
        "The leader has no listener that matches the one of this request.",
    )
    TOPIC_DELETION_DISABLED = 73, False, "Topic deletion is disabled (`delete.topic.enable`)."
    FENCED_LEADER_EPOCH = (
        74,
        True,
        "The leader epoch is older than the broker's; refresh the metadata.",
    )
    UNKNOWN_LEADER_EPOCH = (
        75,
        True,
        "The leader epoch is newer than the broker's; retry.",
    )
    UNSUPPORTED_COMPRESSION_TYPE = (
        76,
        False,
        "The compression type is not supported in this version of the request.",
    )
    STALE_BROKER_EPOCH = 77, False, "The broker epoch is stale: the broker has restarted."
    OFFSET_NOT_AVAILABLE = (
        78,
        True,
        "The offset is not available yet, because the new leader is catching up; retry.",
    )
    MEMBER_ID_REQUIRED = (
        79,
        False,
        "The member must join again with the member id in this response.",
    )
    PREFERRED_LEADER_NOT_AVAILABLE = 80, True, "The preferred leader is not available."
    GROUP_MAX_SIZE_REACHED = 81, False, "The group has reached its maximum number of members."
    FENCED_INSTANCE_ID = (
        82,
        False,
        "The member was fenced by another member with the same instance id.",
    )
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, True, "No eligible leader is available."
    ELECTION_NOT_NEEDED = 84, True, "The partition already has the right leader."
    NO_REASSIGNMENT_IN_PROGRESS = 85, False, "The partition is not being reassigned."
    GROUP_SUBSCRIBED_TO_TOPIC = (
        86,
        False,
        "The group is subscribed to the topic, so its offsets cannot be deleted.",
    )
    INVALID_RECORD = 87, False, "A record is invalid, so the batch was rejected."
    UNSTABLE_OFFSET_COMMIT = (
        88,
        True,
        "Offsets of the group are part of an open transaction; retry.",
    )
    THROTTLING_QUOTA_EXCEEDED = 89, True, "The quota is exceeded; retry later."
    PRODUCER_FENCED = (
        90,
        False,
        "A newer producer with the same transactional id has fenced this one.",
    )
    RESOURCE_NOT_FOUND = 91, False, "The resource does not exist."
    DUPLICATE_RESOURCE = 92, False, "The request has a duplicate resource."
    UNACCEPTABLE_CREDENTIAL = 93, False, "The credential does not meet the requirements."
    INCONSISTENT_VOTER_SET = 94, False, "The voter sets of sender and receiver differ."
    INVALID_UPDATE_VERSION = 95, False, "The version to update is not the current one."
    FEATURE_UPDATE_FAILED = 96, False, "The feature could not be updated to this level."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, False, "The forwarded principal could not be decoded."
    SNAPSHOT_NOT_FOUND = 98, False, "The snapshot does not exist."
    POSITION_OUT_OF_RANGE = 99, False, "The position is outside the snapshot."
    UNKNOWN_TOPIC_ID = 100, True, "This broker does not have a topic with this id."
    DUPLICATE_BROKER_REGISTRATION = 101, False, "A broker with this id is already registered."
    BROKER_ID_NOT_REGISTERED = 102, False, "No broker with this id is registered."
    INCONSISTENT_TOPIC_ID = (
        103,
        True,
        "The topic id does not match: the topic may have been recreated.",
    )
    INCONSISTENT_CLUSTER_ID = (
        104,
        False,
        "The cluster id does not match: the request is for another cluster.",
    )
    TRANSACTIONAL_ID_NOT_FOUND = 105, False, "The transactional id does not exist."
    FETCH_SESSION_TOPIC_ID_ERROR = (
        106,
        True,
        "The fetch session mixes requests with and without topic ids; start a new one.",
    )
    INELIGIBLE_REPLICA = 107, False, "The replica cannot join the in-sync replicas."
    NEW_LEADER_ELECTED = 108, False, "The change has elected another leader."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, False, "The offset has moved to tiered storage."
    FENCED_MEMBER_EPOCH = (
        110,
        False,
        "The member epoch was fenced by the group coordinator; rejoin.",
    )
    UNRELEASED_INSTANCE_ID = 111, False, "Another member still uses this instance id."
    UNSUPPORTED_ASSIGNOR = 112, False, "The group coordinator does not support this assignor."
    STALE_MEMBER_EPOCH = (
        113,
        False,
        "The member epoch is stale; retry after the next heartbeat.",
    )
    MISMATCHED_ENDPOINT_TYPE = (
        114,
        False,
        "The request was sent to the wrong type of endpoint (broker or controller).",
    )
    UNSUPPORTED_ENDPOINT_TYPE = 115, False, "The endpoint type is not supported."
    UNKNOWN_CONTROLLER_ID = 116, False, "No controller has this id."
    UNKNOWN_SUBSCRIPTION_ID = (
        117,
        False,
        "The telemetry subscription id is invalid or outdated.",
    )
    TELEMETRY_TOO_LARGE = 118, False, "The telemetry exceeds the limit of the broker."
    INVALID_REGISTRATION = 119, False, "The registration of this controller is not valid."
    TRANSACTION_ABORTABLE = (
        120,
        False,
        "The transaction must be aborted; then the producer can continue.",
    )
    INVALID_RECORD_STATE = 121, False, "The record is in an invalid state for this request."
    SHARE_SESSION_NOT_FOUND = (
        122,
        True,
        "The share session was not found; start a new one.",
    )
    INVALID_SHARE_SESSION_EPOCH = (
        123,
        True,
        "The share session epoch is invalid; start a new session.",
    )
    FENCED_STATE_EPOCH = 124, False, "The share coordinator has a newer epoch for this state."
    INVALID_VOTER_KEY = 125, False, "The voter key does not match that of the receiver."
    DUPLICATE_VOTER = 126, False, "The voter is already in the set."
    VOTER_NOT_FOUND = 127, False, "The voter is not in the set."
    INVALID_REGULAR_EXPRESSION = 128, False, "The regular expression is invalid."
    REBOOTSTRAP_REQUIRED = 129, False, "The client must bootstrap again."
    STREAMS_INVALID_TOPOLOGY = 130, False, "The topology of the Streams application is not valid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, False, "The epoch of the Streams topology is not valid."
    STREAMS_TOPOLOGY_FENCED = (
        132,
        False,
        "The group runs a newer topology than this Streams member.",
    )
    SHARE_SESSION_LIMIT_REACHED = 133, True, "The broker has reached its limit of share sessions."


class StromError(Exception):
    """The base class of all errors that strom raises."""


class ApiError(StromError):
    """A request, or a part of one, fails with a Kafka error code."""

    def __init__(
        self, code: ErrorCode, message: str | None = None, *, records: Sequence[int] = ()
    ) -> None:
        super().__init__(message or code.text)
        self.code = code
        self.message = message or code.text
        self.records = records
        """The invalid records of a batch, counted from 0."""


class ProtocolError(StromError):
    """Bytes from a peer that do not follow the protocol; the connection is closed."""


class StorageError(StromError):
    """The disk, or the data on it, failed."""


class CorruptData(StorageError):
    """Bytes on disk that are not what was written."""


class MalformedRecords(CorruptData):
    """Records that cannot be decoded although their batch has a valid checksum.

    Only readers of that batch are affected. The log that holds it is not damaged.
    """


class DirectoryOffline(StorageError):
    """A write or sync in the data directory failed; it stays offline until a restart."""


class UserError(StromError):
    """A mistake of the user: reported in one line, with what to do about it, without a stack trace.

    `setting` is the name of the one to change; the command line adds the option that sets it.
    """

    def __init__(self, *args: object, setting: str | None = None) -> None:
        super().__init__(*args)
        self.setting = setting
