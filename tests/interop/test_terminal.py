"""What an operator sees while it runs: the line that a terminal shows."""

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time

import pytest
from conftest import BINARY, free_port, wait_until_bound

LIMIT = 60
VDIF = ("--pattern", "--payload", "1000", "--packets", "20000", "--rate", "80Mbps", "--faults", "duplicate=0.2,seed=3")


class Watched:
    """The command in a terminal; what was written there is read as it comes."""

    def __init__(self, *words, columns=200, keyboard=False):
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        os.set_blocking(master, False)
        self.process = subprocess.Popen([BINARY, *map(str, words)], stdin=slave if keyboard else subprocess.DEVNULL,
                                        stdout=slave, stderr=slave)
        os.close(slave)
        self.master, self.text = master, ""

    def read(self):
        """Take what the terminal shows by now. A terminal that nobody writes to any more ends with an error."""
        with contextlib.suppress(BlockingIOError, OSError):
            while piece := os.read(self.master, 1 << 16):
                self.text += piece.decode()

    def until(self, pattern):
        """Wait until the terminal has shown it."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            self.read()
            if re.search(pattern, self.text):
                return
            time.sleep(0.02)
        pytest.fail(f"no {pattern!r} in\n{self.text}")

    def end(self):
        """End it as Ctrl-C does; all that was shown."""
        self.process.send_signal(signal.SIGINT)
        end = time.monotonic() + LIMIT
        while self.process.poll() is None and time.monotonic() < end:
            self.read()
            time.sleep(0.02)
        if self.process.poll() is None:
            self.process.kill()
        self.read()
        os.close(self.master)
        return self.text


@pytest.mark.parametrize("verb", ["receive", "record"])
def test_the_progress_line_names_what_was_refused(skyhaul, tmp_path, verb):
    port = free_port()
    to_disk = ["--disk", tmp_path, "--scan", "shown"] if verb == "record" else []
    watched = Watched(verb, "--listen", f"udp://127.0.0.1:{port}", "--memory", "128MiB", *to_disk)
    try:
        assert wait_until_bound(port, watched.process)
        skyhaul.run("send", "--to", f"udp://127.0.0.1:{port}", *VDIF, "--quiet")
        watched.until(r"never received \d[\d ]*  duplicates [1-9]")
    finally:
        text = watched.end()
    assert re.search(r"refused: duplicates [1-9]", text), text


def test_the_progress_line_of_heaps_names_what_was_refused(skyhaul):
    port = free_port()
    watched = Watched("receive", "--format", "spead", "--listen", f"udp://127.0.0.1:{port}", "--stop-items", "never",
                      "--faults", "duplicate=0.2,seed=3", "--memory", "128MiB")
    try:
        assert wait_until_bound(port, watched.process)
        skyhaul.run("send", "--format", "spead", "--pattern", "--heap-size", "64KiB", "--heaps", "200",
                    "--rate", "80Mbps", "--to", f"udp://127.0.0.1:{port}", "--quiet")
        watched.until(r"incomplete \d[\d ]*  missing \d[\d ]*  duplicates [1-9]")
    finally:
        text = watched.end()
    assert re.search(r"packets refused: duplicates [1-9]", text), text


def test_the_progress_line_stays_in_its_row(skyhaul, tmp_path):
    """A longer one would leave a row behind each time it is drawn over."""
    port = free_port()
    watched = Watched("record", "--listen", f"udp://127.0.0.1:{port}", "--memory", "128MiB", "--disk", tmp_path, "--scan",
                      "narrow", columns=50)
    try:
        assert wait_until_bound(port, watched.process)
        skyhaul.run("send", "--to", f"udp://127.0.0.1:{port}", *VDIF, "--quiet")
        watched.until(r"\x1b\[2K *\d+\.\d s .*…")
    finally:
        text = watched.end()
    drawn = re.findall(r"\x1b\[2K( *\d+\.\d s [^\r\n]*)", text)
    assert max(map(len, drawn)) == 49, drawn
