"""What can go wrong, in one place.

StromError
├── ApiError            a Kafka error code, with a text for the client
├── QueueError          a request that queues refuse, with the reason (`queues/errors.py`)
├── ProtocolError       bytes that do not follow the protocol
│   └── AmqpError       with a reply code for the client (`wire/amqp/protocol.py`)
├── StorageError        the disk or the data on it
│   ├── CorruptData     bytes on disk that are not what was written
│   │   └── MalformedRecords  a batch as it was written, whose records cannot be decoded
│   └── DirectoryOffline  a write or sync failed; nothing in it can be trusted until a restart
└── UserError           a mistake of the user, told in one line with what to do about it
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Self


class ErrorCode(IntEnum):
    """Kafka's error codes: number, whether a client may retry, and what it means."""

    retriable: bool
    text: str

    def __new__(cls, code: int, retriable: bool, text: str) -> Self:
        """Make a member that equals its number and carries the rest as attributes."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.retriable = retriable
        member.text = text
        return member

    UNKNOWN_SERVER_ERROR = (
        -1,
        False,
        "The broker failed in a way it did not expect; its log says more.",
    )
    NONE = 0, False, "All is well."
    OFFSET_OUT_OF_RANGE = (
        1,
        False,
        "The partition has no such offset: it was deleted, or not written yet.",
    )
    CORRUPT_MESSAGE = (
        2,
        True,
        "The records were damaged on the way: their checksum or their form is wrong.",
    )
    UNKNOWN_TOPIC_OR_PARTITION = 3, True, "This broker has no such topic or partition."
    INVALID_FETCH_SIZE = 4, False, "The number of bytes to fetch is not possible."
    LEADER_NOT_AVAILABLE = 5, True, "The partition has no leader at the moment."
    NOT_LEADER_OR_FOLLOWER = (
        6,
        True,
        "This broker does not lead, or does not hold, the partition; look up who does.",
    )
    REQUEST_TIMED_OUT = 7, True, "The work was not done in the time allowed."
    BROKER_NOT_AVAILABLE = 8, False, "The broker cannot be reached."
    REPLICA_NOT_AVAILABLE = 9, True, "The copy of the partition cannot be used at the moment."
    MESSAGE_TOO_LARGE = 10, False, "The batch is larger than the topic's `max.message.bytes`."
    STALE_CONTROLLER_EPOCH = 11, False, "The controller that sent this was replaced by another."
    OFFSET_METADATA_TOO_LARGE = (
        12,
        False,
        "The text stored beside the committed offset is too long.",
    )
    NETWORK_EXCEPTION = 13, True, "The connection broke before the answer was there."
    COORDINATOR_LOAD_IN_PROGRESS = (
        14,
        True,
        "The coordinator is still reading its state; try again soon.",
    )
    COORDINATOR_NOT_AVAILABLE = 15, True, "There is no coordinator at the moment."
    NOT_COORDINATOR = (
        16,
        True,
        "Another broker coordinates this group or transaction; look up which.",
    )
    INVALID_TOPIC_EXCEPTION = (
        17,
        False,
        "The topic name is not allowed, or the topic is not open to clients.",
    )
    RECORD_LIST_TOO_LARGE = 18, False, "The batch is larger than a log segment may be."
    NOT_ENOUGH_REPLICAS = (
        19,
        True,
        "Too few in-sync replicas are there to take the write; nothing was written.",
    )
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        True,
        "The records were written, but to fewer in-sync replicas than asked for.",
    )
    INVALID_REQUIRED_ACKS = 21, False, "`acks` must be 0, 1 or -1 (all)."
    ILLEGAL_GENERATION = 22, False, "The member's generation is not the group's current one."
    INCONSISTENT_GROUP_PROTOCOL = (
        23,
        False,
        "The member's protocols do not fit those of the rest of the group.",
    )
    INVALID_GROUP_ID = 24, False, "The group id is empty or not allowed."
    UNKNOWN_MEMBER_ID = 25, False, "The group does not know this member; it has to join again."
    INVALID_SESSION_TIMEOUT = 26, False, "The session timeout is outside of what the broker allows."
    REBALANCE_IN_PROGRESS = 27, False, "The group is sharing out its partitions anew; join again."
    INVALID_COMMIT_OFFSET_SIZE = 28, False, "The commit is too large for the offsets topic."
    TOPIC_AUTHORIZATION_FAILED = 29, False, "You are not allowed to do this with the topic."
    GROUP_AUTHORIZATION_FAILED = 30, False, "You are not allowed to do this with the group."
    CLUSTER_AUTHORIZATION_FAILED = 31, False, "You are not allowed to do this with the cluster."
    INVALID_TIMESTAMP = 32, False, "A record's timestamp is too far from the broker's time."
    UNSUPPORTED_SASL_MECHANISM = 33, False, "The broker does not offer this SASL mechanism."
    ILLEGAL_SASL_STATE = (
        34,
        False,
        "This request is not expected in the present step of the SASL exchange.",
    )
    UNSUPPORTED_VERSION = 35, False, "The broker does not offer this request in this version."
    TOPIC_ALREADY_EXISTS = 36, False, "A topic of this name exists already."
    INVALID_PARTITIONS = 37, False, "The number of partitions is not possible."
    INVALID_REPLICATION_FACTOR = (
        38,
        False,
        "The replication factor is below one, or there are not that many brokers.",
    )
    INVALID_REPLICA_ASSIGNMENT = 39, False, "The replicas cannot be placed on these brokers."
    INVALID_CONFIG = 40, False, "A setting has a name or a value that is not allowed."
    NOT_CONTROLLER = 41, True, "This broker is not the controller; look up which one is."
    INVALID_REQUEST = 42, False, "The request contradicts itself or lacks a part."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, False, "The records' format is too old for this."
    POLICY_VIOLATION = 44, False, "A rule of the operator forbids this."
    OUT_OF_ORDER_SEQUENCE_NUMBER = (
        45,
        False,
        "A producer's sequence number left a gap: records before these are missing.",
    )
    DUPLICATE_SEQUENCE_NUMBER = (
        46,
        False,
        "A producer sent these records before; they are stored once.",
    )
    INVALID_PRODUCER_EPOCH = 47, False, "A newer producer with the same id has taken over."
    INVALID_TXN_STATE = 48, False, "The transaction is not in a state that allows this."
    INVALID_PRODUCER_ID_MAPPING = (
        49,
        False,
        "The producer id does not belong to this transactional id.",
    )
    INVALID_TRANSACTION_TIMEOUT = (
        50,
        False,
        "The transaction timeout is longer than the broker's `transaction.max.timeout.ms`.",
    )
    CONCURRENT_TRANSACTIONS = (
        51,
        True,
        "The previous transaction of this producer is still being ended; try again soon.",
    )
    TRANSACTION_COORDINATOR_FENCED = (
        52,
        False,
        "Another broker has become this transaction's coordinator.",
    )
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = (
        53,
        False,
        "You are not allowed to use this transactional id.",
    )
    SECURITY_DISABLED = 54, False, "The broker runs without the security that this needs."
    OPERATION_NOT_ATTEMPTED = (
        55,
        False,
        "Nothing was tried, because an earlier part of the request failed.",
    )
    KAFKA_STORAGE_ERROR = 56, True, "The broker's disk failed while it read or wrote the log."
    LOG_DIR_NOT_FOUND = 57, False, "The broker has no such data directory."
    SASL_AUTHENTICATION_FAILED = 58, False, "The credentials are wrong."
    UNKNOWN_PRODUCER_ID = (
        59,
        False,
        "The broker no longer knows this producer id: its records have expired.",
    )
    REASSIGNMENT_IN_PROGRESS = 60, False, "The partition is being moved already."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, False, "The broker does not use delegation tokens."
    DELEGATION_TOKEN_NOT_FOUND = 62, False, "The broker does not know this delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, False, "The delegation token belongs to someone else."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (
        64,
        False,
        "Delegation tokens are not handed out over a connection like this one.",
    )
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = (
        65,
        False,
        "You are not allowed to do this with the delegation token.",
    )
    DELEGATION_TOKEN_EXPIRED = 66, False, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, False, "A principal of this type cannot be used here."
    NON_EMPTY_GROUP = 68, False, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, False, "There is no such group."
    FETCH_SESSION_ID_NOT_FOUND = (
        70,
        True,
        "The broker has forgotten the fetch session; start a new one.",
    )
    INVALID_FETCH_SESSION_EPOCH = (
        71,
        True,
        "The fetch session's requests came out of order; start a new one.",
    )
    LISTENER_NOT_FOUND = (
        72,
        True,
        "The leader has no listener of the kind that this request came in on.",
    )
    TOPIC_DELETION_DISABLED = 73, False, "The operator has switched the deletion of topics off."
    FENCED_LEADER_EPOCH = (
        74,
        True,
        "The client's leader epoch is older than the broker's; refresh the metadata.",
    )
    UNKNOWN_LEADER_EPOCH = (
        75,
        True,
        "The client's leader epoch is newer than the broker's; try again soon.",
    )
    UNSUPPORTED_COMPRESSION_TYPE = (
        76,
        False,
        "The compression is not supported in this version of the request.",
    )
    STALE_BROKER_EPOCH = 77, False, "The broker was restarted since this was sent."
    OFFSET_NOT_AVAILABLE = (
        78,
        True,
        "The offset cannot be told yet, because a new leader is still catching up.",
    )
    MEMBER_ID_REQUIRED = 79, False, "The member has to join again with the id it was just given."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, True, "The preferred leader is not there to take over."
    GROUP_MAX_SIZE_REACHED = 81, False, "The group has as many members as it may have."
    FENCED_INSTANCE_ID = 82, False, "Another member has joined with the same instance id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, True, "None of the replicas that may lead is there."
    ELECTION_NOT_NEEDED = 84, True, "The partition has the right leader already."
    NO_REASSIGNMENT_IN_PROGRESS = 85, False, "The partition is not being moved."
    GROUP_SUBSCRIBED_TO_TOPIC = (
        86,
        False,
        "The group still reads this topic, so its offsets cannot be deleted.",
    )
    INVALID_RECORD = 87, False, "A record breaks a rule of its topic; the whole batch was refused."
    UNSTABLE_OFFSET_COMMIT = (
        88,
        True,
        "Offsets of the group are part of a transaction that is still open; try again soon.",
    )
    THROTTLING_QUOTA_EXCEEDED = 89, True, "You have used up your quota; try again later."
    PRODUCER_FENCED = 90, False, "A newer producer with the same transactional id has taken over."
    RESOURCE_NOT_FOUND = 91, False, "There is no such thing."
    DUPLICATE_RESOURCE = 92, False, "The same thing is named twice in the request."
    UNACCEPTABLE_CREDENTIAL = 93, False, "The credential does not meet the requirements."
    INCONSISTENT_VOTER_SET = 94, False, "Sender and receiver disagree on who may vote."
    INVALID_UPDATE_VERSION = 95, False, "The version to update from is not the present one."
    FEATURE_UPDATE_FAILED = 96, False, "The feature could not be brought to this level."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, False, "The forwarded principal could not be read."
    SNAPSHOT_NOT_FOUND = 98, False, "There is no such snapshot."
    POSITION_OUT_OF_RANGE = 99, False, "The snapshot does not reach to this position."
    UNKNOWN_TOPIC_ID = 100, True, "This broker has no topic with this id."
    DUPLICATE_BROKER_REGISTRATION = 101, False, "A broker with this id is registered already."
    BROKER_ID_NOT_REGISTERED = 102, False, "No broker with this id is registered."
    INCONSISTENT_TOPIC_ID = (
        103,
        True,
        "The topic's id is not what it was: it may have been deleted and created again.",
    )
    INCONSISTENT_CLUSTER_ID = 104, False, "The request was meant for another cluster."
    TRANSACTIONAL_ID_NOT_FOUND = 105, False, "There is no such transactional id."
    FETCH_SESSION_TOPIC_ID_ERROR = (
        106,
        True,
        "The fetch session mixes requests with and without topic ids; start a new one.",
    )
    INELIGIBLE_REPLICA = 107, False, "The replica may not be counted as in sync."
    NEW_LEADER_ELECTED = 108, False, "The change made another replica the leader."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, False, "The offset has moved to tiered storage."
    FENCED_MEMBER_EPOCH = (
        110,
        False,
        "The group's coordinator has put this member out; it has to join again.",
    )
    UNRELEASED_INSTANCE_ID = 111, False, "Another member still holds this instance id."
    UNSUPPORTED_ASSIGNOR = 112, False, "The group's coordinator does not know this assignor."
    STALE_MEMBER_EPOCH = (
        113,
        False,
        "The member's epoch is old; it has to wait for its next heartbeat.",
    )
    MISMATCHED_ENDPOINT_TYPE = (
        114,
        False,
        "The request came to a broker but is for a controller, or the reverse.",
    )
    UNSUPPORTED_ENDPOINT_TYPE = 115, False, "This kind of endpoint is not known."
    UNKNOWN_CONTROLLER_ID = 116, False, "There is no controller with this id."
    UNKNOWN_SUBSCRIPTION_ID = (
        117,
        False,
        "The client uses a metrics subscription that is no longer valid.",
    )
    TELEMETRY_TOO_LARGE = 118, False, "The metrics are larger than the broker takes."
    INVALID_REGISTRATION = 119, False, "The registration of this controller is not valid."
    TRANSACTION_ABORTABLE = (
        120,
        False,
        "The transaction failed: abort it, then the producer can go on.",
    )
    INVALID_RECORD_STATE = 121, False, "The record is not in a state that allows this."
    SHARE_SESSION_NOT_FOUND = (
        122,
        True,
        "The broker has forgotten the share session; start a new one.",
    )
    INVALID_SHARE_SESSION_EPOCH = (
        123,
        True,
        "The share session's requests came out of order; start a new one.",
    )
    FENCED_STATE_EPOCH = 124, False, "The share coordinator has a newer epoch for this state."
    INVALID_VOTER_KEY = 125, False, "The voter's key is not that of the receiver."
    DUPLICATE_VOTER = 126, False, "The voter is in the set already."
    VOTER_NOT_FOUND = 127, False, "The voter is not in the set."
    INVALID_REGULAR_EXPRESSION = 128, False, "The regular expression cannot be understood."
    REBOOTSTRAP_REQUIRED = 129, False, "The client has to start again from its bootstrap addresses."
    STREAMS_INVALID_TOPOLOGY = 130, False, "The topology of the Streams application is not valid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, False, "The epoch of the Streams topology is not valid."
    STREAMS_TOPOLOGY_FENCED = (
        132,
        False,
        "The group runs a newer topology than this Streams member.",
    )
    SHARE_SESSION_LIMIT_REACHED = 133, True, "The broker has as many share sessions as it may have."


class StromError(Exception):
    """Root of everything strom raises on purpose."""


class ApiError(StromError):
    """A request, or a part of one, that is answered with a Kafka error code."""

    def __init__(
        self, code: ErrorCode, message: str | None = None, *, records: Sequence[int] = ()
    ) -> None:
        super().__init__(message or code.text)
        self.code = code
        self.message = message or code.text
        self.records = records
        """Which records of a batch are to blame, counted from 0."""


class ProtocolError(StromError):
    """Bytes from a peer that do not follow the protocol; the connection is closed."""


class StorageError(StromError):
    """The disk, or the data on it, failed us."""


class CorruptData(StorageError):
    """Bytes on disk that are not what was written."""


class MalformedRecords(CorruptData):
    """Records that cannot be decoded although their batch may be just what a client sent.

    Only the readers of that batch have a problem. The log that holds it is sound.
    """


class DirectoryOffline(StorageError):
    """A write or sync in the data directory failed; it stays offline until a restart."""


class UserError(StromError):
    """A mistake of the user: told in one line, with what to do about it, never as a stack trace."""
