"""Metrics of the schema registry."""

from typing import NamedTuple

from strom.metrics.tables import MetricTable, gauge

REGISTRY = MetricTable(
    (),
    (
        gauge("strom_registry_subjects", "Subjects with at least one version."),
        gauge("strom_registry_versions", "Versions of all subjects.", "registered-count"),
        gauge(
            "strom_registry_deleted_versions", "Versions that are soft-deleted.", "deleted-count"
        ),
        gauge("strom_registry_schemas", "Different schemas, each with an id."),
        gauge(
            "strom_registry_failed",
            "1 after the topic of schemas could not be followed: requests are refused.",
        ),
    ),
)
SCHEMAS = MetricTable(
    ("format",), (gauge("strom_registry_schemas_by_format", "Different schemas by format."),)
)
TABLES = (REGISTRY, SCHEMAS)


class RegistryReading(NamedTuple):
    """The row of REGISTRY."""

    subjects: int
    versions: int
    deleted_versions: int
    schemas: int
    has_failed: bool
