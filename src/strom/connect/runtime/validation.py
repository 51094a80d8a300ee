"""Validates connectors' configurations: all problems at once, by setting."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from strom.connect.api import Connector, InvalidSettings
from strom.connect.api.settings import SettingDefinition
from strom.connect.plugins import Plugin, plugin
from strom.connect.runtime.conversion import make_conversion
from strom.connect.runtime.masking import masked, secrets_in
from strom.connect.runtime.secrets import Secrets
from strom.connect.runtime.settings import (
    CONVERTER_PREFIXES,
    OVERRIDE_PREFIXES,
    CommonSettings,
    SinkSettings,
    SourceSettings,
    WorkerSettings,
    without,
)
from strom.connect.runtime.transaction_timeouts import configured_timeout, timeout_problems
from strom.connect.runtime.unused_settings import config_problems, topic_problems
from strom.model.settings import Kind

_OTHER_PREFIXES = ("transforms.", "predicates.", *CONVERTER_PREFIXES, *OVERRIDE_PREFIXES)
"""Prefixes of settings that are neither the runtime's nor the connector's."""


@dataclass(frozen=True)
class Checker:
    """Validates and reads configurations, with one worker's defaults."""

    worker: WorkerSettings
    worker_texts: Mapping[str, str]
    secrets: Secrets
    producer_texts: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The worker's settings for all producers."""
    transaction_limit_ms: Callable[[], int | None] = lambda: None
    """Returns the broker's longest transaction timeout; None if it is unknown."""

    def plugin(self, config: Mapping[str, str]) -> Plugin:
        """The plugin that a configuration names; InvalidSettings if this worker does not have it."""
        return plugin(config.get("connector.class", ""), self.worker.plugin_packages)

    def common_class(self, kind: Plugin) -> type[CommonSettings]:
        """The runtime's settings class for this kind of connector."""
        return SourceSettings if kind.kind == "source" else SinkSettings

    def common(self, config: Mapping[str, str]) -> CommonSettings:
        """The runtime's part of a configuration; InvalidSettings if it is invalid."""
        cls = self.common_class(self.plugin(config))
        return cls.read(_only(config, cls.definitions()))

    def own(self, config: Mapping[str, str]) -> Any:
        """The connector's part of a configuration, with references resolved."""
        kind = self.plugin(config)
        known = self.common_class(kind).definitions()
        resolved = self.secrets.resolve(without(config, _OTHER_PREFIXES))
        settings_class = kind.load().settings_class
        passwords = _passwords(settings_class.definitions())
        self.secrets.keep_hidden(secrets_in({**config, **resolved}, passwords))
        return settings_class.read(resolved, known_elsewhere=known)

    def make(self, config: Mapping[str, str]) -> Connector[Any]:
        return self.plugin(config).load()(self.own(config))

    def problems(self, config: Mapping[str, str]) -> dict[str, list[str]]:
        """All problems by setting, with secrets hidden."""
        found: dict[str, list[str]] = {}
        try:
            self.plugin(config)
        except InvalidSettings as error:
            if not config.get("connector.class"):
                text = (
                    'Missing required configuration "connector.class" which has no default value.'
                )
                return {"connector.class": [text]}
            return {name: list(texts) for name, texts in error.problems.items()}
        steps = (self._check_config, self._check_common, self._check_own)
        for step in steps:
            try:
                for name, text in step(config).items():
                    found.setdefault(name, []).append(text)
            except InvalidSettings as error:
                for name, texts in error.problems.items():
                    found.setdefault(name, []).extend(texts)
        return {name: [self.secrets.hide(text) for text in texts] for name, texts in found.items()}

    def _check_config(self, config: Mapping[str, str]) -> Mapping[str, str]:
        return dict(config_problems(self.secrets.resolve(config)))

    def _check_common(self, config: Mapping[str, str]) -> Mapping[str, str]:
        resolved = self.secrets.resolve(config)
        common = self.common(config)
        if isinstance(common, SinkSettings):
            wrong = dict(topic_problems(common))
            if wrong:
                return wrong
        make_conversion(resolved, common, self.worker, self.worker_texts)
        if not isinstance(common, SourceSettings):
            return {}
        kind = self.plugin(config)
        defines = getattr(kind.load(), "defines_transactions", False)
        if common.transaction_boundary == "connector" and not defines:
            return {
                "transaction.boundary": "This connector does not define transactions: use poll or "
                "interval."
            }
        if exactly_once(kind, self.worker):
            configured = configured_timeout(resolved, self.producer_texts)
            flush_ms = self.worker.flush_interval_ms
            return dict(timeout_problems(common, flush_ms, configured, self.transaction_limit_ms))
        if common.exactly_once_support != "required":
            return {}
        return {
            "exactly.once.support": "This connector cannot be exactly once: it does not "
            "support it, or exactly.once.source.support is not enabled."
        }

    def _check_own(self, config: Mapping[str, str]) -> Mapping[str, str]:
        return self.make(config).check()

    def described(self, config: Mapping[str, str]) -> dict[str, Any]:
        """Kafka's validation response: every setting with its definition, value and errors."""
        kind = self.plugin(config)
        problems = self.problems(config)
        definitions = definitions_of(self.common_class(kind), kind)
        unknown = [name for name in problems if name not in definitions]
        to_show = masked(config, _passwords(definitions))
        infos: list[dict[str, Any]] = [
            {"definition": described(one, order), "value": _value(one, to_show, problems)}
            for order, one in enumerate(definitions.values(), 1)
        ]
        infos += [
            {
                "definition": None,
                "value": {
                    "name": name,
                    "value": to_show.get(name),
                    "recommended_values": [],
                    "errors": problems[name],
                    "visible": True,
                },
            }
            for name in unknown
        ]
        groups = dict.fromkeys(info["definition"]["group"] for info in infos if info["definition"])
        return {
            "name": config.get("connector.class"),
            "error_count": sum(len(texts) for texts in problems.values()),
            "groups": [group for group in groups if group],
            "configs": infos,
        }


