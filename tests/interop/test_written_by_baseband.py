"""Frames that baseband wrote, sent from a plain UDP socket: recorded as they were, and holes told as holes."""

import random

import pytest
from backend import FRAMES_PER_SECOND, read_vdif, send, with_vtp, written_by_baseband

KINDS = [0, 1, 2, 3, 0xAB]
# Without a sequence number and without a rate in the header, only the user knows how many frames a second has, and
# so whether its last ones are missing.
RATE = ("--frame-rate", FRAMES_PER_SECOND)
ORDERS = [None, "little", "big"]


@pytest.fixture(scope="module", params=KINDS, ids=lambda edv: f"edv{edv:#x}")
def frames(request):
    return written_by_baseband(request.param)


@pytest.mark.parametrize("order", ORDERS, ids=["plain", "vtp-little", "vtp-big"])
def test_frames_come_back_as_they_were(record, frames, order):
    recorder = record(form="vdif")
    send(with_vtp(frames, order), recorder.port)
    (stream,) = recorder.finish()["streams"]
    assert (stream["placed"], stream["lost"], stream["rejects"]) == (len(frames), 0, {})
    assert recorder.cat() == b"".join(frames)
    assert b"".join(path.read_bytes() for path in recorder.chunks()) == b"".join(frames)


@pytest.mark.parametrize("order", ORDERS, ids=["plain", "vtp-little", "vtp-big"])
def test_lost_frames_are_invalid_and_nothing_else(record, frames, order):
    recorder = record(*RATE, form="vdif")
    chance = random.Random(11)
    # The edges are sent: what lies before the first frame or after the last was never part of the stream.
    lost = {n for n in range(20, len(frames) - 20) if chance.random() < 0.05} | set(range(100, 140))
    datagrams = with_vtp(frames, order)
    send([datagram for n, datagram in enumerate(datagrams) if n not in lost], recorder.port)
    (told,) = recorder.finish()["streams"]
    assert (told["placed"], told["lost"]) == (len(frames) - len(lost), len(lost))
    assert runs(told["loss_map"]) == runs([n, n + 1] for n in sorted(lost))
    checked = recorder.check()
    assert (checked["verdict"], checked["datastreams"][0]["missing_units"]) == ("holes", len(lost))

    stream = recorder.cat()
    assert len(stream) == len(b"".join(frames))
    size = len(frames[0])
    for n, (sent, read) in enumerate(zip(frames, read_vdif(stream), strict=True)):
        assert read.valid == (n not in lost), f"frame {n}"
        if n in lost:
            header = read_vdif(sent)[0].header
            for field in ("seconds", "ref_epoch", "frame_nr", "thread_id", "station_id", "frame_length", "edv"):
                assert read[field] == header[field], f"fill for frame {n}: {field}"
            assert stream[n * size + 32 : (n + 1) * size] == b"\x44\x33\x22\x11" * ((size - 32) // 4)
        else:
            assert stream[n * size : (n + 1) * size] == sent


def runs(ranges):
    """Ranges joined where they meet, counted from the first."""
    joined = []
    for start, end in ranges:
        if joined and joined[-1][1] == start:
            joined[-1][1] = end
        else:
            joined.append([start, end])
    return [(start - joined[0][0], end - joined[0][0]) for start, end in joined]


@pytest.mark.parametrize("order", ORDERS, ids=["plain", "vtp-little", "vtp-big"])
def test_order_and_repetition_do_not_matter(record, order):
    frames = written_by_baseband(1)
    recorder = record(form="vdif")
    datagrams = with_vtp(frames, order)
    chance = random.Random(5)
    # The first stays first: it says where the stream begins.
    shuffled = sorted(range(1, len(datagrams)), key=lambda n: n + chance.uniform(0, 32))
    doubled = [n for n in shuffled for _ in range(1 + (chance.random() < 0.05))]
    send([datagrams[n] for n in [0, *doubled]], recorder.port)
    (told,) = recorder.finish()["streams"]
    assert told["rejects"] == {"duplicate": len(doubled) - len(shuffled)}
    assert recorder.check()["verdict"] == "whole"
    assert recorder.cat() == b"".join(frames)
