"""Creates converters by the class names in configurations."""

import difflib
import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from strom.connect.api import ConnectorSettings, InvalidSettings
from strom.connect.converters.contract import Converter, HeaderByConverter, HeaderConverter

_HERE = "strom.connect.converters"


class ConverterPlugin(NamedTuple):
    """A converter class that is not imported yet."""

    name: str
    """The short name of the class."""
    class_name: str
    """The class name in Kafka's and Confluent's configurations."""
    location: str
    """module:class"""

    def load(self) -> Any:
        module, _, name = self.location.partition(":")
        return getattr(importlib.import_module(module), name)


CONVERTERS = (
    ConverterPlugin(
        "String",
        "org.apache.kafka.connect.storage.StringConverter",
        f"{_HERE}.plain:StringConverter",
    ),
    *(
        ConverterPlugin(
            name,
            f"org.apache.kafka.connect.converters.{name}Converter",
            f"{_HERE}.plain:{name}Converter",
        )
        for name in ("ByteArray", "Short", "Integer", "Long", "Float", "Double", "Boolean")
    ),
    ConverterPlugin(
        "JSON",
        "org.apache.kafka.connect.json.JsonConverter",
        f"{_HERE}.json_converter:JsonConverter",
    ),
    ConverterPlugin(
        "Avro",
        "io.confluent.connect.avro.AvroConverter",
        f"{_HERE}.avro_converter:AvroConverter",
    ),
    ConverterPlugin(
        "Protobuf",
        "io.confluent.connect.protobuf.ProtobufConverter",
        f"{_HERE}.protobuf_converter:ProtobufConverter",
    ),
    ConverterPlugin(
        "JsonSchema",
        "io.confluent.connect.json.JsonSchemaConverter",
        f"{_HERE}.json_schema_converter:JsonSchemaConverter",
    ),
)

DEFAULT_HEADER_CONVERTER = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
_SIMPLE_HEADERS = {"Simple", "SimpleHeaderConverter", DEFAULT_HEADER_CONVERTER}


def make_converter(class_name: str, settings: Mapping[str, str], *, is_key: bool) -> Converter:
    """Create the converter of this class; `settings` are without the prefix `key.converter.`.

    InvalidSettings has the full name of an unknown class or setting, with the nearest known one.
    """
    place = "key.converter" if is_key else "value.converter"
    return _make(_find(class_name, place), settings, place, is_key)


def make_header_converter(class_name: str, settings: Mapping[str, str]) -> HeaderConverter:
    """Create the header converter of this class: any of the converters, or the simple one."""
    if class_name in _SIMPLE_HEADERS:
        from strom.connect.converters.headers import SimpleHeaderConverter

        _read(SimpleHeaderConverter.settings_class, settings, "header.converter")
        return SimpleHeaderConverter()
    return HeaderByConverter(
        _make(_find(class_name, "header.converter"), settings, "header.converter", is_key=False)
    )


def converter_settings(class_name: str, *, is_key: bool) -> Any:
    """The settings class of a converter; InvalidSettings if the converter is unknown."""
    place = "key.converter" if is_key else "value.converter"
    return _find(class_name, place).load().settings_class


def _find(class_name: str, place: str) -> ConverterPlugin:
    by_name = {
        name: plugin
        for plugin in CONVERTERS
        for name in (plugin.name, plugin.class_name, plugin.class_name.rpartition(".")[2])
    }
    if class_name in by_name:
        return by_name[class_name]
    near = difflib.get_close_matches(class_name, by_name, n=1)
    known = ", ".join(plugin.name for plugin in CONVERTERS)
    hint = f" Did you mean {near[0]}?" if near else f" Available: {known}."
    raise InvalidSettings({place: [f"Unknown converter {class_name}.{hint}"]})


def _make(
    plugin: ConverterPlugin, settings: Mapping[str, str], place: str, is_key: bool
) -> Converter:
    loaded = plugin.load()
    made: Converter = loaded(_read(loaded.settings_class, settings, place), is_key=is_key)
    return made


def _read(
    declared: type[ConnectorSettings], settings: Mapping[str, str], place: str
) -> ConnectorSettings:
    # Kafka passes this to every converter, so configurations may contain it.
    own = {name: text for name, text in settings.items() if name != "converter.type"}
    try:
        return declared.read(own)
    except InvalidSettings as error:
        raise InvalidSettings(
            {f"{place}.{name}": texts for name, texts in error.problems.items()}
        ) from None
