"""What a registry tells of its schemas, as Prometheus sees it."""

from concurrent.futures import ThreadPoolExecutor

from strom.registry.server import RegistryServer
from strom.testing import LocalBroker
from tests.http.pages import send
from tests.metrics.scraping import scrape
from tests.registry.conftest import Asker, record


def test_subjects_versions_and_schemas_are_counted():
    with LocalBroker() as broker, RegistryServer(broker.bootstrap_servers) as registry:
        ask = Asker(registry.url)
        ask.register("clicks", record("a"))
        ask.register("other", record("a"))
        ask.register("json", {"type": "object"}, schemaType="JSON")
        ask("DELETE", "/subjects/other")
        found = scrape(f"{registry.url}/metrics")
        ask.close()
    assert found.value("strom_registry_subjects") == 2
    assert found.value("strom_registry_versions") == 2
    assert found.value("strom_registry_deleted_versions") == 1
    assert found.value("strom_registry_schemas") == 2
    assert found.value("strom_registry_schemas_by_format", format="AVRO") == 1
    assert found.value("strom_registry_failed") == 0


def test_a_scrape_does_not_stop_the_server_while_the_state_is_locked():
    """A compatibility check holds the lock, for seconds if a subject has many versions."""
    with (
        LocalBroker() as broker,
        RegistryServer(broker.bootstrap_servers) as registry,
        ThreadPoolExecutor() as pool,
    ):
        with registry.registry.reading():
            scraped = pool.submit(scrape, f"{registry.url}/metrics")
            for _ in range(20):  # the scrape arrives among these
                assert send(registry.url, path="/health/live").status == 200
            assert not scraped.done()
        assert scraped.result().value("strom_registry_subjects") == 0
