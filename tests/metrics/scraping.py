"""Scrapes as Prometheus does, and finds samples by name and labels."""

import urllib.request

from prometheus_client.parser import text_string_to_metric_families


class Scraped:
    """The samples of one scrape."""

    def __init__(self, text: str) -> None:
        families = list(text_string_to_metric_families(text))
        self.names = {family.name for family in families}
        self.samples = [sample for family in families for sample in family.samples]

    def value(self, name: str, **labels: str) -> float:
        """The one sample of that name that has these labels, among others perhaps."""
        (found,) = self.values(name, **labels)
        return found

    def values(self, name: str, **labels: str) -> list[float]:
        """All of them."""
        return [
            sample.value
            for sample in self.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]


def scrape(url: str) -> Scraped:
    """What a process exposes now."""
    with urllib.request.urlopen(url, timeout=30) as response:
        return Scraped(response.read().decode())
