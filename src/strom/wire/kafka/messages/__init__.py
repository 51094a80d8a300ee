"""All messages, one module per api key; the tables by api key are built from the declarations."""

from strom.wire.kafka.messages.k00_produce import ProduceRequest, ProduceResponse
from strom.wire.kafka.messages.k01_fetch import FetchRequest, FetchResponse
from strom.wire.kafka.messages.k02_list_offsets import ListOffsetsRequest, ListOffsetsResponse
from strom.wire.kafka.messages.k03_metadata import MetadataRequest, MetadataResponse
from strom.wire.kafka.messages.k10_find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
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
from strom.wire.kafka.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from strom.wire.kafka.messages.k33_alter_configs import AlterConfigsRequest, AlterConfigsResponse
from strom.wire.kafka.messages.k35_describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from strom.wire.kafka.messages.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from strom.wire.kafka.messages.k44_incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from strom.wire.kafka.messages.k60_describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from strom.wire.kafka.messages.k75_describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from strom.wire.kafka.schema import Request, Response

_REQUESTS: tuple[type[Request], ...] = (
    ProduceRequest,
    FetchRequest,
    ListOffsetsRequest,
    MetadataRequest,
    FindCoordinatorRequest,
    ApiVersionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteRecordsRequest,
    InitProducerIdRequest,
    OffsetForLeaderEpochRequest,
    DescribeConfigsRequest,
    AlterConfigsRequest,
    DescribeLogDirsRequest,
    CreatePartitionsRequest,
    IncrementalAlterConfigsRequest,
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
)
_RESPONSES: tuple[type[Response], ...] = (
    ProduceResponse,
    FetchResponse,
    ListOffsetsResponse,
    MetadataResponse,
    FindCoordinatorResponse,
    ApiVersionsResponse,
    CreateTopicsResponse,
    DeleteTopicsResponse,
    DeleteRecordsResponse,
    InitProducerIdResponse,
    OffsetForLeaderEpochResponse,
    DescribeConfigsResponse,
    AlterConfigsResponse,
    DescribeLogDirsResponse,
    CreatePartitionsResponse,
    IncrementalAlterConfigsResponse,
    DescribeClusterResponse,
    DescribeTopicPartitionsResponse,
)

REQUESTS: dict[int, type[Request]] = {cls.SCHEMA.api_key: cls for cls in _REQUESTS}
RESPONSES: dict[int, type[Response]] = {cls.SCHEMA.api_key: cls for cls in _RESPONSES}
