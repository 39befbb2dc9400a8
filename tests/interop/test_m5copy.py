"""m5copy copies scans and files between `skyhaul serve` and jive5ab, in both directions: all programs are real, and drive each other.

Needs jive5ab 3.1.0 and its m5copy: `git clone https://github.com/jive-vlbi/jive5ab`, build it with CMake, and set SKYHAUL_JIVE5AB to the
program and SKYHAUL_M5COPY to scripts/m5copy. The tests between two stations need m5copy alone. What m5copy sends is replayed without them in crates/core/src/vsi/tests/m5copy-transfer.txt and
m5copy-arrival.txt, and what jive5ab sends in crates/daemon/src/vsi/arrivals/tests.rs.
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
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import BINARY, free_port

JIVE5AB, M5COPY = os.environ.get("SKYHAUL_JIVE5AB"), os.environ.get("SKYHAUL_M5COPY")
FRAME, PER_SECOND, CHUNK = 8032, 16000, 2000
LABELS = ("n26c3_mh_no0001", "n26c3_mh_no0002")


@pytest.fixture(scope="module", autouse=True)
def _m5copy():
    if not (M5COPY and importlib.util.find_spec("six")):
        pytest.skip("m5copy is not here (git clone https://github.com/jive-vlbi/jive5ab; SKYHAUL_M5COPY=scripts/m5copy; pip install six)")


@pytest.fixture(name="_jive5ab", scope="module")
def _is_jive5ab_here():
    if not JIVE5AB:
        pytest.skip("jive5ab is not here (git clone https://github.com/jive-vlbi/jive5ab; cmake; "
                    "SKYHAUL_JIVE5AB=the program SKYHAUL_M5COPY=scripts/m5copy; pip install six)")  # fmt: skip


def frames(number, count, seed):
    """VDIF frames of a stream, as bytes."""
    noise = random.Random(seed)
    for n in range(number, number + count):
        words = (1000 + n // PER_SECOND, 53 << 24 | n % PER_SECOND, 1 << 29 | 4 << 24 | FRAME // 8, 1 << 26 | 0x4D68, 0, 0, 0, 0)
        yield struct.pack("<8I", *words) + noise.randbytes(FRAME - 32)


def slow_frames(count):
    """VDIF frames of a stream of 16 channels of one bit, 250 frames a second: 1 Mb/s of a channel."""
    noise = random.Random(count)
    for n in range(count):
        words = (1000 + n // 250, 53 << 24 | n % 250, 1 << 29 | 4 << 24 | FRAME // 8, 0x4D68, 0, 0, 0, 0)
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
def _running(_jive5ab, tmp_path):
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


DATA_PORTS = iter(range(21_000 + os.getpid() % 9_000, 32_000))


def data_port():
    """A port that no outgoing connection has: several m5copy at a time make many."""
    for port in DATA_PORTS:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port
    raise AssertionError("no port is free")


def station(directory, name):
    """A station that takes chunks on its disks, and files below a directory."""
    here = directory / name
    disks = [here / f"disk{n}" for n in (0, 1)]
    for path in (*disks, here / "files"):
        path.mkdir(parents=True)
    port = data_port()
    text = f"[station]\nlisten = '127.0.0.1:0'\nreserve = '8MiB'\n[station.vsi]\nlisten = '127.0.0.1:{port}'\nfiles = ['{here}/files']\n"
    text += "".join(f"[[station.disk]]\npath = '{disk}'\n" for disk in disks)
    text += f"[[station.input]]\nname = 'a'\nlisten = ['udp://127.0.0.1:{data_port()}']\nmemory = '64MiB'\n"
    (here / "station.toml").write_text(text)
    return port, disks, here


def scan(disks, label):
    """The bytes of all chunks of a scan."""
    found = {path.name: path for disk in disks for path in disk.glob(f"{label}/{label}.????????")}
    return b"".join(found[name].read_bytes() for name in sorted(found))


def run_m5copy(source, sink, *options):
    # A server of etransfer has a data port of its own.
    port = () if sink.startswith("etd:") else ("-p", data_port())
    words = [sys.executable, M5COPY, "-q", *port, *options, source, sink]
    return subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)


def end_all(processes):
    for process in processes:
        process.send_signal(signal.SIGINT)
    for process in processes:
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()


@pytest.fixture(name="two")
def _two(tmp_path):
    """Two stations."""
    processes, stations = [], [station(tmp_path, name) for name in ("one", "two")]
    for port, _, here in stations:
        with (here / "log").open("wb") as said:
            words = [str(word) for word in (BINARY, "serve", "--config", here / "station.toml")]
            processes.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd=here))
        wait_for_port(port, processes[-1], here / "log")
    yield stations
    end_all(processes)


def wait_for(what, done):
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end, what
        time.sleep(0.2)


def test_files_and_scans_go_between_two_stations_without_a_mode(two):
    (one, disks, here), (two, disks_two, here_two) = two
    label, host = LABELS[0], "127.0.0.1"
    whole = flexbuff(disks, label, 3, 5)
    wait_for("the list of scans", lambda: ask(one, f"scan_set={label}").startswith("!scan_set = 0"))
    # 250 frames a second of 16 channels of one bit: long enough that its rate shows, and a rate that m5copy can read.
    slow = b"".join(slow_frames(2000))
    (here / "files" / "a.vdif").write_bytes(slow)
    copies = {
        "a scan as a file of the other station": (f"vbs://{host}:{one}/{label}", f"file://{host}:{two}{here_two}/files/"),
        "a scan as a file of its own station": (f"vbs://{host}:{one}/{label}", f"file://{host}:{one}{here}/files/"),
        "a range of it": (f"vbs://{host}:{one}/{label}:80320:1686720", f"file://{host}:{one}{here}/files/range.vdif"),
        "a file as a scan of the other station": (f"file://{host}:{one}{here}/files/a.vdif", f"vbs://{host}:{two}/n26c3_on_no0001"),
    }
    with ThreadPoolExecutor() as several:
        done = dict(zip(copies, several.map(lambda words: run_m5copy(*words), copies.values()), strict=True))
    for what, of in done.items():
        assert of.returncode == 0, f"{what}: {of.stdout}\n{of.stderr}"
    assert (here_two / "files" / f"{label}.m5a").read_bytes() == whole
    assert (here / "files" / f"{label}.m5a").read_bytes() == whole
    assert (here / "files" / "range.vdif").read_bytes() == whole[80320:80320 + 1606400]
    wait_for("the recording", lambda: scan(disks_two, "n26c3_on_no0001") == slow)
    assert subprocess.run([BINARY, "check", "n26c3_on_no0001", *(word for disk in disks_two for word in ("--disk", disk))],
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False).returncode == 0  # fmt: skip

    # A file that is there is an error; the rest of one is resumed. (This m5copy refuses its own --allow_overwrite.)
    local = (f"vbs://{host}:{one}/{label}", f"file://{host}:{one}{here}/files/")
    refused = run_m5copy(*local)
    assert refused.returncode != 0 and "File exists" in refused.stdout + refused.stderr, f"{refused.stdout}\n{refused.stderr}"
    target = here / "files" / f"{label}.m5a"
    os.truncate(target, 12_345_679)
    assert run_m5copy(*local, "--resume").returncode == 0 and target.read_bytes() == whole

    # Damage at the source: m5copy must not say that it was copied, and nothing has the name of the file.
    target.unlink()
    with (disks[1] / label / f"{label}.00000001").open("r+b") as chunk:
        chunk.seek(8_000_000)
        chunk.write(bytes(100_000))
    damaged = run_m5copy(*local)
    assert damaged.returncode != 0 and "was not written" in damaged.stdout + damaged.stderr, f"{damaged.stdout}\n{damaged.stderr}"
    assert sorted(path.name for path in (here / "files").iterdir()) == ["a.vdif", "range.vdif"]
    # A file whose format cannot be found.
    (here / "files" / "noise").write_bytes(random.Random(3).randbytes(2_000_000))
    unknown = run_m5copy(f"file://{host}:{one}{here}/files/noise", f"vbs://{host}:{two}/n26c3_on_no0002")
    assert unknown.returncode != 0 and "could not be deduced" in unknown.stdout + unknown.stderr, f"{unknown.stdout}\n{unknown.stderr}"


@pytest.fixture(name="etransfer")
def _etransfer(tmp_path):
    """A station that serves a directory by etransfer: its port, and the directory."""
    here, port = tmp_path / "there", free_port()
    for path in (here / "disk", here / "incoming"):
        path.mkdir(parents=True)
    text = f"[station]\nlisten = '127.0.0.1:0'\n[[station.disk]]\npath = '{here / 'disk'}'\n"
    text += f"[[station.input]]\nname = 'a'\nlisten = ['udp://127.0.0.1:{free_port()}']\nmemory = '64MiB'\n"
    text += f"[etransfer]\nlisten = '127.0.0.1:{port}'\ndata = '127.0.0.1:{free_port()}'\n"
    text += f"[[etransfer.root]]\ndirectory = '{here / 'incoming'}'\nwrite = true\n"
    (here / "station.toml").write_text(text)
    with (here / "log").open("wb") as said:
        words = [str(word) for word in (BINARY, "serve", "--config", here / "station.toml")]
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd=here)
    wait_for_port(port, process, here / "log")
    yield port, here / "incoming"
    end_all([process])


def test_scans_go_to_a_server_of_etransfer(two, etransfer):
    (one, disks, _), _ = two
    (port, incoming), host = etransfer, "127.0.0.1"
    wholes = {label: flexbuff(disks, label, 2, 10 * n) for n, label in enumerate(LABELS)}
    for label in LABELS:
        wait_for("the list of scans", lambda label=label: ask(one, f"scan_set={label}").startswith("!scan_set = 0"))
    for label, whole in wholes.items():
        done = run_m5copy(f"vbs://{host}:{one}/{label}", f"etd://{host}:{port}{incoming}/")
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        target = next(path for path in incoming.iterdir() if path.name.startswith(label))
        assert target.read_bytes() == whole
        # What is there is an error; a part is resumed.
        refused = run_m5copy(f"vbs://{host}:{one}/{label}", f"etd://{host}:{port}{incoming}/")
        assert refused.returncode != 0 and "File exists" in refused.stdout + refused.stderr, f"{refused.stdout}\n{refused.stderr}"
        os.truncate(target, 12_345_679)
        resumed = run_m5copy(f"vbs://{host}:{one}/{label}", f"etd://{host}:{port}{incoming}/", "--resume")
        assert resumed.returncode == 0, f"{resumed.stdout}\n{resumed.stderr}"
        assert target.read_bytes() == whole
    # m5copy leaves out byte numbers without a sign here.
    ranged = run_m5copy(f"vbs://{host}:{one}/{LABELS[0]}:+80320:+1606400", f"etd://{host}:{port}{incoming}/range.vdif")
    assert ranged.returncode == 0, f"{ranged.stdout}\n{ranged.stderr}"
    assert (incoming / "range.vdif").read_bytes() == wholes[LABELS[0]][80320:1686720]


@pytest.fixture(name="three")
def _three(_jive5ab, tmp_path):
    """Two stations; a jive5ab whose disks are mounted in a namespace of its own, since it knows no other disks."""
    processes = []

    def start(log, port, *words):
        with log.open("wb") as said:
            process = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd=log.parent)
        processes.append(process)
        wait_for_port(port, process, log)

    stations = [station(tmp_path, name) for name in ("one", "two")]
    for port, _, here in stations:
        start(here / "log", port, BINARY, "serve", "--config", here / "station.toml")
    jive, there = data_port(), tmp_path / "jive"
    mounted = [there / f"disk{n}" for n in (0, 1)]
    for path in (*mounted, there / "files"):
        path.mkdir(parents=True)
    if os.geteuid() == 0:
        mounts = " && ".join(f"mount -t tmpfs -o size=200M {path.name} {path}" for path in mounted)
        start(there / "log", jive, "unshare", "-m", "sh", "-c", f"{mounts} && exec {JIVE5AB} -m 2 -p {jive}")
    else:
        start(there / "log", jive, JIVE5AB, "-m", "2", "-p", jive)
    yield stations, (jive, mounted, there / "files")
    end_all(processes)


def test_m5copy_copies_to_a_station_and_between_stations(three):
    ((one, disks, here), (two, disks_two, here_two)), (jive, mounted, files) = three
    labels = [f"n26c3_mh_no000{n}" for n in (1, 2, 3)]
    scans = {label: flexbuff(disks, label, 3, 10 * n) for n, label in enumerate(labels)}
    end = time.monotonic() + 60
    while not ask(one, f"scan_set={labels[2]}").startswith("!scan_set = 0"):
        assert time.monotonic() < end
        time.sleep(0.2)
    # One whole file, and one of which a part is there.
    content = b"".join(frames(0, 2500, 77))
    (files / "a.vdif").write_bytes(content)
    (files / "b.vdif").write_bytes(content)
    (here / "files" / "b.vdif").write_bytes(content[:12_345_679])
    (here / "files" / "c.vdif").write_bytes(content)
    host = "127.0.0.1"
    copies = {
        "chunks to a station": (f"vbs://{host}:{one}/n26c3_mh_*", f"vbs://{host}:{two}/"),
        "a file to a station": (f"file://{host}:{jive}{files}/a.vdif", f"file://{host}:{one}{here}/files/"),
        "the rest of a file": (f"file://{host}:{jive}{files}/b.vdif", f"file://{host}:{one}{here}/files/", "--resume"),
        "a file from a station": (f"file://{host}:{one}{here}/files/c.vdif", f"file://{host}:{jive}{files}/"),
        "a scan as a file": (f"vbs://{host}:{one}/{labels[0]}", f"file://{host}:{two}{here_two}/files/"),
    }
    with ThreadPoolExecutor() as several:
        done = dict(zip(copies, several.map(lambda words: run_m5copy(*words), copies.values()), strict=True))
    for what, of in done.items():
        assert of.returncode == 0, f"{what}: {of.stdout}\n{of.stderr}"
    for label, whole in scans.items():
        assert scan(disks_two, label) == whole
    assert [(here / "files" / f"{name}.vdif").read_bytes() == content for name in "ab"] == [True, True]
    assert (files / "c.vdif").read_bytes() == content
    assert (here_two / "files" / f"{labels[0]}.m5a").read_bytes() == scans[labels[0]]
    # A file that is there: an error, unless it is to be ignored.
    again = (f"file://{host}:{jive}{files}/a.vdif", f"file://{host}:{one}{here}/files/")
    assert run_m5copy(*again).returncode != 0
    assert run_m5copy(*again, "--ignore_existing").returncode == 0
    # A recording of what comes by TCP: it has an index.
    recorded = run_m5copy(f"file://{host}:{jive}{files}/a.vdif", f"vbs://{host}:{two}/n26c3_jv_no0001", "-mode", "VDIF_8000-2048-16-2")
    assert recorded.returncode == 0, f"{recorded.stdout}\n{recorded.stderr}"
    end = time.monotonic() + 60
    while "!record ? 0 : off" not in ask(two, "record?") or scan(disks_two, "n26c3_jv_no0001") != content:
        assert time.monotonic() < end
        time.sleep(0.2)
    # Damage at the source: m5copy must not say that it was copied.
    lost = next(path for disk in disks_two for path in disk.glob(f"{labels[0]}/*.00000001"))
    lost.unlink()
    with (disks[1] / labels[0] / f"{labels[0]}.00000001").open("r+b") as chunk:
        chunk.seek(8_000_000)
        chunk.write(bytes(100_000))
    assert run_m5copy(f"vbs://{host}:{one}/{labels[0]}", f"vbs://{host}:{two}/").returncode != 0
    assert not lost.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="the disks of jive5ab are file systems, which only root can mount")
def test_chunks_go_through_jive5ab_and_come_back(three):
    ((one, disks, _), (two, disks_two, _)), (jive, mounted, _) = three
    label, set_disks = LABELS[0], ",".join(map(str, mounted))
    whole = flexbuff(disks, label, 3, 5)
    there = (f"vbs://127.0.0.1:{one}/{label}", f"vbs://127.0.0.1:{jive}/{set_disks}/")
    back = (f"vbs://127.0.0.1:{jive}/{set_disks}/{label}", f"vbs://127.0.0.1:{two}/")
    end = time.monotonic() + 60
    while not ask(one, f"scan_set={label}").startswith("!scan_set = 0"):
        assert time.monotonic() < end
        time.sleep(0.2)
    for words in (there, back):
        done = run_m5copy(*words)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert scan(disks_two, label) == whole
    # Only what is not there comes.
    next(path for disk in disks_two for path in disk.glob(f"{label}/*.00000002")).unlink()
    done = run_m5copy(*back)
    assert done.returncode == 0 and scan(disks_two, label) == whole, f"{done.stdout}\n{done.stderr}"
