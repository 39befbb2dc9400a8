"""Types a page of the documentation as a reader would, block by block, in a directory of its own.

| block | is |
|---|---|
| ```` ``` ```` | typed into a shell, line by line |
| ```` ```python ```` | typed into a Python, the same for all blocks of a page |
| ```` ```text ```` | what came out: in a tutorial of the block before, in a guide of its Python; `…` stands for anything in a line,
and alone in a line for any number of lines |
| ```` ```rust ```` | lines of a program, which `crates/skyhaul/tests/tutorial.rs` holds and runs |

A `receive` or `record` that listens is typed into a terminal of its own; what follows is typed once it listens, and what is
no `send` once all such have ended. Python does not wait for them: it may be what sends. A `balance`, `mount`, `serve`, `probe serve`, `rdma serve` or `etcd` has a terminal
of its own, too, and goes on: Ctrl-C ends it with the page. `export NAME=VALUE` holds for all that follows. In the directory of a page, `docs`
is that of the clone, and the page has a network and mounts of its own where that is possible.

What Python prints must be in the page, in full. Of what a shell says, a page shows what it wants, in whole lines and in order.

`python tests/interop/pages.py PAGE DIRECTORY` types a page here and now. `images` does it for a page with figures, and keeps
them for the site until the page, the command or the package changes.
"""

import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time

from conftest import BINARY, ROOT

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FIGURE = re.compile(r"^<!-- figure: (\S+) .* -->$", re.MULTILINE)
LIMIT = 120
# What takes minutes as it stands: the same with less of it.
SHORTER = {
    "--report spead-bench        #": "--report spead-bench --experiments link --rounds 1 --time 50ms  #",
    "--heap-size 64KiB --search": "--heap-size 64KiB --search --sizes 8972 --rounds 1 --time 20ms",
    "--rounds 5 --time 2s": "--experiments link --rounds 1 --time 50ms",
    "skyhaul demo ejfat": "skyhaul demo ejfat --duration 2s --rate 200Mbps",
    "--mtus 1500,9000 --events 64KiB,1MiB --workers 1,4 --rates 1Gbps,4Gbps":
        "--mtus 9000 --events 64KiB --workers 2 --rates 100Mbps --rounds 1 --time 100ms",
}
# For machines with less memory than a recorder takes by default.
STATION = 'memory = "256MiB"\n'
KEPT = ROOT / "target/pages"
# What says that a command listens.
LISTENS = re.compile(r"^(receiving from|recording .* from|balancing on|serving|mounted|station:) |ready to serve client requests", re.MULTILINE)
# Runs what it is given, block by block, as the main module; says when each is done.
DRIVER = """
import sys
while length := sys.stdin.readline():
    exec(compile(sys.stdin.read(int(length)), "the page", "exec"), globals())
    print("\\0", flush=True)
"""


def blocks(page):
    """Its blocks in order: language and text."""
    return BLOCK.findall(page.read_text())


def commands(text):
    """The lines of a block for a shell."""
    for line in filter(None, map(str.strip, text.replace("\\\n", " ").splitlines())):
        for long, short in SHORTER.items():
            line = line.replace(long, short)
        yield line


def has(page, language):
    return any(kind == language for kind, _ in blocks(page))


