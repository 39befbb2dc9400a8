"""The same samples as baseband's, bit by bit: `skyhaul.recording` reads what baseband ships, writes, and what was recorded."""

import io
import itertools
import random
import warnings

import astropy.units as u
import baseband.data
import numpy as np
import pytest
from astropy.time import Time
from baseband import mark5b, vdif

from skyhaul import recording

START = Time("2026-02-03T04:05:06")
FRAMES = 12
# Name, samples per second, whether the headers state it, and leap seconds between the epoch of the headers and the data.
# These count for baseband. Epochs of half a year, as the standard has them, do not differ.
SHIPPED = [
    ("SAMPLE_VDIF", 32 * u.MHz, True, 0),
    ("SAMPLE_VLBI_VDIF", 32 * u.MHz, True, 0),
    ("SAMPLE_MWA_VDIF", 1.28 * u.MHz, False, 0),
    ("SAMPLE_AROCHIME_VDIF", 390625 * u.Hz, False, 4),
    ("SAMPLE_BPS1_VDIF", 8 * u.MHz, False, 0),
]


def assert_same(ours, theirs):
    """Bit by bit, but for the bits of NaN."""
    theirs = np.ascontiguousarray(theirs)
    assert ours.dtype == theirs.dtype
    assert ours.shape == theirs.shape
    parts = ours.view(np.float32), theirs.view(np.float32)
    missing = [np.isnan(part) for part in parts]
    assert np.array_equal(*missing), "others are missing"
    bits = [np.where(gone, 0, part.view(np.uint32)) for gone, part in zip(missing, parts, strict=True)]
    assert np.array_equal(*bits)


def random_ranges(total, seed, count=25):
    chance = random.Random(seed)
    for _ in range(count):
        first = chance.randrange(total)
        yield first, chance.randrange(1, total - first + 1)


def assert_same_ranges(scan, reader, seed=1):
    assert_same(scan.samples(), reader.read())
    for first, count in random_ranges(scan.about.samples, seed):
        reader.seek(first)
        # From Python, samples are counted by the time of the first.
        ours = scan.streams[0].decoded().read_range(first, count)
        assert_same(ours, reader.read(count))


@pytest.mark.parametrize(("name", "rate", "stated", "leap"), SHIPPED, ids=[name for name, *_ in SHIPPED])
def test_what_baseband_ships(name, rate, stated, leap):
    path = getattr(baseband.data, name)
    scan = recording.open(path, sample_rate=None if stated else rate)
    with vdif.open(path, "rs", sample_rate=rate, squeeze=False) as reader:
        assert scan.about.start == np.datetime64(reader.start_time.utc.isot) + np.timedelta64(leap, "s")
        assert scan.about.sample_rate == rate.to_value(u.Hz)
        assert_same_ranges(scan, reader)


@pytest.mark.parametrize(("bits", "channels"), [(2, 8), (1, 16), (2, 4), (1, 32), (2, 16)])
def test_mark5b_as_it_ships_it(bits, channels):
    path = baseband.data.SAMPLE_MARK5B
    scan = recording.open(path, channels=channels, bits=bits, sample_rate=32_000_000, ref_time="2014-06-01T00:00")
    with mark5b.open(path, "rs", sample_rate=32 * u.MHz, kday=56000, nchan=channels, bps=bits, squeeze=False) as reader:
        assert scan.about.start == np.datetime64(reader.start_time.utc.isot)
        assert_same(scan.samples()[:, 0], reader.read())


def test_a_damaged_file_is_refused():
    """Its headers say 5 bits; baseband decodes its frames as what they are not."""
    with pytest.raises(ValueError, match="5 bits in offset binary are not decoded"):
        recording.open(baseband.data.SAMPLE_DRAO_CORRUPT, sample_rate=390625).samples()


def every_width():
    widths = [(1, 1, 1), (1, 8, 3), (2, 1, 8), (2, 4, 2), (2, 1024, 1), (4, 1, 2), (4, 16, 5), (8, 1, 1), (8, 2, 16), (8, 64, 2)]
    for edv, complex_data, (bits, channels, threads) in itertools.product([0, 1, 3, False], [False, True], widths):
        payload = 5000 if edv == 3 else 8192
        # VLBA's frames hold no whole sample of many channels.
        if payload * 8 % (channels * bits * (1 + complex_data)) == 0:
            name = f"edv{edv}-{'complex' if complex_data else 'real'}-{bits}x{channels}x{threads}"
            yield pytest.param(edv, complex_data, bits, channels, threads, payload, id=name)


