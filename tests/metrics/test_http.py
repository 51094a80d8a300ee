"""Requests are counted by what a server knows of them, never by what a client sends."""

from strom.metrics.http import HttpStats


def test_requests_are_summed_up_by_route_method_and_class_of_status():
    stats = HttpStats("registry")
    stats.count("/subjects", "GET", 200, 0.5)
    stats.count("/subjects", "GET", 204, 0.25)
    stats.count("/subjects", "GET", 404, 1.0)
    assert list(stats.read()) == [
        ("registry", "/subjects", "GET", "2xx", 2, 0.75),
        ("registry", "/subjects", "GET", "4xx", 1, 1.0),
    ]


def test_labels_are_bounded():
    stats = HttpStats("registry")
    for number in range(100):
        stats.count(None, f"METHOD{number}", 400 + number % 2, 0.0)
    stats.count("/subjects", "GET", 0, 0.0)
    assert [reading[1:5] for reading in stats.read()] == [
        ("_other", "_other", "4xx", 100),
        ("/subjects", "GET", "none", 1),
    ]
