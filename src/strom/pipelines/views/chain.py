"""The structure of a view on disk: versions, each a chain of segments without gaps.

A segment holds the states of all records between two positions. The chain starts at the version's base,
and each segment starts where the one before ends: so every record is in exactly one. A micro-batch
appends a segment. Compaction, and publishing a batch, replace segments by one that covers the same
records. Each operation keeps the chain contiguous, or fails.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from strom.model.errors import StromError
from strom.pipelines.offsets import TopicOffsets

Layer = Literal["speed", "batch"]
VersionState = Literal["building", "ready"]


class ChainConflict(StromError):
    """A segment that does not fit the chain: another writer has changed it meanwhile. Read it again."""


@dataclass(frozen=True)
class ViewSegment:
    """The states of the records from `start` up to, not including, `end`."""

    start: TopicOffsets
    end: TopicOffsets
    files: tuple[str, ...]
    layer: Layer = "speed"
    level: int = 0
    """The number of times it was compacted."""
    written_ms: int = 0

    @property
    def records(self) -> int:
        """The number of offsets that it covers."""
        return self.end - self.start

    @property
    def is_empty(self) -> bool:
        """Whether these records produced no states in the speed layer, and so no file."""
        return self.layer == "speed" and not self.files


@dataclass(frozen=True)
class Version:
    """One definition of a view, with what it has computed."""

    number: int
    fingerprint: str
    definition: str
    """A summary for people: keys and measures."""
    output: tuple[tuple[str, str], ...]
    """The types of the folded rows' columns, and of expressions in its measures."""
    base: TopicOffsets
    created_ms: int
    identity: str
    """A file without states that has all columns."""
    segments: tuple[ViewSegment, ...] = ()
    pinned: TopicOffsets | None = None
    """A position that compaction must preserve: a batch up to here is in progress."""
    incarnation: int = 0
    """Identifies the topic among those of the same name.

    A recreated one has another number. 0: unknown.
    """
    state: VersionState = "ready"
    """`building` until it has caught up with the log. A manifest of 0.1.0 has no states: any version
    in it may be kept for a rollback, so it is `ready`, and nothing removes it."""
    skipped: tuple[tuple[int, int], ...] = ()
    """Partition and offset of the records that it cannot compute. Batches skip them, too."""

    @property
    def position(self) -> TopicOffsets:
        """The position up to which records are included."""
        return self.segments[-1].end if self.segments else self.base

    @property
    def files(self) -> list[str]:
        """All files that a reader has to merge."""
        return [self.identity, *(file for segment in self.segments for file in segment.files)]

    @property
    def boundaries(self) -> list[TopicOffsets]:
        """The positions at which the chain can be cut."""
        return [self.base, *(segment.end for segment in self.segments)]

    def spliced(self, new: ViewSegment) -> "Version":
        """Replace the segments that this one covers; ChainConflict if it does not fit.

        At the end of the chain a segment may extend beyond those that it replaces.
        """
        bounds = self.boundaries
        if new.start not in bounds:
            raise ChainConflict(f"version {self.number} has no boundary at {new.start}")
        begin = bounds.index(new.start)
        if new.end in bounds:
            # The last match: a segment between two equal boundaries is empty.
            end = len(bounds) - 1 - bounds[::-1].index(new.end)
        elif self.position <= new.end:
            end = len(bounds) - 1
        else:
            raise ChainConflict(f"version {self.number} has no boundary at {new.end}")
        if end < begin:
            raise ChainConflict(f"a segment cannot end at {new.end}, before it starts")
        segments = (*self.segments[:begin], new, *self.segments[end:])
        return replace(self, segments=segments)

    def appended(self, new: ViewSegment) -> "Version":
        """Append a segment, which must start at the end of the chain.

        An empty one extends an empty predecessor, so that the chain of a quiet stream does not grow.
        """
        if new.start != self.position:
            raise ChainConflict(f"version {self.number} is at {self.position}, not at {new.start}")
        return replace(self, segments=(*self.segments[:-1], *self._joined(self.segments[-1:], new)))

    def collapsed(self) -> "Version":
        """Replace each run of empty segments by one."""
        segments: list[ViewSegment] = []
        for segment in self.segments:
            segments[-1:] = self._joined(segments[-1:], segment)
        return (
            self if len(segments) == len(self.segments) else replace(self, segments=tuple(segments))
        )

    def _joined(self, last: Sequence[ViewSegment], new: ViewSegment) -> Sequence[ViewSegment]:
        """The last segment and a new one; merged if both are empty.

        Boundaries of segments with states are kept: a batch is cut at one, and would otherwise have to
        wait until the archive has all records of a segment that never ends. So is a pinned one.
        """
        if last and last[0].is_empty and new.is_empty and last[0].end != self.pinned:
            return [replace(last[0], end=new.end, written_ms=new.written_ms)]
        return [*last, new]


@dataclass(frozen=True)
class Manifest:
    """The state of a view. One read gives a consistent snapshot."""

    view: str
    topic: str
    active: int | None = None
    previous: int | None = None
    """The previously active version: the target of a rollback."""
    versions: tuple[Version, ...] = ()
    retired: tuple[tuple[str, int], ...] = ()
    """Files that are no longer listed, and since when: readers with an older snapshot may need them."""

    @property
    def files(self) -> set[str]:
        """All files that some version lists."""
        return {file for version in self.versions for file in version.files}

    def version(self, number: int) -> Version:
        for version in self.versions:
            if version.number == number:
                return version
        raise ChainConflict(f"view {self.view} has no version {number}")

    @property
    def active_version(self) -> Version | None:
        """The version that queries see."""
        return None if self.active is None else self.version(self.active)

    def with_version(self, version: Version) -> "Manifest":
        """Add a version, or replace the one with its number."""
        others = [one for one in self.versions if one.number != version.number]
        versions = sorted([*others, version], key=lambda one: one.number)
        return replace(self, versions=tuple(versions))

    def with_ready(self, number: int) -> "Manifest":
        """Mark a version as ready, because it has caught up."""
        return self.with_version(replace(self.version(number), state="ready"))

    def switched_to(self, number: int) -> "Manifest":
        """Activate another version, which becomes ready."""
        if number == self.active:
            return self
        return replace(self.with_ready(number), active=number, previous=self.active)

    def state_of(self, number: int) -> str:
        """`active` for the version that queries see; otherwise `building` or `ready`."""
        return "active" if number == self.active else self.version(number).state

    def without(self, number: int) -> "Manifest":
        """Remove an inactive version."""
        if number == self.active:
            raise ChainConflict(f"version {number} of view {self.view} is the active one")
        versions = tuple(one for one in self.versions if one.number != number)
        previous = None if self.previous == number else self.previous
        return replace(self, versions=versions, previous=previous)


def to_json(manifest: Manifest) -> dict[str, Any]:
    """The manifest as values for a JSON file."""
    return asdict(manifest)


def from_json(values: dict[str, Any]) -> Manifest:
    """The manifest of such values."""
    versions = tuple(map(_version, values["versions"]))
    retired = tuple((file, since) for file, since in values["retired"])
    return Manifest(**{**values, "versions": versions, "retired": retired})


def _version(values: dict[str, Any]) -> Version:
    segments = tuple(
        ViewSegment(
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


def _offsets(values: dict[str, Sequence[int]]) -> TopicOffsets:
    return TopicOffsets(tuple(values["next"]))
