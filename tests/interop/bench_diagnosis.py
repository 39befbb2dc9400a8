"""Causes made live in the lab, and what `skyhaul probe far --diagnose` names, which sees only what the ends see.

`python tests/interop/bench_diagnosis.py live [N [CAUSE ...]]`: N severities (5) of each cause, drawn from seeds; `two [N [CAUSE ...]]`:
two causes at once; `clean [N]`: N paths without a cause, with cross traffic and busy processors, on which nothing may be named. `--first M`
begins with the Mth severity or path, `--labs L` has as many labs at the same time, `--log FILE` keeps each run as a line of JSON, and does
not make again what is in it. A run that is wrong while the lab was late has measured this machine: it is made again, and told. As root, or
where user namespaces are permitted. It needs target/release/skyhaul, or SKYHAUL_BIN.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import threading

from machine import cpu

SKYHAUL = pathlib.Path(os.environ.get("SKYHAUL_BIN", pathlib.Path(__file__).resolve().parents[2] / "target/release/skyhaul"))
# The first seed: those of the simulated matrix begin at 1000, those with which thresholds were chosen at 0.
SEED = 3000
SERVE = f"{SKYHAUL} probe serve --token-file t"
UDP = "--udp --rates 80Mbps"
TCP = "--tcp --cc cubic --time 4s"
LINE = "rate=400Mbps,delay={:.0f}ms,seed={}"
# Sends datagrams of 1000 octets to the far end, where nobody takes them, on and off, at so many Mb/s in the mean, for 60 s.
CROSS = """
import random, socket, sys, time
draw, there = random.Random(int(sys.argv[1])), socket.getaddrinfo("far", 9999)[0]
to, rate = socket.socket(there[0], socket.SOCK_DGRAM), float(sys.argv[2]) * 125.0
end = time.monotonic() + 60
while time.monotonic() < end:
    for _ in range(draw.randint(1, 24)):
        try: to.sendto(bytes(1000), there[4])
        except OSError: pass
    time.sleep(draw.expovariate(rate / 12.5))
"""
# Fills the backlog of one processor on and off: what is sent to so many sockets of the far end at once takes it long, and what comes
# beside it, from the path too, finds no room. Sends so many packets per second for a time, then rests.
FLOOD = """
import socket, sys, time
processor, sockets, rate, on, off = map(float, sys.argv[1:])
with open("/sys/class/net/lo/queues/rx-0/rps_cpus", "w") as mask: mask.write(f"{1 << int(processor):x}")
all_of_them = ("127.255.255.255", 9999)
def member():
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    one.bind(all_of_them)
    return one
members, sender = [member() for _ in range(int(sockets))], socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
while True:
    begin, sent = time.monotonic(), 0
    while (now := time.monotonic() - begin) < on:
        while sent < now * rate: sent += sender.sendto(b"x", all_of_them)
        time.sleep(0.0005)
    time.sleep(off)
