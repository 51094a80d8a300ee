"""Every metric follows the naming scheme, and every row fits its table."""

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import strom.metrics
from strom.metrics import connect, groups, http, queues, registry, requests, storage, views
from strom.metrics.catalogue import SUBSYSTEMS, all_metrics
from strom.metrics.tables import MetricTable

UNITS = ("_seconds", "_bytes", "_info", "_records", "_offset")
READINGS = {
    requests.RequestReading: requests.REQUESTS,
    requests.ErrorReading: requests.ERRORS,
    storage.FlushReading: storage.FLUSHES,
    storage.CleaningReading: storage.CLEANING,
    storage.DirectoryReading: storage.DIRECTORY,
    groups.GroupsReading: groups.GROUPS,
    groups.LagReading: groups.OFFSETS,
    groups.ShareLagReading: groups.SHARES,
    groups.OpenTransactionsReading: groups.OPEN_TRANSACTIONS,
    queues.QueueReading: queues.QUEUES,
    queues.AmqpReading: queues.AMQP,
    registry.RegistryReading: registry.REGISTRY,
    connect.TaskReading: connect.TASKS,
    views.ViewReading: views.VIEWS,
    views.StreamReading: views.STREAMS,
    http.HttpReading: http.HTTP,
}


@pytest.mark.parametrize("metric", [one for _, one in all_metrics()], ids=lambda one: one.name)
def test_it_is_named_by_the_scheme(metric):
    assert re.fullmatch(r"strom_[a-z0-9]+(_[a-z0-9]+)*", metric.name)
    assert not metric.name.endswith("_total"), "the suffix is added"
    assert metric.doc.endswith(".")
    if metric.kind == "histogram":
        assert metric.name.endswith((*UNITS, "_partitions")), "the unit is the last word"


def test_no_name_is_declared_twice():
    names = [metric.exposed_name for _, metric in all_metrics()]
    assert len(names) == len(set(names))


def test_every_table_of_every_module_is_in_the_catalogue():
    listed = {table for tables in SUBSYSTEMS.values() for table in tables}
    folder = Path(strom.metrics.__file__).parent
    declared = {
        value
        for path in folder.glob("*.py")
        for _, value in inspect.getmembers(import_module(f"strom.metrics.{path.stem}"))
        if isinstance(value, MetricTable)
    }
    assert declared == listed


@pytest.mark.parametrize(("reading", "table"), READINGS.items(), ids=lambda one: str(one)[-30:])
def test_a_row_has_a_value_for_each_label_and_metric(reading, table):
    assert len(reading._fields) == len(table.labels) + len(table.metrics)
    assert reading._fields[: len(table.labels)] == table.labels


def test_labels_that_users_choose_are_capped():
    fixed = {
        "request",
        "error",
        "listener",
        "reason",
        "type",
        "state",
        "result",
        "format",
        "version",
        "python",
        *("server", "route", "method", "status"),
    }
    for table, metric in all_metrics():
        if table.ranked_by is None:
            assert fixed.issuperset(table.labels), metric.name
