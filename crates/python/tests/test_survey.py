"""What samples look like, headers, Mark 6, and samples in files of other programs."""

import json
import os
import random
import struct
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from skyhaul import recording

RATE = 64_000
START = "2026-11-21T01:46:40"


def noise(count, threads=1, channels=1, complex_data=False, hz=10_000.0, seed=1):
    chance = np.random.default_rng(seed)
    shape = (count, threads, channels)
    phase = 2 * np.pi * hz * np.arange(count) / RATE
    if complex_data:
        return chance.normal(0, 0.7, shape) + 1j * chance.normal(0, 0.7, shape) + np.exp(1j * phase)[:, None, None]
    return chance.normal(0, 1, shape) + np.cos(phase)[:, None, None]


def make(path, samples, *, lost=(), **kwargs):
    """A file of these samples: 4000 bytes a frame, with frames `lost` marked as invalid."""
    given = {"bits": 8, "payload": 4000, **kwargs}
    threads, channels = samples.shape[1:]
    complex_data = bool(np.iscomplexobj(samples))
    with recording.create(
        path, sample_rate=RATE, start=START, threads=threads, channels=channels, complex=complex_data, **given
    ) as file:
        whole = len(samples) // file.frame_samples * file.frame_samples
        samples = samples[:whole].copy()
        for frame in lost:
            samples[frame * file.frame_samples :][: file.frame_samples] = np.nan
        file.write(samples)
    return recording.open(path, sample_rate=RATE)


