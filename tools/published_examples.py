"""The examples in the READMEs of kafka-python and confluent-kafka, fetched and not kept here.

They come with the source distributions, which are fetched once, checked and kept beside the jars.
`confluent-kafka` ships no other examples with its sources.
"""

import re
import textwrap

from tools.kafka import UnavailableError
from tools.kafka_python_tests import fetch as fetch_kafka_python
from tools.source_distributions import SourceDistribution

CONFLUENT_KAFKA = SourceDistribution(
    "confluent-kafka",
    "2.16.1",
    "ec1474347615b9dd1bd0e269d37e31fa442782e67c4942661751e81b09d9f0c8",
)


def kafka_python(containing: str) -> str:
    """The one Python example of kafka-python's README that contains these words."""
    text = (fetch_kafka_python() / "README.rst").read_text()
    # An indented block; in this README a section ends where a line begins at the margin again.
    blocks = re.findall(r"^\.\. code-block:: python\n\n((?:(?:    .*)?\n)+)", text, re.MULTILINE)
    return _only(map(textwrap.dedent, blocks), containing)


def confluent_kafka(containing: str) -> str:
    """The one Python example of confluent-kafka's README that contains these words."""
    text = (CONFLUENT_KAFKA.fetch() / "README.md").read_text()
    return _only(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL), containing)


def _only(blocks: "map[str] | list[str]", containing: str) -> str:
    found = [block for block in blocks if containing in block]
    if len(found) != 1:
        raise UnavailableError(f"{len(found)} published examples contain {containing!r}")
    return found[0]