"""
# Times that a run is made again because the lab was late.
AGAIN = 3


class Run:
    """A path, the commands of its ends, options of the lab, and what it is run by."""

    def __init__(self, path, probe=UDP, far=SERVE, before="", lab=(), by=()):
        self.path, self.probe, self.far, self.before, self.lab, self.by = path, probe, far, before, lab, by

    def diagnosis(self, folder):
        """What was named, and whether the lab was late."""
        near = f"{self.before}exec {SKYHAUL} probe far --token-file t --diagnose --json {self.probe}"
        line = [*self.by, SKYHAUL, "lab", "run", self.path, *self.lab, "--far", self.far, "--", "sh", "-c", near]
        try:
            done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=folder, timeout=180)
        except subprocess.TimeoutExpired:
            return ["no report in 180 s"], False
        late = "FAILED: " in done.stderr
        try:
            found = json.loads(done.stdout)["diagnosis"]
        except ValueError:
            said = [text for text in done.stderr.splitlines() if text.startswith("error")]
            return [said[0] if said else "no report"], late
        if isinstance(found, list):
            found = found[0][0]
        names = [cause["cause"] for cause in found["causes"]]
        return names or (["unknown"] if found.get("unexplained") or found.get("unknown") else []), late

    def judged(self, folder, right):
        """The same, from a run in which the lab was in time, or that was right; and how many were made for it."""
        for made in range(1, AGAIN + 1):
            names, late = self.diagnosis(folder)
            if right(names) or not late:
                break
        return names, made


def line(draw, seed):
    return LINE.format(draw.uniform(4, 25), seed)


# A server without the right to any buffer that it likes.
MODEST = f"setpriv --bounding-set=-net_admin --inh-caps=-net_admin {SERVE}" if os.geteuid() == 0 else SERVE


def stopped(away, there, serve=MODEST):
    """A server that stops for `away` seconds and runs for `there`, in turn."""
    return f"{serve} & P=$!; sleep 1; while sleep {there:.2f}; do kill -STOP $P; sleep {away:.2f}; kill -CONT $P; done"


def flooded(path, draw):
    """Packets of the far end all go to the last processor, which has others to work on; the lab keeps off it."""
    last = min(os.cpu_count(), 32) - 1
    flood = f"{last} {draw.randint(350, 500)} 70000 {draw.uniform(0.04, 0.08):.3f} {draw.uniform(0.15, 0.25):.3f}"
    far = f"ulimit -n 1024; {sys.executable} -c '{FLOOD}' {flood} & exec {SERVE}"
    return Run(f"{path}; far: rps={last}", far=far, by=["taskset", "-c", f"0-{max(last - 1, 0)}"])


def crossed(run, mbps, seed, busy=0):
    """The run beside other traffic to the far end, and with so many processors busy."""
    beside = f"{sys.executable} -c '{CROSS}' {seed} {mbps:.1f} & " if mbps else ""
    burn = "timeout 60 sh -c 'while :; do :; done' & " * busy
    run.before = f"{beside}{burn}{run.before}"
    return run


def limits(draw, seed):
    mbps = draw.uniform
    return {
        "policer": lambda: Run(f"{line(draw, seed)},police={mbps(15, 45):.1f}Mbps/{draw.randint(40, 500)}KiB"),
        "full-queue": lambda: Run(f"rate={mbps(15, 45):.1f}Mbps,buffer={draw.randint(60, 400)}KiB,delay=15ms,seed={seed}"),
        "microburst": lambda: Run(f"rate={mbps(120, 200):.0f}Mbps,buffer={draw.randint(22, 45)}KiB,delay=15ms,seed={seed}"),
        "packet-rate": lambda: Run(f"{line(draw, seed)},pps={draw.randint(1500, 4500)}/{draw.randint(20, 120)}"),
        "sender": lambda: Run(line(draw, seed), lab=["--queue", f"tbf={mbps(15, 45):.1f}Mbps/64KiB/{draw.randint(100, 300)}KiB"]),
        "bit-errors": lambda: Run(
            f"{line(draw, seed)},{draw.choice([f'loss={10 ** mbps(-2.4, -1.5):.4f}', f'ber={10 ** mbps(-6.3, -5.7):.2e}'])}"
        ),
        "burst-loss": lambda: Run(f"{line(draw, seed)},burst={draw.randint(8, 300)}@{10 ** mbps(-3.7, -3.2):.2e}"),
        "mtu": lambda: Run(f"{line(draw, seed)}; fwd: mtu-blackhole={draw.randint(500, 1400)}"),
        "firewall": lambda: Run(f"{line(draw, seed)}; at={mbps(1.3, 3.5):.2f}s: fwd: flow=udp: loss=1"),
    }


def ways(draw, seed):
    some = draw.uniform
    sprayed = [f"reorder={draw.randint(2, 8)}@{some(0.005, 0.05):.3f}", f"paths={draw.randint(2, 4)}/spray/{some(0.3, 2):.1f}ms"]
    return {
        "spraying": lambda: Run(f"{line(draw, seed)},{draw.choice(sprayed)}"),
        "duplication": lambda: Run(f"{line(draw, seed)},duplicate={10 ** some(-2.5, -1):.4f}"),
        "route-change": lambda: Run(f"{line(draw, seed)}; at={some(1.3, 3):.2f}s: delay={some(26, 40):.0f}ms,hops={draw.randint(1, 4)}"),
        "moderation": lambda: Run(f"{line(draw, seed)},comb={some(4, 9):.1f}ms"),
        "idle-states": lambda: Run(f"{line(draw, seed)},wake={some(0.8, 2.8):.1f}ms@3ms"),
        # Its buffer may hold 8 MiB, which fill in 0.4 s: longer than a point of a diagnosis that takes no more time.
        "socket-buffer": lambda: Run(line(draw, seed), UDP.replace("80", "160") + " --time 2s", far=stopped(some(0.7, 1.2), 0.3)),
        "backlog": lambda: flooded(line(draw, seed), draw),
        "polarisation": lambda: crossed(
            Run(f"rate=60Mbps,buffer=64KiB,paths={draw.randint(2, 3)}/hash,delay=15ms,seed={seed}", UDP.replace("80", "30")), some(36, 48), seed
        ),
    }


def flows(draw, seed):
    some = draw.uniform
    rate, delay = some(60, 120), some(10, 30)
    path = f"rate={rate:.0f}Mbps,delay={delay:.0f}ms,seed={seed}"
    window = int(rate / 8 * delay * 2e3 * some(0.08, 0.35))
    shallow = int(rate / 8 * delay * 2e3 * some(0.05, 0.15)) >> 10
    return {
        "receiver-window": lambda: Run(path, TCP, far=f"sysctl -qw net.ipv4.tcp_rmem='4096 {window} {window}'; {SERVE}"),
        "send-buffer": lambda: Run(f"{path}; near: tcp-wmem={window >> 10}KiB", TCP.replace("cubic", "bbr")),
        "pausing-reader": lambda: Run(
            path, TCP, far=f"sysctl -qw net.ipv4.tcp_rmem='4096 131072 1048576'; {stopped(some(0.3, 0.6), 0.05, SERVE)}"
        ),
        "slow-application": lambda: Run(
            path, TCP, far=f"sysctl -qw net.ipv4.tcp_rmem='4096 131072 1048576'; {SERVE} --slow-reader {rate * some(0.05, 0.4):.1f}Mbps"
        ),
        "loss": lambda: Run(f"{path},loss={10 ** some(-2.5, -1.8):.4f}", TCP),
        # From one loss to the next, CUBIC takes up to 8 s here.
        "shallow-buffer": lambda: Run(f"{path},buffer={shallow}KiB", TCP.replace("4s", "40s")),
    }


def causes(seed):
    draw = random.Random(seed)
    return limits(draw, seed) | ways(draw, seed) | flows(draw, seed)


class Session:
    """Where runs are made, how many at the same time, and what is known of them."""

    def __init__(self, folder, labs, log):
        self.folder, self.labs, self.log, self.lock, self.known = folder, labs, log, threading.Lock(), {}
        if log and log.exists():
            for text in log.read_text().splitlines():
                what, n, names, made = json.loads(text)
                self.known[what, n] = names, made

    def judged(self, what, n, run, right):
        """What was named in the nth run of this, and how many were made for it; wrong ones are told."""
        if (what, n) not in self.known:
            names, made = run.judged(self.folder, right)
            with self.lock:
                self.known[what, n] = names, made
                if self.log:
                    with self.log.open("a") as log:
                        print(json.dumps([what, n, names, made]), file=log)
                if not right(names):
                    print(f"{what} {n}: {run.path} {run.probe} {run.before}{run.far}: {names}", file=sys.stderr, flush=True)
        return self.known[what, n]

    def each(self, make, jobs):
        with concurrent.futures.ThreadPoolExecutor(self.labs) as labs:
            return list(labs.map(make, jobs))

    def table(self, kinds, numbers, one, title, good):
        """Runs of each kind, all kinds in turn: `one` makes a run, and says what is right."""
        made = dict(self.each(lambda job: (job, self.judged(*job, *one(*job))), [(kind, n) for n in numbers for kind in kinds]))
        print(cpu(), f"{os.cpu_count()} CPUs, {self.labs} labs at a time\n\n| {title} | runs | {good} | otherwise | made again, the lab being late |")
        print("|---" * 5 + "|")
        all_right = 0
        for kind in kinds:
            other, again, right = collections.Counter(), 0, 0
            for n in numbers:
                names, times = made[kind, n]
                again += times - 1
                if one(kind, n)[1](names):
                    right += 1
                else:
                    other[", ".join(names) or "nothing"] += 1
            all_right += right
            print(f"| {kind} | {len(numbers)} | {right} | {'; '.join(f'{name} {n}' for name, n in other.items())} | {again} |")
        print(f"\n{good}: {all_right} of {len(made)}")


def live(session, numbers, only):
    one = lambda cause, n: (causes(SEED + 17 * n)[cause](), lambda names: names[:1] == [cause])
    session.table(only or list(causes(SEED)), numbers, one, "cause", "named first")


def two(session, numbers, only):
    """Two causes at once: of loss and of order, of a host and of the network, of two parts of the network."""

    def one(both, n):
        first, second = both.split(", ")
        seed = SEED + 5000 + 17 * n
        run, draw = causes(seed)[second](), random.Random(seed)
        run.path = run.path.replace(f"seed={seed}", f"seed={seed},{MORE[first](draw)}", 1)
        return run, lambda names: {first, second} <= set(names)

    kinds = [f"{first}, {second}" for first in only or MORE for second in PARTNERS[first]]
    session.table(kinds, numbers, one, "causes", "both named")


MORE = {
    "duplication": lambda draw: f"duplicate={10 ** draw.uniform(-2.3, -1):.4f}",
    "spraying": lambda draw: f"reorder={draw.randint(2, 8)}@{draw.uniform(0.01, 0.05):.3f}",
    "bit-errors": lambda draw: f"loss={10 ** draw.uniform(-2.0, -1.5):.4f}",
}
PARTNERS = {
    "duplication": ["policer", "packet-rate", "sender", "bit-errors", "spraying"],
    "spraying": ["policer", "packet-rate", "sender", "bit-errors", "firewall"],
    "bit-errors": ["policer", "sender", "mtu", "socket-buffer"],
}


def clean(session, numbers, _):
    """Short diagnoses of paths without a cause; every second with the processors busy."""

    def one(n):
        seed = SEED + 20_000 + n
        draw = random.Random(seed)
        run = Run(f"{line(draw, seed)},jitter={draw.uniform(0, 200):.0f}us", f"--udp --rates {draw.uniform(20, 90):.0f}Mbps --time 400ms")
        crossed(run, draw.uniform(5, 60), seed, busy=n % 2 * os.cpu_count())
        # One run each, whether the lab was late or not.
        names, _ = session.judged("clean", n, run, lambda names: True)
        if names:
            print(f"{n}: {run.path} {run.probe}: {names}", file=sys.stderr, flush=True)
        return names

    named = collections.Counter(name for names in session.each(one, numbers) for name in names)
    print(cpu(), f"{os.cpu_count()} CPUs, {session.labs} labs at a time")
    unknown = named.pop("unknown", 0)
    print(f"{len(numbers)} runs: named {dict(named) or 'nothing'}; lost without a name in {unknown}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["live", "two", "clean"])
    parser.add_argument("runs", nargs="?", type=int, default=5)
    parser.add_argument("causes", nargs="*", metavar="CAUSE")
    parser.add_argument("--first", type=int, default=0, metavar="M")
    parser.add_argument("--labs", type=int, default=1, metavar="L")
    parser.add_argument("--log", type=pathlib.Path, metavar="FILE")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "t").write_text("0123456789abcdef0123456789abcdef")
        (folder / "t").chmod(0o600)
        numbers = range(asked.first, asked.first + asked.runs)
        {"live": live, "two": two, "clean": clean}[asked.what](Session(folder, asked.labs, asked.log), numbers, asked.causes)


if __name__ == "__main__":
    main()
