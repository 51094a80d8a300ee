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

RETRIABLE = True


class ErrorCode(IntEnum):
    """Kafka's error codes: number, what it means, and whether a client may retry."""

    text: str
    retriable: bool

    def __new__(cls, code: int, text: str, retriable: bool = False) -> Self:
        """Make a member that equals its code, with the rest as attributes."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.text = text
        member.retriable = retriable
        return member

    UNKNOWN_SERVER_ERROR = -1, "The broker had an unexpected error; see its log."
    NONE = 0, "No error."
    OFFSET_OUT_OF_RANGE = (
        1,
        "The offset is outside the partition: it was deleted, or not written yet.",
    )
    CORRUPT_MESSAGE = 2, "The records are corrupt: their checksum or format is invalid.", RETRIABLE
    UNKNOWN_TOPIC_OR_PARTITION = 3, "This broker does not have this topic or partition.", RETRIABLE
    INVALID_FETCH_SIZE = 4, "The fetch size is invalid."
    LEADER_NOT_AVAILABLE = 5, "The partition has no leader at the moment.", RETRIABLE
    NOT_LEADER_OR_FOLLOWER = (
        6,
        "This broker is not the leader or a replica of the partition; refresh the metadata.",
        RETRIABLE,
    )
    REQUEST_TIMED_OUT = 7, "The request timed out.", RETRIABLE
    BROKER_NOT_AVAILABLE = 8, "The broker cannot be reached."
    REPLICA_NOT_AVAILABLE = 9, "The replica is not available at the moment.", RETRIABLE
    MESSAGE_TOO_LARGE = 10, "The batch exceeds the topic's `max.message.bytes`."
    STALE_CONTROLLER_EPOCH = 11, "The controller that sent this has been replaced."
    OFFSET_METADATA_TOO_LARGE = (
        12,
        "The metadata of the committed offset exceeds `offset.metadata.max.bytes`.",
    )
    NETWORK_EXCEPTION = 13, "The connection was closed before the response arrived.", RETRIABLE
    COORDINATOR_LOAD_IN_PROGRESS = (
        14,
        "The coordinator is still loading its state; retry.",
        RETRIABLE,
    )
    COORDINATOR_NOT_AVAILABLE = 15, "The coordinator is not available at the moment.", RETRIABLE
    NOT_COORDINATOR = (
        16,
        "This broker is not the coordinator; find the coordinator again.",
        RETRIABLE,
    )
    INVALID_TOPIC_EXCEPTION = 17, "The topic name is invalid, or the topic is internal."
    RECORD_LIST_TOO_LARGE = 18, "The batch exceeds the topic's `segment.bytes`."
    NOT_ENOUGH_REPLICAS = 19, "There are too few in-sync replicas; nothing was written.", RETRIABLE
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        "The records were written, but to fewer in-sync replicas than required.",
        RETRIABLE,
    )
    INVALID_REQUIRED_ACKS = 21, "`acks` must be 0, 1 or -1 (all)."
    ILLEGAL_GENERATION = 22, "The generation is not the current generation of the group."
    INCONSISTENT_GROUP_PROTOCOL = (
        23,
        "The member's protocols are not compatible with those of the group.",
    )
    INVALID_GROUP_ID = 24, "The group id is invalid."
    UNKNOWN_MEMBER_ID = 25, "The group does not have this member; it must rejoin."
    INVALID_SESSION_TIMEOUT = 26, "The session timeout is outside the limits of the broker."
    REBALANCE_IN_PROGRESS = 27, "The group is rebalancing; rejoin."
    INVALID_COMMIT_OFFSET_SIZE = 28, "The commit exceeds the limit of the offsets topic."
    TOPIC_AUTHORIZATION_FAILED = 29, "Not authorized to access the topic."
    GROUP_AUTHORIZATION_FAILED = 30, "Not authorized to access the group."
    CLUSTER_AUTHORIZATION_FAILED = 31, "Not authorized to access the cluster."
    INVALID_TIMESTAMP = 32, "The timestamp of a record is out of range."
    UNSUPPORTED_SASL_MECHANISM = 33, "The broker does not support this SASL mechanism."
    ILLEGAL_SASL_STATE = 34, "The request is invalid in the current SASL state."
    UNSUPPORTED_VERSION = 35, "The broker does not support this version of the request."
    TOPIC_ALREADY_EXISTS = 36, "A topic with this name already exists."
    INVALID_PARTITIONS = 37, "The number of partitions is invalid."
    INVALID_REPLICATION_FACTOR = (
        38,
        "The replication factor is below 1, or exceeds the number of brokers.",
    )
    INVALID_REPLICA_ASSIGNMENT = 39, "The replica assignment is invalid."
    INVALID_CONFIG = 40, "The name or value of a setting is invalid."
    NOT_CONTROLLER = 41, "This broker is not the controller; refresh the metadata.", RETRIABLE
    INVALID_REQUEST = 42, "The request is inconsistent or incomplete."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "The record format does not support this."
    POLICY_VIOLATION = 44, "The request violates a policy of the broker."
    OUT_OF_ORDER_SEQUENCE_NUMBER = (
        45,
        "The sequence number is out of order: earlier records are missing.",
    )
    DUPLICATE_SEQUENCE_NUMBER = (
        46,
        "The sequence number is a duplicate: the records are already stored.",
    )
    INVALID_PRODUCER_EPOCH = 47, "The producer epoch is older than the current epoch."
    INVALID_TXN_STATE = 48, "The transaction is in an invalid state for this request."
    INVALID_PRODUCER_ID_MAPPING = 49, "The producer id does not belong to this transactional id."
    INVALID_TRANSACTION_TIMEOUT = (
        50,
        "The transaction timeout exceeds the broker's `transaction.max.timeout.ms`.",
    )
    CONCURRENT_TRANSACTIONS = (
        51,
        "The previous transaction of this producer is still ending; retry.",
        RETRIABLE,
    )
    TRANSACTION_COORDINATOR_FENCED = (
        52,
        "The transaction coordinator has been fenced by a newer one.",
    )
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "Not authorized to use this transactional id."
    SECURITY_DISABLED = 54, "Security features are disabled on the broker."
    OPERATION_NOT_ATTEMPTED = 55, "Not attempted, because an earlier part of the request failed."
    KAFKA_STORAGE_ERROR = 56, "Disk error in the broker while accessing the log.", RETRIABLE
    LOG_DIR_NOT_FOUND = 57, "The broker does not have this log directory."
    SASL_AUTHENTICATION_FAILED = 58, "Authentication failed: the credentials are invalid."
    UNKNOWN_PRODUCER_ID = 59, "The broker does not know this producer id: its records have expired."
    REASSIGNMENT_IN_PROGRESS = 60, "The partition is already being reassigned."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "Delegation tokens are disabled on the broker."
    DELEGATION_TOKEN_NOT_FOUND = 62, "The delegation token does not exist."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "The delegation token belongs to another user."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (
        64,
        "Delegation tokens cannot be requested over this connection.",
    )
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "Not authorized to access the delegation token."
    DELEGATION_TOKEN_EXPIRED = 66, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, "The type of the principal is invalid."
    NON_EMPTY_GROUP = 68, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, "The group does not exist."
    FETCH_SESSION_ID_NOT_FOUND = 70, "The fetch session was evicted; start a new one.", RETRIABLE
    INVALID_FETCH_SESSION_EPOCH = (
        71,
        "The fetch session epoch is invalid; start a new session.",
        RETRIABLE,
    )
    LISTENER_NOT_FOUND = (
        72,
        "The leader has no listener that matches the one of this request.",
        RETRIABLE,
    )
    TOPIC_DELETION_DISABLED = 73, "Topic deletion is disabled (`delete.topic.enable`)."
    FENCED_LEADER_EPOCH = (
        74,
        "The leader epoch is older than the broker's; refresh the metadata.",
        RETRIABLE,
    )
    UNKNOWN_LEADER_EPOCH = 75, "The leader epoch is newer than the broker's; retry.", RETRIABLE
    UNSUPPORTED_COMPRESSION_TYPE = (
        76,
        "The compression type is not supported in this version of the request.",
    )
    STALE_BROKER_EPOCH = 77, "The broker epoch is stale: the broker has restarted."
    OFFSET_NOT_AVAILABLE = (
        78,
        "The offset is not available yet, because the new leader is catching up; retry.",
        RETRIABLE,
    )
    MEMBER_ID_REQUIRED = 79, "The member must join again with the member id in this response."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "The preferred leader is not available.", RETRIABLE
    GROUP_MAX_SIZE_REACHED = 81, "The group has reached its maximum number of members."
    FENCED_INSTANCE_ID = 82, "The member was fenced by another member with the same instance id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "No eligible leader is available.", RETRIABLE
    ELECTION_NOT_NEEDED = 84, "The partition already has the right leader.", RETRIABLE
    NO_REASSIGNMENT_IN_PROGRESS = 85, "The partition is not being reassigned."
    GROUP_SUBSCRIBED_TO_TOPIC = (
        86,
        "The group is subscribed to the topic, so its offsets cannot be deleted.",
    )
    INVALID_RECORD = 87, "A record is invalid, so the batch was rejected."
    UNSTABLE_OFFSET_COMMIT = (
        88,
        "Offsets of the group are part of an open transaction; retry.",
        RETRIABLE,
    )
    THROTTLING_QUOTA_EXCEEDED = 89, "The quota is exceeded; retry later.", RETRIABLE
    PRODUCER_FENCED = 90, "A newer producer with the same transactional id has fenced this one."
    RESOURCE_NOT_FOUND = 91, "The resource does not exist."
    DUPLICATE_RESOURCE = 92, "The request has a duplicate resource."
    UNACCEPTABLE_CREDENTIAL = 93, "The credential does not meet the requirements."
    INCONSISTENT_VOTER_SET = 94, "The voter sets of sender and receiver differ."
    INVALID_UPDATE_VERSION = 95, "The version to update is not the current one."
    FEATURE_UPDATE_FAILED = 96, "The feature could not be updated to this level."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "The forwarded principal could not be decoded."
    SNAPSHOT_NOT_FOUND = 98, "The snapshot does not exist."
    POSITION_OUT_OF_RANGE = 99, "The position is outside the snapshot."
    UNKNOWN_TOPIC_ID = 100, "This broker does not have a topic with this id.", RETRIABLE
    DUPLICATE_BROKER_REGISTRATION = 101, "A broker with this id is already registered."
    BROKER_ID_NOT_REGISTERED = 102, "No broker with this id is registered."
    INCONSISTENT_TOPIC_ID = (
        103,
        "The topic id does not match: the topic may have been recreated.",
        RETRIABLE,
    )
    INCONSISTENT_CLUSTER_ID = (
        104,
        "The cluster id does not match: the request is for another cluster.",
    )
    TRANSACTIONAL_ID_NOT_FOUND = 105, "The transactional id does not exist."
    FETCH_SESSION_TOPIC_ID_ERROR = (
        106,
        "The fetch session mixes requests with and without topic ids; start a new one.",
        RETRIABLE,
    )
    INELIGIBLE_REPLICA = 107, "The replica cannot join the in-sync replicas."
    NEW_LEADER_ELECTED = 108, "The change has elected another leader."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "The offset has moved to tiered storage."
    FENCED_MEMBER_EPOCH = 110, "The member epoch was fenced by the group coordinator; rejoin."
    UNRELEASED_INSTANCE_ID = 111, "Another member still uses this instance id."
    UNSUPPORTED_ASSIGNOR = 112, "The group coordinator does not support this assignor."
    STALE_MEMBER_EPOCH = 113, "The member epoch is stale; retry after the next heartbeat."
    MISMATCHED_ENDPOINT_TYPE = (
        114,
        "The request was sent to the wrong type of endpoint (broker or controller).",
    )
    UNSUPPORTED_ENDPOINT_TYPE = 115, "The endpoint type is not supported."
    UNKNOWN_CONTROLLER_ID = 116, "No controller has this id."
    UNKNOWN_SUBSCRIPTION_ID = 117, "The telemetry subscription id is invalid or outdated."
    TELEMETRY_TOO_LARGE = 118, "The telemetry exceeds the limit of the broker."
    INVALID_REGISTRATION = 119, "The registration of this controller is not valid."
    TRANSACTION_ABORTABLE = 120, "The transaction must be aborted; then the producer can continue."
    INVALID_RECORD_STATE = 121, "The record is in an invalid state for this request."
    SHARE_SESSION_NOT_FOUND = 122, "The share session was not found; start a new one.", RETRIABLE
    INVALID_SHARE_SESSION_EPOCH = (
        123,
        "The share session epoch is invalid; start a new session.",
        RETRIABLE,
    )
    FENCED_STATE_EPOCH = 124, "The share coordinator has a newer epoch for this state."
    INVALID_VOTER_KEY = 125, "The voter key does not match that of the receiver."
    DUPLICATE_VOTER = 126, "The voter is already in the set."
    VOTER_NOT_FOUND = 127, "The voter is not in the set."
    INVALID_REGULAR_EXPRESSION = 128, "The regular expression is invalid."
    REBOOTSTRAP_REQUIRED = 129, "The client must bootstrap again."
    STREAMS_INVALID_TOPOLOGY = 130, "The topology of the Streams application is not valid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "The epoch of the Streams topology is not valid."
    STREAMS_TOPOLOGY_FENCED = 132, "The group runs a newer topology than this Streams member."
    SHARE_SESSION_LIMIT_REACHED = (
        133,
        "The broker has reached its limit of share sessions.",
        RETRIABLE,
    )


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
