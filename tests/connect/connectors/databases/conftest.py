"""Both databases, for tests that hold for either."""

from pathlib import Path

import pytest

from tests.connect.connectors.other_side import PostgresSide, Side, SqliteSide
from tools.postgres import RealPostgres


@pytest.fixture
def postgres_side(postgres_server: RealPostgres) -> PostgresSide:
    return PostgresSide(postgres_server)


@pytest.fixture
def sqlite_side(tmp_path: Path) -> SqliteSide:
    return SqliteSide(tmp_path)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def side(request: pytest.FixtureRequest) -> Side:
    found: Side = request.getfixturevalue(f"{request.param}_side")
    return found
