"""What metrics read of a registry."""

from collections import Counter
from collections.abc import Iterator

from strom.metrics.exposition import MetricsRegistry
from strom.metrics.http import HTTP, HttpStats
from strom.metrics.registry import REGISTRY, SCHEMAS, RegistryReading
from strom.metrics.tables import TableCollector
from strom.registry.registry import Registry


def make_registry_metrics(registry: Registry, requests: HttpStats) -> MetricsRegistry:
    """The metrics of one instance; its schemas are those of all that share a topic."""

    def read_registry() -> Iterator[RegistryReading]:
        with registry.reading() as subjects:
            versions = list(subjects.all_versions(deleted=True))
            names = len(subjects.subjects())
            schemas = len(subjects.contents())
        deleted = sum(one.deleted for one in versions)
        has_failed = registry.log.failure is not None
        yield RegistryReading(names, len(versions) - deleted, deleted, schemas, has_failed)

    def read_schemas() -> Iterator[tuple[str, int]]:
        with registry.reading() as subjects:
            contents = subjects.contents()
        yield from Counter(content.kind for content in contents).items()

    tables = {REGISTRY: read_registry, SCHEMAS: read_schemas, HTTP: requests.read}
    return MetricsRegistry([TableCollector(tables)])