@pytest.mark.parametrize(("edv", "complex_data", "bits", "channels", "threads", "payload"), list(every_width()))
def test_every_width_that_baseband_writes(tmp_path, edv, complex_data, bits, channels, threads, payload):
    per_frame = payload * 8 // (channels * bits * (1 + complex_data))
    rate = per_frame * 2000 * u.Hz
    chance = np.random.default_rng(bits * 1000 + channels)
    shape = (per_frame * FRAMES, threads, channels)
    data = chance.normal(0, 2.2, shape).astype(np.float32)
    if complex_data:
        data = data + 1j * chance.normal(0, 2.2, shape).astype(np.float32)
    path = tmp_path / "x.vdif"
    with vdif.open(path, "ws", sample_rate=rate, samples_per_frame=per_frame, nchan=channels, nthread=threads,
                   complex_data=complex_data, bps=bits, edv=edv, time=START, station="sk", squeeze=False) as writer:
        writer.write(data)
    scan = recording.open(path, sample_rate=rate)
    assert (scan.about.bits, scan.about.complex, scan.about.shape) == (bits, complex_data, shape)
    with vdif.open(path, "rs", sample_rate=rate, squeeze=False) as reader:
        assert_same_ranges(scan, reader)
    raw = scan.samples(raw=True)
    if bits == 2:
        levels = np.array([-3.316505, -1, 1, 3.316505], np.float32)[raw + 2]
        assert_same(scan.samples().view(np.float32).reshape(levels.shape), levels)


def test_what_baseband_cannot_decode(tmp_path):
    """16 and 32 bits: the levels are those of 8 bits, continued."""
    header = vdif.VDIFHeader.fromvalues(edv=0, time=START, samples_per_frame=100, nchan=1, bps=16, complex_data=False,
                                        station="sk", thread_id=0, frame_nr=0)
    codes = np.arange(0, 65536, 655, dtype="<u2")[:100]
    path = tmp_path / "x.vdif"
    frames = []
    for number in range(8):
        header = header.copy()
        header.mutable = True
        header["frame_nr"] = number
        words = io.BytesIO()
        header.tofile(words)
        frames.append(words.getvalue() + codes.tobytes())
    path.write_bytes(b"".join(frames))
    with vdif.open(path, "rs", sample_rate=1000 * u.Hz) as reader, pytest.raises(KeyError):
        reader.read()
    scan = recording.open(path, sample_rate=1000)
    expected = ((codes - 32767.5) / (35.5 * 256)).astype(np.float32)
    assert np.array_equal(scan.samples(count=100)[:, 0, 0], expected)
    assert np.array_equal(scan.samples(count=100, raw=True)[:, 0, 0], codes.astype(np.int32) - 32768)


@pytest.mark.parametrize(("bits", "channels"), [(1, 1), (1, 32), (2, 1), (2, 8), (2, 16)])
def test_mark5b_in_vdif(tmp_path, bits, channels):
    """EDV 0xAB: frames of Mark 5B, in another header and in the same code."""
    path = tmp_path / "x.vdif"
    chance = np.random.default_rng(channels)
    per_frame = 80_000 // (channels * bits)
    rate = per_frame * 400 * u.Hz
    with path.open("wb") as file:
        for number in range(6):
            header = vdif.VDIFHeader.fromvalues(
                edv=0xAB, time=START + number / 400 * u.s, frame_rate=400 * u.Hz, station="sk", bps=bits, nchan=channels,
                complex_data=False, frame_length=1254, frame_nr=number)
            data = chance.normal(0, 2.2, (per_frame, channels)).astype(np.float32)
            vdif.VDIFFrame.fromdata(data, header).tofile(file)
    scan = recording.open(path, sample_rate=rate)
    # Its reader of streams refuses them, its reader of frames does not.
    with vdif.open(path, "rs", sample_rate=rate) as reader, pytest.raises(ValueError, match="complex_data"):
        reader.read()
    with vdif.open(path, "rb") as reader:
        theirs = [reader.read_frame().data for _ in range(6)]
    assert_same(scan.samples()[:, 0], np.concatenate(theirs))


@pytest.mark.parametrize("name", ["SAMPLE_VDIF", "SAMPLE_BPS1_VDIF"])
def test_after_recording_with_loss(skyhaul, record, name):
    """Lost frames are NaN, as baseband has them if it is told so; all others are as they were."""
    path = getattr(baseband.data, name)
    rate, frames = {"SAMPLE_VDIF": (32 * u.MHz, 1600), "SAMPLE_BPS1_VDIF": (8 * u.MHz, 2000)}[name]
    recorder = record("--frame-rate", frames, "--chunk", "1MiB", form="vdif")
    sent = skyhaul.json("send", "--format", "vdif", "--input", path, "--loop", 150, "--to",
                        f"udp://127.0.0.1:{recorder.port}", "--rate", "1Gbps", "--frame-rate", frames,
                        "--faults", "loss=0.02,burst=10@0.001,reorder=64,duplicate=0.01,seed=5")
    recorder.finish()
    assert sent["lost"] > 0
    scan = recording.open(recorder.disks, recorder.scan)
    stream = recorder.cat()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with vdif.open(io.BytesIO(stream), "rs", sample_rate=rate, squeeze=False, fill_value=np.nan) as reader:
            theirs = reader.read()
    ours = scan.samples()
    assert scan.gaps == []
    assert np.isnan(ours).any()
    assert_same(ours, theirs)
    valid = scan.validity()
    per_frame = scan.about.frame_samples
    assert np.array_equal(np.repeat(valid, per_frame, axis=0), ~np.isnan(ours[:, :, 0]))
    masked = scan.streams[0].samples(missing="mask")
    assert np.array_equal(np.ma.getmaskarray(masked), np.isnan(ours))
    with pytest.raises(recording.Damaged, match="frames are missing or invalid"):
        scan.samples(missing="raise")
