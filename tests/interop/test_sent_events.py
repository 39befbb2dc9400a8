"""The octets of events as the command and the package send them, read by hand: no parser of ours has a part in it.

The layouts are those of E2SAR, udplbd and the JLab tools, big-endian:

    balancer         'L' 'B' | version | 1 | reserved or slot, 2 | entropy or port, 2 | tick, 8
    reassembly       version, 4 bits; 0, 12 | data id, 2 | offset, 4 | event length, 4 | tick, 8
    synchronisation  'L' 'C' | 2 | 0 | source, 4 | tick, 8 | ticks per second, 4 | Unix time in ns, 8
"""

import contextlib
import os
import socket
import struct
import subprocess
import time

import pytest
from conftest import BINARY

BALANCER = struct.Struct(">2sBBHHQ")
REASSEMBLY = struct.Struct(">BBHIIQ")
SYNC = struct.Struct(">2sBBIQIQ")


def listen(family=socket.AF_INET, host="127.0.0.1"):
    one = socket.socket(family, socket.SOCK_DGRAM)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    one.bind((host, 0))
    one.settimeout(30)
    return one


def port(one):
    return one.getsockname()[1]


def events(data, count, balanced):
    """So many events, put together; each with its balancer's headers, reassembly headers and lengths of packets."""
    found = {}
    whole = 0
    while whole < count:
        packet = data.recv(70_000)
        head = BALANCER.unpack_from(packet) if balanced else None
        segment = REASSEMBLY.unpack_from(packet, BALANCER.size if balanced else 0)
        payload = packet[REASSEMBLY.size + (BALANCER.size if balanced else 0) :]
        _, _, data_id, offset, length, tick = segment
        event = found.setdefault((tick, data_id), {"bytes": bytearray(length), "got": 0, "heads": set(), "segments": [], "packets": []})
        assert len(event["bytes"]) == length, "each packet says the same"
        assert offset == event["got"], "in order, without gaps"
        event["bytes"][offset : offset + len(payload)] = payload
        event["got"] += len(payload)
        event["heads"].add(head)
        event["segments"].append(segment)
        event["packets"].append(len(packet))
        whole += event["got"] == length
    return found


