"""Counts rows that violate expectations, in an extra view per view with expectations."""

from dataclasses import replace

from strom.pipelines.definitions.view import View
from strom.pipelines.measures import count


def quality_view(view: View) -> View | None:
    """The view `NAME_quality` with violations per expectation; None if the view has none to count.

    It is computed as any other view: a row counts once, in batch, speed layer and replay.
    """
    counted = {**view.expect, **view.expect_or_drop}
    if not counted:
        return None
    failed = {
        name: count(f"CASE WHEN coalesce({condition}, false) THEN NULL ELSE 1 END")
        for name, condition in counted.items()
    }
    return replace(
        view,
        keys=(),
        measures={"rows": count(), **failed},
        select=(),
        name=f"{view.name}_quality",
        expect={},
        expect_or_drop={},
        expect_or_fail={},
    )
