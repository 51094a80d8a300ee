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


def test_requests_are_counted_by_route_from_the_cache_too():
    """A schema by its id is served from a cache, ahead of the router."""
    with LocalBroker() as broker, RegistryServer(broker.bootstrap_servers) as registry:
        ask = Asker(registry.url)
        number = ask.register("clicks", record("a")).body["id"]
        for _ in range(3):
            ask("GET", f"/schemas/ids/{number}")
        ask("GET", "/no/such/path")
        found = scrape(f"{registry.url}/metrics")
        ask.close()

    def requests(route, method, status):
        labels = {"server": "registry", "route": route, "method": method, "status": status}
        assert found.value("strom_http_request_seconds_total", **labels) > 0
        return found.value("strom_http_requests_total", **labels)

    assert requests("/schemas/ids/{id}", "GET", "2xx") == 3
    assert requests("/subjects/{subject}/versions", "POST", "2xx") == 1
    assert requests("_other", "GET", "4xx") == 1


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