def exactly_once(kind: Plugin, worker: WorkerSettings) -> bool:
    """Whether tasks of this source write records and offsets in transactions."""
    return worker.exactly_once == "enabled" and bool(getattr(kind.load(), "exactly_once", False))


def definitions_of(common: type[CommonSettings], kind: Plugin) -> dict[str, Any]:
    """Every setting of a connector class: the runtime's, then the connector's."""
    return {**common.definitions(), **kind.load().settings_class.definitions()}


def described(definition: SettingDefinition, order: int) -> dict[str, Any]:
    """A definition in the format of REST."""
    runtimes = definition.name in SourceSettings.definitions() or definition.name in (
        SinkSettings.definitions()
    )
    group = definition.group or ("Common" if runtimes else None)
    default = None if definition.default is None else definition.render(definition.default)
    return {
        "name": definition.name,
        "type": definition.kind.name,
        "required": definition.required,
        "default_value": default,
        "importance": definition.importance.value,
        "documentation": definition.doc,
        "group": group,
        "order_in_group": order,
        "width": "MEDIUM",
        "display_name": definition.display_name or definition.name,
        "dependents": [],
    }


def _value(
    definition: SettingDefinition,
    config: Mapping[str, str],
    problems: Mapping[str, list[str]],
) -> dict[str, Any]:
    text = config.get(definition.name)
    if text is None and definition.default is not None:
        text = definition.render(definition.default)
    return {
        "name": definition.name,
        "value": text,
        "recommended_values": list(definition.choices),
        "errors": problems.get(definition.name, []),
        "visible": True,
    }


def _passwords(definitions: Mapping[str, Any]) -> set[str]:
    return {name for name, one in definitions.items() if one.kind is Kind.PASSWORD}


def _only(config: Mapping[str, str], names: Mapping[str, Any]) -> dict[str, str]:
    return {name: text for name, text in config.items() if name in names}
