#!/usr/bin/env python3
"""Judge `skyhaul probe --diagnose` on lines of the lab that no rule was tuned on: they are drawn when the program runs.

`tests/diagnosis/live.py [N]` makes N lines (20) of each kind, and 5 N clean ones, each in network namespaces of its own (`skyhaul lab`),
and has the probe say what is wrong with it. The seed comes from the operating system and is printed; `--seed S` repeats the lines.

    tests/diagnosis/live.py 20                              what an acceptance needs: about 40 minutes on 2 quiet CPUs
    tests/diagnosis/live.py 5 --kinds clean,tcp-pauses      some kinds
    tests/diagnosis/live.py 3 --kinds all                   those too that are not run by default

Standard output has a line of JSON for each run: its kind and number, the seed, the path, the commands of both ends, the causes with their
confidence, and the verdict:

    right     a cause that was made, or that follows from it, has a confidence above 0.5, and no other has; on a clean path, no cause has
    unknown   no cause has, and nothing is named wrongly: too little was lost for a pattern, or nothing, or the probe says that it does not know
    wrong     another cause has; or datagrams were lost and nothing is said of it; or there is no report

A wrong run in which the lab was late has measured this machine; it is made again, up to twice (`made` in its line). At the end, and after
Ctrl-C, follows a table. The exit status is 1 if a wrong cause has a confidence above 0.5, or fewer than 95 % of the runs are right or
unknown; 2 if no lab can be made here; 130 after Ctrl-C, if nothing was wrong so far.

It needs the right to make network namespaces (root, or user namespaces), and a release build: `--skyhaul PATH`, SKYHAUL_BIN, or
target/release/skyhaul. Measure nothing else on the machine at the same time.
"""

import argparse
import collections
import concurrent.futures
import json
import math
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/interop"))
from machine import cpu  # noqa: E402

ACCUSED = 0.5
# Fewer than this part right or unknown is too few.
ENOUGH = 0.95
# Times that a wrong run is made, if the lab was late.
RUNS = 3
# Longest time of a run, s.
LONGEST = 180
WORDS = ["right", "unknown", "wrong"]
SERVE = "{skyhaul} probe serve --token-file t"
# A line of 360 Mb/s and 60 ms holds more than the 4 MiB that a host grants by default: its buffers would be a second cause, and a true one.
AMPLE = "; near: tcp-wmem=64MiB; far: tcp-rmem=64MiB"


def scale(draw, low, high):
    return math.exp(draw.uniform(math.log(low), math.log(high)))


def bursts(draw, loss):
    packets = scale(draw, 5, 500)
    return f",burst={packets:.0f}@{loss / packets:.3e}"


def gilbert(draw, loss):
    packets, bad = scale(draw, 5, 300), draw.uniform(0.5, 1)
    return f",gemodel={loss / bad / packets:.3e}/{1 / packets:.4f}/{bad:.2f}/0"


def outages(draw, loss="0"):
    """Outages of one length, and so much loss between them."""
    length, every, at, text = scale(draw, 0.01, 0.5), draw.uniform(0.6, 2.5), draw.uniform(1, 2), "" if loss == "0" else f",loss={loss}"
    for _ in range(28):
        text += f"; at={at:.3f}s: loss=1; at={at + length:.4f}s: loss={loss}"
        at += length + every * draw.uniform(0.7, 1.3)
    return text


def policer(draw):
    return f",police={scale(draw, 12, 60):.1f}Mbps/{scale(draw, 30, 800):.0f}KiB"


def spray(draw):
    return draw.choice([f",paths={draw.randint(2, 6)}/spray/{scale(draw, 0.2, 3):.2f}ms", f",reorder={draw.randint(3, 40)}@{scale(draw, 0.01, 0.2):.3f}"])


def hole(draw, ways=("", "fwd: ", "rev: ")):
    return f"; {draw.choice(ways)}mtu-blackhole={draw.randint(520, 1440)}"


