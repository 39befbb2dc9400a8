"""Lines of the lab that no rule of the diagnosis was tuned on, live: what `skyhaul probe far --diagnose` says of them.

`python tests/interop/bench_lines.py udp|tcp [N [KIND ...]]`: N lines (20) of each kind, of clean ones five times as many, from a seed that is
drawn and told (`--seed S` repeats it). A cause is right if it was made, or follows from what was made; wrong is any other with a confidence
above 0.5, and silence where something was lost. With TCP, each line runs with CUBIC and with BBR in turn. `--labs L` labs at a time,
`--log FILE` keeps each run, and all that was reported of a wrong one. Prints each wrong run, and a table: of each kind the runs, what was said, and the highest confidence of a wrong
cause (silence and a missing report count as wrong with 0 and 1). As root, or where user namespaces are permitted. It needs target/release/skyhaul, or SKYHAUL_BIN.
"""

import argparse
import collections
import concurrent.futures
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile

from machine import cpu

SKYHAUL = pathlib.Path(os.environ.get("SKYHAUL_BIN", pathlib.Path(__file__).resolve().parents[2] / "target/release/skyhaul"))
ACCUSED = 0.5


def scale(draw, low, high):
    return math.exp(draw.uniform(math.log(low), math.log(high)))


def outages(draw):
    length, every, at, text = scale(draw, 0.01, 0.5), draw.uniform(0.6, 2.5), draw.uniform(1, 2), ""
    for _ in range(28):
        text += f"; at={at:.3f}s: loss=1; at={at + length:.4f}s: loss=0"
        at += length + every * draw.uniform(0.7, 1.3)
    return text


def gilbert(draw, loss):
    packets, bad = scale(draw, 5, 300), draw.uniform(0.5, 1)
    return f",gemodel={loss / bad / packets:.3e}/{1 / packets:.4f}/{bad:.2f}/0"


def burst(draw, loss):
    packets = scale(draw, 5, 500)
    return f",burst={packets:.0f}@{loss / packets:.3e}"


def policer(draw):
    return f",police={scale(draw, 12, 60):.1f}Mbps/{scale(draw, 30, 800):.0f}KiB"


def spray(draw):
    return draw.choice([f",paths={draw.randint(2, 6)}/spray/{scale(draw, 0.2, 3):.2f}ms", f",reorder={draw.randint(3, 40)}@{scale(draw, 0.01, 0.2):.3f}"])


def hole(draw, way=""):
    return f"; {way}mtu-blackhole={draw.randint(520, 1440)}"


# Name, what is behind rate and delay, and the causes that are right: datagrams, and TCP, which a tenth of the loss stops.
UDP = {
    "clean": (lambda draw: "", set()),
    "bursts of 5 to 500 packets": (lambda draw: burst(draw, scale(draw, 0.004, 0.05)), {"burst-loss"}),
    "Gilbert-Elliott": (lambda draw: gilbert(draw, scale(draw, 0.004, 0.05)), {"burst-loss"}),
    "outages of 10 to 500 ms": (outages, {"burst-loss"}),
    "policer": (policer, {"policer", "microburst"}),
    "spraying": (spray, {"spraying"}),
    "MTU hole, both ways": (hole, {"mtu"}),
    "MTU hole, one way": (lambda draw: hole(draw, "fwd: "), {"mtu"}),
    "MTU hole, the other way": (lambda draw: hole(draw, "rev: "), {"mtu"}),
    "spraying and loss": (lambda draw: spray(draw) + f",loss={scale(draw, 0.005, 0.03):.4f}", {"spraying", "bit-errors"}),
    "policer and outages": (lambda draw: policer(draw) + outages(draw), {"policer", "burst-loss", "microburst"}),
}
TCP = {
    "clean": (lambda draw: "", set()),
    "bursts of 5 to 500 packets": (lambda draw: burst(draw, scale(draw, 2e-4, 5e-3)), {"burst-loss"}),
    "Gilbert-Elliott": (lambda draw: gilbert(draw, scale(draw, 2e-4, 5e-3)), {"burst-loss"}),
    "outages of 10 to 500 ms": (outages, {"burst-loss"}),
    "policer": (policer, {"policer"}),
    "spraying": (spray, {"spraying"}),
    "loss of single packets": (lambda draw: f",loss={scale(draw, 2e-4, 0.02):.1e}", {"loss"}),
    "MTU hole, both ways": (hole, {"mtu"}),
    "MTU hole, one way": (lambda draw: hole(draw, "fwd: "), {"mtu"}),
    "MTU hole, the other way": (lambda draw: hole(draw, "rev: "), {"mtu"}),
    "spraying and loss": (lambda draw: spray(draw) + f",loss={scale(draw, 1e-3, 0.01):.1e}", {"spraying", "loss"}),
    "policer and outages": (lambda draw: policer(draw) + outages(draw), {"policer", "burst-loss"}),
}
# A line of 360 Mb/s and 60 ms holds more than the 4 MiB that a host grants by default: its buffers would be a second cause, and a true one.
AMPLE = "; near: tcp-wmem=64MiB; far: tcp-rmem=64MiB"


