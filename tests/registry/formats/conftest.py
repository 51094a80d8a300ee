"""Judges that other programs are needed for."""

from collections.abc import Iterator

import pytest

from tests.registry.formats.avro_judge import AvroJudge, NoJudge


@pytest.fixture(scope="session")
def avro_judge() -> Iterator[AvroJudge]:
    """Avro's library for Java."""
    try:
        judge = AvroJudge()
    except NoJudge as error:
        pytest.skip(f"Avro's library for Java cannot be asked: {error}")
    with judge:
        yield judge