def two(draw):
    """Two causes at once, and what may be named: either, and what follows from it."""
    return draw.choice(
        [
            (policer(draw) + outages(draw), {"policer", "burst-loss", "microburst"}),
            (spray(draw) + f",loss={scale(draw, 0.005, 0.03):.4f}", {"spraying", "bit-errors"}),
            (policer(draw) + spray(draw), {"policer", "microburst", "spraying"}),
            (bursts(draw, scale(draw, 0.004, 0.03)) + hole(draw), {"burst-loss", "mtu"}),
            (outages(draw, f"{scale(draw, 0.003, 0.01):.4f}"), {"burst-loss", "bit-errors"}),
        ]
    )


class Line:
    """A path, how it is probed, the command of its far end, and the causes that are right."""

    def __init__(self, path, load, right, far=SERVE):
        self.path, self.load, self.right, self.far = path, load, right, far


def base(draw, sprayed=False):
    # Jitter keeps packets in order, and so hides that they took several paths, of which each has the rate.
    rate, jitter = (scale(draw, 30, 100), 0) if sprayed else (scale(draw, 60, 400), draw.uniform(0, 100))
    return rate, f"rate={rate:.0f}Mbps,delay={draw.uniform(2, 30):.1f}ms,jitter={jitter:.0f}us,seed={draw.randrange(10**6)}"


def udp(make, right=frozenset(), first=""):
    """Lines for datagrams; `make` gives what is behind rate and delay, or that with the causes. The first point may be shorter than 1 s."""

    def line(draw, _):
        made = make(draw)
        more, causes = made if isinstance(made, tuple) else (made, right)
        rate, path = base(draw, "spray" in more or "reorder" in more)
        return Line(path + more, f"--udp --rates {min(80, rate * 0.8):.0f}Mbps{first}", causes)

    return line


def tcp(make, right, seconds=10):
    """Lines for a flow of CUBIC and of BBR in turn."""

    def line(draw, n):
        more = make(draw)
        _, path = base(draw, "spray" in more or "reorder" in more)
        return Line(path + more + AMPLE, f"--tcp --time {seconds}s --cc {('cubic', 'bbr')[n % 2]}", right)

    return line


# A flow that its receiver bounds needs no long time.
FLOW = "--tcp --cc cubic --time 5s"
# Stops the server of the far end for a time, and lets it run for another, again and again.
STOPS = (
    "{python} -c 'import os, signal, sys, time; pid = int(sys.argv[1])\n"
    "while not time.sleep({there:.4f}): os.kill(pid, signal.SIGSTOP), time.sleep({away:.4f}), os.kill(pid, signal.SIGCONT)' $P"
)


def quiet(draw, low, high):
    """A line without a cause, and what it holds in bytes."""
    rate, delay = scale(draw, 50, 300), draw.uniform(low, high)
    path = f"rate={rate:.0f}Mbps,delay={delay / 2:.1f}ms,buffer=4MiB,seed={draw.randrange(10**6)}"
    return path, rate * 1e6 / 8 * delay / 1e3


def pauses(draw, _):
    """A reader that is away for 20 to 500 ms again and again, by itself or because its process is stopped."""
    path, _ = quiet(draw, 1, 100)
    away, part = scale(draw, 0.02, 0.5), draw.uniform(0.2, 0.95)
    # As hosts have it: the kernel tunes the buffer, from 128 KiB up to a limit.
    limit = draw.choice([1 << 20, 6 << 20, 32 << 20])
    path += "; near: tcp-wmem=64MiB"
    tuned = f"sysctl -qw net.ipv4.tcp_rmem='4096 131072 {limit}'"
    if draw.random() < 0.5:
        far = f"{tuned}; {SERVE} --slow-reader {away * 1e3:.0f}ms@{away / part * 1e3:.0f}ms"
    else:
        stops = STOPS.format(python=sys.executable, there=away / part - away, away=away)
        far = f"{tuned}; {SERVE} & P=$!; sleep 1; {stops}"
    # A limit of 1 MiB may be less than the line holds, and bound the flow as well.
    return Line(path, FLOW, {"pausing-reader"} | ({"receiver-window"} if limit == 1 << 20 else set()), far)


