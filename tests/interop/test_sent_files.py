"""Files and recordings with gaps, sent again: what arrives is byte for byte what was recorded, and baseband reads the same times."""

import io
import socket
import struct
import threading

import baseband.data
import numpy as np
import pytest
from baseband import mark5b, vdif

FPS = 100


def vdif_frame(thread, number, seconds=800_000):
    """A frame of VDIF 1.1.1, EDV 0, 2 bit, made without any library."""
    length = 32 + 400
    words = (
        seconds + number // FPS,
        52 << 24 | number % FPS,
        1 << 29 | length // 8,
        1 << 26 | thread << 16 | 0x536B,
        0, 0, 0, 0,
    )
    return struct.pack("<8I", *words) + bytes((number * 7 + n) % 251 for n in range(400))


def received(skyhaul, *words, expect=0):
    """Send to a connection of our own: the report, and all bytes that came."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        parts = []

        def take():
            connection, _ = server.accept()
            with connection:
                while part := connection.recv(1 << 20):
                    parts.append(part)

        reader = threading.Thread(target=take)
        reader.start()
        port = server.getsockname()[1]
        report = skyhaul.json("send", *words, "--to", f"tcp://127.0.0.1:{port}", expect=expect)
        reader.join(30)
    return report, b"".join(parts)


def times_of(stream):
    """Thread, second and frame number of every frame, by baseband."""
    found = []
    file = io.BytesIO(stream)
    while file.tell() < len(stream):
        frame = vdif.VDIFFrame.fromfile(file)
        found.append((frame["thread_id"], frame["seconds"], frame["frame_nr"]))
    return found


@pytest.fixture
def gappy(tmp_path):
    """Two threads over five seconds; 80 numbers over the end of a second are missing, and a few frames of one thread."""
    frames = [(thread, n) for n in range(30, 530) for thread in (3, 1)
              if not 180 <= n < 260 and (thread, n) not in {(1, 300), (1, 301), (3, 400)}]
    path = tmp_path / "gappy.vdif"
    path.write_bytes(b"".join(vdif_frame(*frame) for frame in frames))
    return path, frames


def test_a_file_with_gaps_is_sent_as_it_is(skyhaul, gappy):
    path, frames = gappy
    report, stream = received(skyhaul, "--input", path, "--rate", "max")
    assert stream == path.read_bytes()
    assert times_of(stream) == [(thread, 800_000 + n // FPS, n % FPS) for thread, n in frames]
    assert not report["times"]["restamped"]
    assert report["times"]["missing"] == 163
    # The number before each frame is its place in the stream.
    _, stream = received(skyhaul, "--input", path, "--rate", "max", "--sequence", "big")
    units = [stream[at:at + 440] for at in range(0, len(stream), 440)]
    assert [struct.unpack(">Q", unit[:8])[0] for unit in units] == [(n - 30) * 2 + (thread == 1) for thread, n in frames]
    assert b"".join(unit[8:] for unit in units) == path.read_bytes()


def test_new_times_are_the_old_ones_and_a_constant(skyhaul, gappy):
    path, frames = gappy
    report, stream = received(skyhaul, "--input", path, "--rate", "max", "--loop", 3)
    passes = [(thread, 800_000 + (n + 500 * step) // FPS, (n + 500 * step) % FPS) for step in range(3) for thread, n in frames]
    assert times_of(stream) == passes
    assert report["times"]["restamped"] and report["times"]["pass_seconds"] == 5


def test_a_receiver_loses_exactly_the_gap(skyhaul, record, gappy):
    path, frames = gappy
    recorder = record("--frame-rate", FPS, form="vdif")
    skyhaul.json("send", "--input", path, "--rate", "20Mbps", "--to", f"udp://127.0.0.1:{recorder.port}")
    recorder.finish()
    stream = recorder.cat()
    valid = []
    file = io.BytesIO(stream)
    while file.tell() < len(stream):
        frame = vdif.VDIFFrame.fromfile(file)
        if frame.valid:
            valid.append((frame["thread_id"], frame["seconds"], frame["frame_nr"]))
    assert valid == [(thread, 800_000 + n // FPS, n % FPS) for thread, n in frames]
    assert len(stream) // 432 - len(valid) == 163


def test_mark5b_without_some_frames(skyhaul, tmp_path):
    with open(baseband.data.SAMPLE_MARK5B, "rb") as file:
        whole = file.read()
    path = tmp_path / "gappy.m5b"
    path.write_bytes(whole[:10_016] + whole[3 * 10_016:])
    report, stream = received(skyhaul, "--input", path, "--frame-rate", 6400, "--rate", "max")
    assert stream == path.read_bytes()
    assert report["times"]["missing"] == 2
    _, stream = received(skyhaul, "--input", path, "--frame-rate", 6400, "--rate", "max", "--loop", 2)
    headers = [mark5b.Mark5BHeader.fromfile(io.BytesIO(stream[at:]), kday=56_000) for at in range(0, len(stream), 10_016)]
    numbers = [header["frame_nr"] for header in headers]
    assert numbers == [0, 3, 4, 7]


def test_a_thread_with_a_wrong_clock_is_sent_so_and_its_repair_is_counted(skyhaul, tmp_path):
    from skyhaul import recording

    path = baseband.data.SAMPLE_VLBI_VDIF
    with open(path, "rb") as file:
        whole = file.read()
    _, stream = received(skyhaul, "--input", path, "--rate", "max")
    assert stream == whole
    scan = recording.open(path)
    scan.samples()
    wrong = {time[0] for time in times_of(whole) if time[1] < 20_000}
    assert scan.repaired == sum(time[0] in wrong for time in times_of(whole)) > 0
    assert sum("clock of thread" in note for note in scan.about.notes) == len(wrong)
    right = recording.open(baseband.data.SAMPLE_VDIF)
    right.samples()
    assert right.repaired == 0
    report = skyhaul.json("export", path, "-o", tmp_path / "out.npy")
    assert report["repaired"] == scan.repaired and report["notes"] == list(scan.about.notes)


def test_a_mark6_module_is_read_by_every_verb(skyhaul, tmp_path):
    with open(baseband.data.SAMPLE_VDIF, "rb") as file:
        whole = file.read()
    blocks = [whole[at:at + 4 * 5032] for at in range(0, len(whole), 4 * 5032)]
    disks = [tmp_path / f"d{n}" for n in range(2)]
    words = [word for disk in disks for word in ("--disk", disk)]

    def write(numbers):
        for at, disk in enumerate(disks):
            (disk / "data").mkdir(parents=True, exist_ok=True)
            mine = [number for number in numbers if number % 2 == at]
            (disk / "data/exp_st_no0001.vdif").write_bytes(
                struct.pack("<5I", 0xFEED6666, 2, 8 + len(blocks[0]), 0, 5032)
                + b"".join(struct.pack("<2I", number, 8 + len(blocks[number])) + blocks[number] for number in mine))

    write(range(len(blocks)))
    listed = skyhaul.json("ls", *words)
    assert "exp_st_no0001" in str(listed)
    assert skyhaul.run("cat", *words, "exp_st_no0001", expect=1) == whole, "nothing verifies the samples: exit 1"
    _, stream = received(skyhaul, *words, "--scan", "exp_st_no0001", "--rate", "max", expect=1)
    with vdif.open(io.BytesIO(stream), "rs") as theirs, vdif.open(baseband.data.SAMPLE_VDIF, "rs") as ours:
        assert np.array_equal(theirs.read(), ours.read())
    write(number for number in range(len(blocks)) if number != 1)
    check = skyhaul.json("check", *words, "exp_st_no0001", expect=1)
    assert check["datastreams"][0]["gaps"] == [[1, 2]]
