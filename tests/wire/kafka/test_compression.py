"""Judges: the codecs of the standard library and of the libraries that the Kafka clients use."""

import gzip
import random
import tracemalloc

import kafka.codec
import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from strom.model.errors import CorruptData
from strom.model.settings import MIB
from strom.wire.kafka.compression import (
    MAX_DECOMPRESSED_BYTES,
    Codec,
    compress,
    decompress,
    default_limit,
)


def _zstd_stream(data):
    stream = zstandard.ZstdCompressor().compressobj()
    return stream.compress(data) + stream.flush()


FOREIGN_PACKERS = {
    "gzip": (Codec.GZIP, gzip.compress),
    "snappy, raw": (Codec.SNAPPY, snappy.compress),
    "snappy, xerial": (Codec.SNAPPY, kafka.codec.snappy_encode),
    "lz4 with content size": (Codec.LZ4, lz4.frame.compress),
    "lz4 without": (Codec.LZ4, lambda data: lz4.frame.compress(data, store_size=False)),
    "zstd with content size": (Codec.ZSTD, zstandard.ZstdCompressor().compress),
    "zstd stream": (Codec.ZSTD, _zstd_stream),
}
FOREIGN_UNPACKERS = {
    Codec.GZIP: gzip.decompress,
    Codec.SNAPPY: kafka.codec.snappy_decode,
    Codec.LZ4: lz4.frame.decompress,
    Codec.ZSTD: lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data),
}
CODECS = [codec for codec in Codec if codec is not Codec.NONE]
SOME_TEXT = b"".join(b"user-%d visited page %d;" % (i % 17, i * i % 1000) for i in range(9000))
DATA = st.binary(max_size=400) | st.builds(
    lambda unit, times: unit * times, st.binary(min_size=1, max_size=9), st.integers(0, 40_000)
)


@pytest.mark.parametrize("packer", FOREIGN_PACKERS)
@given(data=DATA)
def test_what_other_libraries_packed_is_unpacked(packer, data):
    codec, pack = FOREIGN_PACKERS[packer]
    assert decompress(codec, pack(data), MIB) == data


@pytest.mark.parametrize("codec", CODECS)
@given(data=DATA)
def test_other_libraries_unpack_what_was_packed(codec, data):
    assert FOREIGN_UNPACKERS[codec](compress(codec, data)) == data


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_round_trips(codec, kind):
    assert decompress(codec, kind(compress(codec, kind(SOME_TEXT)))) == SOME_TEXT


def test_lz4_blocks_are_independent_because_java_reads_no_others():
    assert compress(Codec.LZ4, SOME_TEXT)[4] & 0b0010_0000


def test_concatenated_gzip_members_are_read_although_the_trailer_counts_only_the_last():
    packed = gzip.compress(SOME_TEXT) + gzip.compress(b"end")
    assert decompress(Codec.GZIP, packed) == SOME_TEXT + b"end"


@pytest.mark.parametrize("packer", FOREIGN_PACKERS)
def test_the_limit_is_exact(packer):
    codec, pack = FOREIGN_PACKERS[packer]
    packed = pack(SOME_TEXT)
    assert decompress(codec, packed, len(SOME_TEXT)) == SOME_TEXT
    with pytest.raises(CorruptData):
        decompress(codec, packed, len(SOME_TEXT) - 1)


@pytest.mark.parametrize("packer", FOREIGN_PACKERS)
def test_a_bomb_is_refused_before_it_takes_memory(packer):
    codec, pack = FOREIGN_PACKERS[packer]
    bomb = pack(bytes(80 * MIB))
    limit = MIB
    tracemalloc.start()
    try:
        with pytest.raises(CorruptData):
            decompress(codec, bomb, limit)
        assert tracemalloc.get_traced_memory()[1] < 4 * limit
    finally:
        tracemalloc.stop()


def test_a_declared_size_is_not_believed():
    with pytest.raises(CorruptData):
        decompress(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f")
    lying = bytearray(gzip.compress(b"x"))
    lying[-4:] = b"\xff\xff\xff\xff"
    with pytest.raises(CorruptData):
        decompress(Codec.GZIP, lying)


@pytest.mark.parametrize("packer", FOREIGN_PACKERS)
def test_damaged_data_is_either_refused_or_unpacked_within_the_limit(packer):
    codec, pack = FOREIGN_PACKERS[packer]
    packed = pack(SOME_TEXT[:3000])
    chance = random.Random(packer)
    for _ in range(400):
        damaged = bytearray(packed)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        del damaged[chance.randrange(len(damaged)) if chance.random() < 0.3 else len(damaged) :]
        try:
            assert len(decompress(codec, damaged, 5000)) <= 5000
        except CorruptData:
            pass


@pytest.mark.parametrize("packer", FOREIGN_PACKERS)
def test_every_truncation_is_refused_or_gives_a_prefix(packer):
    codec, pack = FOREIGN_PACKERS[packer]
    packed = pack(SOME_TEXT[:500])
    for cut in range(len(packed)):
        try:
            assert SOME_TEXT.startswith(decompress(codec, packed[:cut], 2000))
        except CorruptData:
            pass


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_refused(codec):
    with pytest.raises(CorruptData):
        decompress(codec, b"abc")


def test_the_default_limit_grows_with_the_input_up_to_64_mib():
    assert default_limit(0) == MIB
    assert default_limit(1000) == MIB + 100_000
    assert default_limit(100 * MIB) == MAX_DECOMPRESSED_BYTES


def test_codecs_are_found_by_the_names_that_settings_use():
    assert [Codec.named(n) for n in ("uncompressed", "gzip", "snappy", "lz4", "zstd")] == list(
        Codec
    )
