"""Recordings from Python: what is proven is given, and everything else is said."""

import collections
import concurrent.futures
import gc
import os
import pathlib
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from skyhaul import recording

FRAME = 2032
SCAN = "trial"
SOON = 60.0


def command():
    found = shutil.which("skyhaul", path=str(pathlib.Path(sys.executable).parent))
    if found is None:
        pytest.skip("the wheel is not installed here (make python)")
    return found


def until(what, found):
    end = time.monotonic() + SOON
    while time.monotonic() < end:
        answer = found()
        if answer:
            return answer
        time.sleep(0.01)
    raise AssertionError(f"waited too long for {what}")


def stored(disks):
    return sum(path.stat().st_size for disk in disks for path in (disk / SCAN).glob(f"{SCAN}.????????"))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Two disks with a scan of 3000 frames, and its bytes."""
    base = tmp_path_factory.mktemp("recorded")
    disks = [base / "d0", base / "d1"]
    for disk in disks:
        disk.mkdir()
    words = [command(), "record", "--scan", SCAN, "--memory", "64MiB", "--chunk", "256KiB", "--listen", "tcp://127.0.0.1:0"]
    for disk in disks:
        words += ["--disk", str(disk)]
    log = base / "said"
    with log.open("w") as said:
        recorder = subprocess.Popen(words, stderr=said, stdout=subprocess.DEVNULL)
        try:
            address = until("the recorder", lambda: re.search(r" from (\S+)", log.read_text()))[1]
            sending = [command(), "send", "--pattern", "--payload", "2000", "--packets", "3000", "--rate", "200Mbps"]
            subprocess.run([*sending, "--to", address], check=True, capture_output=True, timeout=SOON)
            until("chunks", lambda: stored(disks) > 2000 * FRAME)
            time.sleep(0.3)
            recorder.send_signal(signal.SIGINT)
            assert recorder.wait(SOON) == 0, log.read_text()
        finally:
            recorder.kill()
    whole = b"".join(chunk.data for chunk in recording.open(disks, SCAN).streams[0].chunks())
    assert len(whole) == 3000 * FRAME
    return disks, whole


@pytest.fixture
def scan(recorded, tmp_path):
    """A copy to do damage to: its disks, and the bytes that were recorded."""
    disks, whole = recorded
    return [pathlib.Path(shutil.copytree(disk, tmp_path / disk.name)) for disk in disks], whole


def chunk_file(disks, number):
    return next(path for disk in disks if (path := disk / SCAN / f"{SCAN}.{number:08}").exists())


def test_a_whole_scan_is_given_whole(scan):
    disks, whole = scan
    opened = recording.open(disks, SCAN)
    assert (opened.name, opened.state, len(opened.streams)) == (SCAN, "ended", 1)
    stream = opened.streams[0]
    assert (stream.frame_bytes, stream.format) == (FRAME, "vdif")
    chunks = stream.chunks()
    given = list(chunks)
    assert b"".join(chunk.data for chunk in given) == whole
    assert chunks.gaps == []
    assert [chunk.number for chunk in given] == list(range(len(given)))
    assert not any(chunk.filled for chunk in given)
    assert all(a.end_time < b.start_time for a, b in zip(given, given[1:], strict=False))
    # One disk may be given as it is.
    assert recording.open(disks[0], SCAN).name == SCAN


def test_chunks_are_viewed_where_they_were_read(scan):
    """For reading only, as long as any view of them lives; a program may keep all of them."""
    disks, whole = scan
    stream = recording.open(disks, SCAN).streams[0]
    first = next(stream.chunks())
    frames = first.frames
    assert np.shares_memory(frames, first.frames) and np.shares_memory(frames, np.frombuffer(first.data, np.uint8))
    assert not frames.flags.writeable and first.data.readonly
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        frames.flags.writeable = True
    copy, last = frames.copy(), frames[-1, -8:]
    del first, frames
    gc.collect()
    # Its reader is gone, and its memory is not.
    assert last.tobytes() == copy[-1, -8:].tobytes() == whole[copy.nbytes - 8 : copy.nbytes]

    kept = list(stream.chunks())
    assert b"".join(chunk.data for chunk in kept) == whole
    views = [chunk.frames[::3] for chunk in kept]
    del kept
    assert sum(view.sum(dtype=np.uint64) for view in views) == sum(
        np.frombuffer(chunk.data, np.uint8).reshape(-1, FRAME)[::3].sum(dtype=np.uint64) for chunk in stream.chunks()
    )
    again = pickle.loads(pickle.dumps(list(stream.chunks())))
    assert again == list(stream.chunks()) and again[0].data == whole[: len(again[0].data)]


def test_one_thread_after_another_drops_views(scan):
    disks, whole = scan
    stream = recording.open(disks, SCAN).streams[0]

    def some(number):
        views = collections.deque(maxlen=number % 5 + 1)
        total = 0
        for chunk in stream.chunks():
            views.append(chunk.frames)
            total += len(views[0])
        return total > 0 and sum(len(chunk.data) for chunk in stream.chunks()) == len(whole)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(pool.map(some, range(12)))


def test_a_damaged_chunk_raises_unless_asked_for_otherwise(scan):
    disks, whole = scan
    path = chunk_file(disks, 3)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    stream = recording.open(disks, SCAN).streams[0]
    chunks = stream.chunks()
    with pytest.raises(recording.Damaged, match="CRC-32C") as caught:
        list(chunks)
    gap = caught.value.gap
    assert isinstance(caught.value, OSError)
    assert (gap.stream, gap.first, gap.end, gap.lack, gap.length) == (SCAN, 3, 4, "damaged", len(data))
    assert gap.start_time < gap.end_time
    with pytest.raises(StopIteration):
        next(chunks)

    skipped = stream.chunks("skip")
    rest = [chunk.number for chunk in skipped]
    assert 3 not in rest
    assert [gap.instead for gap in skipped.gaps] == ["left_out"]

    filled = stream.chunks("fill")
    given = list(filled)
    assert [gap.instead for gap in filled.gaps] == ["filled"]
    data = b"".join(chunk.data for chunk in given)
    assert len(data) == len(whole)
    fill = b"".join(chunk.data for chunk in given if chunk.filled)
    assert len(fill) == gap.length
    assert all(fill[at + 3] & 0x80 for at in range(0, len(fill), FRAME)), "each frame is marked invalid"

    raw = stream.chunks("skip", verify=False)
    assert sum(len(chunk.data) for chunk in raw) == len(whole)
    assert [gap.instead for gap in raw.gaps] == ["as_it_is"]


def test_what_lies_elsewhere_is_found(scan):
    disks, whole = scan
    for number in (2, 5):
        path = chunk_file(disks, number)
        other = next(disk for disk in disks if disk not in path.parents)
        shutil.move(path, other / SCAN / path.name)
    chunks = recording.open(disks, SCAN).streams[0].chunks()
    assert b"".join(chunk.data for chunk in chunks) == whole
    assert chunks.gaps == []


@pytest.mark.parametrize("damage", ["fifo", "deleted", "no index", "no indexes", "junk", "one disk"])
def test_nothing_is_left_out_in_silence(scan, damage):
    disks, whole = scan
    indexes = [disk / SCAN / f"{SCAN}.index" for disk in disks]
    if damage in ("fifo", "deleted"):
        path = chunk_file(disks, 4)
        path.unlink()
        if damage == "fifo":
            os.mkfifo(path)
    elif damage == "no index":
        indexes[0].unlink()
    elif damage == "no indexes":
        for index in indexes:
            index.unlink()
    elif damage == "junk":
        with indexes[0].open("ab") as index:
            index.write(b"junk")
    else:
        disks = disks[:1]
    opened = recording.open(disks, SCAN)
    chunks = opened.streams[0].chunks("skip")
    data = b"".join(chunk.data for chunk in chunks)
    if damage == "junk":
        assert data == whole
        assert chunks.gaps == []
        assert "4 bytes follow its last line" in [finding.text for finding in opened.findings]
        return
    assert chunks.gaps, "a gap is named"
    assert all(str(gap).startswith(f"{SCAN}: ") for gap in chunks.gaps)
    with pytest.raises(recording.Damaged):
        list(opened.streams[0].chunks())
    if damage == "fifo":
        assert any("FIFO" in finding.text for finding in opened.findings)
    if damage == "one disk":
        assert len(opened.missing_disks) == 1
    if damage == "no indexes":
        assert opened.state == "unindexed"
        assert data == whole, "what frames prove is given"


def test_what_cannot_be_opened_says_so(tmp_path):
    with pytest.raises(FileNotFoundError, match="hint: `skyhaul ls`"):
        recording.open([tmp_path], "none")
    with pytest.raises(ValueError, match="invalid scan name"):
        recording.open([tmp_path], "a/b")
    with pytest.raises(ValueError, match="hint: give the directories"):
        recording.open([], "none")
    with pytest.raises(FileNotFoundError, match="hint: check the name") as raised:
        recording.open([tmp_path / "gone"], "none")
    assert raised.value.filename == str(tmp_path / "gone")


def test_an_unknown_wish_is_refused(scan):
    disks, _ = scan
    stream = recording.open(disks, SCAN).streams[0]
    with pytest.raises(ValueError, match='hint: "raise", "skip" or "fill"'):
        stream.chunks("ignore")


FORKED = """
import os, sys
from skyhaul import recording
chunks = recording.open(sys.argv[2:], sys.argv[1]).streams[0].chunks()
first = next(chunks)
if os.fork() == 0:
    # A copy of its memory is there, and is left to the parent's reader.
    total = first.frames.sum()
    del first
    try:
        next(chunks)
    except RuntimeError:
        os._exit(7 if total else 1)
    os._exit(1)
print(os.waitstatus_to_exitcode(os.wait()[1]), len(list(chunks)) > 0)
"""


def test_a_forked_process_does_not_wait_for_ever(scan):
    disks, _ = scan
    words = [sys.executable, "-c", FORKED, SCAN, *map(str, disks)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=SOON, check=False)
    assert done.stdout.split() == ["7", "True"], done.stderr
