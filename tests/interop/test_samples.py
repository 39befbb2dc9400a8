"""Baseband's own samples, looped by `skyhaul send`, recorded, read back by baseband: the same samples in place."""

import io

import astropy.units as u
import baseband.data
import numpy as np
import pytest
from backend import read_mark5b, read_vdif
from baseband import mark5b, vdif

LOOPS = 150
# name, frames per second and thread, samples per second
VDIF = [
    ("SAMPLE_VDIF", 1600, 32 * u.MHz),
    ("SAMPLE_BPS1_VDIF", 8000, 32 * u.MHz),
    ("SAMPLE_AROCHIME_VDIF", 390625, 390625 * u.Hz),
]


def chunks_are_the_stream(recorder, stream):
    joined = b"".join(path.read_bytes() for path in recorder.chunks())
    assert joined == stream, "the chunk files alone, in order, are not what cat gives"


@pytest.mark.parametrize(("name", "rate", "sample_rate"), VDIF, ids=[name for name, *_ in VDIF])
def test_vdif_sample(skyhaul, record, tmp_path, name, rate, sample_rate):
    path = getattr(baseband.data, name)
    recorder = record(form="vdif")
    skyhaul.json("send", "--format", "vdif", "--input", path, "--loop", LOOPS, "--to",
                 f"udp://127.0.0.1:{recorder.port}", "--rate", "1Gbps", "--frame-rate", rate)
    recorder.finish()
    stream = recorder.cat()

    with vdif.open(path, "rb") as file:
        original = read_vdif(file.fh_raw.read())
    frames = read_vdif(stream)
    assert len(frames) == LOOPS * len(original)
    assert all(frame.valid for frame in frames)
    for thread in {frame["thread_id"] for frame in original}:
        mine = [frame for frame in frames if frame["thread_id"] == thread]
        times = [frame["seconds"] * rate + frame["frame_nr"] for frame in mine]
        assert times == list(range(times[0], times[0] + len(mine))), f"thread {thread} is not continuous"

    with vdif.open(path, "rs", sample_rate=sample_rate) as file:
        once = file.read()
    with vdif.open(io.BytesIO(stream), "rs", sample_rate=sample_rate) as file:
        assert file.sample_rate == sample_rate
        again = file.read()
    assert np.array_equal(again, np.tile(once, (LOOPS,) + (1,) * (once.ndim - 1)))
    chunks_are_the_stream(recorder, stream)


def test_mark5b_sample(skyhaul, record):
    path = baseband.data.SAMPLE_MARK5B
    recorder = record(form="mark5b")
    skyhaul.json("send", "--format", "mark5b", "--input", path, "--loop", LOOPS, "--to",
                 f"udp://127.0.0.1:{recorder.port}", "--rate", "1Gbps", "--frame-rate", 6400)
    recorder.finish()
    stream = recorder.cat()

    frames = read_mark5b(stream)
    assert len(frames) == LOOPS * 4
    assert all(frame.valid for frame in frames)
    shape = {"sample_rate": 32 * u.MHz, "kday": 56000, "nchan": 8, "bps": 2}
    with mark5b.open(path, "rs", **shape) as file:
        once = file.read()
    with mark5b.open(io.BytesIO(stream), "rs", **shape) as file:
        again = file.read()
    assert np.array_equal(again, np.tile(once, (LOOPS, 1)))
    chunks_are_the_stream(recorder, stream)


def test_injected_faults_are_what_baseband_sees(skyhaul, record):
    """Every packet that the sender lost on purpose is a frame that baseband finds invalid, and no other is."""
    path = baseband.data.SAMPLE_VDIF
    recorder = record(form="vdif")
    sent = skyhaul.json("send", "--format", "vdif", "--input", path, "--loop", LOOPS, "--to",
                        f"udp://127.0.0.1:{recorder.port}", "--rate", "1Gbps",
                        "--faults", "loss=0.02,burst=40@0.0005,reorder=64,duplicate=0.01,seed=7")
    (told,) = recorder.finish()["streams"]
    assert sent["lost"] > 0 and sent["duplicated"] > 0 and sent["reordered"] > 0
    assert told["placed"] == sent["numbered"] - sent["lost"]
    assert sum(told["rejects"].values()) == sent["duplicated"]
    assert told["rejects"].keys() <= {"duplicate", "late"}

    lost = [n for start, end in sent["lost_ranges"] for n in range(start, end)]
    assert sent["lost_not_listed"] == 0
    first = min(set(range(sent["numbered"])) - set(lost))
    frames = read_vdif(recorder.cat())
    assert [first + n for n, frame in enumerate(frames) if not frame.valid] == [n for n in lost if n > first]
