import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.model.errors import CorruptData
from strom.wire.kafka.client_metrics import MAX_FIELDS, ClientMetric, read_client_metrics
from tests.wire.kafka.otlp import HISTOGRAM, SUM, double, message, metric, metrics_data, point


def test_gauges_and_sums_are_read_with_their_attributes():
    data = metrics_data(
        metric("a", point(1.5), point(2, topic="t", partition="0")),
        metric("hidden", point(9.0), kind=HISTOGRAM),
        metric("b", point(-3), kind=SUM),
    )
    assert list(read_client_metrics(data)) == [
        ClientMetric("a", (), 1.5),
        ClientMetric("a", (("partition", "0"), ("topic", "t")), 2.0),
        ClientMetric("b", (), -3.0),
    ]


def test_no_metrics_are_valid():
    assert list(read_client_metrics(b"")) == []


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\xff" * 100, id="endless number"),
        pytest.param(b"\x0a", id="no length"),
        pytest.param(b"\x0a\x05ab", id="too short"),
        pytest.param(b"\x0b", id="group"),
        pytest.param(
            metrics_data(message((1, b"a"), (5, message((1, b"\x35\0\0\0\0"))))), id="short number"
        ),
        pytest.param(metrics_data(b"\x08\x01"), id="number for a name"),
    ],
)
def test_malformed_metrics_are_refused(data):
    with pytest.raises(CorruptData):
        list(read_client_metrics(data))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x50\x01" * (MAX_FIELDS + 1000), id="unknown fields"),
        pytest.param(metrics_data(*[metric("a", point(1))] * MAX_FIELDS), id="metrics"),
        pytest.param(metrics_data(metric("a", *[double(4, 1.0)] * MAX_FIELDS)), id="points"),
        pytest.param(metrics_data(metric("a", double(4, 1.0) * MAX_FIELDS)), id="values"),
    ],
)
def test_the_work_is_bounded(data):
    assert len(list(read_client_metrics(data))) < MAX_FIELDS


def test_a_point_without_a_value_and_a_metric_without_a_name_are_left_out():
    assert list(read_client_metrics(metrics_data(metric("a", b""), metric("", point(1))))) == []


def test_long_names_are_cut():
    (found,) = read_client_metrics(metrics_data(metric("é" * 1000, point(1))))
    assert len(found.name) <= 200


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data):
    try:
        list(read_client_metrics(data))
    except CorruptData:
        pass


@given(st.data())
def test_damaged_metrics_are_read_or_refused(data):
    valid = bytearray(metrics_data(metric("name", point(1.0, topic="t")), metric("b", point(2))))
    valid[data.draw(st.integers(0, len(valid) - 1))] = data.draw(st.integers(0, 255))
    try:
        list(read_client_metrics(bytes(valid)))
    except CorruptData:
        pass
