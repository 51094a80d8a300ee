"""DataSketches as SQL functions of DuckDB, for sketch measures."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb
    from datasketches import hll_sketch


def register(connection: "duckdb.DuckDBPyConnection") -> None:
    """Register the sketch functions with a connection."""
    from duckdb import list_type
    from duckdb.func import FunctionNullHandling, PythonUDFType
    from duckdb.sqltypes import BIGINT, BLOB, DOUBLE, INTEGER, VARCHAR

    blobs = list_type(BLOB)
    functions: list[tuple[str, Callable[..., Any], list[Any], Any]] = [
        ("hll_sketch", _hll_sketch, [list_type(VARCHAR), INTEGER], BLOB),
        ("hll_union", _hll_union, [blobs], BLOB),
        ("hll_estimate", _hll_estimate, [BLOB], BIGINT),
        ("kll_sketch", _kll_sketch, [list_type(DOUBLE)], BLOB),
        ("kll_union", _kll_union, [blobs], BLOB),
        ("kll_quantile", _kll_quantile, [BLOB, DOUBLE], DOUBLE),
    ]
    for name, function, arguments, result in functions:
        connection.create_function(
            name,
            _vectorised(function, len(arguments), result),
            arguments,
            result,
            type=PythonUDFType.ARROW,
            null_handling=FunctionNullHandling.SPECIAL,
        )


def _vectorised(function: Callable[..., Any], arity: int, result: Any) -> Callable[..., Any]:
    """DuckDB passes whole columns: call the function for each row, and return null for null."""
    import pyarrow as pa

    kind = {"BLOB": pa.binary(), "BIGINT": pa.int64(), "DOUBLE": pa.float64()}[str(result)]

    def each(*columns: Any) -> Any:
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        return pa.array([None if row[0] is None else function(*row) for row in rows], kind)

    # DuckDB inspects the number of parameters, so *columns alone does not work.
    return (lambda one: each(one)) if arity == 1 else (lambda one, two: each(one, two))


def _hll_sketch(values: Iterable[str | None], log2_registers: int) -> bytes:
    from datasketches import hll_sketch

    sketch = hll_sketch(log2_registers)
    for value in values:
        if value is not None:
            sketch.update(value)
    return bytes(sketch.serialize_compact())


def _hll_union(states: list[bytes | None]) -> bytes | None:
    present = [state for state in states if state is not None]
    if len(present) <= 1:
        return present[0] if present else None
    return bytes(_union_of(present).serialize_compact())


def _hll_estimate(state: bytes) -> int:
    # Always through a union: the HIP estimate of a sketch that was never merged differs from a union's.
    return int(_union_of([state]).get_estimate() + 0.5)


def _union_of(states: list[bytes]) -> "hll_sketch":
    """Union sketches at the precision of the coarsest one; a larger union would be much slower."""
    from datasketches import hll_sketch, hll_union

    sketches = [hll_sketch.deserialize(state) for state in states]
    union = hll_union(min(sketch.lg_config_k for sketch in sketches))
    for sketch in sketches:
        union.update(sketch)
    return union.get_result()


def _kll_sketch(values: Iterable[float | None]) -> bytes | None:
    from datasketches import kll_doubles_sketch

    sketch = kll_doubles_sketch(200)
    for value in values:
        if value is not None:
            sketch.update(value)
    return None if sketch.is_empty() else bytes(sketch.serialize())


def _kll_union(states: list[bytes | None]) -> bytes | None:
    from datasketches import kll_doubles_sketch

    merged = None
    for state in states:
        if state is None:
            continue
        sketch = kll_doubles_sketch.deserialize(state)
        if merged is None:
            merged = sketch
        else:
            merged.merge(sketch)
    return None if merged is None else bytes(merged.serialize())


def _kll_quantile(state: bytes, share: float) -> float | None:
    from datasketches import kll_doubles_sketch

    sketch = kll_doubles_sketch.deserialize(state)
    return None if sketch.is_empty() else float(sketch.get_quantile(share, True))
