"""Every example of the README and the guides does what the page says, as it is typed.

| block | is |
|---|---|
| ```` ``` ```` | typed into a shell, line by line |
| ```` ```python ```` | all of a page are one program; in a guide, what it prints is what the ```` ```text ```` blocks say |
| ```` ```text ```` | shown, not typed: output, pictures, what needs a network |

A `receive` or `record` that listens is typed into a terminal of its own; what follows is typed once it listens, and what is
no `send` once all such have ended. Each page has a directory of its own, in which `docs` is that of the clone, and a network
of its own where that is possible.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

import pytest
from conftest import BINARY, ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs/guide").glob("*.md")), *sorted((ROOT / "docs/reference").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LIMIT = 120
# What takes minutes as it stands: the same with less of it.
SHORTER = {
    "--report spead-bench        #": "--report spead-bench --experiments link --rounds 1 --time 50ms  #",
    "--heap-size 64KiB --search": "--heap-size 64KiB --search --sizes 8972 --rounds 1 --time 20ms",
    "--rounds 5 --time 2s": "--experiments link --rounds 1 --time 50ms",
}
# For machines with less memory than a recorder takes by default.
STATION = 'memory = "256MiB"\n'


def blocks(page, kind):
    return [text for language, text in BLOCK.findall(page.read_text()) if language == kind]


def commands(page):
    lines = "".join(blocks(page, "")).replace("\\\n", " ").splitlines()
    for line in filter(None, map(str.strip, lines)):
        for long, short in SHORTER.items():
            line = line.replace(long, short)
        yield line


class Shell:
    """Types lines as a user does who reads the page."""

    def __init__(self, directory):
        self.directory, self.terminals = directory, []
        (directory / "docs").symlink_to(ROOT / "docs")
        station = directory / "station.toml"
        station.write_text(STATION)
        self.environment = os.environ | {
            "PATH": f"{BINARY.parent}:{os.environ['PATH']}", "SKYHAUL_CONFIG": str(station)}  # fmt: skip

    def type(self, line):
        verb = line.split()[1] if line.startswith("skyhaul ") else ""
        if verb in ("receive", "record"):
            return self.open(line)
        if verb != "send":
            self.wait()
        done = subprocess.run(["sh", "-c", line], cwd=self.directory, env=self.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=LIMIT, check=False)  # fmt: skip
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"

    def open(self, line):
        said = self.directory / f"terminal{len(self.terminals)}"
        with said.open("wb") as file:
            process = subprocess.Popen(["sh", "-c", f"exec {line}"], cwd=self.directory, env=self.environment,
                                       stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)  # fmt: skip
        self.terminals.append((line, process, said))
        end = time.monotonic() + LIMIT
        while not re.search(r"^(receiving|recording .*) from ", said.read_text(), re.MULTILINE):
            assert process.poll() is None and time.monotonic() < end, f"{line}\n{said.read_text()}"
            time.sleep(0.02)

    def wait(self):
        for line, process, said in self.terminals:
            status, text = process.wait(LIMIT), said.read_text()
            # A busy machine may drop what a busy network would: that is said, and is no mistake of the page.
            dropped = re.search(r"kernel drops [1-9]|\"socket_drops\": [1-9]", text)
            assert status == 0 or (status == 1 and dropped), f"{line}\n{text}"
        self.terminals.clear()

    def close(self):
        for _, process, _ in self.terminals:
            process.kill()
            process.wait()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", [page for page in PAGES if any(commands(page))], ids=lambda page: page.stem)
def test_commands(skyhaul, tmp_path, page):
    del skyhaul  # it is there
    alone = ["unshare", "-rn", "sh", "-c", f"ip link set lo up && exec {shlex.join([sys.executable, __file__])} \"$@\"", "sh"]
    if subprocess.run([*alone, "--try"], stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode:
        alone = [sys.executable, __file__]
    done = subprocess.run([*alone, str(page), str(tmp_path)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=570, check=False)  # fmt: skip
    shutil.rmtree(tmp_path, ignore_errors=True)
    assert done.returncode == 0, done.stderr


def test_what_is_shortened_is_there():
    text = "".join(page.read_text() for page in PAGES)
    assert all(long in text for long in SHORTER)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.stem)
def test_programs(page, tmp_path):
    pytest.importorskip("skyhaul", reason="the package is not installed (make python)")
    program, wanted = "\n".join(blocks(page, "python")), "".join(blocks(page, "text"))
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], cwd=tmp_path, capture_output=True, text=True,
                          timeout=100, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    if page.parent.name == "guide":
        assert done.stdout == wanted


def main(page, directory):
    shell = Shell(pathlib.Path(directory))
    try:
        for line in commands(pathlib.Path(page)):
            shell.type(line)
        shell.wait()
    finally:
        shell.close()


if __name__ == "__main__" and sys.argv[1:] != ["--try"]:
    main(*sys.argv[1:])
