"""The commands of one world, run in a directory, and what they said and left on disk."""

import dataclasses
import functools
import json
import os
import pathlib
import re
import shlex
import socket
import subprocess
import threading
import time

from . import wire

SCAN = "exp_sk_no0001"
CHUNK = re.compile(r"\.(\d{8})$")
# Small, so that a world has many chunks, and starts fast.
SMALL = ["--memory", "16MiB", "--chunk", "64KiB", "-q", "--json"]


@dataclasses.dataclass
class Done:
    words: list
    code: int
    out: bytes
    said: str

    @functools.cached_property
    def json(self):
        return json.loads(self.out)

    def __str__(self):
        said = "".join(f"\n      {line}" for line in self.said.splitlines())
        return f"{shlex.join(map(str, self.words))}: exit {self.code}{said}"


class Ran:
    """Commands in `directory`; every one is kept, to be shown if the world fails."""

    def __init__(self, binary, directory):
        self.binary, self.directory = pathlib.Path(binary), pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.all = []
        self.disks = [self.directory / "d0", self.directory / "d1"]

    def run(self, *words, timeout=120):
        words = [str(word) for word in words]
        done = subprocess.run([self.binary, *words], stdin=subprocess.DEVNULL, capture_output=True, check=False,
                              timeout=timeout, env={**os.environ, "SKYHAUL_CONFIG": "/dev/null"})
        result = Done(["skyhaul", *words], done.returncode, done.stdout, done.stderr.decode(errors="replace"))
        self.all.append(result)
        return result

    def start(self, *words):
        """A command that runs until `end`."""
        words = [str(word) for word in words]
        process = subprocess.Popen([self.binary, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env={**os.environ, "SKYHAUL_CONFIG": "/dev/null"})
        process.words = ["skyhaul", *words]
        return process

    def end(self, process, timeout=60):
        try:
            out, said = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, said = process.communicate()
        result = Done(process.words, process.returncode, out, said.decode(errors="replace"))
        self.all.append(result)
        return result

    def shell(self, script):
        """A script in a mount namespace of its own, in the directory."""
        done = subprocess.run(["unshare", "-rm", "sh", "-c", script], cwd=self.directory, capture_output=True, check=False,
                              timeout=120, env={**os.environ, "SKYHAUL_CONFIG": "/dev/null"})
        result = Done(["unshare", "-rm", "sh", "-c", script], done.returncode, done.stdout,
                      done.stderr.decode(errors="replace"))
        self.all.append(result)
        return result

    def kept(self, name):
        """What a script left of a command."""
        read = self.directory.joinpath
        result = Done([name], int(read(f"{name}.code").read_text()), read(f"{name}.json").read_bytes(),
                      read(f"{name}.said").read_text(errors="replace"))
        self.all.append(result)
        return result

    @property
    def on_disks(self):
        return [word for disk in self.disks for word in ("--disk", disk)]

    def capture(self, world):
        path = self.directory / "packets.pcap"
        wire.capture(path, world.packets)
        return path

    def record(self, world, *options, scan=SCAN):
        for disk in self.disks:
            disk.mkdir(exist_ok=True)
        return self.run("record", "--pcap", self.capture(world), *self.on_disks, "--scan", scan, *SMALL, *world.options,
                        *options)

    def chunks(self, name=SCAN):
        """The bytes of each chunk of a datastream, by number, found as FlexBuff's tools find them."""
        files = [path for disk in self.disks for path in (disk / name).glob("*") if CHUNK.search(path.name)]
        return {int(CHUNK.search(path.name).group(1)): path for path in files}

    def names(self):
        """The datastreams on disk."""
        return sorted({path.name for disk in self.disks for path in disk.iterdir() if path.is_dir()})

    def stream(self, name=SCAN):
        chunks = self.chunks(name)
        return b"".join(chunks[number].read_bytes() for number in sorted(chunks))


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_bound(port, process):
    """Whether `process` has the UDP port before twenty seconds are over."""
    wanted = f":{port:04X}"
    for _ in range(1000):
        if process.poll() is not None:
            return False
        with open("/proc/net/udp", encoding="ascii") as table:
            if any(line.split()[1].endswith(wanted) for line in table):
                return True
        time.sleep(0.02)
    return False


def may_mount():
    """Whether a mount namespace and a tmpfs are permitted here."""
    try:
        return subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True,
                              check=False).returncode == 0
    except FileNotFoundError:
        return False


class Ear:
    """A UDP socket that hears what commands send."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for option in (getattr(socket, "SO_RCVBUFFORCE", 33), socket.SO_RCVBUF):
            try:
                self.socket.setsockopt(socket.SOL_SOCKET, option, 64 << 20)
                break
            except PermissionError:
                continue
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(0.02)
        self.port = self.socket.getsockname()[1]
        self.heard, self.over = [], threading.Event()
        self.thread = threading.Thread(target=self._hear)
        self.thread.start()

    def _hear(self):
        while True:
            try:
                self.heard.append(self.socket.recv(65536))
            except TimeoutError:
                if self.over.is_set():
                    return

    def stop(self):
        """Everything heard."""
        self.over.set()
        self.thread.join()
        self.socket.close()
        return self.heard