class Reader:
    """Types what a page says as a user does who reads it."""

    def __init__(self, page, directory, python=True):
        self.page, self.directory, self.terminals, self.services = page, directory, [], []
        self.said, self.python, self.program = "", python, None
        (directory / "docs").symlink_to(ROOT / "docs")
        station = directory / "station.toml"
        station.write_text(STATION)
        self.environment = os.environ | {
            "PATH": f"{BINARY.parent}:{os.environ['PATH']}", "SKYHAUL_CONFIG": str(station), "MPLBACKEND": "agg"}  # fmt: skip
        folder = page.resolve().parent
        guide = folder == ROOT / "docs/guide"
        self.compared = folder == ROOT / "docs/tutorials" or (guide and has(page, "python") and python)

    def read(self):
        """Do all that the page says."""
        before = ""
        for language, text in blocks(self.page):
            if language == "":
                self.all_is_said(before)
                self.said = ""
                for line in commands(text):
                    self.type(line)
            elif language == "python" and self.python:
                if before != "python":
                    self.said = ""
                self.run(text)
            elif language == "text" and self.compared:
                self.compare(text, before)
                self.said = ""
            before = language if language in ("", "python") else before
        # What is waited for is a shell's: it is not Python that said it.
        self.all_is_said(before)
        self.wait()
        # Clients before what serves them. An etcd ends by the signal itself.
        for line, process, said in reversed(self.services):
            process.send_signal(signal.SIGINT)
            good = (0, -signal.SIGINT) if line.startswith("etcd ") else (0,)
            assert process.wait(LIMIT) in good, f"{line}\n{said.read_text()}"

    # ---- the shell

    def type(self, line):
        verb = line.split()[1] if line.startswith("skyhaul ") else ""
        if verb in ("receive", "record") and "--pcap" not in line:
            self.terminals.append(self.open(line))
            return
        is_tried = any(option in line for option in ("--check", "--test-alarms"))
        if (verb in ("balance", "mount", "serve") and not is_tried) or line.startswith(("skyhaul probe serve", "skyhaul copy serve", "skyhaul rdma serve", "etcd ")):
            self.services.append(self.open(line))
            return
        if line.startswith("export "):
            name = line.split()[1].partition("=")[0]
            line = f'{line} && printf %s "${name}"'
        if verb != "send":
            self.wait()
        # A variable gets what its command writes to standard output, and nothing else.
        errors = subprocess.PIPE if line.startswith("export ") else subprocess.STDOUT
        done = subprocess.run(["sh", "-c", line], cwd=self.directory, env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=errors, text=True, timeout=LIMIT, check=False)  # fmt: skip
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr or ''}"
        if line.startswith("export "):
            self.environment[name] = done.stdout
        else:
            self.said += done.stdout

    def open(self, line):
        said = self.directory / f"terminal{len(self.terminals)}{'s' * len(self.services)}"
        with said.open("wb") as file:
            process = subprocess.Popen(["sh", "-c", f"exec {line}"], cwd=self.directory, env=self.environment,
                                       stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)  # fmt: skip
        end = time.monotonic() + LIMIT
        while not LISTENS.search(said.read_text()):
            if process.poll() is not None or time.monotonic() > end:
                process.kill()
                process.wait()
                raise AssertionError(f"{line}\n{said.read_text()}")
            time.sleep(0.02)
        return line, process, said

    def wait(self):
        for line, process, said in self.terminals:
            status, text = process.wait(LIMIT), said.read_text()
            # A busy machine may drop what a busy network would: that is said, and is no mistake of the page.
            dropped = re.search(r"kernel drops [1-9]|\"socket_drops\": [1-9]", text)
            assert status == 0 or (status == 1 and dropped), f"{line}\n{text}"
            self.said += text
        self.terminals.clear()

    # ---- Python

    def run(self, text):
        if self.program is None:
            self.program = subprocess.Popen([sys.executable, "-W", "error", "-c", DRIVER], cwd=self.directory, env=self.environment,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # fmt: skip
        self.program.stdin.write(f"{len(text)}\n{text}")
        self.program.stdin.flush()
        for line in self.program.stdout:
            if line == "\0\n":
                return
            self.said += line
        raise AssertionError(f"{text}\nended with status {self.program.wait()}\n{self.said}")

    # ---- what came out

    def compare(self, text, before):
        if before != "python":
            self.wait()
        lines = text.splitlines(keepends=True)
        wanted = "".join(r"(?:.*\n)*?" if line == "…\n" else ".*".join(map(re.escape, line.split("…"))) for line in lines)
        found = re.fullmatch(wanted, self.said) if before == "python" else re.search(f"^{wanted}", self.said, re.MULTILINE)
        assert found, f"the page says\n{text}\nwhat came out was\n{self.said}"

    def all_is_said(self, before):
        """What Python printed has been in the page."""
        assert not (self.compared and self.program and before == "python" and self.said), f"not in the page:\n{self.said}"

    def close(self):
        for _, process, _ in self.terminals + self.services:
            process.kill()
            process.wait()
        if self.program:
            self.program.stdin.close()
            self.program.wait(LIMIT)


def type_page(page, directory, python=True):
    """Type a page with a network and mounts of its own, if there may be such: what went wrong, or nothing."""
    words = [str(page), str(directory), *([] if python else ["--no-python"])]
    alone = ["unshare", "-rnm", "sh", "-c", f"ip link set lo up && exec {shlex.join([sys.executable, __file__])} \"$@\"", "sh"]
    if subprocess.run([*alone, "--try"], stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode:
        alone = [sys.executable, __file__]
    done = subprocess.run([*alone, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=570, check=False)
    if not done.returncode:
        keep(page, pathlib.Path(directory))
    return done.stderr if done.returncode else ""


def keep(page, directory):
    """Keep the figures of a page that was typed. Those that are current stay: the site may be reading them."""
    files = FIGURE.findall(page.read_text())
    kept = KEPT / page.stem
    if files and not current(page, kept):
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)
        for file in files:
            shutil.copy(directory / file, kept)
        shutil.copy(page, kept / "page.md")


def images(page):
    """The directory of a page's figures; types the page if there are none, or what made them has changed."""
    kept = KEPT / page.stem
    if not current(page, kept):
        print(f"   typing {page.relative_to(ROOT)} for its figures", flush=True)
        with tempfile.TemporaryDirectory() as directory:
            wrong = type_page(page, directory)
        if wrong:
            sys.exit(f"{page.relative_to(ROOT)}: {wrong}")
    return kept


def current(page, kept):
    copy = kept / "page.md"
    if not copy.is_file() or copy.read_text() != page.read_text():
        return False
    package = pathlib.Path(sysconfig.get_path("purelib")) / "skyhaul"
    made = [BINARY, *package.rglob("*.py"), *package.glob("*.so")]
    return all(path.stat().st_mtime < copy.stat().st_mtime for path in made if path.is_file())


def main(page, directory, *flags):
    reader = Reader(pathlib.Path(page), pathlib.Path(directory), python="--no-python" not in flags)
    try:
        reader.read()
    finally:
        reader.close()


if __name__ == "__main__" and sys.argv[1:] != ["--try"]:
    main(*sys.argv[1:])
