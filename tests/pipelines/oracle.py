"""What each measure should say, computed in plain Python, and logs to compute it from."""

import math
from collections import Counter
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from strom import pipelines as p

START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = "user STRING, page STRING, ms INT, at TIMESTAMP"

EXACT = {
    "rows": p.count(),
    "timed": p.count("ms"),
    "total": p.sum("ms"),
    "least": p.min("ms"),
    "most": p.max("ms"),
    "average": p.mean("ms"),
    "spread": p.variance("ms"),
    "first_ms": p.first("ms"),
    "last_user": p.last("user"),
    "users": p.collect_set("user"),
    "top_users": p.top_k("user", 2),
    "exact_users": p.distinct("user", exact=True),
    "median": p.quantile("ms", 0.5),
    "p90": p.quantile("ms", 0.9),
    "own": p.measure(
        partial={"a": "sum(ms * ms)", "b": "count(ms)"},
        merge={"a": "sum(a)", "b": "sum(b)"},
        finish="a + b",
    ),
}
SKETCHES = {"visitors": p.distinct("user"), "kll_median": p.quantile("ms", 0.5, method="kll")}

row = st.fixed_dictionaries(
    {
        "user": st.none() | st.sampled_from(["ada", "bob", "eve", "kim"]),
        "page": st.none() | st.sampled_from(["/", "/cart"]),
        "ms": st.none() | st.integers(-5000, 5000),
        "at": st.integers(0, 400).map(lambda seconds: START + timedelta(seconds=seconds)),
    }
)
logs = st.lists(row, max_size=30)


def rolled_up(measures):
    """All of a view's measures once more, for a view that reads it."""
    return {name: p.rollup(name) for name in measures}


def expected(rows, key):
    """By hand: the values of the EXACT measures for each key."""
    return expected_in(rows, lambda row: [key(row)])


def expected_in(rows, keys):
    """The same, where a row may belong to several groups, or to none."""
    groups: dict[Any, list[Any]] = {}
    for offset, one in enumerate(rows):
        for key in keys(one):
            groups.setdefault(key, []).append({**one, "offset": offset})
    return {group: _measured(members) for group, members in groups.items()}


def _measured(rows):
    numbers = [one["ms"] for one in rows if one["ms"] is not None]
    users = [one["user"] for one in rows if one["user"] is not None]
    tally = Counter(users)
    timed = [(one["at"], one["offset"], one["ms"]) for one in rows if one["ms"] is not None]
    named = [(one["at"], one["offset"], one["user"]) for one in rows if one["user"] is not None]
    own = [number * number for number in numbers]
    return {
        "rows": len(rows),
        "timed": len(numbers),
        "total": sum(numbers) if numbers else None,
        "least": min(numbers) if numbers else None,
        "most": max(numbers) if numbers else None,
        "average": float(Fraction(sum(numbers), len(numbers))) if numbers else None,
        "spread": _variance(numbers),
        "first_ms": sorted(timed)[0][2] if timed else None,
        "last_user": sorted(named)[-1][2] if named else None,
        "users": sorted(tally),
        "top_users": [
            {"item": item, "count": n}
            for item, n in sorted(tally.items(), key=lambda pair: (-pair[1], pair[0]))[:2]
        ],
        "exact_users": len(tally),
        "median": _at_rank(numbers, 0.5),
        "p90": _at_rank(numbers, 0.9),
        "own": sum(own) + len(numbers) if numbers else None,
    }


def agrees(name, value, wanted):
    """Whether a value is what it should be, within what its measure promises."""
    if value is None or wanted is None:
        return value is wanted
    if name in {"median", "p90"}:
        return abs(value - wanted) <= 0.01 * abs(wanted) + 1e-8
    if name in {"average", "spread"}:
        return math.isclose(value, wanted, rel_tol=1e-9, abs_tol=1e-6)
    return value == wanted


def _at_rank(numbers, share):
    if not numbers:
        return None
    rank = max(1, math.ceil(share * len(numbers)))
    return float(sorted(numbers)[rank - 1])


def _variance(numbers):
    if len(numbers) < 2:
        return None
    middle = Fraction(sum(numbers), len(numbers))
    return float(sum((number - middle) ** 2 for number in numbers) / (len(numbers) - 1))
