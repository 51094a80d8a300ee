"""What a view is made of on disk: versions, each a chain of segments without a gap.

A segment holds the states of all records between two positions. The chain begins at the version's
base, and each segment begins where the one before ends: so every record is in exactly one. Appending
a micro-batch adds a segment at the end. Compacting, and publishing a batch, put one segment in the place
of those that cover the same records. Either keeps the chain whole, or refuses.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from strom.model.errors import StromError
from strom.pipelines.offsets import Offsets

Layer = Literal["speed", "batch"]
VersionState = Literal["building", "ready"]


class ChainConflict(StromError):
    """A segment that does not fit the chain: someone else has changed it since. Read it again."""


@dataclass(frozen=True)
class Segment:
    """The states of the records from `start` up to, but without, `end`."""

    start: Offsets
    end: Offsets
    files: tuple[str, ...]
    layer: Layer = "speed"
    level: int = 0
    """How often it was compacted."""
    written_ms: int = 0

    @property
    def records(self) -> int:
        """How many offsets it covers."""
        return self.end - self.start

    @property
    def is_empty(self) -> bool:
        """Whether the speed layer found nothing in these records: no state, so no file either."""
        return self.layer == "speed" and not self.files


@dataclass(frozen=True)
class Version:
    """One definition of a view, with what it has computed."""

    number: int
    fingerprint: str
    definition: str
    """For people: keys and measures in a line."""
    output: tuple[tuple[str, str], ...]
    """The columns of the rows that it folds, and expressions in its measures, with their types."""
    base: Offsets
    created_ms: int
    identity: str
    """A file of no states, which still has all columns."""
    segments: tuple[Segment, ...] = ()
    pinned: Offsets | None = None
    """A position that compaction must not swallow: a batch up to here is being computed."""
    incarnation: int = 0
    """Which topic of that name was read: one that is made anew has another number. 0: not known."""
    state: VersionState = "ready"
    """`building` until it has caught up with the log. A manifest of 0.1.0 has no states: any version
    in it may be kept for a rollback, so it is `ready`, and nothing removes it."""
    skipped: tuple[tuple[int, int], ...] = ()
    """Partition and offset of the records that it cannot compute. Batches leave them out, too."""

    @property
    def position(self) -> Offsets:
        """Up to where records are counted in."""
        return self.segments[-1].end if self.segments else self.base

    @property
    def files(self) -> list[str]:
        """All files that a reader has to merge."""
        return [self.identity, *(file for segment in self.segments for file in segment.files)]

    @property
    def boundaries(self) -> list[Offsets]:
        """The positions at which the chain can be cut."""
        return [self.base, *(segment.end for segment in self.segments)]

    def spliced(self, new: Segment) -> "Version":
        """The chain with this segment in the place of those it covers; ChainConflict if it does not fit.

        At the end of the chain a segment may reach further than those it replaces.
        """
        bounds = self.boundaries
        if new.start not in bounds:
            raise ChainConflict(f"version {self.number} has no boundary at {new.start}")
        begin = bounds.index(new.start)
        if new.end in bounds:
            # The last one: a segment between two equal boundaries is empty.
            end = len(bounds) - 1 - bounds[::-1].index(new.end)
        elif self.position <= new.end:
            end = len(bounds) - 1
        else:
            raise ChainConflict(f"version {self.number} has no boundary at {new.end}")
        if end < begin:
            raise ChainConflict(f"a segment cannot end at {new.end}, before it starts")
        segments = (*self.segments[:begin], new, *self.segments[end:])
        return replace(self, segments=segments)

    def appended(self, new: Segment) -> "Version":
        """The chain with one more segment, which must begin where the chain ends.

        An empty one makes an empty predecessor longer, so that a quiet stream's chain does not grow.
        """
        if new.start != self.position:
            raise ChainConflict(f"version {self.number} is at {self.position}, not at {new.start}")
        return replace(self, segments=(*self.segments[:-1], *self._joined(self.segments[-1:], new)))

    def collapsed(self) -> "Version":
        """The chain with one segment in the place of each run of empty ones."""
        segments: list[Segment] = []
        for segment in self.segments:
            segments[-1:] = self._joined(segments[-1:], segment)
        return (
            self if len(segments) == len(self.segments) else replace(self, segments=tuple(segments))
        )

    def _joined(self, last: Sequence[Segment], new: Segment) -> Sequence[Segment]:
        """The last segment and a new one; as one if both are empty.

        Boundaries of segments with states stay: a batch is cut at one, and would otherwise have to wait
        until the archive has all records of a segment that never ends. So does one that is pinned.
        """
        if last and last[0].is_empty and new.is_empty and last[0].end != self.pinned:
            return [replace(last[0], end=new.end, written_ms=new.written_ms)]
        return [*last, new]


@dataclass(frozen=True)
class Manifest:
    """Everything that is known of a view. Read it once, and you have a consistent picture."""

    view: str
    topic: str
    active: int | None = None
    previous: int | None = None
    """The version that was active before: where a rollback goes."""
    versions: tuple[Version, ...] = ()
    retired: tuple[tuple[str, int], ...] = ()
    """Files that are listed no more, and since when: readers with an older picture may need them."""

    @property
    def files(self) -> set[str]:
        """All files that some version lists."""
        return {file for version in self.versions for file in version.files}

    def version(self, number: int) -> Version:
        """A version by its number."""
        for version in self.versions:
            if version.number == number:
                return version
        raise ChainConflict(f"view {self.view} has no version {number}")

    @property
    def active_version(self) -> Version | None:
        """The version that queries see."""
        return None if self.active is None else self.version(self.active)

    def with_version(self, version: Version) -> "Manifest":
        """The same with this version added, or in the place of the one with its number."""
        others = [one for one in self.versions if one.number != version.number]
        versions = sorted([*others, version], key=lambda one: one.number)
        return replace(self, versions=tuple(versions))

    def with_ready(self, number: int) -> "Manifest":
        """The same with a version that has caught up."""
        return self.with_version(replace(self.version(number), state="ready"))

    def switched_to(self, number: int) -> "Manifest":
        """The same with another version for queries; it is ready from then on."""
        if number == self.active:
            return self
        return replace(self.with_ready(number), active=number, previous=self.active)

    def state_of(self, number: int) -> str:
        """`active` for the version that queries see; of others, `building` until they have caught up."""
        return "active" if number == self.active else self.version(number).state

    def without(self, number: int) -> "Manifest":
        """The same without a version that nobody sees."""
        if number == self.active:
            raise ChainConflict(f"version {number} of view {self.view} is the active one")
        versions = tuple(one for one in self.versions if one.number != number)
        previous = None if self.previous == number else self.previous
        return replace(self, versions=versions, previous=previous)


def to_json(manifest: Manifest) -> dict[str, Any]:
    """Plain values for a JSON file."""
    return asdict(manifest)


def from_json(values: dict[str, Any]) -> Manifest:
    """The manifest of plain values."""
    versions = tuple(map(_version, values["versions"]))
    retired = tuple((file, since) for file, since in values["retired"])
    return Manifest(**{**values, "versions": versions, "retired": retired})


def _version(values: dict[str, Any]) -> Version:
    segments = tuple(
        Segment(
            **{
                **one,
                "files": tuple(one["files"]),
                "start": _offsets(one["start"]),
                "end": _offsets(one["end"]),
            }
        )
        for one in values["segments"]
    )
    return Version(
        **{
            **values,
            "base": _offsets(values["base"]),
            "pinned": values["pinned"] and _offsets(values["pinned"]),
            "segments": segments,
            "output": tuple((name, kind) for name, kind in values["output"]),
            "skipped": tuple((p, offset) for p, offset in values.get("skipped", ())),
        }
    )


def _offsets(values: dict[str, Sequence[int]]) -> Offsets:
    return Offsets(tuple(values["next"]))
