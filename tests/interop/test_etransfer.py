"""etc and etd of etransfer 1.1 against `skyhaul serve`: real programs copy files and scans in both directions, and between servers.

Needs etransfer 1.1: `git clone https://github.com/jive-vlbi/etransfer`, `make` (on Debian 12 without `-D_GNU_SOURCE -U_GNU_SOURCE` in the Makefile), and
set SKYHAUL_ETC and SKYHAUL_ETD to the programs, or have them on PATH.
"""

import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time

import pytest
from conftest import BINARY, free_port
from test_m5copy import LABELS, frames, wait_for_port

ETC, ETD = (os.environ.get(f"SKYHAUL_{name.upper()}") or shutil.which(name) for name in ("etc", "etd"))
QUICK = ("--retry-delay", "0.1", "--retry-conn-delay", "0.1")


@pytest.fixture(scope="module", autouse=True)
def _peers():
    # They are in no package; their paths are given by variables.
    if not (ETC and ETD):
        pytest.skip("etransfer is not here (git clone https://github.com/jive-vlbi/etransfer; make; SKYHAUL_ETC=the client "
                    "SKYHAUL_ETD=the server)")  # fmt: skip


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def noise(path, size, seed):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(random.Random(seed).randbytes(size))
    return path


def etc(*words, timeout=120):
    command = [ETC, *QUICK, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


class Station:
    """A station that serves a directory and its scans by etransfer."""

    def __init__(self, directory, host="127.0.0.1", more=""):
        self.disks, self.root = [directory / f"disk{n}" for n in (0, 1)], directory / "data"
        for path in (*self.disks, self.root):
            path.mkdir()
        self.port, self.host, self.log = free_port(), host, directory / "log"
        text = "[station]\nlisten = '127.0.0.1:0'\n"
        text += "".join(f"[[station.disk]]\npath = '{disk}'\n" for disk in self.disks)
        self.input = free_port()
        text += f"[[station.input]]\nname = 'a'\nlisten = ['udp://127.0.0.1:{self.input}']\nmemory = '64MiB'\n"
        at = f"[{host}]" if ":" in host else host
        text += f"[etransfer]\nlisten = '{at}:{self.port}'\ndata = '{at}:0'\nrecordings = true\n{more}\n"
        text += f"[[etransfer.root]]\ndirectory = '{self.root}'\nwrite = true\n"
        self.config = directory / "station.toml"
        self.config.write_text(text)
        self.start()

    def start(self):
        with self.log.open("w") as log:
            self.process = subprocess.Popen([BINARY, "serve", "--config", self.config], stderr=log, stdin=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while "etransfer on" not in self.log.read_text():
            assert self.process.poll() is None and time.monotonic() < end, self.log.read_text()
            time.sleep(0.05)
        self.api = "http://" + re.search(r"HTTP API on http://(\S+)", self.log.read_text())[1]

    @staticmethod
    def skyhaul(*words):
        return subprocess.run([BINARY, *map(str, words)], capture_output=True, timeout=120, check=True).stdout

    def url(self, path):
        six = ":" in self.host
        return f"tcp6://[{self.host}]#{self.port}:{path}" if six else f"{self.host}#{self.port}:{path}"

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        return self.process.wait(60)


@pytest.fixture
def station(tmp_path):
    one = Station(tmp_path)
    yield one
    if one.process.poll() is None:
        assert one.stop() == 0, one.log.read_text()


@pytest.fixture
def etd(tmp_path):
    port, data, log = free_port(), free_port(), tmp_path / "etd.log"
    (tmp_path / "etd").mkdir(mode=0o777)
    (tmp_path / "etd").chmod(0o777)
    for above in (tmp_path, *tmp_path.parents[:3]):
        above.chmod(above.stat().st_mode | 0o055)
    command = [ETD, "-f", "-m", "4", "--command", f"tcp://127.0.0.1:{port}", "--data", f"tcp://127.0.0.1:{data}"]
    # etd refuses to run as root.
    user = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, **user)
    wait_for_port(port, process, log)
    yield port, tmp_path / "etd"
    process.terminate()
    process.wait(30)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_etc_pushes_and_pulls(tmp_path, host):
    station = Station(tmp_path, host)
    sizes = {"a.vdif": 20_000_000, "b.vdif": 1, "c d.vdif": 3_000_001}
    sent = [noise(tmp_path / "out" / name, size, size) for name, size in sizes.items()]
    push = etc(tmp_path / "out" / "*", station.url(f"{station.root}/exp/"))
    assert push.returncode == 0 and "Unfinished" not in push.stdout, push.stdout + push.stderr
    for path in sent:
        assert digest(station.root / "exp" / path.name) == digest(path)
    listed = etc("--list", station.url(f"{station.root}/exp/")).stdout.split("\n")
    assert listed[:-1] == [f"{station.root}/exp/{name}" for name in sorted(sizes)]
    (tmp_path / "back").mkdir()
    pull = etc(station.url(f"{station.root}/exp/*.vdif"), f"{tmp_path}/back/")
    assert pull.returncode == 0 and "Unfinished" not in pull.stdout, pull.stdout + pull.stderr
    for path in sent:
        assert digest(tmp_path / "back" / path.name) == digest(path)
    # The default mode replaces nothing.
    again = etc(tmp_path / "out" / "a.vdif", station.url(f"{station.root}/exp/"))
    assert again.returncode != 0 or "exists" in again.stderr, again.stdout + again.stderr
    assert station.stop() == 0


def test_etc_pulls_scans(tmp_path, station):
    (tmp_path / "frames").write_bytes(b"".join(frames(0, 4000, 5)))
    scans = {}
    for label in LABELS:
        station.skyhaul("station", "start", label, "--input", "a", "--station", station.api)
        station.skyhaul("send", "--input", tmp_path / "frames", "--rate", "400Mbps", "--to", f"udp://127.0.0.1:{station.input}")
        time.sleep(0.5)
        station.skyhaul("station", "stop", label, "--station", station.api)
        scans[label] = station.skyhaul("cat", label, *(f"--disk={disk}" for disk in station.disks))
        assert len(scans[label]) > 1_000_000
    listed = etc("--list", station.url("/recordings/n26c3_*")).stdout.split()
    assert listed == [f"/recordings/{label}" for label in LABELS]
    (tmp_path / "back").mkdir()
    pull = etc(station.url("/recordings/n26c3_*"), f"{tmp_path}/back/")
    assert pull.returncode == 0 and "Unfinished" not in pull.stdout, pull.stdout + pull.stderr
    for label, whole in scans.items():
        assert digest(tmp_path / "back" / label) == hashlib.sha256(whole).hexdigest()


def test_a_killed_client_and_a_killed_server_are_resumed(tmp_path, station):
    source = noise(tmp_path / "out" / "scan", 240_000_000, 7)
    to = station.root / "scan"
    for victim in ("client", "server"):
        client = subprocess.Popen([ETC, *QUICK, "--max-retry", "0", "--resume", source, station.url(to)],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        parts, end = station.root / ".skyhaul-resumable", time.monotonic() + 60
        begun = max((part.stat().st_size for part in parts.iterdir()), default=0)
        while sum(part.stat().st_size for part in parts.iterdir()) < begun + 20_000_000:
            assert time.monotonic() < end and client.poll() is None
        if victim == "client":
            client.kill()
        else:
            assert station.stop(signal.SIGKILL) != 0
        client.wait(60)
        if victim == "server":
            station.start()
        assert not to.exists()
    before = next(parts.iterdir()).stat().st_size
    done = etc("--resume", source, station.url(to))
    sent = int(re.search(r"\(([\d,]+) bytes\)", done.stdout)[1].replace(",", ""))
    assert before >= 40_000_000 and sent <= 240_000_000 - before + 20_000_000, (before, done.stdout)
    assert digest(to) == digest(source)


def test_files_go_between_etd_and_the_station(tmp_path, station, etd):
    port, there = etd
    source = noise(station.root / "f", 9_000_000, 3)
    out = etc(station.url(source), f"127.0.0.1#{port}:{there}/f")
    assert out.returncode == 0 and "Unfinished" not in out.stdout, out.stdout + out.stderr
    assert digest(there / "f") == digest(source)
    back = etc(f"127.0.0.1#{port}:{there}/f", station.url(f"{station.root}/g"))
    assert back.returncode == 0 and "Unfinished" not in back.stdout, back.stdout + back.stderr
    assert digest(station.root / "g") == digest(source)


def test_paths_outside_are_refused_to_etc(tmp_path, station):
    source = noise(tmp_path / "out" / "f", 1000, 1)
    (station.root / "up").symlink_to("..")
    for path in (f"{tmp_path}/f", f"{station.root}/../f", "~/f", f"{station.root}/up/f", "/recordings/f"):
        done = etc("--max-retry", "0", source, station.url(path))
        assert done.returncode != 0, (path, done.stdout)
    assert not (tmp_path / "f").exists()
    assert etc("--list", station.url("/etc/*")).returncode != 0


def skyhaul_copy(*words):
    return subprocess.run([BINARY, "copy", *map(str, words), "--json"], capture_output=True, text=True, timeout=120, check=False)


def test_skyhaul_copies_to_and_from_etd(tmp_path, etd):
    port, there = etd
    url = f"etd://127.0.0.1:{port}{there}"
    sizes = {"a.vdif": 30_000_000, "b c.vdif": 1, "empty": 0}
    sent = [noise(tmp_path / "out" / name, size, size + 5) for name, size in sizes.items()]
    up = skyhaul_copy(*sent, f"{url}/exp/")
    assert up.returncode == 0, up.stdout + up.stderr
    report = json.loads(up.stdout)
    assert (report["files"], report["moved_bytes"]) == (3, sum(sizes.values()))
    for path in sent:
        assert digest(there / "exp" / path.name) == digest(path)
    # etd shows a part as a file; it is continued only if that is asked for.
    with (there / "exp" / "a.vdif").open("r+b") as part:
        part.truncate(12_345_678)
    assert skyhaul_copy(sent[0], f"{url}/exp/").returncode == 1
    more = skyhaul_copy(sent[0], f"{url}/exp/", "--exists", "resume")
    assert more.returncode == 0 and json.loads(more.stdout)["resumed_bytes"] == 12_345_678, more.stdout + more.stderr
    assert digest(there / "exp" / "a.vdif") == digest(sent[0])
    assert skyhaul_copy(sent[0], f"{url}/exp/", "--exists", "skip").returncode == 0
    assert skyhaul_copy(sent[0], f"{url}/exp/", "--exists", "replace").returncode == 0
    down = skyhaul_copy(f"{url}/exp/*", f"{tmp_path}/back/")
    assert down.returncode == 0, down.stdout + down.stderr
    for path in sent:
        assert digest(tmp_path / "back" / path.name) == digest(path)


def durable(directory):
    """Ranges of an unfinished copy that its journal says are durable."""
    journal = directory / ".f.skyhaul-journal"
    return len(journal.read_bytes().splitlines()) if journal.exists() else 0


def test_an_interrupted_copy_is_resumed(tmp_path, etd):
    port, there = etd
    source = noise(there / "f", 200_000_000, 11)
    source.chmod(0o644)
    url, into = f"etd://127.0.0.1:{port}{there}/f", tmp_path / "into"
    into.mkdir()
    for how in (signal.SIGKILL, signal.SIGINT):
        begun, end = durable(into), time.monotonic() + 60
        copy = subprocess.Popen([BINARY, "copy", url, f"{into}/", "--limit", "400Mbps"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while durable(into) < begun + 3:
            assert time.monotonic() < end and copy.poll() is None
        copy.send_signal(how)
        assert copy.wait(60) != 0 and not (into / "f").exists()
    done = skyhaul_copy(url, f"{into}/")
    report = json.loads(done.stdout)
    assert done.returncode == 0 and report["resumed_bytes"] > 0, done.stdout + done.stderr
    assert report["resumed_bytes"] + report["moved_bytes"] == 200_000_000
    assert digest(into / "f") == digest(source)
