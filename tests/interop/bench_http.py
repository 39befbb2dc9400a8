"""How `skyhaul serve` serves files over HTTP, beside XRootD and bare loops: `python tests/interop/bench_http.py [PART ...] [--rounds N] [--bytes N] [--streams N]`,
on the loopback of an otherwise idle machine.

| part | | goal |
|---|---|---|
| `plain` | one file after another on one connection, or on `--streams` of them | >= 90 % of the bare loop; per CPU second of the server >= 1.5 x XRootD |
| `tls` | the same through TLS | >= 85 % of the bare loop of rustls |
| `small` | files of 1 KiB on one connection, plain; trees of them by `skyhaul copy` and by davix | `skyhaul copy` >= 3 x davix from XRootD |
| `recording` | a recording, beside `skyhaul cat` | >= 90 % of `cat` |

Servers run on CPU 0, the client on CPU 1; in `small`, the programs that get trees use both. The client of `plain`, `tls` and single small files is the same for
all servers (`bare_http get`). Candidates take turns in each round; figures are medians (minimum-maximum), ratios those within rounds. CPU is that of the
server's process, ended threads included, by its clock. Files are in the page cache.

It needs root, openssl, curl, xrootd-server, xrootd-server-plugins and davix, and release builds:

    cargo build --release --locked -p skyhaul-cli
    cargo build --release --locked -p skyhaul --example bare_http
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

import xrootd_site
from conftest import BINARY, Recorder, Skyhaul
from machine import cpu
from test_webdav import Site

BARE = BINARY.parent / "examples/bare_http"
#: Of servers, and of clients.
SERVER, CLIENT = ("taskset", "-c", "0"), ("taskset", "-c", "1")
SMALL_FILES, SMALL_BYTES = 1000, 1024
#: Those that davix gets.
DAVIX_FILES = 200
#: Repetitions of a small file on one connection.
SMALL_ROUNDS = 10
LIMIT = 600


def run(words, **how):
    done = subprocess.run([str(word) for word in words], capture_output=True, timeout=LIMIT, check=False, **{"input": b""} | how)
    assert done.returncode == 0, f"{words}: exit {done.returncode}\n{(done.stdout + done.stderr).decode(errors='replace')}"
    return done.stdout


class Server:
    """A server that runs: `process` is what is measured."""

    def __init__(self, name, process, address, prefix, certificate=None):
        self.name, self.pid, self.address, self.prefix, self.certificate = name, process.pid, address, prefix, certificate

    def cpu_seconds(self):
        """CPU time of all of its threads, ended ones too: the clock of a process, by its number (CPUCLOCK_SCHED of the kernel)."""
        return time.clock_gettime(~self.pid << 3 | 2)

    def url(self, path):
        scheme = "https" if self.certificate else "http"
        return f"{scheme}://{self.address}{self.prefix}{path}"

    def timed(self, work):
        """What `work` gives, with the CPU time of the server meanwhile."""
        before = self.cpu_seconds()
        got = work()
        got["server_cpu"] = self.cpu_seconds() - before
        return got

    def get(self, path, files, rounds, streams=1):
        """What clients of their own get, all at the same time."""
        words = [*CLIENT, BARE, "get", self.address, self.prefix + path, files, rounds, *([self.certificate] if self.certificate else [])]

        def work():
            begun = time.monotonic()
            with concurrent.futures.ThreadPoolExecutor(streams) as threads:
                all_of_them = [json.loads(said) for said in threads.map(run, [words] * streams)]
            summed = {what: sum(one[what] for one in all_of_them) for what in ("bytes", "requests", "cpu_seconds")}
            return {**summed, "seconds": all_of_them[0]["seconds"] if streams == 1 else time.monotonic() - begun}

        return self.timed(work)


def certificate(where):
    path, key = where / "cert.pem", where / "key.pem"
    run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
         "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", key, "-out", path])  # fmt: skip
    return path, key


@contextlib.contextmanager
def bare(root, *tls):
    process = subprocess.Popen([*map(str, (*SERVER, BARE, "serve", root, "127.0.0.1:0", *tls))], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        yield Server("bare", process, process.stdout.readline().strip(), "/", tls[0] if tls else None)
    finally:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def station(where, *tls):
    where.mkdir()
    site = Site(where, f'certificate = "{tls[0]}"\nkey = "{tls[1]}"' if tls else "", under=SERVER)
    try:
        yield Server("skyhaul", site.process, site.server.split("//")[1], "/exp/", tls[0] if tls else None), site
    finally:
        site.end()


@contextlib.contextmanager
def xrootd(where, with_tls=False):
    with xrootd_site.started(SERVER, where) as server:
        yield Server("XRootD", server.process, server.address, "/", server.certificate if with_tls else None), server.root


def show(values, digits=2):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def in_turns(rounds, candidates):
    """`candidates` are names and what measures each once; the results by name, one of each round."""
    got = {name: [] for name, _ in candidates}
    for name, measure in candidates:
        measure()  # not counted: connections, caches, threads
    for _ in range(rounds):
        for name, measure in candidates:
            got[name].append(measure())
    return got


def of_base(got, base, figure):
    """The figure of each candidate as a share of the base in the same round."""
    return {name: [figure(mine) / figure(its) for mine, its in zip(runs, got[base], strict=True)] for name, runs in got.items()}


def gbps(one):
    return one["bytes"] * 8e-9 / one["seconds"]


def cpu_per_gb(one):
    return one["server_cpu"] * 1e9 / one["bytes"]


def rows(part, got, figures):
    print(f"\n{part}")
    for name, runs in got.items():
        shown = "; ".join(f"{what} {show([figure(one) for one in runs], digits)}" for what, figure, digits in figures)
        print(f"  {name}: {shown}")


def goal(text, values, least):
    print(f"  {text}: {show(values)}: {'met' if statistics.median(values) >= least else 'NOT MET'} (goal {least})")


def large(part, arguments, where, tls):
    """A file of --bytes, four times on each of --streams connections."""
    name, pair = "large", certificate(where) if tls else ()
    with station(where / "station", *pair) as (ours, site), xrootd(where, tls) as (theirs, root), bare(site.root, *pair) as least:
        with (site.root / name).open("wb") as file:
            for _ in range(arguments.bytes >> 20):
                file.write(os.urandom(1 << 20))
        shutil.copyfile(site.root / name, root / name)
        (root / name).chmod(0o644)
        servers = (least, ours, theirs)
        got = in_turns(arguments.rounds, [(one.name, lambda one=one: one.get(name, 1, 4, arguments.streams)) for one in servers])
        rows(part, got, [("Gb/s", gbps, 1), ("server CPU s/GB", cpu_per_gb, 3), ("client CPU s/GB", lambda one: one["cpu_seconds"] * 1e9 / one["bytes"], 3)])
        goal("rate beside the bare loop", of_base(got, "bare", gbps)["skyhaul"], 0.85 if tls else 0.9)
        per_cpu = of_base(got, "XRootD", lambda one: 1 / cpu_per_gb(one))["skyhaul"]
        goal("bytes per CPU second beside XRootD", per_cpu, 1.5)
        print(f"  bytes per CPU second beside the bare loop: {show(of_base(got, 'bare', lambda one: 1 / cpu_per_gb(one))['skyhaul'])}")
        print(f"  rate beside XRootD: {show(of_base(got, 'XRootD', gbps)['skyhaul'])}")


def tree(server, where, program):
    """Gets files of the directory `small` of a server into an empty one: all with `skyhaul copy`, or the first with davix, which takes no directory of these
    servers, a process for each file and four at a time."""
    files = DAVIX_FILES if program == "davix" else SMALL_FILES

    def once():
        shutil.rmtree(where, ignore_errors=True)
        where.mkdir()
        begun = time.monotonic()
        if program == "davix":
            numbers = "\n".join(map(str, range(files)))
            run(["xargs", "-P", "4", "-I{}", "davix-get", server.url("small/{}"), f"{where}/{{}}"], input=numbers.encode())
        else:
            run([BINARY, "copy", "--quiet", "--streams", "4", server.url("small"), f"{where}/"])
        seconds = time.monotonic() - begun
        got = [path for path in where.rglob("*") if path.is_file()]
        assert len(got) == files and all(path.stat().st_size == SMALL_BYTES for path in got), (server.name, program, len(got))
        return {"requests": files, "seconds": seconds}

    return server.timed(once)


def small(part, arguments, where, _tls):
    """Files of 1 KiB."""
    with station(where / "station") as (ours, site), xrootd(where) as (theirs, root), bare(site.root) as least:
        for directory in (site.root / "small", root / "small"):
            directory.mkdir()
            for at in range(SMALL_FILES):
                (directory / str(at)).write_bytes(os.urandom(SMALL_BYTES))
        servers, figures = (least, ours, theirs), [("files/s", lambda one: one["requests"] / one["seconds"], 0),
                                                   ("server CPU us/file", lambda one: one["server_cpu"] * 1e6 / one["requests"], 1)]  # fmt: skip
        got = in_turns(arguments.rounds, [(one.name, lambda one=one: one.get("small/{}", SMALL_FILES, SMALL_ROUNDS)) for one in servers])
        rows(f"{part}, one connection", got, figures)
        rate = lambda one: one["requests"] / one["seconds"]  # noqa: E731
        print(f"  rate beside the bare loop: {show(of_base(got, 'bare', rate)['skyhaul'])}, beside XRootD: {show(of_base(got, 'XRootD', rate)['skyhaul'])}")
        into = where / "got"
        both = [(f"{program} from {one.name}", lambda one=one, program=program: tree(one, into, program)) for one in (ours, theirs) for program in ("skyhaul", "davix")]
        got = in_turns(arguments.rounds, both)
        rows(f"{part}, trees", got, figures)
        beside = of_base(got, "davix from XRootD", rate)
        goal("skyhaul copy from skyhaul beside davix from XRootD", beside["skyhaul from skyhaul"], 3)
        print(f"  davix from skyhaul beside davix from XRootD: {show(beside['davix from skyhaul'])}")


def recording(part, arguments, where, _tls):
    """A recording of the pattern, of about --bytes, got over HTTP and by `cat`."""
    skyhaul = Skyhaul()
    recorder = Recorder(skyhaul, where, disks=1, memory="256MiB")
    seconds = max(arguments.bytes * 8 / 2e9, 1)
    skyhaul.run("send", "--pattern", "--payload", 8000, "--rate", "2Gbps", "--duration", f"{seconds:.1f}s", "--to", f"udp://127.0.0.1:{recorder.port}", timeout=LIMIT)
    recorder.finish()
    with station(where / "station") as (ours, site):
        disk = next(path for path in (where / "station").iterdir() if path.name == "disk")
        for made in recorder.disks[0].iterdir():
            made.rename(disk / made.name)
        ours.prefix = "/recordings/"
        name = run(["curl", "--fail", "--silent", ours.url("")]).decode().split()[0]
        cat = [*SERVER, BINARY, "cat", name, "--disk", disk]

        def catted():
            usage, begun = os.times(), time.monotonic()
            with subprocess.Popen([str(word) for word in cat], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
                assert process.wait(LIMIT) == 0
            after = os.times()
            spent = after.children_user + after.children_system - usage.children_user - usage.children_system
            return {"bytes": size, "seconds": time.monotonic() - begun, "server_cpu": spent}

        size = ours.get(name, 1, 1)["bytes"]
        got = in_turns(arguments.rounds, [("cat", catted), ("GET", lambda: ours.get(name, 1, 1))])
        rows(f"{part}, {size / 1e9:.2f} GB", got, [("Gb/s", gbps, 1), ("CPU s/GB", cpu_per_gb, 3)])
        goal("GET beside cat", of_base(got, "cat", gbps)["GET"], 0.9)


PARTS = {"plain": large, "tls": large, "small": small, "recording": recording}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--bytes", type=int, default=1 << 30, help="size of the large file and of the recording")
    parser.add_argument("--streams", type=int, default=1, help="connections on which the large file is got at the same time")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    print(f"{cpu()}; load {' '.join(pathlib.Path('/proc/loadavg').read_text().split()[:3])}; {run([BINARY, '--version']).decode().strip()}")
    for part in arguments.parts or PARTS:
        with tempfile.TemporaryDirectory(prefix="skyhaul-http-") as name:
            where = pathlib.Path(name)
            where.chmod(0o755)
            PARTS[part](part, arguments, where, part == "tls")
    print(f"\nload {' '.join(pathlib.Path('/proc/loadavg').read_text().split()[:3])}")


if __name__ == "__main__":
    main()
