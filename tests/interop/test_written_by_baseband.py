"""Frames that baseband wrote, sent from a plain UDP socket: recorded as they were, and holes told as holes."""

import random

import pytest
from backend import read_vdif, send, with_vtp, written_by_baseband

KINDS = [0, 1, 2, 3, 0xAB]
ORDERS = [None, "little", "big"]


@pytest.fixture(scope="module", params=KINDS, ids=lambda edv: f"edv{edv:#x}")
def frames(request):
    return written_by_baseband(request.param)


@pytest.mark.parametrize("order", ORDERS, ids=["plain", "vtp-little", "vtp-big"])
def test_frames_come_back_as_they_were(record, frames, order):
    recorder = record(form="vdif")
    send(with_vtp(frames, order), recorder.port)
    recorder.finish()
    assert recorder.cat() == b"".join(frames)
    assert b"".join(path.read_bytes() for path in recorder.chunks()) == b"".join(frames)


@pytest.mark.parametrize("order", ORDERS, ids=["plain", "vtp-little", "vtp-big"])
def test_lost_frames_are_invalid_and_nothing_else(record, frames, order):
    recorder = record(form="vdif")
    chance = random.Random(11)
    # The edges are sent: what lies before the first frame or after the last was never part of the stream.
    lost = {n for n in range(20, len(frames) - 20) if chance.random() < 0.05} | set(range(100, 140))
    datagrams = with_vtp(frames, order)
    send([datagram for n, datagram in enumerate(datagrams) if n not in lost], recorder.port)
    recorder.finish()

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
    recorder.finish()
    assert recorder.cat() == b"".join(frames)