class Judge:
    def __init__(self, tcp, seed, folder, log):
        self.tcp, self.seed, self.folder, self.log = tcp, seed, folder, log

    def one(self, job):
        kind, n = job
        draw = random.Random(f"{self.seed} {kind} {n}")
        make, right = (TCP if self.tcp else UDP)[kind]
        # Jitter keeps packets in order, and so hides that they took several paths, of which each has the rate.
        rate, jitter = (scale(draw, 30, 100), 0) if "spraying" in kind else (scale(draw, 60, 400), draw.uniform(0, 100))
        path = f"rate={rate:.0f}Mbps,delay={draw.uniform(2, 30):.1f}ms,jitter={jitter:.0f}us,seed={draw.randrange(10**6)}{make(draw)}"
        if self.tcp:
            path += AMPLE
        load = f"--tcp --time 10s --cc {('cubic', 'bbr')[n % 2]}" if self.tcp else f"--udp --rates {min(80, rate * 0.8):.0f}Mbps"
        words = f"{SKYHAUL} probe far --token-file t --diagnose --json {load}".split()
        line = [SKYHAUL, "lab", "run", path, "--far", f"{SKYHAUL} probe serve --token-file t", "--", *words]
        done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=self.folder, timeout=240)
        try:
            report = json.loads(done.stdout)
            said, worst = self.said(report, right)
        except (ValueError, KeyError, TypeError) as error:
            # No report is wrong with full confidence.
            report, said, worst = {"error": f"{error}: {done.stderr[-800:]}"}, "wrong", 1.0
        with open(self.log, "a") as log:
            found = report.get("diagnosis") or report
            found = found[0][0] if isinstance(found, list) else found
            causes = [(cause["cause"], round(cause["confidence"], 2)) for cause in found.get("causes", [])]
            print(json.dumps([kind, n, said, path, load, causes, str(found.get("unknown") or found.get("error") or "")[:300], "FAILED" in done.stderr, report if said == "wrong" else None]), file=log, flush=True)
        if said == "wrong":
            print(f"wrong {worst:.2f}: {kind}: {path} {load}: {causes}", file=sys.stderr, flush=True)
        return kind, said, worst

    def said(self, report, right):
        found = report["diagnosis"]
        found = found[0][0] if self.tcp else found
        accused = {cause["cause"]: cause["confidence"] for cause in found["causes"] if cause["confidence"] > ACCUSED}
        worst = max((sure for cause, sure in accused.items() if cause not in right), default=0.0)
        return ("wrong" if worst else "right" if accused else self.unaccused(report, found)), worst

    def unaccused(self, report, found):
        if found["causes"] or found.get("unexplained") or found.get("unknown") or (found.get("identity") or {}).get("unknown"):
            return "unknown"
        lost = report["points"][0]["here"]["flows"][0]["counts"]["retransmits"] if self.tcp else found["identity"]["lost"]
        return "nothing lost" if self.tcp or not lost else "wrong"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["udp", "tcp"])
    parser.add_argument("runs", nargs="?", type=int, default=20)
    parser.add_argument("kinds", nargs="*", metavar="KIND")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4)))
    parser.add_argument("--labs", type=int, default=1, metavar="L")
    parser.add_argument("--log", type=pathlib.Path, default="/dev/null", metavar="FILE")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "t").write_text("0123456789abcdef0123456789abcdef")
        (folder / "t").chmod(0o600)
        judge = Judge(asked.what == "tcp", asked.seed, folder, asked.log)
        kinds = asked.kinds or list(TCP if judge.tcp else UDP)
        jobs = [(kind, n) for n in range(asked.runs) for kind in kinds]
        jobs += [("clean", n) for n in range(asked.runs, 5 * asked.runs) if "clean" in kinds]
        with concurrent.futures.ThreadPoolExecutor(asked.labs) as labs:
            said = list(labs.map(judge.one, jobs))
    table = collections.Counter((kind, word) for kind, word, _ in said)
    words = ["right", "unknown", "nothing lost", "wrong"]
    print(f"{cpu()} {os.cpu_count()} CPUs, {asked.labs} labs at a time, --seed {asked.seed}\n\n| line | runs | {' | '.join(words)} | worst wrong confidence |")
    print("|---" * 7 + "|")
    for kind in kinds:
        counts = [table[kind, word] for word in words]
        worst = max((worst for of, word, worst in said if (of, word) == (kind, "wrong")), default=0.0)
        print(f"| {kind} | {sum(counts)} | {' | '.join(map(str, counts))} | {f'{worst:.2f}' if worst else ''} |")
    wrong = sum(table[kind, "wrong"] for kind in kinds)
    print(f"\n{wrong} of {len(jobs)} wrong")


main()
