"""m5copy copies scans from `skyhaul serve` to jive5ab: both programs are real, and drive each other.

Needs jive5ab 3.1.0 and its m5copy: `git clone https://github.com/jive-vlbi/jive5ab`, build it with CMake, and set SKYHAUL_JIVE5AB to the
program and SKYHAUL_M5COPY to scripts/m5copy. What m5copy sends is replayed without them in crates/core/src/vsi/tests/m5copy-transfer.txt.
"""

import hashlib
import importlib.util
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time

import pytest
from conftest import BINARY, free_port

JIVE5AB, M5COPY = os.environ.get("SKYHAUL_JIVE5AB"), os.environ.get("SKYHAUL_M5COPY")
FRAME, PER_SECOND, CHUNK = 8032, 16000, 2000
LABELS = ("n26c3_mh_no0001", "n26c3_mh_no0002")


@pytest.fixture(scope="module", autouse=True)
def _peers():
    if not (JIVE5AB and M5COPY and importlib.util.find_spec("six")):
        pytest.skip("m5copy and jive5ab are not here (git clone https://github.com/jive-vlbi/jive5ab; cmake; "
                    "SKYHAUL_JIVE5AB=the program SKYHAUL_M5COPY=scripts/m5copy; pip install six)")  # fmt: skip


def frames(number, count, seed):
    """VDIF frames of a stream, as bytes."""
    noise = random.Random(seed)
    for n in range(number, number + count):
        words = (1000 + n // PER_SECOND, 53 << 24 | n % PER_SECOND, 1 << 29 | 4 << 24 | FRAME // 8, 1 << 26 | 0x4D68, 0, 0, 0, 0)
        yield struct.pack("<8I", *words) + noise.randbytes(FRAME - 32)


def flexbuff(disks, label, chunks, seed):
    """A FlexBuff scan on the disks in turns; returns its bytes."""
    whole = []
    for chunk in range(chunks):
        part = b"".join(frames(chunk * CHUNK, CHUNK, seed + chunk))
        directory = disks[chunk % len(disks)] / label
        directory.mkdir(exist_ok=True)
        (directory / f"{label}.{chunk:08}").write_bytes(part)
        whole.append(part)
    return b"".join(whole)


def ask(port, line):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as stream:
        stream.sendall(line.encode() + b"\n")
        return stream.makefile().readline()


def wait_for_port(port, process, log):
    end = time.monotonic() + 30
    while process.poll() is None and time.monotonic() < end:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
    pytest.fail(f"it does not listen:\n{log.read_text(errors='replace')}")


class Peers:
    """A station with two scans, and a jive5ab beside it."""

    def __init__(self, directory):
        self.disks, self.out = [directory / f"disk{n}" for n in (0, 1)], directory / "out"
        for path in (*self.disks, self.out):
            path.mkdir()
        self.scans = {label: flexbuff(self.disks, label, 3, 10 * n) for n, label in enumerate(LABELS)}
        self.port, self.jive, self.data = free_port(), free_port(), free_port()
        text = f"[station]\nlisten = '127.0.0.1:0'\n[station.vsi]\nlisten = '127.0.0.1:{self.port}'\n"
        text += "".join(f"[[station.disk]]\npath = '{disk}'\n" for disk in self.disks)
        text += f"[[station.input]]\nname = 'a'\nlisten = ['udp://127.0.0.1:{free_port()}']\nmemory = '64MiB'\n"
        (directory / "station.toml").write_text(text)
        self.processes = []
        self.start(directory / "skyhaul.log", self.port, BINARY, "serve", "--config", directory / "station.toml")
        self.start(directory / "jive5ab.log", self.jive, JIVE5AB, "-m", "2", "-p", self.jive)

    def start(self, log, port, *words):
        with log.open("wb") as said:
            process = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd=log.parent)
        self.processes.append(process)
        wait_for_port(port, process, log)

    def stop(self):
        for process in self.processes:
            process.send_signal(signal.SIGINT)
        for process in self.processes:
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()

    def m5copy(self, source, *options, expect=0):
        words = [sys.executable, M5COPY, "-d", "-q", "-p", self.data, *options,
                 f"vbs://127.0.0.1:{self.port}/{source}", f"file://127.0.0.1:{self.jive}{self.out}/"]  # fmt: skip
        done = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=300, check=False)
        assert (done.returncode == 0) == (expect == 0), f"{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def received(self, label):
        return hashlib.sha256((self.out / f"{label}.m5a").read_bytes()).hexdigest()

    def sent(self, label):
        return hashlib.sha256(self.scans[label]).hexdigest()


@pytest.fixture(name="peers")
def _running(tmp_path):
    peers = Peers(tmp_path)
    yield peers
    peers.stop()


def test_m5copy_copies_scans_resumes_them_and_tells_failures(peers):
    # The list of scans is read in the background.
    end = time.monotonic() + 60
    while not ask(peers.port, f"scan_set={LABELS[1]}").startswith("!scan_set = 0"):
        assert time.monotonic() < end
        time.sleep(0.2)
    peers.m5copy("n26c3_mh_*")
    for label in LABELS:
        assert peers.received(label) == peers.sent(label)

    # The rest of one file, and the other is there already.
    cut = peers.out / f"{LABELS[0]}.m5a"
    os.truncate(cut, 12_345_679)
    said = peers.m5copy("n26c3_mh_*", "--resume")
    assert "disk2net=on:+12345679" in said, said
    for label in LABELS:
        assert peers.received(label) == peers.sent(label)

    # A range of bytes.
    cut.unlink()
    peers.m5copy(f"{LABELS[0]}:80320:+1606400")
    assert cut.read_bytes() == peers.scans[LABELS[0]][80320:80320 + 1606400]

    # A scan with damage: m5copy must not say that it was copied.
    cut.unlink()
    chunk = peers.disks[1] / LABELS[0] / f"{LABELS[0]}.00000001"
    with chunk.open("r+b") as file:
        file.seek(8_000_000)
        file.write(bytes(100_000))
    said = peers.m5copy(LABELS[0], expect=1)
    assert "did not finish correctly" in said, said
    assert peers.scans[LABELS[0]].startswith(cut.read_bytes())
    assert "1003" in ask(peers.port, "error?")

    # UDT is refused, with the reason.
    (peers.out / f"{LABELS[1]}.m5a").unlink()
    said = peers.m5copy(LABELS[1], "-udt", expect=1)
    assert "udt is not implemented" in said, said
