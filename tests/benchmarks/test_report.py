"""A run can be kept, read again and shown as tables."""

import io

import pytest
from rich.console import Console

from benchmarks.report import figure, markdown, print_tables, score, tables
from benchmarks.results import Measurement, Run, load, save, to_json

RUN = Run(
    "2026-01-01",
    "python -m benchmarks --quick",
    {"processor": "a fast one"},
    [
        Measurement("startup", "empty data folder", "startup", "strom-disk", 0, 0.25),
        Measurement("startup", "empty data folder", "startup", "kafka", 0, 5.0),
        Measurement("memory", "at work", "resident", "strom-disk", 0, 500.0),
        Measurement("memory", "at work", "resident", "kafka", 0, 1000.0),
        Measurement("growth, small", "10 → 4,000 partitions", "produce", "strom-os", 0, 100.0),
        Measurement("growth, large", "10 → 4,000 partitions", "produce", "strom-os", 0, 99.0),
    ],
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1_234_567.0, "1,230,000"),
        (12_345.0, "12,300"),
        (100.4, "100"),
        (99.96, "100"),
        (2.3456, "2.35"),
        (0.061234, "0.0612"),
    ],
)
def test_figures_have_three_digits_that_count(value, text):
    assert figure(value) == text


def test_every_area_has_its_table():
    assert [table.title.partition(":")[0] for table in tables(RUN)] == [
        "Start-up",
        "Memory",
        "Growth",
    ]


def test_the_score_counts_rows_with_a_target():
    assert score(RUN) == "2 of 3 targets met"


def test_the_page_names_the_machine_the_command_and_every_ratio():
    page = markdown(RUN)
    assert "python -m benchmarks --quick` on 2026-01-01" in page
    assert "- processor: a fast one" in page
    assert "| 0.05 | 0.05–0.05 | ≤ 0.1 | met |" in page
    assert "| 0.50 | 0.50–0.50 | ≤ 0.1 | not met |" in page


def test_every_line_of_a_table_on_the_page_has_as_many_cells_as_its_headings():
    width = 0
    for line in markdown(RUN).splitlines():
        cells = line.count("|")
        width = width if cells and width else cells
        assert cells == width


def test_the_tables_can_be_printed():
    out = io.StringIO()
    print_tables(RUN, Console(file=out, width=160))
    assert "empty data folder" in out.getvalue()
    assert "not met" in out.getvalue()


def test_a_kept_run_is_read_as_it_was(tmp_path):
    save(RUN, tmp_path / "results" / "one.json")
    assert load(tmp_path / "results" / "one.json") == RUN
    assert to_json(RUN) == (tmp_path / "results" / "one.json").read_text()
