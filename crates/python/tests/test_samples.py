"""Samples of recordings and files as arrays: ranges, what is missing, memory, and files that are not what they say."""

import asyncio
import contextlib
import datetime
import errno
import gc
import os
import pathlib
import pickle
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
import warnings

import numpy as np
import pytest

from skyhaul import recording

SECOND = 1_770_091_506
LEVELS = np.array([-3.316505, -1, 1, 3.316505], np.float32)


def header(second, frame, thread=0, *, channels=1, bits=2, payload=8000, invalid=False):
    """A VDIF header, EDV 0: epoch 52 began on 2026-01-01."""
    words = np.zeros(8, "<u4")
    words[0] = (second - 1_767_225_600) | invalid << 31
    words[1] = 52 << 24 | frame
    words[2] = 1 << 29 | channels.bit_length() - 1 << 24 | (payload + 32) // 8
    words[3] = bits - 1 << 26 | thread << 16 | 0x536B
    return words.tobytes()


def write(path, frames, threads=2, fps=50, seed=1, without=(), payload=8000):
    """A file of two-bit samples, and these: (time, thread)."""
    data = np.random.default_rng(seed).integers(0, 256, (frames, threads, payload), np.uint8)
    with path.open("wb") as file:
        for frame in range(frames):
            for thread in range(threads):
                if (frame, thread) not in without:
                    file.write(header(SECOND + frame // fps, frame % fps, thread, payload=payload))
                    file.write(data[frame, thread].tobytes())
    codes = data[..., None] >> np.arange(0, 8, 2, np.uint8) & 3
    codes = codes.reshape(frames, threads, -1).transpose(0, 2, 1).reshape(-1, threads)
    samples = LEVELS[codes]
    for frame, thread in without:
        samples[frame * payload * 4 : (frame + 1) * payload * 4, thread] = np.nan
    return samples


RATE = 50 * 32000


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    path = tmp_path_factory.mktemp("plain") / "x.vdif"
    lost = {(n, n % 2) for n in range(10, 110, 7)}
    samples = write(path, 120, without=lost)
    return recording.open(path, sample_rate=RATE), samples


def same(a, b):
    return np.array_equal(a, b, equal_nan=True)


def test_ranges_of_time(plain):
    scan, samples = plain
    assert scan.about.shape == (120 * 32000, 2, 1)
    assert scan.about.start == np.datetime64(SECOND, "s")
    iso = "2026-02-03T04:05:06.5"
    assert np.datetime64(iso) == np.datetime64(SECOND, "s") + np.timedelta64(500, "ms")
    half = RATE // 2
    wanted = samples[half : half + RATE // 10, :, None]
    utc = datetime.timezone.utc
    starts = [
        iso, iso + "Z", "2026-02-03T05:05:06.5+01:00", 0.5, np.timedelta64(500, "ms"), datetime.timedelta(seconds=0.5),
        np.datetime64(iso), datetime.datetime(2026, 2, 3, 4, 5, 6, 500_000),  # noqa: DTZ001
        datetime.datetime(2026, 2, 3, 4, 5, 6, 500_000, utc),
    ]  # fmt: skip
    for start in starts:
        assert same(scan.samples(start, 0.1), wanted), start
    for duration in (np.timedelta64(100, "ms"), datetime.timedelta(seconds=0.1)):
        assert same(scan.samples(0.5, duration), wanted)
    assert same(scan.samples(0.5, count=7)[:, :, 0], samples[half : half + 7])
    assert same(scan.samples(2.3), samples[round(2.3 * RATE) :, :, None])
    assert scan.samples(1, 0).shape == (0, 2, 1)
    chance = random.Random(1)
    for _ in range(50):
        first = chance.randrange(len(samples))
        count = chance.randrange(len(samples) - first)
        assert same(scan.samples(first / RATE, count=count)[:, :, 0], samples[first : first + count])


def test_times(plain):
    scan, _ = plain
    times = scan.streams[0].times(0.5, count=3)
    assert times.tolist() == [(SECOND * RATE + RATE // 2 + n) * 10**9 // RATE for n in range(3)]


@pytest.mark.parametrize(("start", "duration", "count", "text"), [
    ("yesterday", 1, None, "is not a time"),
    (-1, 1, None, "the data are from 2026-02-03T04:05:06Z to 2026-02-03T04:05:08.4Z"),
    (0, 3, None, "the data are from"),
    (0, -1, None, "the data are from"),
    (0, 1, 1, "duration or count"),
    (float("nan"), 1, None, "a time of nan"),
    ("2026-02-03T04:05:00", 1, None, "the data are from"),
])  # fmt: skip
def test_ranges_that_are_not_there(plain, start, duration, count, text):
    with pytest.raises(ValueError, match=text):
        plain[0].samples(start, duration, count=count)


def test_what_is_missing(plain):
    scan, samples = plain
    assert same(scan.samples(), samples[:, :, None])
    masked = scan.samples(missing="mask")
    assert np.array_equal(np.ma.getmaskarray(masked)[:, :, 0], np.isnan(samples))
    valid = scan.validity(0.5, 0.5)
    assert np.array_equal(np.repeat(valid, 32000, 0), ~np.isnan(samples[RATE // 2 : RATE]))
    with pytest.raises(recording.Damaged, match=r"15 of 240 frames are missing or invalid, the first at 2026-02-03T04:05:06.2Z, thread 0"):
        scan.samples(missing="raise")
    assert not np.isnan(scan.samples(0, 0.2, missing="raise")).any()
    raw = scan.samples(raw=True)[:, :, 0]
    assert raw.dtype == np.int8
    assert np.array_equal(raw == -128, np.isnan(samples))
    assert same(LEVELS[np.clip(raw, -2, 1) + 2][raw != -128], samples[raw != -128])
    with pytest.raises(ValueError, match='hint: "nan", "mask" or "raise"'):
        scan.samples(missing="zero")


def test_into_an_array_of_the_caller(plain):
    scan, samples = plain
    out = np.full((1000, 2, 1), 7, np.float32)
    assert scan.samples(0.01, count=1000, out=out) is out
    assert same(out[:, :, 0], samples[16000:17000])
    for wrong in (np.empty((1000, 2), np.float32), np.empty((1000, 2, 1)), np.empty((2000, 2, 1), np.float32)[::2]):
        with pytest.raises((ValueError, BufferError)):
            scan.samples(0, count=1000, out=wrong)
    frozen = np.empty((1000, 2, 1), np.float32)
    frozen.flags.writeable = False
    with pytest.raises((ValueError, BufferError)):
        scan.samples(0, count=1000, out=frozen)


def test_an_array_keeps_its_samples_while_it_lives(plain):
    scan, samples = plain
    arrays = [scan.samples(n / 100, count=5000) for n in range(40)]
    gc.collect()
    for n, array in enumerate(arrays):
        first = n * RATE // 100
        assert same(array[:, :, 0], samples[first : first + 5000])


def test_what_is_printed(plain):
    scan, _ = plain
    text = str(scan)
    assert text.splitlines()[0] == "x.vdif"
    for part in ("2026-02-03T04:05:06Z to 2026-02-03T04:05:08.4Z", "1.6 Msamples/s, 2 threads x 1 channels, 2 bits, real"):
        assert part in text
    assert scan._repr_html_().startswith("<table><caption>x.vdif</caption><tr><th>state</th><td>file</td></tr>")


def test_threads_in_any_order(plain, tmp_path):
    _, samples = plain
    path = tmp_path / "x.vdif"
    samples = write(path, 20, threads=3)
    scan = recording.open(path, sample_rate=RATE, threads=[2, 0])
    assert scan.about.threads == (2, 0)
    assert same(scan.samples()[:, :, 0], samples[:, [2, 0]])


def test_files_that_continue_each_other(tmp_path):
    path = tmp_path / "x.vdif"
    samples = write(path, 100)
    raw = path.read_bytes()
    cuts = [0, 33 * 8032, 34 * 8032, 150 * 8032, len(raw)]
    parts = []
    for n, (a, b) in enumerate(zip(cuts, cuts[1:], strict=False)):
        parts.append(tmp_path / f"{n}.vdif")
        parts[-1].write_bytes(raw[a:b])
    scan = recording.open(parts, sample_rate=RATE)
    assert same(scan.samples()[:, :, 0], samples)
    # A file in between is missing.
    scan = recording.open([*parts[:2], parts[3]], sample_rate=RATE)
    there = scan.samples()[:, :, 0]
    assert same(there[: 17 * 32000], samples[: 17 * 32000])
    assert np.isnan(there[17 * 32000 : 75 * 32000]).all()
    assert same(there[75 * 32000 :], samples[75 * 32000 :])


@pytest.mark.parametrize("seed", range(40))
def test_hostile_files(tmp_path, seed):
    """Whatever is done to a file: an error, or samples that were written; no other sample is said to be valid."""
    path = tmp_path / "x.vdif"
    samples = write(path, 40, seed=seed)
    raw = bytearray(path.read_bytes())
    chance = random.Random(seed)
    for _ in range(chance.randrange(1, 30)):
        # Headers: nothing protects samples in a plain file.
        at = chance.randrange(len(raw) // 8032) * 8032 + chance.randrange(16)
        raw[at] = chance.randrange(256)
    if chance.random() < 0.3:
        del raw[chance.randrange(len(raw)) :]
    path.write_bytes(raw)
    try:
        scan = recording.open(path, sample_rate=RATE)
        about = scan.about
        if about.samples > 10**8:
            return
        # A header of another time is another place: then frames are compared where they were written.
        for thread in about.threads:
            assert thread < 1024
        got = scan.samples("2026-02-03T04:05:06", count=min(about.samples, len(samples)))
    except (ValueError, OSError):
        return
    if about.threads == (0, 1) and got.shape[1:] == (2, 1) and about.start == np.datetime64(SECOND, "s"):
        wrong = ~np.isnan(got[:, :, 0]) & (got[:, :, 0] != samples[: len(got)])
        # Only a frame whose own header lies about its time or thread can be elsewhere.
        frames = wrong.reshape(-1, 32000, 2).any(axis=1)
        assert frames.sum() <= 30


@pytest.mark.parametrize(("given", "text"), [
    (900, "900 frames/s are too few: the data have frame number 999 in a second"),
    (2000, "2000 frames/s are too many: the seconds of the data end with frame number 999"),
])  # fmt: skip
def test_a_sample_rate_that_the_data_disprove(tmp_path, given, text):
    """Wherever the frame is that shows it, and whatever is read: no sample has a wrong time, none is missing for it."""
    path = tmp_path / "x.vdif"
    samples = write(path, 3500, threads=1, fps=1000, payload=800)
    with pytest.raises(ValueError, match=text):
        recording.open(path, sample_rate=given * 3200)
    assert same(recording.open(path, sample_rate=1000 * 3200).samples()[:, :, 0], samples)


def test_a_sample_rate_that_one_end_of_a_second_speaks_against(tmp_path):
    path = tmp_path / "x.vdif"
    with recording.create(path, sample_rate=1000 * 3200, start="2026-11-22T05:58:31.95", payload=800) as file:
        file.write(np.zeros(3200 * 100, np.float32))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        recording.open(path, sample_rate=1000 * 3200).samples(count=10)
    with pytest.warns(UserWarning, match=r"6400000 samples/s is 2000 frames/s.* the rate is 3200000 samples/s, or 1000 frames") as caught:
        scan = recording.open(path, sample_rate=2000 * 3200)
        scan.samples(count=10)
    assert scan.about.notes == (str(caught[0].message),)
    assert caught[0].filename == __file__


def test_what_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        recording.open(tmp_path / "x.vdif")
    with pytest.raises(ValueError, match="is a directory; hint"):
        recording.open(tmp_path)
    with pytest.raises(ValueError, match="no files; hint"):
        recording.open([])
    (tmp_path / "fifo").touch()
    with pytest.raises(ValueError, match="no data"):
        recording.open(tmp_path / "fifo")


def command():
    found = shutil.which("skyhaul", path=str(pathlib.Path(sys.executable).parent))
    if found is None:
        pytest.skip("the wheel is not installed here (make python)")
    return found


def send_to(recorder, path):
    subprocess.run([command(), "send", "--input", path, "--frame-rate", "50", "--to", recorder.address], check=True,
                   capture_output=True, timeout=60)  # fmt: skip


@contextlib.contextmanager
def recorder(disks, *options):
    """A recorder of the scan `trial` in small chunks, with the address that it listens at."""
    words = [command(), "record", "--scan", "trial", "--memory", "64MiB", "--chunk", "256KiB", "--frame-rate", "50",
             "--listen", "tcp://127.0.0.1:0", *options]  # fmt: skip
    for disk in disks:
        disk.mkdir(exist_ok=True)
        words += ["--disk", str(disk)]
    log = disks[0].parent / "said"
    with log.open("w") as said:
        process = subprocess.Popen(words, stderr=said, stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 60
        while not (found := re.search(r" from (\S+)", log.read_text())):
            assert process.poll() is None and time.monotonic() < until, log.read_text()
            time.sleep(0.01)
        process.address = found[1]
        yield process
        assert process.wait(60) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()


def ports_of(address):
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    return host, int(port)


def record(disks, path):
    """Record a file."""
    with recorder(disks, "--idle", "1s") as process:
        send_to(process, path)


@pytest.fixture
def recorded(tmp_path):
    """A scan on two disks in small chunks, and its samples."""
    path = tmp_path / "x.vdif"
    samples = write(path, 200)
    disks = [tmp_path / "d0", tmp_path / "d1"]
    record(disks, path)
    return disks, samples


def test_a_recording(recorded):
    disks, samples = recorded
    scan = recording.open(disks, "trial")
    assert same(scan.samples()[:, :, 0], samples)
    assert scan.gaps == []
    assert len(scan.streams[0].decoded().piece_starts()) > 8


def test_damaged_chunks_are_missing_and_said(recorded):
    disks, samples = recorded
    chunks = sorted(path for disk in disks for path in (disk / "trial").glob("trial.????????"))
    chunks.sort(key=lambda path: path.suffix)
    broken, gone = chunks[3], chunks[5]
    raw = bytearray(broken.read_bytes())
    raw[5000] ^= 4
    broken.write_bytes(raw)
    gone.unlink()
    scan = recording.open(disks, "trial")
    got = scan.samples()[:, :, 0]
    missing = np.isnan(got)
    assert same(got[~missing], samples[~missing])
    starts = [*scan.streams[0].decoded().piece_starts(), len(samples)]
    valid = ~missing[::32000]
    # Chunks are of whole frame sets; the index still knows the one that is gone.
    assert len(starts) == len(chunks) + 1
    for chunk in range(len(chunks)):
        there = valid[starts[chunk] // 32000 : starts[chunk + 1] // 32000]
        assert not there.any() if chunk in (3, 5) else there.all()
    said = [(gap.first, gap.lack, gap.text.split("damaged: ")[1]) for gap in sorted(scan.gaps, key=lambda gap: gap.first)]
    assert [words[:2] for words in said] == [(3, "damaged"), (5, "damaged")]
    assert said[0][2].startswith("its CRC-32C is ")
    assert said[1][2].startswith("its file is missing")
    # As it is: one sample of the broken chunk is another.
    scan = recording.open(disks, "trial", verify=False)
    got = scan.samples()[:, :, 0]
    assert np.isnan(got).sum() < missing.sum()
    there = ~np.isnan(got)
    assert (got[there] != samples[there]).sum() == 1


class TestLazy:
    """xarray and Dask."""

    @pytest.fixture(autouse=True)
    def _installed(self):
        pytest.importorskip("xarray", reason="xarray is not installed (pip install 'skyhaul[xarray]')")
        pytest.importorskip("dask.array", reason="Dask is not installed (pip install 'skyhaul[xarray]')")

    def test_is_the_same(self, plain):
        scan, samples = plain
        lazy = scan.to_xarray(0.013, 1.5, block_bytes=1 << 20)
        first = round(0.013 * RATE)
        assert lazy.dims == ("time", "thread", "channel")
        assert lazy.shape == (1.5 * RATE, 2, 1)
        assert len(lazy.chunks[0]) > 10
        assert max(lazy.chunks[0]) * 8 <= 1 << 20
        assert same(lazy.values[:, :, 0], samples[first : first + int(1.5 * RATE)])
        assert np.array_equal(lazy.valid.values, ~np.isnan(lazy.values[:, :, 0]))
        assert lazy.time.values[0] == np.datetime64(SECOND, "s") + np.timedelta64(13, "ms")
        assert lazy.attrs["sample_rate"] == RATE
        raw = scan.to_xarray(raw=True, block_bytes=1 << 20)
        assert np.array_equal(raw[:1000].values, scan.samples(count=1000, raw=True))

    def test_blocks_are_parts_of_chunks(self, recorded):
        disks, samples = recorded
        scan = recording.open(disks, "trial")
        lazy = scan.to_xarray()
        edges = np.cumsum([0, *lazy.chunks[0]])
        assert set(scan.streams[0].decoded().piece_starts()) <= set(edges.tolist())
        assert same(lazy.values[:, :, 0], samples)

    def test_graphs_are_small_and_can_be_pickled(self, plain):
        scan, samples = plain
        part = scan.to_xarray(block_bytes=1 << 20)[:1000]
        graph = pickle.dumps(dict(part.data.__dask_graph__()))
        assert len(graph) < 1000 * part.data.npartitions + 40_000
        assert same(pickle.loads(pickle.dumps(part)).values[:, :, 0], samples[:1000])

    def test_a_scan_larger_than_the_memory_of_its_process(self, tmp_path):
        """1 GiB of samples by a process that never has more than a part of them."""
        path = tmp_path / "x.vdif"
        write(path, 2100)
        program = textwrap.dedent("""
            import resource, sys
            import numpy as np, dask
            from skyhaul import recording
            dask.config.set(scheduler="threads", num_workers=2)
            scan = recording.open(sys.argv[1], sample_rate=1600000)
            lazy = scan.to_xarray(block_bytes=8 << 20)
            lazy[:1000].values
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            power = float((lazy.data ** 2).sum(dtype=np.float64).compute())
            after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            print(lazy.nbytes >> 20, power, (after - before) >> 10)
        """)
        done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, timeout=110, check=True)
        decoded, power, grown = done.stdout.split()
        assert int(decoded) > 500
        assert float(power) == pytest.approx(2100 * 64000 * (1 + 3.316505**2) / 2, rel=0.01)
        assert int(grown) < 200

    def test_a_file_that_was_replaced(self, tmp_path):
        path = tmp_path / "x.vdif"
        before = write(path, 20, seed=1)
        scan = recording.open(path, sample_rate=RATE)
        old = scan.to_xarray(block_bytes=1 << 20)
        elsewhere = pickle.dumps(old)
        assert same(old.values[:, :, 0], before)
        after = write(tmp_path / "y.vdif", 20, seed=2)
        os.replace(tmp_path / "y.vdif", path)
        new = recording.open(path, sample_rate=RATE).to_xarray(block_bytes=1 << 20)
        assert same(new.values[:, :, 0], after) and not same(before, after)
        assert new.data.name != old.data.name
        # What was opened before has no samples any more: here, and in another process.
        with pytest.raises(OSError, match="hint: open it again"):
            scan.samples(count=10)
        del scan
        for array in (old, pickle.loads(elsewhere)):
            with pytest.raises(OSError, match="it was replaced after it was opened; hint: open it again") as raised:
                array.compute()
            assert (raised.value.errno, raised.value.filename) == (errno.ESTALE, str(path))

    def test_a_file_that_grew(self, tmp_path):
        path = tmp_path / "x.vdif"
        samples = write(path, 40)
        raw = path.read_bytes()
        path.write_bytes(raw[: len(raw) // 2])
        scan = recording.open(path, sample_rate=RATE)
        old = scan.to_xarray(block_bytes=1 << 20)
        elsewhere = pickle.dumps(old)
        with path.open("ab") as file:
            file.write(raw[len(raw) // 2 :])
        half = samples[: len(old)]
        assert same(old.values[:, :, 0], half) and same(scan.samples()[:, :, 0], half)
        assert same(recording.open(path, sample_rate=RATE).to_xarray().values[:, :, 0], samples)
        del scan, old
        gc.collect()
        assert same(pickle.loads(elsewhere).values[:, :, 0], half)
        # Written anew in its place, and longer, it is another one.
        array = recording.open(path, sample_rate=RATE).to_xarray()
        write(path, 60, seed=3)
        with pytest.raises(OSError, match="hint: open it again"):
            array.compute()

    def test_a_name_that_was_recorded_again(self, recorded, tmp_path):
        disks, before = recorded
        old = recording.open(disks, "trial").to_xarray()
        assert same(old.values[:, :, 0], before)
        for disk in disks:
            shutil.rmtree(disk)
        after = write(tmp_path / "x.vdif", 200, seed=2)
        record(disks, tmp_path / "x.vdif")
        new = recording.open(disks, "trial").to_xarray()
        assert same(new.values[:, :, 0], after)
        with pytest.raises(OSError, match="hint: open it again"):
            old.compute()

    @staticmethod
    def safe_rows(scan):
        try:
            return scan.about.samples if scan.streams else 0
        except ValueError as error:
            # A stream is known before its first chunk is safe.
            assert "there is no data in it" in str(error)
            return 0

    def test_a_live_scan_that_grew(self, tmp_path):
        path = tmp_path / "x.vdif"
        samples = write(path, 400)
        raw, half = path.read_bytes(), 200 * 2 * 8032
        disks = [tmp_path / "d0", tmp_path / "d1"]
        with recorder(disks) as process, socket.create_connection(ports_of(process.address)) as sender:
            rows = []
            for part in (raw[:half], raw[half:]):
                sender.sendall(part)
                until = time.monotonic() + 60
                while True:
                    scan = recording.open(disks, "trial")
                    if self.safe_rows(scan) > (rows[-1] if rows else 0) + 100 * 32000:
                        lazy = scan.to_xarray()
                        # One disk may be ahead of the other: what is between is missing for a moment.
                        if not np.isnan(lazy.values).any():
                            break
                    assert time.monotonic() < until
                    time.sleep(0.05)
                rows.append(len(lazy))
                assert same(lazy.values[:, :, 0], samples[: len(lazy)])
                kept = lazy if len(rows) == 1 else kept
            # The scan is longer by now, and what was there before is still the same.
            assert rows[1] > rows[0]
            assert same(kept.compute().values[:, :, 0], samples[: rows[0]])
            process.send_signal(signal.SIGINT)
        assert same(recording.open(disks, "trial").to_xarray().values[:, :, 0], samples)

    def test_several_processes(self, recorded):
        distributed = pytest.importorskip("distributed", reason="distributed is not installed (pip install 'skyhaul[distributed]')")
        disks, samples = recorded
        lazy = recording.open(disks, "trial").to_xarray(block_bytes=1 << 20)
        with (
            distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
            distributed.Client(cluster) as client,
        ):
            power = client.compute((lazy.data**2).mean(axis=0)).result()
        assert power[:, 0] == pytest.approx((samples.astype(np.float64) ** 2).mean(axis=0), rel=1e-4)


def test_no_file_is_left_open(plain):
    scan, _ = plain
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    for _ in range(min(soft, 2000)):
        scan.samples(count=1)


class TestWriting:
    """Samples to files; `tests/interop/test_written_samples.py` has baseband read them."""

    WHERE = {"sample_rate": 32_000_000, "start": "2026-02-03T04:05:06"}

    @pytest.mark.parametrize("bits", [16, 32])
    def test_wide_samples_come_back(self, tmp_path, bits):
        per_frame = 8000 * 8 // bits
        data = np.random.default_rng(1).uniform(-3.5, 3.5, (per_frame * 5, 1, 1)).astype(np.float32)
        rate = per_frame * 1000
        with recording.create(tmp_path / "a", **self.WHERE | {"sample_rate": rate}, bits=bits) as writer:
            writer.write(data)
        once = recording.open(tmp_path / "a", sample_rate=rate).samples()
        assert np.abs(once - data).max() <= 0.51 / 35.5 / 256
        with recording.create(tmp_path / "b", **self.WHERE | {"sample_rate": rate}, bits=bits) as writer:
            writer.write(once)
        assert np.array_equal(recording.open(tmp_path / "b", sample_rate=rate).samples(), once)

    def test_missing_samples_are_missing_again(self, tmp_path):
        data = np.ones((32000 * 4, 2, 1), np.float32)
        data[32000 * 2 + 5, 1] = np.nan
        with recording.create(tmp_path / "x", **self.WHERE, threads=[3, 7]) as writer:
            writer.write(np.ma.masked_invalid(data))
        scan = recording.open(tmp_path / "x", sample_rate=32_000_000)
        assert scan.about.threads == (3, 7)
        assert scan.validity().tolist() == [[True, True], [True, True], [True, False], [True, True]]
        with pytest.raises(ValueError, match="1 samples are left over: a frame has 32000"):
            with recording.create(tmp_path / "y", **self.WHERE) as writer:
                writer.write(np.ones(32001))

    @pytest.mark.parametrize(("changes", "text"), [
        ({"bits": 3}, "3 bits in offset binary cannot be written"),
        ({"bits": 5, "sample_rate": 12800}, "cannot be written"),
        ({"channels": 3}, "a power of two of channels"),
        ({"sample_rate": 31}, "no whole number of frames"),
        ({"sample_rate": 31.5}, "whole number of samples"),
        ({"start": 5}, "the time of the first sample is needed"),
        ({"start": "2026-02-03T04:05:06.0001"}, "no frame begins at this time"),
        ({"start": "1999-02-03T04:05:06"}, "times from 2000"),
        ({"edv": 9}, "no EDV 9"),
        ({"edv": 2, "bits": 1}, "ALMA"),
        ({"edv": 3, "payload": 8000}, "5000 or 1000"),
        ({"threads": [1024]}, "0 to 1023"),
        ({"station": "Sky"}, "two letters"),
        ({"format": "spead"}, "no frames|cannot be written"),
        ({"format": "mark5b", "bits": 4}, "1 or 2 bits"),
        ({"format": "mark5b", "threads": 2}, "no threads"),
        ({"format": "nonsense"}, "nonsense"),
    ])  # fmt: skip
    def test_what_cannot_be_written(self, tmp_path, changes, text):
        with pytest.raises(ValueError, match=text):
            recording.create(tmp_path / "x", **self.WHERE | changes)
        assert not (tmp_path / "x").exists()

    def test_nothing_follows_a_write_that_failed(self, tmp_path):
        """As on a full disk: the file may be no longer than ten thousand bytes."""
        program = textwrap.dedent("""
            import resource, signal, sys
            import numpy as np
            from skyhaul import recording
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
            file = recording.create(sys.argv[1], sample_rate=32_000_000, start="2026-02-03T04:05:06")
            for expected in (OSError, ValueError):
                try:
                    file.write(np.ones(32000 * 200))
                    raise SystemExit("it was written")
                except expected as error:
                    print(error)
        """)
        path = tmp_path / "x"
        done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, timeout=60, check=False)
        assert "File too large" in done.stdout, done.stderr
        assert "an earlier write failed" in done.stdout
        scan = recording.open(path, sample_rate=32_000_000)
        assert np.array_equal(scan.samples(count=32000), np.ones((32000, 1, 1)))

    def test_no_file_is_replaced(self, tmp_path):
        (tmp_path / "x").write_text("precious")
        with pytest.raises(FileExistsError):
            recording.create(tmp_path / "x", **self.WHERE)
        assert (tmp_path / "x").read_text() == "precious"

    def test_shapes(self, tmp_path):
        with recording.create(tmp_path / "x", **self.WHERE) as writer:
            writer.write(np.ones(16000))
            writer.write(np.ones((16000, 1)))
            with pytest.raises(ValueError, match=r"these are \(time, 1, 1\)"):
                writer.write(np.ones((100, 2)))
            with pytest.raises(ValueError, match="complex samples"):
                writer.write(np.ones(100, complex))
        assert recording.open(tmp_path / "x", sample_rate=32_000_000).about.samples == 32000


def test_lists_and_checks(recorded):
    disks, _ = recorded
    (scan,) = recording.ls(disks)
    assert (scan.name, scan.state, scan.missing, len(scan.disks)) == ("trial", "ended", 0, 2)
    assert recording.ls(disks[0])[0].chunks < scan.chunks
    with pytest.raises(FileNotFoundError):
        recording.ls(disks[0] / "absent")
    opened = recording.open(disks, "trial")
    checked = opened.check()
    assert (checked.verdict, checked.good) == ("whole", True)
    assert checked.bytes == scan.bytes
    chunk = next(path for path in (disks[0] / "trial").iterdir() if path.suffix != ".index")
    raw = bytearray(chunk.read_bytes())
    raw[100] ^= 1
    chunk.write_bytes(raw)
    checked = recording.open(disks, "trial").check()
    assert (checked.verdict, checked.good) == ("damaged", False)
    assert str(chunk) in [found.path for found in checked.findings]


def test_frames_and_async(recorded):
    disks, _ = recorded
    scan = recording.open(disks, "trial")
    frames = np.concatenate([chunk.frames for chunk in scan.follow()])
    assert frames.shape == (400, 8032)
    assert frames[:, 4:8].view("<u4")[:, 0].tolist()[:4] == [52 << 24, 52 << 24, 52 << 24 | 1, 52 << 24 | 1]

    async def all_of():
        return [chunk.number async for chunk in scan.follow()]

    assert asyncio.run(all_of()) == [chunk.number for chunk in scan.streams[0].chunks()]


def test_a_forked_process_opens_its_own(plain):
    scan, samples = plain
    scan.samples(count=10)
    child = os.fork()
    if child == 0:
        good = same(scan.samples(0.5, count=100)[:, :, 0], samples[RATE // 2 : RATE // 2 + 100])
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert same(scan.samples(count=10)[:, :, 0], samples[:10])
