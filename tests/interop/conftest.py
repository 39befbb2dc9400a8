"""The skyhaul command under test, and recordings made with it on loopback."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("SKYHAUL_BIN", ROOT / "target/release/skyhaul"))
os.environ["SKYHAUL_CONFIG"] = str(ROOT / "tests/settings.toml")  # whatever file the host has
CHUNK = re.compile(r"\.(\d{8})$")


class Skyhaul:
    """Runs the command; every call has a time limit, and a failure shows what the command said."""

    def run(self, *words, expect=0, timeout=60):
        done = subprocess.run([BINARY, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=timeout, check=False)
        assert done.returncode == expect, f"{words}: exit {done.returncode}\n{done.stderr.decode(errors='replace')}"
        return done.stdout

    def json(self, *words, **how):
        return json.loads(self.run(*words, "--json", **how))


class Recorder:
    """One scan being recorded on loopback, to disks that are directories.

    All of its memory is made ready at its start, a second of a processor for each GiB."""

    def __init__(self, skyhaul, directory, *options, form="vdif", scan="exp_sk_no0001", disks=2, memory="64MiB", under=()):
        """`under` is what the recorder is run by."""
        self.skyhaul, self.scan = skyhaul, scan
        self.disks = [directory / f"disk{n}" for n in range(disks)]
        for disk in self.disks:
            disk.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.errors = directory / "record.err"
        self.words = [*under, BINARY, "record", "--format", form, "--listen", f"udp://127.0.0.1:{self.port}", *self.on_disks(),
                      "--scan", scan, "--memory", memory, "--json", *options]
        self.start()

    def start(self):
        """Record; what is recorded again gets a letter behind its name."""
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen([str(word) for word in self.words], stdin=subprocess.DEVNULL,
                                            stdout=subprocess.PIPE, stderr=errors)
        self._wait_until_listening()

    def on_disks(self):
        return [word for disk in self.disks for word in ("--disk", str(disk))]

    def _wait_until_listening(self):
        if not wait_until_bound(self.port, self.process):
            self.kill()
            pytest.fail(f"record does not listen:\n{self.errors.read_text(errors='replace')}")

    def finish(self):
        """Ask it to stop, as a user does with Ctrl-C, when it has read all that was sent; and give its report."""
        for _ in range(200):
            time.sleep(0.05)
            if socket_queue(self.port) == 0:
                break
        self.process.send_signal(signal.SIGINT)
        output, _ = self.process.communicate(timeout=30)
        said = self.errors.read_text(errors="replace")
        assert output.strip(), f"record: exit {self.process.returncode}, no report\n{said}"
        return json.loads(output)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        with contextlib.suppress(ValueError):
            self.process.communicate()

    def cat(self):
        return self.skyhaul.run("cat", *self.on_disks(), self.scan)

    def check(self):
        return self.skyhaul.json("check", *self.on_disks(), self.scan)

    def chunks(self):
        """The chunk files alone, as another program finds them, in the order of their numbers."""
        files = [path for disk in self.disks for path in disk.rglob("*") if CHUNK.search(path.name)]
        return sorted(files, key=lambda path: int(CHUNK.search(path.name).group(1)))


def wait_until_bound(port, process):
    """Whether somebody has the UDP port before `process` ends or twenty seconds are over."""
    for _ in range(400):
        if process.poll() is not None:
            break
        if socket_queue(port) is not None:
            return True
        time.sleep(0.05)
    return False


def socket_queue(port):
    """Bytes that the kernel holds for the IPv4 UDP socket of this port, or None if there is none."""
    with open("/proc/net/udp", encoding="ascii") as table:
        for line in table:
            words = line.split()
            if words[1].endswith(f":{port:04X}"):
                return int(words[4].split(":")[1], 16)
    return None


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="session")
def skyhaul():
    if not (BINARY.is_file() and os.access(BINARY, os.X_OK)):
        pytest.skip(f"{BINARY.name} is not built (make build, or name one with SKYHAUL_BIN)")
    return Skyhaul()


@pytest.fixture
def record(skyhaul, tmp_path):
    """Starts recorders, and ends those that a failed test has left."""
    started = []

    def start(*options, **how):
        recorder = Recorder(skyhaul, tmp_path / f"recorder{len(started)}", *options, **how)
        started.append(recorder)
        return recorder

    yield start
    for recorder in started:
        recorder.kill()
    shutil.rmtree(tmp_path, ignore_errors=True)