@pytest.mark.parametrize("mtu", [1500, 9000, 65000])
@pytest.mark.parametrize("version", [None, 2, 3], ids=["direct", "v2", "v3"])
def test_octets(skyhaul, tmp_path, mtu, version):
    content = os.urandom(100_000)
    (tmp_path / "file").write_bytes(content)
    with contextlib.closing(listen()) as data, contextlib.closing(listen()) as sync:
        to = f"udp://127.0.0.1:{port(data)}"
        if version:
            to = f"ejfat://token@127.0.0.1:9/lb/1?data=127.0.0.1:{port(data)}&sync=127.0.0.1:{port(sync)}"
        before = time.time_ns()
        options = ["--lb-version", version, "--entropy", 0xABCD, "--warm-up", "50ms", "--sync-period", "10ms"] if version else []
        report = skyhaul.json("send", "--format", "ejfat", "--input", tmp_path / "file", "--event", 30_000, "--mtu", mtu,
                              "--tick", 0x1122334455667788, "--tick-step", 256, "--data-id", 0x0102, "--rate", "200Mbps",
                              "--to", to, *options)  # fmt: skip
        assert (report["events"], report["payload_bytes"]) == (4, 100_000)
        found = events(data, 4, balanced=bool(version))
        ticks = [0x1122334455667788 + 256 * n for n in range(4)]
        assert list(found) == [(tick, 0x0102) for tick in ticks]
        assert b"".join(event["bytes"] for event in found.values()) == content
        packet = mtu - 20 - 8
        for (tick, _), event in found.items():
            assert all(segment[:2] == (0x10, 0) for segment in event["segments"])
            assert set(event["packets"][:-1]) <= {packet} and event["packets"][-1] <= packet
            payload = packet - 20 - (16 if version else 0)
            assert len(event["packets"]) == -(-len(event["bytes"]) // payload)
            slot = tick & 0xFFFF if version == 3 else 0
            assert event["heads"] == {(b"LB", version, 1, slot, 0xABCD, tick) if version else None}
        if version:
            message = sync.recv(100)
            magic, number, reserved, source, tick, rate, nanos = SYNC.unpack(message)
            assert (magic, number, reserved, source, tick, rate) == (b"LC", 2, 0, 0x0102, ticks[0], 0)
            assert before <= nanos <= time.time_ns()


@pytest.mark.parametrize("nibble", [0, 1, 2])
def test_versions_of_the_reassembly_header(skyhaul, nibble):
    with contextlib.closing(listen()) as data:
        skyhaul.run("send", "--format", "ejfat", "--pattern", "--event", 100, "--events", 1, "--re-version", nibble,
                    "--to", f"udp://127.0.0.1:{port(data)}")  # fmt: skip
        assert data.recv(1000)[0] == nibble << 4


def test_ipv6_has_longer_headers(skyhaul):
    try:
        data = listen(socket.AF_INET6, "::1")
    except OSError as why:
        pytest.skip(f"no IPv6 on the loopback: {why}")
    with contextlib.closing(data):
        uri = f"ejfat://t@h:9/lb/1?data=127.0.0.1:9&data=[::1]:{port(data)}"
        skyhaul.run("send", "--format", "ejfat", "--pattern", "--event", 5000, "--events", 1, "--ipv6", "--to", uri)
        assert [len(data.recv(2000)) - 36 for _ in range(4)] == [1416, 1416, 1416, 5000 - 3 * 1416]


def test_the_variable_says_where(skyhaul):
    with contextlib.closing(listen()) as data:
        uri = f"ejfat://t@h:9/lb/1?data=127.0.0.1:{port(data)}"
        words = [BINARY, "send", "--format", "ejfat", "--pattern", "--event", "10", "--events", "3", "--tick", "clock"]
        subprocess.run(words, env={**os.environ, "EJFAT_URI": uri}, check=True, timeout=60, capture_output=True)
        ticks = [BALANCER.unpack_from(data.recv(1000))[5] for _ in range(3)]
        assert ticks == sorted(set(ticks)) and abs(ticks[0] / 1e6 - time.time()) < 3600


def test_entropy_spreads_events_and_not_their_packets(skyhaul):
    with contextlib.closing(listen()) as data:
        uri = f"ejfat://t@h:9/lb/1?data=127.0.0.1:{port(data)}"
        skyhaul.run("send", "--format", "ejfat", "--pattern", "--event", 5000, "--events", 200, "--tick", 0, "--rate", "100Mbps", "--to", uri)
        found = events(data, 200, balanced=True)
        assert all(len(event["heads"]) == 1 for event in found.values())
        ports = [next(iter(event["heads"]))[4] & 15 for event in found.values()]
        assert len(set(ports)) == 16


def test_the_package_sends_the_same():
    ejfat = pytest.importorskip("skyhaul.ejfat", reason="the package is not installed (make python)")
    content = os.urandom(50_000)
    with contextlib.closing(listen()) as data, contextlib.closing(listen()) as sync:
        uri = f"ejfat://token@127.0.0.1:9/lb/1?data=127.0.0.1:{port(data)}&sync=127.0.0.1:{port(sync)}"
        with ejfat.Sender(uri, lb_version=3, entropy=7, mtu=9000, warm_up=0.0, sync_source=5, first_tick=10, tick_step=5) as sender:
            assert "token" not in sender.to
            assert [sender.send(memoryview(content)), sender.send(content, data_id=3), sender.send(content, 99)] == [10, 15, 99]
            stats = sender.stats()
        assert (stats["events"], stats["payload_bytes"]) == (3, 150_000)
        found = events(data, 3, balanced=True)
        assert list(found) == [(10, 0), (15, 3), (99, 0)]
        for (tick, _), event in found.items():
            assert bytes(event["bytes"]) == content
            assert event["heads"] == {(b"LB", 3, 1, tick, 7, tick)}
        assert SYNC.unpack(sync.recv(100))[:5] == (b"LC", 2, 0, 5, 10)
