"""Settings that would be silently ignored, or that contradict each other.

Kafka ignores them; here a configuration with settings that have no effect is refused.
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
"""A setting's name, and why it is invalid."""


def config_problems(config: Mapping[str, str]) -> Iterator[Problem]:
    """Yield the problems of a configuration whose references are resolved."""
    yield from _name_problems(config.get("name", ""))
    yield from _converter_problems(config)
    for group in ("transforms", "predicates"):
        yield from _alias_problems(config, group)
    yield from override_problems(config)


def topic_problems(settings: SinkSettings) -> Iterator[Problem]:
    """Yield the problems of the topics that a sink names."""
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


def _name_problems(name: str) -> Iterator[Problem]:
    control = [letter for letter in name if unicodedata.category(letter) == "Cc"]
    if control:
        yield (
            "name",
            f"A connector's name must not contain control characters such as {control[0]!r}.",
        )


def _converter_problems(config: Mapping[str, str]) -> Iterator[Problem]:
    for prefix in CONVERTER_PREFIXES:
        setting = prefix.removesuffix(".")
        named = config.get(setting)
        if named is not None and not named.strip():
            yield setting, f"{setting} is empty: remove it to use the worker's converter."
        if named is None:
            for name in config:
                if name.startswith(prefix):
                    yield (
                        name,
                        f"{name} has no effect without {setting}: set that too. The worker's converter "
                        "has the worker's settings.",
                    )


def _alias_problems(config: Mapping[str, str], group: str) -> Iterator[Problem]:
    """Yield settings of transforms or predicates that are not in their list."""
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
        yield name, f"{name} belongs to {alias}, which is not in {group}. {hint}"
