"""Frames that never arrived, as baseband reads what stands in their place: with their time and thread, and not as data."""

import io

import astropy.units as u
import numpy as np
import pytest
from backend import FRAMES_PER_SECOND, send, with_vtp, written_by_baseband
from baseband import vdif

THREADS = 2
SECONDS = 4


def opened(stream):
    rate = FRAMES_PER_SECOND * (1004 * 8 - 32) * 4 // 8 * u.Hz
    return vdif.open(io.BytesIO(stream), "rs", sample_rate=rate, fill_value=np.nan, verify="fix")


def cut(stream):
    """Headers and validity of the frames in a file."""
    size = 1004 * 8
    assert len(stream) % size == 0
    frames = [vdif.VDIFFrame.fromfile(io.BytesIO(stream[at:at + size])) for at in range(0, len(stream), size)]
    return [(frame.header["thread_id"], frame.header["seconds"], frame.header["frame_nr"], frame.valid) for frame in frames]


@pytest.mark.parametrize("order", [None, "little"], ids=["by time", "by sequence"])
@pytest.mark.parametrize("fill", [True, False], ids=["fill", "no fill"])
def test_lost_frames_are_invalid_ones_of_their_time(record, skyhaul, order, fill):
    frames = written_by_baseband(0, seconds=SECONDS, nthread=THREADS)
    lost = {n for n in range(40, len(frames) - 40) if n % 31 == 7} | set(range(300, 420))
    recorder = record("--frame-rate", FRAMES_PER_SECOND, "--chunk", "1MiB", *([] if fill else ["--no-fill"]))
    datagrams = with_vtp(frames, order)
    send([datagram for n, datagram in enumerate(datagrams) if n not in lost], recorder.port)
    report = recorder.finish()
    assert report["streams"][0]["lost"] == len(lost)
    assert report["frames_filled"] + report["frames_left_out"] == len(lost)
    assert (report["frames_filled"] > 0) == fill

    sent = cut(b"".join(frames))
    recorded = cut(recorder.cat())
    arrived = [frame for n, frame in enumerate(sent) if n not in lost]
    assert [frame for frame in recorded if frame[3]] == arrived
    assert sum(not frame[3] for frame in recorded) == report["frames_filled"]

    whole = skyhaul.run("cat", "--fill", *recorder.on_disks(), recorder.scan)
    filled = cut(whole)
    assert filled == [(*frame[:3], n not in lost) for n, frame in enumerate(sent)]
    with opened(whole) as reader, opened(b"".join(frames)) as original:
        assert (reader.start_time, reader.shape) == (original.start_time, original.shape)
        data, right = reader.read(), original.read()
    invalid = np.isnan(data)
    assert (data[~invalid] == right[~invalid]).all()
    assert invalid.mean() == pytest.approx(len(lost) / len(frames))


def test_a_late_thread_is_in_every_set_from_its_first_frame_on(record):
    frames = written_by_baseband(0, seconds=SECONDS, nthread=THREADS)
    late = int(0.6 * FRAMES_PER_SECOND)
    came = [frame for n, frame in enumerate(frames) if n % THREADS == 0 or n // THREADS >= late]
    recorder = record("--frame-rate", FRAMES_PER_SECOND)
    send(came, recorder.port)
    report = recorder.finish()
    assert not report["streams"][0]["rejects"]
    assert report["streams"][0]["irregular"]["threads_joined"] == 1
    assert recorder.cat() == b"".join(came)
    assert recorder.check()["verdict"] in ("whole", "holes")
