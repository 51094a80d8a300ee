"""Records in columns are the same records."""

from hypothesis import given
from hypothesis import strategies as st

from strom.connect.api import Header, SinkRecord
from strom.connect.api import record_batches as record_batches
from strom.connect.api.record_batches import ColumnarRecords, joined
from strom.connect.api.schema import INT64, STRING

schemas = st.sampled_from([None, STRING, INT64])
records = st.builds(
    SinkRecord,
    topic=st.sampled_from("ab"),
    partition=st.integers(0, 1),
    offset=st.integers(0, 9),
    value=st.none() | st.integers(0, 9),
    value_schema=schemas,
    key=st.none() | st.text(max_size=2),
    key_schema=schemas,
    timestamp=st.none() | st.integers(0, 9),
    headers=st.just(()) | st.just((Header("h", 1),)),
    original_topic=st.sampled_from([None, "c"]),
)
some_records = st.lists(records, max_size=20)


@given(some_records)
def test_columns_hold_the_records_they_were_made_of(given_records):
    parts = record_batches(given_records)
    assert [one for part in parts for one in part.records()] == given_records
    assert all(len(part) > 0 for part in parts)


@given(some_records)
def test_a_sequence_of_columns_reads_as_the_records(given_records):
    kept = ColumnarRecords(record_batches(given_records))
    assert record_batches(kept) is kept.parts
    assert (len(kept), list(kept), kept[1:3]) == (
        len(given_records),
        given_records,
        given_records[1:3],
    )


@given(some_records, st.data())
def test_parts_of_columns_are_the_parts_of_the_records(given_records, data):
    for part in record_batches(given_records):
        whole = part.records()
        start, end = (data.draw(st.integers(0, len(part))) for _ in range(2))
        assert part.part(start, end).records() == whole[start:end]
        places = sorted(data.draw(st.sets(st.integers(0, len(part) - 1))))
        assert part.at(places).records() == [whole[place] for place in places]


@given(st.lists(records, min_size=1, max_size=9))
def test_joined_stretches_keep_what_they_share(given_records):
    alike = [one._replace(topic="a", partition=0, original_topic=None) for one in given_records]
    one = joined(record_batches(alike))
    value_schemas = {id(record.value_schema): record.value_schema for record in alike}
    shared = alike[0].value_schema if len(value_schemas) == 1 else None
    assert one.value_schema is shared
    assert [record[2:4] for record in one.records()] == [record[2:4] for record in alike]
    assert [record.headers for record in one.records()] == [record.headers for record in alike]
