"""Packets as they are on a wire, read by tshark: each a whole UDP datagram with a right checksum.

A veth pair in a network namespace of its own is the wire. Its sending end takes no trains and computes no checksums, so
what arrives at the other end is what a network card would have sent.
"""

import ctypes
import fcntl
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import time

import baseband.data
import pytest
from backend import read_vdif
from conftest import BINARY

LOOPS = 20
PORT = 2630


def test_datagrams_are_whole(skyhaul, tmp_path):
    if not shutil.which("tshark"):
        pytest.skip("tshark is not installed (apt-get install tshark)")
    if subprocess.run(["unshare", "-rn", "ip", "link", "add", "wire0", "type", "veth", "peer", "wire1"],
                      capture_output=True, check=False).returncode:
        pytest.skip("no network namespace to be had (sysctl kernel.unprivileged_userns_clone=1, or root)")
    done = subprocess.run(["unshare", "-rn", sys.executable, __file__, str(tmp_path)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr

    for mode in ("gso", "mmsg", "plain"):
        fields = subprocess.run(
            ["tshark", "-r", tmp_path / f"{mode}.pcap", "-o", "udp.check_checksum:TRUE", "-Y", f"udp.dstport == {PORT}",
             "-T", "fields", "-e", "udp.length", "-e", "udp.checksum.status", "-e", "ip.flags.df", "-e", "udp.payload"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=True)
        packets = [line.split("\t") for line in fields.stdout.splitlines()]
        assert len(packets) == 16 * LOOPS, mode
        assert {length for length, *_ in packets} == {str(8 + 8 + 5032)}, mode
        assert {status for _, status, *_ in packets} == {"1"}, f"{mode}: a checksum that is not good"
        payloads = [bytes.fromhex(payload) for *_, payload in packets]
        assert [struct.unpack("<Q", payload[:8])[0] for payload in payloads] == list(range(16 * LOOPS)), mode
        frames = read_vdif(b"".join(payload[8:] for payload in payloads))
        with open(baseband.data.SAMPLE_VDIF, "rb") as file:
            samples = [frame.payload.words.tobytes() for frame in read_vdif(file.read())]
        assert [frame.payload.words.tobytes() for frame in frames] == samples * LOOPS, mode


def without_checksum_offload(interface):
    value = ctypes.create_string_buffer(struct.pack("II", 0x17, 0))  # ETHTOOL_STXCSUM: off
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, 0x8946, struct.pack("16sP8x", interface.encode(), ctypes.addressof(value)))


def in_namespace(directory):
    def ip(*words):
        subprocess.run(["ip", *words], check=True)

    ip("link", "add", "wire0", "type", "veth", "peer", "wire1")
    ip("link", "set", "wire0", "mtu", "9000", "gso_max_segs", "1", "up")
    ip("link", "set", "wire1", "mtu", "9000", "up")
    ip("addr", "add", "10.99.0.1/24", "dev", "wire0")
    # Nobody answers at the other end: the sender need not ask.
    ip("neigh", "add", "10.99.0.2", "lladdr", "02:00:00:00:00:02", "dev", "wire0")
    without_checksum_offload("wire0")
    for mode in ("gso", "mmsg", "plain"):
        capture = directory / f"{mode}.pcap"
        with subprocess.Popen(["tshark", "-q", "-i", "wire1", "-B", "32", "-w", capture], stdin=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) as tshark:
            while "Capturing on" not in (line := tshark.stderr.readline()):
                if not line:
                    sys.exit("tshark does not capture")
            time.sleep(1)  # it says so before it does
            subprocess.run([BINARY, "send", "--input", baseband.data.SAMPLE_VDIF, "--loop", str(LOOPS), "--mode", mode,
                            "--to", f"udp://10.99.0.2:{PORT}", "--rate", "200Mbps", "--json"],
                           stdin=subprocess.DEVNULL, check=True)
            time.sleep(1)
            tshark.terminate()
            tshark.communicate(timeout=10)


if __name__ == "__main__":
    in_namespace(pathlib.Path(sys.argv[1]))
