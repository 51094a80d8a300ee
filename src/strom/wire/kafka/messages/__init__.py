"""All messages, one module per API key; the tables by API key are built from the declarations."""

from strom.wire.kafka.messages.k00_produce import ProduceRequest, ProduceResponse
from strom.wire.kafka.messages.k01_fetch import FetchRequest, FetchResponse
from strom.wire.kafka.messages.k02_list_offsets import ListOffsetsRequest, ListOffsetsResponse
from strom.wire.kafka.messages.k03_metadata import MetadataRequest, MetadataResponse
from strom.wire.kafka.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitResponse
from strom.wire.kafka.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from strom.wire.kafka.messages.k10_find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from strom.wire.kafka.messages.k11_join_group import JoinGroupRequest, JoinGroupResponse
from strom.wire.kafka.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from strom.wire.kafka.messages.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse
from strom.wire.kafka.messages.k14_sync_group import SyncGroupRequest, SyncGroupResponse
from strom.wire.kafka.messages.k15_describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from strom.wire.kafka.messages.k16_list_groups import ListGroupsRequest, ListGroupsResponse
from strom.wire.kafka.messages.k17_sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from strom.wire.kafka.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from strom.wire.kafka.messages.k19_create_topics import CreateTopicsRequest, CreateTopicsResponse
from strom.wire.kafka.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from strom.wire.kafka.messages.k21_delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from strom.wire.kafka.messages.k22_init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from strom.wire.kafka.messages.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from strom.wire.kafka.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from strom.wire.kafka.messages.k25_add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from strom.wire.kafka.messages.k26_end_txn import EndTxnRequest, EndTxnResponse
from strom.wire.kafka.messages.k27_write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from strom.wire.kafka.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from strom.wire.kafka.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from strom.wire.kafka.messages.k33_alter_configs import AlterConfigsRequest, AlterConfigsResponse
from strom.wire.kafka.messages.k35_describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from strom.wire.kafka.messages.k36_sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from strom.wire.kafka.messages.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from strom.wire.kafka.messages.k42_delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from strom.wire.kafka.messages.k44_incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from strom.wire.kafka.messages.k47_offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from strom.wire.kafka.messages.k60_describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from strom.wire.kafka.messages.k61_describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from strom.wire.kafka.messages.k65_describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from strom.wire.kafka.messages.k66_list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from strom.wire.kafka.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from strom.wire.kafka.messages.k69_consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from strom.wire.kafka.messages.k75_describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from strom.wire.kafka.messages.k76_share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from strom.wire.kafka.messages.k77_share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from strom.wire.kafka.messages.k78_share_fetch import (
    ShareFetchRequest,
    ShareFetchResponse,
)
from strom.wire.kafka.messages.k79_share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from strom.wire.kafka.messages.k90_describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from strom.wire.kafka.messages.k91_alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from strom.wire.kafka.messages.k92_delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from strom.wire.kafka.schema import Request, Response

_REQUESTS: tuple[type[Request], ...] = (
    ProduceRequest,
    FetchRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    FindCoordinatorRequest,
    JoinGroupRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
    SaslHandshakeRequest,
    ApiVersionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteRecordsRequest,
    InitProducerIdRequest,
    OffsetForLeaderEpochRequest,
    AddPartitionsToTxnRequest,
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    WriteTxnMarkersRequest,
    TxnOffsetCommitRequest,
    DescribeConfigsRequest,
    AlterConfigsRequest,
    DescribeLogDirsRequest,
    SaslAuthenticateRequest,
    CreatePartitionsRequest,
    DeleteGroupsRequest,
    IncrementalAlterConfigsRequest,
    OffsetDeleteRequest,
    DescribeClusterRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupDescribeRequest,
    DescribeTopicPartitionsRequest,
    ShareGroupHeartbeatRequest,
    ShareGroupDescribeRequest,
    ShareFetchRequest,
    ShareAcknowledgeRequest,
    DescribeShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
)
_RESPONSES: tuple[type[Response], ...] = (
    ProduceResponse,
    FetchResponse,
    ListOffsetsResponse,
    MetadataResponse,
    OffsetCommitResponse,
    OffsetFetchResponse,
    FindCoordinatorResponse,
    JoinGroupResponse,
    HeartbeatResponse,
    LeaveGroupResponse,
    SyncGroupResponse,
    DescribeGroupsResponse,
    ListGroupsResponse,
    SaslHandshakeResponse,
    ApiVersionsResponse,
    CreateTopicsResponse,
    DeleteTopicsResponse,
    DeleteRecordsResponse,
    InitProducerIdResponse,
    OffsetForLeaderEpochResponse,
    AddPartitionsToTxnResponse,
    AddOffsetsToTxnResponse,
    EndTxnResponse,
    WriteTxnMarkersResponse,
    TxnOffsetCommitResponse,
    DescribeConfigsResponse,
    AlterConfigsResponse,
    DescribeLogDirsResponse,
    SaslAuthenticateResponse,
    CreatePartitionsResponse,
    DeleteGroupsResponse,
    IncrementalAlterConfigsResponse,
    OffsetDeleteResponse,
    DescribeClusterResponse,
    DescribeProducersResponse,
    DescribeTransactionsResponse,
    ListTransactionsResponse,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupDescribeResponse,
    DescribeTopicPartitionsResponse,
    ShareGroupHeartbeatResponse,
    ShareGroupDescribeResponse,
    ShareFetchResponse,
    ShareAcknowledgeResponse,
    DescribeShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponse,
)

REQUESTS: dict[int, type[Request]] = {cls.SCHEMA.api_key: cls for cls in _REQUESTS}
RESPONSES: dict[int, type[Response]] = {cls.SCHEMA.api_key: cls for cls in _RESPONSES}