def slow(draw, _):
    """A reader that is slower than the line, steadily."""
    path, _ = quiet(draw, 1, 60)
    rate = float(path.split("rate=")[1].split("M")[0]) * draw.uniform(0.05, 0.5)
    return Line(path + AMPLE, FLOW, {"slow-application"}, f"{SERVE} --slow-reader {rate:.1f}Mbps")


def window(draw, _):
    """A receive buffer that holds 10 to 50 % of what the line does, by a setting of the host or of the test."""
    path, held = quiet(draw, 20, 100)
    size = int(min(max(held * draw.uniform(0.1, 0.5), 32 << 10), 1 << 20))
    # The sender's buffer must not be the smaller one.
    if draw.random() < 0.5:
        return Line(f"{path}; near: tcp-wmem=64MiB; far: tcp-rmem={size >> 10}KiB", FLOW, {"receiver-window"})
    far = f"sysctl -qw net.ipv4.tcp_rmem='4096 {size} {size}'; {SERVE}"
    return Line(f"{path}; near: tcp-wmem=64MiB", FLOW, {"receiver-window"}, far)


# By name: how a line is made. Those before the bar are run by default.
KINDS = {
    "clean": udp(lambda draw: "", first=" --time 500ms"),
    "bursts": udp(lambda draw: bursts(draw, scale(draw, 0.004, 0.05)), {"burst-loss"}),
    "outages": udp(outages, {"burst-loss"}),
    "tcp-policer": tcp(policer, {"policer"}),
    "tcp-bursts": tcp(lambda draw: bursts(draw, scale(draw, 2e-4, 5e-3)), {"burst-loss"}),
    "mtu": udp(lambda draw: hole(draw, [""]), {"mtu"}),
    "mtu-one-way": udp(lambda draw: hole(draw, ["fwd: ", "rev: "]), {"mtu"}),
    "spraying": udp(spray, {"spraying"}),
    "two": udp(two),
    "tcp-pauses": pauses,
    "|": None,
    "tcp-slow-reader": slow,
    "tcp-window": window,
    "gilbert": udp(lambda draw: gilbert(draw, scale(draw, 0.004, 0.05)), {"burst-loss"}),
    "policer": udp(policer, {"policer", "microburst"}),
    "tcp-clean": tcp(lambda draw: "", set()),
    "tcp-gilbert": tcp(lambda draw: gilbert(draw, scale(draw, 2e-4, 5e-3)), {"burst-loss"}),
    "tcp-outages": tcp(outages, {"burst-loss"}),
    "tcp-loss": tcp(lambda draw: f",loss={scale(draw, 2e-4, 0.02):.1e}", {"loss"}),
    "tcp-spraying": tcp(spray, {"spraying"}),
    "tcp-mtu": tcp(hole, {"mtu"}),
    "tcp-spraying-loss": tcp(lambda draw: spray(draw) + f",loss={scale(draw, 1e-3, 0.01):.1e}", {"spraying", "loss"}),
    "tcp-policer-outages": tcp(lambda draw: policer(draw) + outages(draw), {"policer", "burst-loss"}),
}
ALL = [kind for kind in KINDS if kind != "|"]
DEFAULT = ALL[: list(KINDS).index("|")]


class Stopped(Exception):
    pass


