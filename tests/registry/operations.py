"""Random requests to a registry, decided and written to a log that is a list; no broker needed."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from strom.registry.configuring import delete_config, delete_mode, set_config, set_mode
from strom.registry.deleting import delete_subject, delete_version
from strom.registry.formats.schema import Reference, SchemaType
from strom.registry.records import Content, StateChange, TopicRecord, decode, encode
from strom.registry.refusals import RestError
from strom.registry.registering import SchemaRequest, register
from strom.registry.subjects import LATEST, Subjects

SUBJECTS = ["a", "ref/b"]
Operation = Callable[[Subjects], StateChange[Any]]


@dataclass
class Played:
    """A registry without a broker: what was decided is appended and applied at once."""

    log: list[TopicRecord] = field(default_factory=list)
    subjects: Subjects = field(default_factory=Subjects)
    given: dict[int, set[Content]] = field(default_factory=dict)
    """Every content that an id ever had."""

    def play(self, operation: Operation) -> Any:
        """The answer, or the refusal."""
        try:
            change = operation(self.subjects)
        except RestError as refusal:
            return refusal
        for entry in change.entries:
            record = encode(entry)
            self.log.append(record)
            decoded = decode(record)
            assert decoded == entry
            self.subjects.apply(decoded)
        for one in self.subjects.all_versions(deleted=True):
            self.given.setdefault(one.id, set()).add(one.content)
        return change.response


def replayed(log: list[TopicRecord]) -> Subjects:
    subjects = Subjects()
    for record in log:
        entry = decode(record)
        if entry is not None:
            subjects.apply(entry)
    return subjects


def compacted(log: list[TopicRecord], upto: int, *, tombstones: bool) -> list[TopicRecord]:
    """The log as compaction may leave it: of the first records, only the last of each key."""
    last = {record.key: index for index, record in enumerate(log[:upto])}
    kept = [
        record
        for index, record in enumerate(log[:upto])
        if last[record.key] == index and (record.value is not None or tombstones)
    ]
    return kept + log[upto:]


def avro(name: str, field_name: str) -> str:
    fields = [{"name": field_name, "type": "int", "default": 0}]
    return json.dumps({"type": "record", "name": name, "fields": fields})


def content(number: int, references: tuple[Reference, ...] = ()) -> Content:
    # A schema may not define again what a reference brings along.
    return Content(SchemaType.AVRO, avro("S" if references else "R", f"f{number}"), references)


_subjects = st.sampled_from(SUBJECTS)
_versions = st.sampled_from([1, 2, 3, LATEST])
_references = st.lists(
    st.builds(Reference, st.just("R0"), _subjects, st.integers(1, 3)), max_size=1
).map(tuple)


def _operation(function: Any, *arguments: Any, **named: Any) -> Operation:
    return lambda subjects: function(subjects, *arguments, **named)


def _wishes() -> st.SearchStrategy[SchemaRequest]:
    return st.builds(
        SchemaRequest,
        _subjects,
        st.builds(content, st.integers(1, 3), _references),
        st.just(False),
        st.none() | st.none() | st.integers(1, 6),
        st.none() | st.none() | st.integers(1, 4),
    )


OPERATIONS: st.SearchStrategy[Operation] = st.one_of(
    _wishes().map(lambda wish: _operation(register, wish)),
    _wishes().map(lambda wish: _operation(register, wish)),
    st.builds(
        lambda subject, version, permanent: _operation(
            delete_version, subject, version, permanent=permanent
        ),
        _subjects,
        _versions,
        st.booleans(),
    ),
    _subjects.map(lambda subject: _operation(delete_subject, subject, permanent=True)),
    st.builds(
        lambda subject, permanent: _operation(delete_subject, subject, permanent=permanent),
        _subjects,
        st.booleans(),
    ),
    st.builds(
        lambda subject, level: _operation(set_config, subject, {"compatibility": level}),
        st.none() | _subjects,
        st.sampled_from(["NONE", "NONE", "FULL_TRANSITIVE"]),
    ),
    (st.none() | _subjects).map(lambda subject: _operation(delete_config, subject)),
    st.builds(
        lambda subject, mode: _operation(set_mode, subject, mode, force=True),
        _subjects,
        st.sampled_from(["READWRITE", "READWRITE", "READONLY", "IMPORT"]),
    ),
    st.sampled_from(["READWRITE", "IMPORT"]).map(lambda mode: _operation(set_mode, None, mode)),
    (st.none() | _subjects).map(lambda subject: _operation(delete_mode, subject)),
)
