"""The dashboard and the alert rules ask only for what processes of strom expose."""

import json
import re
from pathlib import Path

import click
import pytest
import yaml  # type: ignore[import-untyped]

from strom.cli.program import program
from strom.metrics.catalogue import all_metrics, series_names
from strom.metrics.http import HttpStats
from strom.pipelines.measurements import make_view_metrics
from strom.registry.server import RegistryServer
from strom.testing import LocalBroker
from tests.connect.runtime.workers import embedded_worker
from tests.metrics.scraping import Scraped, scrape
from tests.pipelines.measured import measured_runner

FOLDER = Path(__file__).parents[2] / "deploy" / "grafana"
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text("utf-8"))
ALERTS = yaml.safe_load((FOLDER / "alerts.yml").read_text("utf-8"))
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
LABELS = {
    name: set(table.labels) | ({"le"} if name.endswith("_bucket") else set())
    for table, metric in all_metrics()
    for name in series_names(metric)
}
OF_PROMETHEUS = {"instance", "job"}
EXPRESSIONS = [
    *(pytest.param(rule["expr"], rule["annotations"], id=rule["alert"]) for rule in RULES),
    *(
        pytest.param(target["expr"], {"legend": target["legendFormat"]}, id=panel["title"])
        for panel in PANELS
        for target in panel["targets"]
    ),
]


def series_in(expression: str) -> set[str]:
    return set(re.findall(r"\bstrom_\w+", expression))


@pytest.fixture(scope="module")
def exposed() -> list[Scraped]:
    settings = {"metrics.port": "-1", "client.telemetry.enable": "true"}
    with LocalBroker(settings=settings, queues=True) as broker:
        found = [scrape(broker.metrics_url)]
        with RegistryServer(broker.bootstrap_servers) as registry:
            found.append(scrape(f"{registry.url}/metrics"))
        with embedded_worker(broker.bootstrap_servers, {}) as worker:
            found.append(scrape(f"{worker.url}/metrics"))
    found.append(
        Scraped(make_view_metrics(measured_runner(), HttpStats("serving")).render()[0].decode())
    )
    return found


def test_every_metric_of_the_catalogue_is_exposed_with_its_labels(exposed):
    names = set().union(*(one.names for one in exposed))
    assert {metric.name for _, metric in all_metrics()} <= names
    for scraped in exposed:
        for sample in scraped.samples:
            if sample.name.startswith("strom_"):
                assert sample.labels.keys() == LABELS[sample.name], sample.name


@pytest.mark.parametrize(("expression", "texts"), EXPRESSIONS)
def test_an_expression_names_series_and_labels_that_exist(expression, texts):
    series = series_in(expression)
    assert series <= LABELS.keys()
    for name, selector in re.findall(r"\b(strom_\w+)\{([^}]*)\}", expression):
        assert set(re.findall(r"(\w+)\s*(?:=|!)", selector)) <= LABELS[name] | OF_PROMETHEUS
    known = OF_PROMETHEUS.union(*(LABELS[name] for name in series))
    for listed in re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", expression):
        assert {one.strip() for one in listed.split(",")} <= known
    for text in texts.values():
        assert set(re.findall(r"\$labels\.(\w+)|\{\{(\w+)\}\}", text)) <= {
            pair for label in known for pair in ((label, ""), ("", label))
        }
    assert expression.count("(") == expression.count(")")


def test_rates_are_taken_of_counters_only():
    counters = {
        name
        for _, metric in all_metrics()
        for name in series_names(metric)
        if metric.kind != "gauge"
    }
    for expression in (str(one.values[0]) for one in EXPRESSIONS):
        rated = re.findall(r"\b(?:rate|increase)\((strom_\w+)", expression)
        assert set(rated) <= counters, expression
        # A counter as it is says only how long the process has been running.
        bare = series_in(expression) & counters - set(rated)
        assert bare == set(), expression


def test_every_alert_has_a_runbook_whose_commands_exist():
    for rule in RULES:
        assert rule["annotations"]["summary"]
        for words in re.findall(r"`strom ([a-z -]+)", rule["annotations"]["runbook"]):
            command: click.Command | None = program
            for word in words.split():
                if isinstance(command, click.Group):
                    command = command.get_command(click.Context(command), word)
            assert command is not None, words


def test_panels_do_not_overlap_and_have_ids_of_their_own():
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not taken & cells, panel["title"]
        taken |= cells
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))


def test_there_is_a_section_for_each_part_and_a_variable_for_each_choice():
    rows = [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    assert rows == ["Broker", "Groups", "Queues", "Connect", "Views", "HTTP interfaces"]
    assert [one["name"] for one in DASHBOARD["templating"]["list"]] == ["datasource", "instance"]