class Labs:
    """The labs that run at this moment, which end with the program."""

    def __init__(self, skyhaul, folder):
        self.skyhaul, self.folder, self.running, self.lock, self.stopped = skyhaul, folder, set(), threading.Lock(), False

    def run(self, words, timeout):
        with self.lock:
            if self.stopped:
                raise Stopped
            # In a session of its own: Ctrl-C reaches this program only, which ends the lab.
            lab = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder, start_new_session=True)
            self.running.add(lab)
        try:
            out, said = lab.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            lab.kill()
            out, said = lab.communicate()
            said += f"\nerror: no report in {timeout} s"
        finally:
            with self.lock:
                self.running.discard(lab)
        if self.stopped:
            raise Stopped
        return lab.returncode, out, said

    def stop(self):
        with self.lock:
            self.stopped = True
            for lab in self.running:
                lab.send_signal(signal.SIGINT)


def judge(report, right):
    """The verdict, and the causes with their confidence."""
    found = report["diagnosis"]
    is_flow = isinstance(found, list)
    found = found[0][0] if is_flow else found
    causes = {cause["cause"]: round(cause["confidence"], 2) for cause in found["causes"]}
    accused = {cause for cause, sure in causes.items() if sure > ACCUSED}
    if accused - right:
        return "wrong", causes
    if accused:
        return "right", causes
    doubt = causes or found.get("unexplained") or found.get("unknown") or (found.get("identity") or {}).get("unknown")
    if doubt:
        return "unknown", causes
    # A flow that loses no time to a cause has none.
    silent = not is_flow and found["identity"]["lost"]
    return ("wrong" if silent else "unknown" if right else "right"), causes


class Trial:
    def __init__(self, labs, seed, out):
        self.labs, self.seed, self.out, self.lock, self.done = labs, seed, out, threading.Lock(), []

    def one(self, kind, n):
        line = KINDS[kind](random.Random(f"{self.seed} {kind} {n}"), n)
        skyhaul = str(self.labs.skyhaul)
        far, near = line.far.replace("{skyhaul}", skyhaul), f"{skyhaul} probe far --token-file t --diagnose --json {line.load}"
        begin = time.monotonic()
        for made in range(1, RUNS + 1):
            _, out, said = self.labs.run([skyhaul, "lab", "run", line.path, "--far", far, "--", *near.split()], LONGEST)
            late = "FAILED: " in said
            try:
                report, error = json.loads(out), None
                verdict, causes = judge(report, line.right)
            except (ValueError, KeyError, TypeError, IndexError) as problem:
                # Without a report, nothing was said of the line.
                verdict, causes, error = "wrong", {}, f"{type(problem).__name__}: {said[-600:]}"
            if verdict != "wrong" or not late:
                break
        wrong = max((sure for cause, sure in causes.items() if cause not in line.right), default=0.0) if verdict == "wrong" else 0.0
        run = {
            "kind": kind,
            "n": n,
            "seed": self.seed,
            "path": line.path,
            "load": line.load,
            "far": line.far,
            "right": sorted(line.right),
            "causes": causes,
            "verdict": verdict,
            "wrong_confidence": wrong,
            "made": made,
            "late": late,
            "seconds": round(time.monotonic() - begin, 1),
        }
        if error:
            run["error"] = error
        with self.lock:
            self.done.append(run)
            print(json.dumps(run), file=self.out, flush=True)

    def table(self, labs, begun, planned):
        print(f"\n{cpu()}, {os.cpu_count()} CPUs, {labs} labs at a time, --seed {self.seed}, {time.monotonic() - begun:.0f} s\n", file=self.out)
        print(f"| line | runs | {' | '.join(WORDS)} | worst wrong confidence | made again |\n{'|---' * 7}|", file=self.out)
        for kind in dict.fromkeys(run["kind"] for run in self.done):
            runs = [run for run in self.done if run["kind"] == kind]
            count = collections.Counter(run["verdict"] for run in runs)
            worst = max(run["wrong_confidence"] for run in runs)
            again = sum(run["made"] - 1 for run in runs)
            print(f"| {kind} | {len(runs)} | {' | '.join(str(count[word]) for word in WORDS)} | {f'{worst:.2f}' if worst else ''} | {again or ''} |", file=self.out)
        wrong = [run for run in self.done if run["verdict"] == "wrong"]
        accused = sum(run["wrong_confidence"] > ACCUSED for run in wrong)
        good = len(self.done) - len(wrong)
        print(f"\n{len(self.done)} of {planned} runs: {good} right or unknown ({100 * good / max(len(self.done), 1):.1f} %), {accused} wrong above {ACCUSED}", file=self.out)
        return not accused and good >= ENOUGH * len(self.done)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="?", type=int, default=20, metavar="N", help="lines of each kind, of clean ones five times as many (20)")
    parser.add_argument("--kinds", default=",".join(DEFAULT), metavar="A,B", help=f"all, or some of {', '.join(ALL)} (the first {len(DEFAULT)})")
    parser.add_argument("--labs", type=int, default=1, metavar="K", help="labs at a time (1)")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"), metavar="S", help="repeat the lines of this seed")
    built = os.environ.get("SKYHAUL_BIN", ROOT / "target/release/skyhaul")
    parser.add_argument("--skyhaul", type=pathlib.Path, default=built, metavar="PATH", help="the program to judge")
    asked = parser.parse_args()
    asked.kinds = ALL if asked.kinds == "all" else asked.kinds.split(",")
    unknown = [kind for kind in asked.kinds if kind not in ALL]
    if unknown or asked.runs < 1 or asked.labs < 1:
        parser.error(f"unknown kinds: {', '.join(unknown)}; expected some of {', '.join(ALL)}" if unknown else "N and --labs must be at least 1")
    asked.skyhaul = pathlib.Path(asked.skyhaul).resolve()
    if not os.access(asked.skyhaul, os.X_OK):
        parser.error(f"no program {asked.skyhaul}: build it (cargo build --release), or name it with --skyhaul")
    return asked


