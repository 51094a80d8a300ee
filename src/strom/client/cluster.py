"""Cluster metadata: its id, and the configurations of brokers and topics."""

from typing import TYPE_CHECKING, Any

from strom.client.kafka_errors import NO_RESPONSE, error_name

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


def cluster_id(client: "AdminClient", timeout_s: float) -> str | None:
    """The cluster id; None if the brokers are too old to have one (before Kafka 0.10.1).

    Raises KafkaException, with a name of NO_RESPONSE, if no broker responds.
    """
    from confluent_kafka import KafkaException

    try:
        found = client.describe_cluster(request_timeout=timeout_s).result()
    except KafkaException as error:
        if error_name(error) in NO_RESPONSE:
            raise
        return None
    return found.cluster_id or None


def broker_config(client: "AdminClient", timeout_s: float) -> dict[str, str]:
    """The configuration of the first broker that the cluster lists; empty if it lists none."""
    from confluent_kafka.admin import ConfigResource, ResourceType

    nodes = client.describe_cluster(request_timeout=timeout_s).result().nodes
    if not nodes:
        return {}
    return _config(client, ConfigResource(ResourceType.BROKER, nodes[0].id_string), timeout_s)


def topic_config(client: "AdminClient", name: str, timeout_s: float) -> dict[str, str]:
    """The configuration of a topic, defaults included."""
    from confluent_kafka.admin import ConfigResource, ResourceType

    return _config(client, ConfigResource(ResourceType.TOPIC, name), timeout_s)


def _config(client: "AdminClient", resource: Any, timeout_s: float) -> dict[str, str]:
    found = client.describe_configs([resource], request_timeout=timeout_s)[resource].result()
    return {name: entry.value for name, entry in found.items() if entry.value is not None}
