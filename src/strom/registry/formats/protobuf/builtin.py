"""Files that a schema may import without a reference to them.

Google's own come with the compiler, and `google/type` with the package googleapis-common-protos, if it is
installed. Confluent's serializers rely on the files below: the option for tags and rules, and two types
that Protocol Buffers lack.
"""

from importlib import resources

_DECIMAL = """
syntax = "proto3";
package confluent.type;
option java_package = "io.confluent.protobuf.type";
option java_outer_classname = "DecimalProto";
option java_multiple_files = true;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
"""

_VARIANT = """
syntax = "proto3";
package confluent.type;
option java_package = "io.confluent.protobuf.type";
option java_outer_classname = "VariantProto";
option java_multiple_files = true;
message Variant { bytes metadata = 1; bytes value = 2; }
"""

_META = """
syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
option java_package = "io.confluent.protobuf";
option java_outer_classname = "MetaProto";
message Meta {
  string doc = 1;
  map<string, string> params = 2;
  repeated string tags = 3;
  repeated Rule rules = 4;
}
message Rule { string name = 1; string doc = 2; string expr = 3; string sql = 4; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
"""

_OF_CONFLUENT = {
    "confluent/meta.proto": _META,
    "confluent/type/decimal.proto": _DECIMAL,
    "confluent/types/decimal.proto": _DECIMAL,
    "confluent/type/variant.proto": _VARIANT,
}

_OF_GOOGLE = (
    *("any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct"),
    *("timestamp", "type", "wrappers"),
)
BUILTIN_PATHS = (
    *(f"google/protobuf/{name}.proto" for name in _OF_GOOGLE),
    *("confluent/meta.proto", "confluent/type/decimal.proto", "confluent/type/variant.proto"),
)
"""Files whose types a schema may use without an import."""


def builtin_text(path: str) -> str | None:
    """The text of a built-in file that the compiler does not bring along."""
    if path in _OF_CONFLUENT:
        return _OF_CONFLUENT[path]
    folder, _, name = path.rpartition("/")
    if folder != "google/type":
        return None
    try:
        return resources.files("google.type").joinpath(name).read_text(encoding="utf-8")
    except (ModuleNotFoundError, OSError, ValueError):  # also of a name that no file can have
        return None


def is_builtin(path: str) -> bool:
    """Whether a file is built in, so that its content is the same in every schema."""
    return path.startswith(("google/protobuf/", "google/type/", "confluent/"))
