"""Files that `skyhaul.recording.create` writes: baseband reads them, headers verified, and finds the same samples."""

import itertools
import socket
import time

import astropy.units as u
import numpy as np
import pytest
from baseband import mark5b, vdif

from skyhaul import recording

START = "2026-02-03T04:05:06.25"
EDVS = ["legacy", 0, 1, 2, 3, 4, 0xAB]
WIDTHS = [(1, 1, 1), (1, 8, 3), (2, 1, 8), (2, 16, 2), (4, 2, 2), (8, 1, 1), (8, 4, 3)]


def levels(bits, shape, complex_data, seed=1):
    """Samples that lie on the levels: encoding them loses nothing."""
    chance = np.random.default_rng(seed)
    table = {
        1: np.array([-1, 1]),
        2: np.array([-3.316505, -1, 1, 3.316505]),
        4: (np.arange(16, dtype=np.float32) - 8) / np.float32(2.95),
        8: (np.arange(256, dtype=np.float32) - np.float32(127.5)) / np.float32(35.5),
    }[bits].astype(np.float32)
    parts = chance.choice(table, (*shape, 1 + complex_data))
    return parts.view(np.complex64)[..., 0] if complex_data else parts[..., 0]


def every_kind():
    for edv, complex_data, (bits, channels, threads) in itertools.product(EDVS, [False, True], WIDTHS):
        if edv == 0xAB and (complex_data or bits > 2 or threads > 1):
            continue
        if edv == 2 and (complex_data or bits != 2):
            continue
        payload = 5000 if edv == 3 else 10000 if edv == 0xAB else 8000
        if payload * 8 % (bits * channels * (1 + complex_data)) == 0:
            name = f"edv{edv}-{'complex' if complex_data else 'real'}-{bits}x{channels}x{threads}"
            yield pytest.param(edv, complex_data, bits, channels, threads, payload, id=name)


@pytest.mark.parametrize(("edv", "complex_data", "bits", "channels", "threads", "payload"), list(every_kind()))
def test_vdif(tmp_path, edv, complex_data, bits, channels, threads, payload):
    rows = payload * 8 // (bits * channels * (1 + complex_data))
    rate, path = rows * 400, tmp_path / "x.vdif"
    data = levels(bits, (rows * 12, threads, channels), complex_data)
    with recording.create(path, sample_rate=rate, start=START, bits=bits, channels=channels, threads=threads,
                          complex=complex_data, edv=edv, station="Sk") as writer:
        # In pieces of any length.
        for piece in np.array_split(data, 7):
            writer.write(piece)
    scan = recording.open(path, sample_rate=rate)
    assert scan.about.start == np.datetime64(START)
    assert np.array_equal(scan.samples(missing="raise"), data)
    with vdif.open(path, "rb") as reader:
        frame = reader.read_frame()
        assert frame.header.station == "Sk"
        # It knows no EDV 4.
        assert frame.header.edv == {"legacy": False, 4: None}.get(edv, edv)
    if edv == 0xAB:
        with vdif.open(path, "rb") as reader:
            theirs = np.concatenate([reader.read_frame().data for _ in range(12)])[:, np.newaxis]
    else:
        with vdif.open(path, "rs", sample_rate=rate * u.Hz, squeeze=False) as reader:
            assert np.datetime64(reader.start_time.utc.isot) == np.datetime64(START)
            theirs = reader.read()
    assert np.array_equal(theirs, data)


