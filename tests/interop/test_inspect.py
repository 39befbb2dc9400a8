"""What `skyhaul inspect` says of a packet, held against what baseband says of the same bytes."""

import json
import subprocess
import threading

import baseband.data
import pytest
from backend import read_mark5b, read_vdif, send, with_vtp, written_by_baseband
from conftest import BINARY, free_port, wait_until_bound

SAMPLES = [("SAMPLE_VDIF", read_vdif), ("SAMPLE_BPS1_VDIF", read_vdif), ("SAMPLE_AROCHIME_VDIF", read_vdif),
           ("SAMPLE_MWA_VDIF", read_vdif), ("SAMPLE_MARK5B", read_mark5b)]


def agree(shown, header, at=0):
    """Every field that baseband has at some bits of some word, inspect shows with the same value.

    It may be part of a larger one: baseband's EDV 0xAB is the high octet of what inspect shows as the sync word.
    """
    for name in header.keys():
        word, lsb, bits = header._header_parser[name][:3]
        covering = [field for field in shown["fields"] if field["byte"] - at == 4 * word and field["lsb"] <= lsb
                    and field["lsb"] + field["bits"] >= lsb + bits]
        assert len(covering) == 1, f"{name} (word {word}, bit {lsb}, {bits} bits) is not shown"
        (field,) = covering
        assert field["value"] >> (lsb - field["lsb"]) & (1 << bits) - 1 == int(header[name]), name


@pytest.mark.parametrize(("name", "read"), SAMPLES, ids=[name for name, _ in SAMPLES])
def test_samples(skyhaul, name, read):
    path = getattr(baseband.data, name)
    with open(path, "rb") as file:
        frames = read(file.read())
    shown = skyhaul.json("inspect", path, "-n", len(frames))
    assert len(shown) == len(frames)
    for packet, frame in zip(shown, frames, strict=True):
        assert packet["bytes"] == frame.nbytes
        assert packet["payload_at"] == frame.header.nbytes
        agree(packet, frame.header)


@pytest.mark.parametrize("edv", [0, 1, 2, 3, 0xAB], ids=hex)
@pytest.mark.parametrize("order", [None, "little"])
def test_a_live_port(skyhaul, edv, order):
    frames = written_by_baseband(edv, seconds=0.1)
    port = free_port()
    with subprocess.Popen([BINARY, "inspect", f"udp://127.0.0.1:{port}", "-n", str(len(frames)), "--json"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        wait_until_bound(port, process)
        threading.Thread(target=send, args=(with_vtp(frames, order), port)).start()
        output, _ = process.communicate(timeout=20)
    shown = json.loads(output)
    at = 0 if order is None else 8
    for n, (packet, frame) in enumerate(zip(shown, frames, strict=True)):
        agree(packet, read_vdif(frame)[0].header, at)
        if at:
            number = [field["value"] for field in packet["fields"] if field["section"] == "VTP"]
            assert number == [1000 + n]
