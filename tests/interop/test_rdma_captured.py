"""RDMA over TCP as captured: tshark reads the frames between two commands, and they are what both report."""

import contextlib
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import threading

import pytest
from conftest import BINARY

MESSAGES, BYTES = 30, 20_000
SEGMENT = "iwarp_ddp.tagged_flag", "iwarp_ddp.last_flag", "iwarp_rdma.opcode", "iwarp_mpa.ulpdulength"
WRITE, READ_REQUEST, READ_RESPONSE, IMMEDIATE_SOLICITED = 0, 1, 2, 9
NEVER = "iwarp_mpa.bad_length", "iwarp_mpa.reject_bit_responder", "iwarp_mpa.res.not_set0", "iwarp_mpa.rev.not_set1"


class Capture:
    """The packets on the loopback to and from a TCP port, in a pcap file."""

    def __init__(self, path):
        self.path, self.packets, self.is_over, self.mark = path, [], threading.Event(), os.urandom(16)
        try:
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        except PermissionError:
            pytest.skip("needs CAP_NET_RAW, as root has it")
        self.socket.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
        self.socket.bind(("lo", 0))
        self.socket.settimeout(0.2)
        self.thread = threading.Thread(target=self.take)
        self.thread.start()

    def take(self):
        while True:
            try:
                packet, (_, _, kind, _, _) = self.socket.recvfrom(1 << 17)
            except TimeoutError:
                if self.is_over.is_set():
                    return
                continue
            if self.mark in packet:
                return
            # Ethernet, IPv4 without options, TCP.
            if kind != socket.PACKET_OUTGOING and len(packet) > 38 and packet[12:14] == b"\x08\0" and packet[23] == 6:
                self.packets.append(packet)

    def end(self, port):
        """Writes the packets of this port up to now, of which a last packet is the mark: tests beside this one send without end."""
        self.is_over.set()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(self.mark, ("127.0.0.1", 9))
        self.thread.join()
        self.socket.close()
        with self.path.open("wb") as file:
            file.write(struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1))
            for packet in self.packets:
                if port in struct.unpack(">HH", packet[34:38]):
                    file.write(struct.pack("<IIII", 1, 0, len(packet), len(packet)) + packet)
        return self.path


@contextlib.contextmanager
def serving(*words):
    """A server on a port of its own, with its address; it ends with its last connection."""
    words = [BINARY, "rdma", "serve", "--listen", "rdma+tcp://127.0.0.1:0", *words, "--json"]
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
    try:
        at = next(filter(None, (re.search(r"rdma\+tcp://127\.0\.0\.1:\d+", line) for line in process.stderr)))[0]
        yield at, lambda: json.loads(process.communicate(timeout=30)[0])
    finally:
        process.kill()
        process.wait()


def dissected(path, *fields):
    """Of each packet, these fields as lists of numbers: a packet may have several frames, or end several."""
    words = [word for field in ("_ws.malformed", *NEVER, *fields) for word in ("-e", field)]
    # What our payloads mean is not for tshark to guess.
    guesses = ["--disable-protocol", "rpcordma", "--disable-protocol", "smb_direct"]
    read = subprocess.run(["tshark", "-o", "tcp.try_heuristic_first:TRUE", *guesses, "-r", path, "-T", "fields",
                           "-E", "occurrence=a", *words],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=True)
    columns = [[], *([] for _ in fields)]
    for line in read.stdout.splitlines():
        values = line.split("\t")
        wrong, values = values[:1 + len(NEVER)], values[1 + len(NEVER):]
        assert not any(wrong), line
        for column, value in zip(columns[1:], values, strict=True):
            column.extend(int(one, 0) for one in value.split(",") if one)
    return columns[1:]


def test_tshark_reads_what_was_written_and_read(skyhaul, tmp_path):
    if not shutil.which("tshark"):
        pytest.skip("tshark is not installed (apt-get install tshark)")
    capture = Capture(tmp_path / "rdma.pcap")
    with serving("--region", "vis:1MiB:read,write", "--connections", "2", "--verify") as (at, report):
        written = skyhaul.json("rdma", "write", f"{at}/vis", "--pattern", "--message", f"{BYTES}B", "--imm",
                               "--messages", MESSAGES)
        read = skyhaul.json("rdma", "read", f"{at}/vis", "--range", "0..500KiB", "--output", tmp_path / "part")
        served = report()
    pcap = capture.end(int(at.rsplit(":", 1)[1]))
    flags, last, opcodes, lengths = dissected(pcap, *SEGMENT)
    assert len(flags) == len(last) == len(opcodes) == len(lengths)
    frames = list(zip(opcodes, last, lengths, strict=True))

    def of(opcode):
        return [(is_last, length) for one, is_last, length in frames if one == opcode]

    # A segment has a head of 14 bytes if it is tagged, and of 18 if not.
    writes, answers = of(WRITE), of(READ_RESPONSE)
    assert sum(length - 14 for _, length in writes) == MESSAGES * BYTES == written["bytes"]
    assert sum(is_last for is_last, _ in writes) == MESSAGES
    assert of(IMMEDIATE_SOLICITED) == [(1, 18 + 8)] * MESSAGES
    assert sum(length - 14 for _, length in answers) == 500 << 10 == read["bytes"]
    assert of(READ_REQUEST) == [(1, 18 + 28)] * read["requests"]
    assert len(frames) == len(writes) + len(answers) + MESSAGES + read["requests"], "and nothing else"
    own = [report["datagrams"] for report in (written, read, served)]
    assert [one["segments"] for one in own] == [len(writes) + MESSAGES, read["requests"], len(answers)]
    # Requests and replies of both connections: CRC, no markers, and the region's name as private data.
    markers, crcs, private = dissected(pcap, "iwarp_mpa.marker_flag", "iwarp_mpa.crc_flag", "iwarp_mpa.pdlength")
    assert (markers, crcs) == ([0] * 4, [1] * 4)
    assert len(private) == 4 and private[0] == private[2]