@pytest.mark.parametrize(("bits", "channels"), [(1, 1), (1, 32), (2, 1), (2, 8), (2, 16)])
def test_mark5b(tmp_path, bits, channels):
    rows = 80_000 // (bits * channels)
    rate, path = rows * 6400, tmp_path / "x.m5b"
    data = levels(bits, (rows * 9, 1, channels), False)
    with recording.create(path, format="mark5b", sample_rate=rate * u.Hz, start=START, bits=bits, channels=channels) as writer:
        writer.write(data[:, 0])
    with mark5b.open(path, "rs", sample_rate=rate * u.Hz, kday=61000, nchan=channels, bps=bits, squeeze=False) as reader:
        assert np.datetime64(reader.start_time.utc.isot) == np.datetime64(START)
        assert np.array_equal(reader.read(), data[:, 0])
    scan = recording.open(path, sample_rate=rate, bits=bits, channels=channels, ref_time=START)
    assert np.array_equal(scan.samples(missing="raise"), data)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_noise_is_coded_as_baseband_codes_it(tmp_path, bits):
    data = np.random.default_rng(bits).normal(0, 2.2, (8000 * 8 // bits * 4, 1, 1)).astype(np.float32)
    rate = 8000 * 8 // bits * 400
    ours, theirs = tmp_path / "ours.vdif", tmp_path / "theirs.vdif"
    with recording.create(ours, sample_rate=rate, start=START, bits=bits) as writer:
        writer.write(data)
    from astropy.time import Time

    with vdif.open(theirs, "ws", sample_rate=rate * u.Hz, samples_per_frame=8000 * 8 // bits, nchan=1, nthread=1, edv=0,
                   complex_data=False, bps=bits, time=Time(START), station="Sk", squeeze=False) as writer:
        writer.write(data)
    assert ours.read_bytes()[32:8032] == theirs.read_bytes()[32:8032]
    assert np.array_equal(recording.open(ours, sample_rate=rate).samples(), recording.open(theirs, sample_rate=rate).samples())


@pytest.mark.parametrize("transport, sequence", [("udp", "auto"), ("udp", "big"), ("udp", None), ("tcp", "auto")])
@pytest.mark.parametrize("form", ["vdif", "mark5b"])
def test_samples_that_are_sent_are_recorded(record, transport, sequence, form):
    """Straight from NumPy to a recorder, which places frames by their sequence numbers or their times."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ends = ("--listen", f"tcp://127.0.0.1:{port}", "--idle", "2s") if transport == "tcp" else ()
    recorder = record("--frame-rate", 200, "--chunk", "1MiB", *ends, form=form)
    port = port if transport == "tcp" else recorder.port
    samples = levels(2, (4_000_000, 1, 4), False)
    kind = {"format": "mark5b"} if form == "mark5b" else {"payload": 10_000}
    writer = recording.create(f"{transport}://127.0.0.1:{port}", sample_rate=2_000_000, start="2026-02-03T04:05:06",
                              channels=4, rate=400e6, sequence=sequence, **kind)
    with writer:
        for part in np.array_split(samples, 7):
            writer.write(part)
    assert writer.report["packets"] == len(samples) // writer.frame_samples and writer.report["error"] is None
    if transport == "tcp":
        recorder.process.communicate(timeout=60)
    else:
        recorder.finish()
    scan = recording.open(recorder.disks, recorder.scan, sample_rate=2_000_000, **({"channels": 4} if form == "mark5b" else {}))
    assert scan.gaps == [] and scan.about.start == np.datetime64("2026-02-03T04:05:06")
    assert np.array_equal(scan.samples(), samples)


def test_sending_ends_with_an_error_or_when_it_is_asked_to():
    given = {"sample_rate": 3_200_000, "start": "2026-02-03T04:05:06"}
    with pytest.raises(OSError, match="127.0.0.1:1"):
        recording.create("tcp://127.0.0.1:1", **given)
    with pytest.raises(ValueError, match="rate"):
        recording.create("udp://127.0.0.1:9", rate=-1, **given)
    with pytest.raises(ValueError):
        recording.create("udp://nowhere", **given)
    # At a rate at which it would take hours: an exception within the block ends it at once.
    started = time.monotonic()
    with pytest.raises(KeyError):
        with recording.create("udp://127.0.0.1:9", rate=1e4, **given) as writer:
            writer.write(np.zeros(1_000_000))
            raise KeyError
    assert time.monotonic() - started < 30
    with pytest.raises(OSError, match="closed"):
        writer.write(np.zeros(1_000_000))
