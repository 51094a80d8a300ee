"""The real PostgreSQL, started once for all tests of connectors."""

from collections.abc import Iterator

import pytest

from tools import postgres


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.RealPostgres]:
    """One server for all tests that can share it; skips with the reason where there is none."""
    try:
        postgres.locate()
    except postgres.UnavailableError as reason:
        pytest.skip(f"no real PostgreSQL: {reason}")
    with postgres.RealPostgres(settings=postgres.FOR_TESTS, password="s3cr3t-of-tests") as server:
        yield server