def main():
    asked = arguments()
    # Also where it was started in the background, with the signal ignored.
    for request in (signal.SIGINT, signal.SIGTERM):
        signal.signal(request, signal.default_int_handler)
    # The kinds take turns, so that a run that is ended early has some of each.
    turns = [(kind, n) for n in range(5 * asked.runs) for kind in asked.kinds if n < asked.runs]
    clean = [("clean", n) for n in range(asked.runs, 5 * asked.runs)] if "clean" in asked.kinds else []
    each = len(turns) / max(len(clean), 1)
    jobs = sorted([(at, job) for at, job in enumerate(turns)] + [((at + 0.5) * each, job) for at, job in enumerate(clean)])
    os.environ["SKYHAUL_CONFIG"] = "/dev/null"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "t").write_text("0123456789abcdef0123456789abcdef")
        (folder / "t").chmod(0o600)
        labs = Labs(asked.skyhaul, folder)
        status, _, said = labs.run([str(asked.skyhaul), "lab", "run", "delay=1ms", "--far", "true", "--", "true"], 30)
        if status:
            print(f"no lab can be made here, so nothing was judged:\n{said.strip()}\nhint: run it as root, or permit user namespaces", file=sys.stderr)
            return 2
        print(f"seed {asked.seed}: {len(jobs)} runs of {', '.join(asked.kinds)}", file=sys.stderr, flush=True)
        trial, begun, interrupted = Trial(labs, asked.seed, sys.stdout), time.monotonic(), False
        with concurrent.futures.ThreadPoolExecutor(asked.labs) as pool:
            runs = [pool.submit(trial.one, *job) for _, job in jobs]
            try:
                for run in runs:
                    run.result()
            except (KeyboardInterrupt, Stopped):
                interrupted = True
                labs.stop()
                for run in runs:
                    run.cancel()
            except BaseException:
                labs.stop()
                for run in runs:
                    run.cancel()
                raise
        good = trial.table(asked.labs, begun, len(jobs))
    return 1 if not good else 130 if interrupted else 0


if __name__ == "__main__":
    sys.exit(main())
