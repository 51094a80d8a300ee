"""Creates converters by the class names in configurations."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from strom.connect.api import ConnectorSettings
from strom.connect.api.settings import read_nested
from strom.connect.converters.contract import Converter
from strom.connect.plugins import find_named, load_class

_HERE = "strom.connect.converters"
_KAFKAS = "org.apache.kafka.connect"
_CONFLUENTS = "io.confluent.connect"


class ConverterPlugin(NamedTuple):
    """A converter class that is not imported yet."""

    name: str
    """The short name of the class."""
    class_name: str
    """The class name in Kafka's and Confluent's configurations."""
    location: str
    """module:class"""

    def load(self) -> Any:
        return load_class(self.location)


def _plugin(name: str, package: str, module: str, prefix: str = "") -> ConverterPlugin:
    class_name = f"{prefix or name}Converter"
    return ConverterPlugin(name, f"{package}.{class_name}", f"{_HERE}.{module}:{class_name}")


CONVERTERS = (
    _plugin("String", f"{_KAFKAS}.storage", "plain"),
    *(
        _plugin(name, f"{_KAFKAS}.converters", "plain")
        for name in ("ByteArray", "Short", "Integer", "Long", "Float", "Double", "Boolean")
    ),
    _plugin("JSON", f"{_KAFKAS}.json", "json_converter", "Json"),
    _plugin("Avro", f"{_CONFLUENTS}.avro", "avro_converter"),
    _plugin("Protobuf", f"{_CONFLUENTS}.protobuf", "protobuf_converter"),
    _plugin("JsonSchema", f"{_CONFLUENTS}.json", "json_schema_converter"),
)

_SIMPLE = _plugin("Simple", f"{_KAFKAS}.storage", "plain", "SimpleHeader")
DEFAULT_HEADER_CONVERTER = _SIMPLE.class_name


def make_converter(class_name: str, settings: Mapping[str, str], *, is_key: bool) -> Converter:
    """Create the converter of this class; `settings` are without the prefix `key.converter.`.

    InvalidSettings has the full name of an unknown class or setting, with the nearest known one.
    """
    place = "key.converter" if is_key else "value.converter"
    return _make(class_name, settings, place, is_key)


def make_header_converter(class_name: str, settings: Mapping[str, str]) -> Converter:
    """Create the header converter of this class: any of the converters, or the simple one."""
    return _make(class_name, settings, "header.converter", is_key=False)


def _make(class_name: str, settings: Mapping[str, str], place: str, is_key: bool) -> Converter:
    known = (*CONVERTERS, _SIMPLE) if place == "header.converter" else CONVERTERS
    by_name = {
        name: plugin
        for plugin in known
        for name in (plugin.name, plugin.class_name, plugin.class_name.rpartition(".")[2])
    }
    loaded = find_named(by_name, class_name, place, "converter").load()
    made: Converter = loaded(_read(loaded.settings_class, settings, place), is_key=is_key)
    return made


def _read(
    declared: type[ConnectorSettings], settings: Mapping[str, str], place: str
) -> ConnectorSettings:
    # Kafka passes this to every converter, so configurations may contain it.
    own = {name: text for name, text in settings.items() if name != "converter.type"}
    return read_nested(declared, own, f"{place}.")
