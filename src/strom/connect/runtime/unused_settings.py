"""What can be wrong with a configuration as a whole: settings that would be passed over in silence.

Kafka ignores them; here a connector that would not do what its configuration seems to say is refused.
"""

import difflib
import unicodedata
from collections.abc import Iterator, Mapping

from strom.connect.runtime.client_overrides import override_problems
from strom.connect.runtime.settings import CONVERTER_PREFIXES, SinkSettings
from strom.connect.runtime.topic_patterns import posix_pattern
from strom.model.errors import ApiError
from strom.model.topics import check_topic_name

Problem = tuple[str, str]
"""A setting's name, and what is wrong with it."""


def wrong_as_a_whole(config: Mapping[str, str]) -> Iterator[Problem]:
    """What is wrong with a configuration whose references are resolved."""
    yield from _of_the_name(config.get("name", ""))
    yield from _of_converters(config)
    for group in ("transforms", "predicates"):
        yield from _of_no_alias(config, group)
    yield from override_problems(config)


def wrong_topics(settings: SinkSettings) -> Iterator[Problem]:
    """What is wrong with the topics that a sink names."""
    for setting, topics in (
        ("topics", settings.topics),
        ("errors.deadletterqueue.topic.name", [settings.dead_letter_topic or "-"]),
    ):
        for topic in topics:
            try:
                check_topic_name(topic)
            except ApiError as error:
                yield setting, f"{setting}: {error}"
    if settings.topics_regex:
        try:
            posix_pattern(settings.topics_regex)
        except ValueError as error:
            yield "topics.regex", f"Invalid value {settings.topics_regex} for topics.regex: {error}"


def _of_the_name(name: str) -> Iterator[Problem]:
    control = [letter for letter in name if unicodedata.category(letter) == "Cc"]
    if control:
        yield "name", f"A connector's name has no control characters such as {control[0]!r}."


def _of_converters(config: Mapping[str, str]) -> Iterator[Problem]:
    for prefix in CONVERTER_PREFIXES:
        place = prefix.removesuffix(".")
        named = config.get(place)
        if named is not None and not named.strip():
            yield place, f"{place} is empty: leave it out to have the worker's converter."
        if named is None:
            for name in config:
                if name.startswith(prefix):
                    yield (
                        name,
                        f"{name} counts only beside {place}: name the converter too. The worker's "
                        "own is set up by the worker.",
                    )


def _of_no_alias(config: Mapping[str, str], group: str) -> Iterator[Problem]:
    """Settings of transforms or predicates that the list of them does not name."""
    listed = [alias.strip() for alias in config.get(group, "").split(",") if alias.strip()]
    for name in config:
        if not name.startswith(f"{group}.") or any(
            name.startswith(f"{group}.{alias}.") for alias in listed
        ):
            continue
        alias = name.split(".")[1]
        near = difflib.get_close_matches(alias, listed, n=1)
        hint = (
            f"Did you mean {near[0]}?"
            if near
            else f"List it: {group}={','.join([*listed, alias])}."
        )
        yield name, f"{name} belongs to {alias}, which {group} does not name. {hint}"
