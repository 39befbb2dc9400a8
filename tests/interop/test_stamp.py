"""STAMP (RFC 8762): both ends of skyhaul against a peer written here from the RFC, and their packets read by tshark."""

import contextlib
import json
import re
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest
from conftest import BINARY

SINCE_1900 = 2_208_988_800
TEST, REFLECTION = struct.Struct(">IIIHH28x"), struct.Struct(">IIIHHIIIIIHHB3x")
FIELDS = ["seq_number", "timestamp", "error_estimate", "receive_timestamp", "sender_seq_number", "sender_timestamp",
          "sender_error_estimate", "sender_ttl"]


def now():
    """Seconds and fraction since 1900."""
    ns = time.time_ns()
    return ns // 10**9 + SINCE_1900, (ns % 10**9 << 32) // 10**9


def seconds(whole, fraction):
    return whole - SINCE_1900 + fraction / 2**32


@contextlib.contextmanager
def reflector(directory):
    """A server, its port, and at the end what it counted."""
    with (directory / "serve.err").open("wb") as errors:
        words = [BINARY, "probe", "serve", "--listen", "127.0.0.1", "--port", "0", "--stamp", "0", "--json",
                 "--token-file", directory / "token"]
        server = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
    counted = {}
    try:
        for _ in range(200):
            said = re.search(r"reflecting STAMP on 127\.0\.0\.1:(\d+)", (directory / "serve.err").read_text())
            if said:
                break
            time.sleep(0.05)
        yield int(said[1]), counted
        server.send_signal(signal.SIGINT)
        counted |= json.loads(server.communicate(timeout=30)[0])["stamp"]
    finally:
        if server.poll() is None:
            server.kill()
        server.communicate()


def dissected(payloads, port, directory):
    """What tshark reads of each payload, in a capture of UDP between this port and another."""
    capture = directory / "stamp.pcap"
    with capture.open("wb") as file:
        file.write(struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101))  # raw IP
        for payload in payloads:
            udp = struct.pack(">HHHH", 50000, port, 8 + len(payload), 0) + payload
            ip = struct.pack(">BBHIBBH4s4s", 0x45, 0, 20 + len(udp), 0, 64, 17, 0, b"\x7f\0\0\1", b"\x7f\0\0\2")
            file.write(struct.pack("<IIII", 1, 0, len(ip + udp), len(ip + udp)) + ip + udp)
    words = [word for field in FIELDS for word in ("-e", f"twamp.test.{field}")]
    read = subprocess.run(["tshark", "-r", capture, "-d", f"udp.port=={port},twamp.test", "-T", "fields",
                           "-E", "occurrence=f", "-e", "_ws.malformed", *words],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=True)
    lines = [line.split("\t") for line in read.stdout.splitlines()]
    assert [line[0] for line in lines] == [""] * len(payloads), "malformed"
    return [dict(zip(FIELDS, line[1:], strict=True)) for line in lines]


def test_reflections_are_those_of_the_rfc(tmp_path):
    with reflector(tmp_path) as (port, counted), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect(("127.0.0.1", port))
        sender.settimeout(20)
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 77)
        sender.send(b"\0" * 43)
        sent, back = [], []
        for number in (5, 6, 2**32 - 1):
            sent.append((number, *now(), 0x8A03))
            sender.send(TEST.pack(*sent[-1], 0xBEEF) + b"padding" * number if number == 6 else TEST.pack(*sent[-1], 0xBEEF))
            back.append((sender.recv(2048), seconds(*now())))
    for count, (test, (packet, arrived)) in enumerate(zip(sent, back, strict=True)):
        padding = b"padding" * 6 if test[0] == 6 else b""
        assert packet[44:] == padding, "as long as it was, and no longer"
        own, s3, f3, error, ssid, s2, f2, number, s1, f1, theirs, zero, ttl = REFLECTION.unpack(packet[:44])
        assert (own, ssid, zero, ttl) == (count, 0xBEEF, 0, 77), "it counts what it reflects"
        assert (number, s1, f1, theirs) == test
        assert error & 0xFF and not error & 0x4000, "an estimate, of NTP's format"
        assert seconds(s1, f1) <= seconds(s2, f2) <= seconds(s3, f3) <= arrived
    assert (counted["reflected"], counted["rejected"], counted["sessions"]) == (3, 1, 1)

    if not shutil.which("tshark"):
        pytest.skip("tshark is not installed (apt-get install tshark)")
    for read, (packet, _) in zip(dissected([packet for packet, _ in back], port, tmp_path), back, strict=True):
        own, *_, error, _, _, _, number, _, _, theirs, _, ttl = REFLECTION.unpack(packet[:44])
        assert (int(read["seq_number"]), int(read["sender_seq_number"])) == (own, number)
        assert (int(read["error_estimate"]), int(read["sender_error_estimate"])) == (error, theirs)
        assert int(read["sender_ttl"]) == ttl
        assert read["sender_timestamp"] and read["receive_timestamp"] >= read["sender_timestamp"]


@pytest.mark.parametrize("length", [44, 41], ids=["stamp", "twamp-light"])
def test_a_reflector_of_another_maker_is_understood(skyhaul, tmp_path, length):
    came = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.bind(("127.0.0.1", 0))
        peer.settimeout(0.2)
        over = threading.Event()

        def reflect():
            while not over.is_set():
                with contextlib.suppress(TimeoutError):
                    packet, sender = peer.recvfrom(2048)
                    arrived = now()
                    came.append(packet)
                    number, s1, f1, error, ssid = TEST.unpack(packet[:44])
                    if number != 3:  # lost on the way there
                        count = len({one[:4] for one in came} - {b"\0\0\0\3"}) - 1
                        answer = REFLECTION.pack(count, *now(), 0x0001, ssid, *arrived, number, s1, f1, error, 0, 250)
                        if number != 7:  # lost on the way back
                            peer.sendto(answer[:length], sender)
                            peer.sendto(answer[:length] if number == 8 else b"noise" * 9, sender)

        thread = threading.Thread(target=reflect)
        thread.start()
        try:
            report = skyhaul.json("probe", "127.0.0.1", "--stamp", peer.getsockname()[1], "--packets", 10,
                                  "--spacing", "5ms", "--sizes", 44)
        finally:
            over.set()
            thread.join()
    point = report["points"][0]
    assert (point["received"], point["lost"], point["lost_there"], point["lost_back"]) == (8, 2, 1, 1)
    assert (point["duplicates"], point["rejected"], point["reflector"]["hops"]) == (1, 7, 5)
    assert point["round_trip_ns"]["count"] == 8
    assert abs(point["clock"]["offset_ns"]) <= point["clock"]["error_ns"] + 1000, "it is one clock"

    numbers = [TEST.unpack(packet)[0] for packet in came]
    assert numbers == list(range(10))
    assert all(packet[14:16] + packet[16:] == b"\0" * 30 for packet in came), "must be zero"
    if not shutil.which("tshark"):
        pytest.skip("tshark is not installed (apt-get install tshark)")
    read = dissected(came, 862, tmp_path)
    assert [int(one["seq_number"]) for one in read] == numbers
    assert all(one["timestamp"] and int(one["error_estimate"]) & 0xFF for one in read)