@pytest.mark.parametrize("hz, complex_data", [(10_000.0, False), (-7_000.0, True)])
def test_a_survey_is_what_numpy_computes(tmp_path, hz, complex_data):
    scan = make(tmp_path / "x.vdif", noise(200_000, 2, 2, complex_data, hz), lost=[3])
    survey = scan.survey(block=512)
    x = scan.samples()
    assert (survey.threads, survey.channels, survey.looked) == ((0, 1), 2, len(x))
    blocks = x[: len(x) // 512 * 512].reshape(-1, 512, 2, 2)
    whole = blocks[~np.isnan(blocks).any(axis=(1, 2, 3))]
    assert (survey.blocks == len(whole)).all()
    window = np.hanning(513)[:512]
    transform = np.fft.fft if complex_data else np.fft.rfft
    power = (abs(transform(whole * window[:, None, None], 1024, axis=1)) ** 2).mean(axis=0)
    power = np.moveaxis(power, 0, -1) * (1 if complex_data else 2) / (RATE * (window**2).sum())
    if complex_data:
        power = np.fft.fftshift(power, axes=-1)
    assert np.allclose(survey.spectrum, power, rtol=1e-4, atol=power.max() * 1e-6)
    frequencies = np.fft.fftshift(np.fft.fftfreq(1024, 1 / RATE)) if complex_data else np.fft.rfftfreq(1024, 1 / RATE)
    assert np.allclose(survey.frequencies, frequencies)
    assert abs(survey.frequencies[survey.spectrum[1, 1].argmax()] - hz) <= RATE / 1024
    mean_square = np.nanmean(abs(x).astype(float) ** 2, axis=0)
    assert np.allclose(survey.rms, np.sqrt(mean_square), rtol=1e-6)
    assert np.allclose(survey.autocorrelation[..., 0], 1)
    counts = [(np.isclose(x.view(np.float32), level)).sum() for level in survey.levels]
    assert (survey.counts.sum(axis=(0, 1)) == counts).all()
    assert (survey.frames, survey.missing) == (scan.about.samples // scan.about.frame_samples * 2, 2)
    assert np.nansum(survey.loss) > 0


def test_a_survey_of_a_part(tmp_path):
    scan = make(tmp_path / "x.vdif", noise(100_000, hz=8_000), lost=[0])
    each = scan.about.frame_samples
    survey = scan.survey(frames=(0, 2), times=2, block=64)
    assert survey.range == (0, 2 * each)
    assert survey.loss.tolist() == [[1.0, 0.0]]
    nothing = scan.survey(frames=(0, 1))
    assert np.isnan(nothing.spectrum).all() and nothing.samples.sum() == 0
    few = scan.survey(at_most=1, times=10_000)
    assert few.looked == scan.about.samples and few.loss.shape == (1, 25) and few.loss.sum() == 1
    for wrong in ({"block": 1}, {"block": 1 << 30}, {"start": 99.0}, {"frames": (0, 10**6)}, {"frames": (1, 2), "start": 0}):
        with pytest.raises(ValueError):
            scan.survey(**wrong)


def test_plots(tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    for bits, channels in ((2, 1), (8, 2), (1, 32)):
        scan = make(tmp_path / f"{bits}.vdif", noise(200_000, 2, channels), bits=bits, lost=[2])
        figure = scan.plot()
        assert len(figure.axes) == 5
        assert len(figure.axes[0].lines) == (2 if channels == 32 else 2 * channels)
        figure.savefig(tmp_path / f"{bits}.png")
        assert (tmp_path / f"{bits}.png").stat().st_size > 10_000
        own = matplotlib.pyplot.figure()
        assert scan.survey().plot(own) is own
        matplotlib.pyplot.close("all")


def test_headers_are_those_that_were_written(tmp_path):
    scan = make(tmp_path / "x.vdif", noise(60_000, 2), lost=[4], edv=3, payload=1000, station="Wz")
    fps = scan.about.frames_per_second
    headers = scan.headers()
    count = scan.about.samples // scan.about.frame_samples
    assert len(headers) == 2 * count
    assert headers["number"].tolist() == [n // 2 for n in range(2 * count)]
    assert headers["thread"].tolist() == [0, 1] * count
    assert (headers["frame"] == headers["number"] % fps).all()
    assert (headers["station"] == int.from_bytes(b"zW")).all() or (headers["station"] == int.from_bytes(b"Wz")).all()
    assert (headers["edv"] == 3).all() and headers.dtype["edv"] == np.uint8
    assert headers["valid"].tolist() == [n // 2 != 4 for n in range(2 * count)]
    assert (headers["invalid"] == ~headers["valid"]).all()
    start = np.datetime64(START)
    assert (headers["time"] == start + (headers["number"] * 10**9 // fps).astype("m8[ns]")).all()
    some = scan.headers(frames=(3, 6))
    assert (some == headers[6:12]).all()
    assert "Frame in the second" in headers.dtype.metadata["frame"]
    # What is not there has none.
    data = (tmp_path / "x.vdif").read_bytes()
    (tmp_path / "y.vdif").write_bytes(data[: 7 * 1032] + data[9 * 1032 :])
    less = recording.open(tmp_path / "y.vdif", sample_rate=RATE).headers()
    assert len(less) == 2 * count - 2 and less["number"].tolist() == [n // 2 for n in range(2 * count) if n not in (7, 8)]
    with recording.create(tmp_path / "x.m5b", sample_rate=80_000, start=START, format="mark5b", channels=4) as file:
        file.write(noise(80_000, channels=4))
    mark5b = recording.open(tmp_path / "x.m5b", sample_rate=80_000, channels=4)
    assert (mark5b.headers()["sync"] == 0xABADDEED).all()


def scattered(directory, data, frame, *, disks=4, version=2, block=10, seed=1, short_first=False):
    """These frames as the files of a Mark 6: blocks of so many, on whichever disk is free."""
    chance = random.Random(seed)
    size = block * frame + (8 if version == 2 else 4)
    files = []
    for disk in range(disks):
        path = directory / str(disk) / "data"
        path.mkdir(parents=True)
        files.append((path / "exp_st_no0001.vdif").open("wb"))
        files[-1].write(struct.pack("<I4i", 0xFEED6666, version, size, 0, frame))
    at, number = 0, 0
    while at < len(data):
        length = (3 if short_first and number == 0 else block) * frame
        part = data[at : at + length]
        file = chance.choice(files)
        file.write(struct.pack("<i", number) + (struct.pack("<i", len(part) + 8) if version == 2 else b"") + part)
        at, number = at + len(part), number + 1
    for file in files:
        file.close()
    return [directory / str(disk) for disk in range(disks)]


@pytest.mark.parametrize("version, short_first", [(1, False), (2, False), (2, True)])
def test_a_mark6_is_read_as_the_file_that_it_was(tmp_path, version, short_first):
    plain = make(tmp_path / "x.vdif", noise(500_000, 2), lost=[7])
    data = (tmp_path / "x.vdif").read_bytes()
    disks = scattered(tmp_path / "disks", data, 4032, version=version, short_first=short_first)
    scan = recording.open(disks, "exp_st_no0001", sample_rate=RATE)
    assert scan.about.samples == plain.about.samples and scan.gaps == []
    assert np.array_equal(scan.samples(), plain.samples(), equal_nan=True)
    for start, count in ((0, 5), (12345, 70_000), (499_000, 1000)):
        if start + count <= scan.about.samples:
            part = scan.samples(start / RATE, count=count)
            assert np.array_equal(part, plain.samples(start / RATE, count=count), equal_nan=True)
    # The files by their names, in any order; and its lazy blocks.
    files = sorted(tmp_path.glob("disks/*/data/*.vdif"), reverse=True)
    assert np.array_equal(recording.open(files, sample_rate=RATE).samples(count=9), plain.samples(count=9))
    pytest.importorskip("dask")
    lazy = scan.to_xarray(block_bytes=1 << 20)
    assert np.array_equal(lazy.compute(scheduler="sync").values, plain.samples(), equal_nan=True)


def test_a_disk_of_a_mark6_is_gone(tmp_path):
    plain = make(tmp_path / "x.vdif", noise(500_000))
    disks = scattered(tmp_path / "disks", (tmp_path / "x.vdif").read_bytes(), 4032)
    scan = recording.open(disks[:3], "exp_st_no0001", sample_rate=RATE)
    x, y = scan.samples(), plain.samples(count=scan.about.samples)
    there = ~np.isnan(x)
    assert 0 < np.isnan(x).sum() < x.size and np.array_equal(x[there], y[there])
    assert any(gap.lack == "missing" for gap in scan.gaps)


def test_exports(tmp_path):
    for complex_data in (False, True):
        scan = make(tmp_path / f"{complex_data}.vdif", noise(300_000, 2, 2, complex_data), lost=[3], bits=4)
        for raw in (False, True):
            x = scan.samples(0.1, 1.5, raw=raw)
            done = scan.export(tmp_path / "x.npy", 0.1, 1.5, raw=raw)
            assert done.shape == x.shape and done.dtype == x.dtype.name and done.missing == 2
            assert np.array_equal(np.load(tmp_path / "x.npy"), x, equal_nan=not raw)
            plain = scan.export(tmp_path / "x", 0.1, 1.5, raw=raw, format="raw")
            assert plain.bytes == x.nbytes
            assert np.array_equal(np.fromfile(tmp_path / "x", x.dtype).reshape(x.shape), x, equal_nan=not raw)
            note = json.loads((tmp_path / "x.json").read_text())
            assert note["start"] == "2026-11-21T01:46:40.1Z" and note["sample_rate"] == RATE
            for name in ("x", "x.json", "x.npy", "x.npy.json"):
                os.remove(tmp_path / name)


def test_exports_to_hdf5(tmp_path):
    h5py = pytest.importorskip("h5py")
    for bits in (2, 16, 32):
        for complex_data in (False, True):
            scan = make(tmp_path / f"{bits}{complex_data}.vdif", noise(300_000, 2, 2, complex_data), lost=[3], bits=bits)
            for raw in (False, True):
                path = tmp_path / f"{bits}{complex_data}{raw}.h5"
                scan.export(path, 0.1, 1.5, raw=raw)
                x = scan.samples(0.1, 1.5, raw=raw)
                with h5py.File(path) as file:
                    assert np.array_equal(file["samples"][...], x, equal_nan=not raw) and file["samples"].dtype == x.dtype
                    assert np.array_equal(file["valid"][...], scan.validity(0.1, 1.5))
                    assert file.attrs["sample_rate"] == RATE and file.attrs["threads"].tolist() == [0, 1]
                    assert file.attrs["start"] == b"2026-11-21T01:46:40.1Z"


def test_exports_to_zarr(tmp_path):
    zarr = pytest.importorskip("zarr")
    for complex_data in (False, True):
        # More than a chunk of 16 MiB.
        scan = make(tmp_path / f"{complex_data}.vdif", noise(1_600_000, 2, 2, complex_data), lost=[3])
        for raw in (False, True):
            path = tmp_path / f"{complex_data}{raw}.zarr"
            scan.export(path, 0.1, raw=raw)
            x = scan.samples(0.1, raw=raw)
            group = zarr.open_group(path, mode="r")
            assert np.array_equal(group["samples"][...], x, equal_nan=not raw) and group["samples"].dtype == x.dtype
            assert np.array_equal(group["valid"][...], scan.validity(0.1))
            assert group.attrs["start"] == "2026-11-21T01:46:40.1Z"
            assert group["samples"].metadata.dimension_names[:3] == ("time", "thread", "channel")


def test_exports_that_fail_leave_nothing(tmp_path):
    scan = make(tmp_path / "x.vdif", noise(100_000))
    (tmp_path / "there.npy").write_bytes(b"mine")
    with pytest.raises(FileExistsError, match="exists"):
        scan.export(tmp_path / "there.npy")
    assert (tmp_path / "there.npy").read_bytes() == b"mine"
    with pytest.raises(ValueError, match="its name tells no format"):
        scan.export(tmp_path / "x.dat")
    with pytest.raises(OSError):
        scan.export(tmp_path / "no" / "x.npy")
    assert sorted(os.listdir(tmp_path)) == ["there.npy", "x.vdif"]
    # A file may not grow beyond 100 kB: what a full disk is like.
    program = f"""
        import resource, signal
        from skyhaul import recording
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        scan = recording.open({str(tmp_path / "x.vdif")!r}, sample_rate={RATE})
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        for name in ("x.npy", "x.f32", "x.h5", "x.zarr"):
            try:
                scan.export({str(tmp_path)!r} + "/" + name)
            except OSError as error:
                print(error)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60)
    assert done.stdout.count("File too large") == 4, done
    assert sorted(os.listdir(tmp_path)) == ["there.npy", "x.vdif"]
