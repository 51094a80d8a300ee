"""Methods to bytes and back.

Code for a method is generated from its declaration on first use, and cached. Decoding any bytes gives a
method or an AmqpError, with memory in proportion to the number of bytes.
"""

import struct
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from strom.wire.amqp.protocol import FRAME_END, METHOD_FRAME, AmqpError, ReplyCode
from strom.wire.amqp.schema import FIXED_KINDS, Field, Kind, Method, method_name
from strom.wire.amqp.table import Buffer, decode_table, encode_table, short_string

_INDEX = struct.Struct(">I")
_FRAME_HEAD = struct.Struct(">BHII")
_END = bytes((FRAME_END,))

M = TypeVar("M", bound=Method)


def decode_arguments(cls: type[M], payload: Buffer) -> M:
    """Decode a method from a payload that begins with its class and method ids."""
    data = bytes(payload)
    method: M
    try:
        method, position = _decoder(cls)(data)
    except (IndexError, struct.error):
        raise _malformed(cls, "truncated") from None
    except UnicodeDecodeError:
        text = f"{method_name(cls)}: short string is not UTF-8"
        raise AmqpError(ReplyCode.FRAME_ERROR, text) from None
    except AmqpError as error:
        raise AmqpError(error.code, f"{method_name(cls)}: {error.text}") from None
    if position != len(data):
        raise _malformed(cls, f"arguments of {position} bytes in a payload of {len(data)}")
    return method


def encode_method(method: Method) -> bytes:
    """The payload of a method frame."""
    return _INDEX.pack(method.INDEX) + _arguments(method)


def method_frame(channel: int, method: Method) -> bytes:
    arguments = _arguments(method)
    head = _FRAME_HEAD.pack(METHOD_FRAME, channel, len(arguments) + 4, method.INDEX)
    return head + arguments + _END


def _arguments(method: Method) -> bytes:
    try:
        return _encoder(type(method))(method)
    except (struct.error, UnicodeEncodeError, TypeError, AttributeError) as error:
        text = f"{method_name(type(method))} cannot be encoded: {error}"
        raise AmqpError(ReplyCode.INTERNAL_ERROR, text) from error


def _malformed(cls: type[Method], what: str) -> AmqpError:
    return AmqpError(ReplyCode.SYNTAX_ERROR, f"malformed {method_name(cls)}: {what}")


def _runs(cls: type[Method]) -> list[list[Field]]:
    """The arguments in groups that are coded together: adjacent fixed sizes, eight bits per byte."""
    runs: list[list[Field]] = []
    for field in cls.FIELDS:
        last = runs[-1][-1].kind if runs else None
        joins = (field.kind in FIXED_KINDS and last in FIXED_KINDS) or (
            field.kind is Kind.BIT and last is Kind.BIT and len(runs[-1]) < 8
        )
        if joins:
            runs[-1].append(field)
        else:
            runs.append([field])
    return runs


# In the generated sources `b` is the payload, `p` the position in it and `m` the method.


@cache
def _decoder(cls: type[Method]) -> Callable[[bytes], tuple[Any, int]]:
    scope: dict[str, Any] = {"cls": cls, "decode_table": decode_table, "uint32": _INDEX.unpack_from}
    lines = ["def decode(b):", "    p = 4"]
    for number, run in enumerate(_runs(cls)):
        lines += ["    " + line for line in _decoding(run, number, scope)]
    values = ", ".join(f"v_{field.name}" for field in cls.FIELDS)
    lines.append(f"    return cls({values}), p")
    exec(compile("\n".join(lines), f"<decode {method_name(cls)}>", "exec"), scope)  # noqa: S102
    decoder: Callable[[bytes], tuple[Any, int]] = scope["decode"]
    return decoder


def _decoding(run: list[Field], number: int, scope: dict[str, Any]) -> list[str]:
    target, kind = f"v_{run[0].name}", run[0].kind
    if kind is Kind.BIT:
        bits = [f"v_{field.name} = bits & {1 << bit} != 0" for bit, field in enumerate(run)]
        return ["bits = b[p]", "p += 1", *bits]
    if kind is Kind.TABLE:
        return [f"{target}, p = decode_table(b, p)"]
    if kind is Kind.SHORTSTR:
        # A truncated slice is detected at the end: the position then exceeds the payload.
        return ["s = p + 1", "p = s + b[p]", f"{target} = b[s:p].decode()"]
    if kind is Kind.LONGSTR:
        return ["s = p + 4", "p = s + uint32(b, p)[0]", f"{target} = b[s:p]"]
    layout = struct.Struct(">" + "".join(field.kind.value for field in run))
    scope[f"unpack{number}"] = layout.unpack_from
    targets = "".join(f"v_{field.name}, " for field in run)
    return [f"{targets}= unpack{number}(b, p)", f"p += {layout.size}"]


@cache
def _encoder(cls: type[Method]) -> Callable[[Method], bytes]:
    scope: dict[str, Any] = {
        "short_string": short_string,
        "encode_table": encode_table,
        "uint32": _INDEX.pack,
    }
    parts = [_encoding(run, number, scope) for number, run in enumerate(_runs(cls))]
    source = f"def encode(m):\n    return b''.join(({''.join(part + ', ' for part in parts)}))"
    exec(compile(source, f"<encode {method_name(cls)}>", "exec"), scope)  # noqa: S102
    encoder: Callable[[Method], bytes] = scope["encode"]
    return encoder


def _encoding(run: list[Field], number: int, scope: dict[str, Any]) -> str:
    value, kind = f"m.{run[0].name}", run[0].kind
    if kind is Kind.BIT:
        bits = " | ".join(f"({1 << bit} if m.{field.name} else 0)" for bit, field in enumerate(run))
        return f"bytes(({bits},))"
    if kind is Kind.TABLE:
        return f"encode_table({value})"
    if kind is Kind.SHORTSTR:
        return f"short_string({value})"
    if kind is Kind.LONGSTR:
        return f"uint32(len({value})), {value}"
    layout = struct.Struct(">" + "".join(field.kind.value for field in run))
    scope[f"pack{number}"] = layout.pack
    return f"pack{number}({', '.join(f'm.{field.name}' for field in run)})"
