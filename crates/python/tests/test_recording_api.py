"""Recordings as Python users expect them: closed by `with`, times of NumPy and of astropy."""

import asyncio
import fractions

import numpy as np
import pytest

from skyhaul import recording
from skyhaul.recording import _time

RATE = 32_000_000
START = "2026-02-03T04:05:06"


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    path = tmp_path_factory.mktemp("plain") / "x.vdif"
    data = np.random.default_rng(1).normal(0, 2, RATE // 100)
    with recording.create(path, sample_rate=RATE, start=START) as writer:
        writer.write(data)
    return path


def test_a_recording_is_closed(plain):
    with recording.open(plain, sample_rate=RATE) as scan:
        samples = scan.samples(count=10)
        lazy = scan.to_xarray() if has("xarray") else None
    assert samples.shape == (10, 1, 1)
    for call in (lambda: scan.samples(count=1), lambda: scan.about, lambda: scan.streams[0].headers(), lambda: scan.survey()):
        with pytest.raises(ValueError, match=r"x.vdif is closed; hint: open the scan again"):
            call()
    if lazy is not None:
        with pytest.raises(ValueError, match="is closed"):
            lazy.compute()
    scan.close()
    assert "x.vdif" in repr(scan)


def has(name):
    try:
        __import__(name)
    except ImportError:
        return False
    return True


def test_a_writer_is_left_in_a_coroutine(tmp_path):
    async def write():
        async with recording.create(tmp_path / "y", sample_rate=RATE, start=START) as writer:
            writer.write(np.ones(32000))
        return recording.open(tmp_path / "y", sample_rate=RATE).about.samples

    assert asyncio.run(write()) == 32000


def test_times_of_frames_are_datetime64():
    time = recording.FrameTime(1_770_091_506, 3)
    assert time == (1_770_091_506, 3) and time.second == 1_770_091_506
    assert time.datetime64(1000) == np.datetime64("2026-02-03T04:05:06.003")
    assert time.datetime64(7) == np.datetime64("2026-02-03T04:05:06.428571428")
    chunk = recording.Chunk(0, False, memoryview(b""), time, None, 8, 1000)
    assert (chunk.start, chunk.end) == (np.datetime64("2026-02-03T04:05:06.003"), None)
    assert recording.Chunk(0, False, memoryview(b""), time, time, 8).start is None


class TestAstropy:
    @pytest.fixture(autouse=True)
    def _installed(self):
        pytest.importorskip("astropy", reason="astropy is not installed (pip install astropy)")

    def test_times_and_quantities_are_taken(self, plain):
        from astropy import units
        from astropy.time import Time, TimeDelta

        scan = recording.open(plain, sample_rate=32 * units.MHz)
        assert scan.about.sample_rate == RATE
        wanted = scan.samples("2026-02-03T04:05:06.0025", count=100)
        same = [Time("2026-02-03T04:05:06.0025"), Time("2026-02-03T04:05:06.0025").tai, 2.5 * units.ms, 0.0025 * units.s, TimeDelta(0.0025, format="sec")]
        for start in same:
            assert np.array_equal(scan.samples(start, count=100), wanted), start
        for duration in (3.125 * units.us, 3125 * units.ns, TimeDelta(3.125e-6, format="sec")):
            assert np.array_equal(scan.samples(0.0025, duration), wanted), duration
        with pytest.raises(units.UnitConversionError):
            scan.samples(0, 3 * units.m)
        assert Time(scan.about.start).isot == "2026-02-03T04:05:06.000"

    def test_nanoseconds_are_kept(self):
        from astropy.time import Time

        since = _time.absolute(Time("2026-02-03T04:05:06.123456789"))
        assert since == fractions.Fraction(1_770_091_506_123_456_789, 10**9)

    def test_writers_and_clocks_take_them(self, tmp_path):
        from astropy import units
        from astropy.time import Time

        start = Time("2026-02-03T04:05:06")
        with recording.create(tmp_path / "y", sample_rate=32 * units.MHz, start=start, rate=1 * units.Gbit / units.s) as writer:
            writer.write(np.ones(32000))
        assert recording.open(tmp_path / "y", sample_rate=RATE).about.start == start.to_value("datetime64")
        clock = recording.Clock("x", per_second=1 * units.kHz, epoch=start)
        assert clock.times(np.array([0, 1500])).tolist() == [1_770_091_506_000_000_000, 1_770_091_507_500_000_000]


def test_a_damaged_tick_is_no_time():
    late = np.datetime64("2026-01-01", "ns")
    for ticks in (np.array([0, 2**47, 1500]), np.array([0, 2**64 - 1, 1500], np.uint64), np.array([0.0, np.inf, 1500.0])):
        times = recording.Clock("x", per_second=1000, epoch=late).times(ticks)
        assert times.dtype == "M8[ns]"
        assert [str(time) for time in times[[0, 2]]] == ["2026-01-01T00:00:00.000000000", "2026-01-01T00:00:01.500000000"]
        # 4462 years are no time, nor is what is beyond 64 bits.
        assert np.isnat(times[1]), ticks
    # Whole numbers: 9 thirds of a nanosecond are 3.
    assert recording.Clock("x", per_second=3e9).times(np.arange(0, 12, 3)).astype(np.int64).tolist() == [0, 1, 2, 3]
    # A rate of a half is exact, too: LOFAR's, since 1970.
    half = recording.Clock("x", per_second=195312.5)
    for ticks in (np.array([351346088706747, 390625 * 7 + 1]), np.array([351346088706747, 390625 * 7 + 1], np.uint64)):
        assert half.times(ticks).astype(np.int64).tolist() == [1_798_891_974_178_544_640, 14_000_005_120]
    assert half.times(np.array([-1])).astype(np.int64).tolist() == [-5120]
    fast = recording.Clock("x", per_second=10**10).times(np.array([10**10 + 20, 2**63 - 1], np.uint64))
    assert fast.astype(np.int64).tolist() == [1_000_000_002, 922_337_203_685_477_580]


def test_no_item_takes_the_place_of_another():
    from skyhaul.recording._columns import variable_of

    items = ["time", "time_", "valid", "x_"]
    assert [variable_of(name, items) for name in items] == ["time__", "time_", "valid_", "x_"]
