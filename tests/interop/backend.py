"""A digital back-end made of baseband: frames that an independent program wrote, and a UDP sender for them.

Nothing here knows how Skyhaul reads or writes a format. Frames come from baseband's own writers, or from the samples
that its package carries; the sender puts them into datagrams as a station's hardware does.
"""

import io
import socket
import struct
import time

import astropy.units as u
import numpy as np
from astropy.time import Time
from baseband import mark5b, vdif

START = Time("2026-11-21T03:29:59")
LEVELS = np.array([-3.3359, -1.0, 1.0, 3.3359])
FRAMES_PER_SECOND = 100


def written_by_baseband(edv, seconds=2.5, nthread=2):
    """Frames of a stream in the order of (time, thread), as baseband's writer makes them; all of one size."""
    if edv == 0xAB:
        return _mark5b_over_vdif(seconds)
    length, nchan = (629, 1) if edv == 3 else (1004, 8)
    samples = (length * 8 - 32) * 4 // nchan  # 2 bits a sample
    values = {"edv": edv, "time": START, "station": "Sk", "bps": 2, "nchan": nchan, "complex_data": False}
    if edv in (1, 3):
        values["sample_rate"] = samples * FRAMES_PER_SECOND * u.Hz
    header = vdif.VDIFHeader.fromvalues(frame_length=length, **values)
    count = int(seconds * FRAMES_PER_SECOND)
    raw = io.BytesIO()
    writer = vdif.open(raw, "ws", header0=header, sample_rate=samples * FRAMES_PER_SECOND * u.Hz, nthread=nthread)
    writer.write(np.random.default_rng(edv).choice(LEVELS, size=(count * samples, *writer.sample_shape)))
    return cut(raw.getvalue(), header.frame_nbytes)


def _mark5b_over_vdif(seconds):
    """EDV 0xAB: each header holds a whole Mark 5B header, whose time must be the frame's own."""
    frames = []
    rng = np.random.default_rng(0xAB)
    rate = FRAMES_PER_SECOND * u.Hz
    for n in range(int(seconds * FRAMES_PER_SECOND)):
        second, number = divmod(n, FRAMES_PER_SECOND)
        header = vdif.VDIFHeader.fromvalues(
            edv=0xAB, time=START + (second + number / FRAMES_PER_SECOND) * u.s, frame_rate=rate,
            station="Sk", bps=2, nchan=8, complex_data=False, frame_length=1254, frame_nr=number,
        )
        frame = vdif.VDIFFrame.fromdata(rng.choice(LEVELS, size=(5000, 8)), header)
        raw = io.BytesIO()
        frame.tofile(raw)
        frames.append(raw.getvalue())
    return frames


def cut(stream, size):
    """A file of equal frames as a list of them."""
    assert len(stream) % size == 0, f"{len(stream)} bytes are no whole number of frames of {size}"
    return [stream[at : at + size] for at in range(0, len(stream), size)]


def read_vdif(stream):
    """Every frame of a VDIF file as baseband reads it, headers verified."""
    return _all_frames(vdif.open(io.BytesIO(stream), "rb"))


def read_mark5b(stream):
    """Every frame of a Mark 5B file of 8 channels of 2 bits, as baseband reads it."""
    return _all_frames(mark5b.open(io.BytesIO(stream), "rb", kday=56000, nchan=8, bps=2))


def _all_frames(reader):
    frames = []
    while True:
        try:
            frames.append(reader.read_frame())
        except EOFError:
            return frames


def with_vtp(frames, order, first=1000):
    """The frames as VTP datagrams: a packet sequence number, then the frame. `order` is little, big or None."""
    if order is None:
        return frames
    code = "<Q" if order == "little" else ">Q"
    return [struct.pack(code, first + n) + frame for n, frame in enumerate(frames)]


def send(datagrams, port, address="127.0.0.1", per_second=100e6):
    """Send from one socket, at most about `per_second` bytes a second, so that a small socket buffer suffices."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        began, sent = time.monotonic(), 0
        for datagram in datagrams:
            sender.sendto(datagram, (address, port))
            sent += len(datagram)
            ahead = sent / per_second - (time.monotonic() - began)
            if ahead > 0.001:
                time.sleep(ahead)
