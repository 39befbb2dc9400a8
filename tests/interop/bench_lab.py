"""What TCP does over paths made in the lab, beside what theory says; and how well the lab keeps what it was told.

`python tests/interop/bench_lab.py tcp`: CUBIC and Reno at round trips of 10, 50 and 150 ms and losses of 0 to 1e-3: the rate beside the
prediction, and the verdict beside what was made. `python tests/interop/bench_lab.py accuracy`: rates and delays of the lab by its log.
`python tests/interop/bench_lab.py copy`: the router on a clean path beside a loop that copies frames between the same sockets.
As root, or where user namespaces are permitted. It needs target/release/skyhaul, and an otherwise idle machine.
"""

import collections
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from machine import cpu

SKYHAUL = pathlib.Path(os.environ.get("SKYHAUL_BIN", pathlib.Path(__file__).resolve().parents[2] / "target/release/skyhaul"))
RATE = 200e6
# A rate that the losses alone would allow within this factor of the path's may be bound by either.
EITHER = 2.0
# Bytes of a segment with a time stamp over IPv6, and its constants: Mathis et al. 1997; RFC 9438, 5.1.
SEGMENT = 1428
RENO, CUBIC = 1.22, 1.054


def theory(congestion, rtt, loss):
    """The rate that the losses allow, bit/s."""
    if not loss:
        return float("inf")
    reno = RENO * SEGMENT * 8 / (rtt * loss**0.5)
    return reno if congestion == "reno" else max(reno, CUBIC * SEGMENT * 8 / (rtt**0.25 * loss**0.75))


def lab(path, far, near, log=None):
    """What the near command printed as JSON, and the lab's report."""
    line = [SKYHAUL, "lab", "run", path, "--json", *(["--log", log] if log else []), "--far", f"{SKYHAUL} {far}"]
    done = subprocess.run([*line, "--", SKYHAUL, *near.split()], capture_output=True, text=True, check=False)
    told = done.stderr.find("{")
    assert told >= 0 and done.stdout, f"{path}: {done.stderr[:2000]}"
    return json.JSONDecoder().raw_decode(done.stderr[told:])[0], json.loads(done.stdout), done.returncode


def tcp(folder):
    right, near, runs = 0, 0, 0
    print(cpu(), "\n\n| congestion control | round trip | loss | predicted, Mb/s | measured | ratio | verdict | |\n|" + "---|" * 8)
    for congestion in ("cubic", "reno"):
        for rtt in (0.010, 0.050, 0.150):
            for loss in (0, 1e-5, 1e-4, 3e-4, 1e-3):
                buffer = int(max(RATE / 8 * rtt, 128 << 10)) >> 10
                path = f"seed=11,rate={RATE / 1e6:.0f}Mbps,buffer={buffer}KiB,delay={rtt * 5e5:.0f}us; fwd: loss={loss}"
                seconds = 12 if rtt < 0.1 else 30
                omit = 2 if rtt < 0.1 else 6
                test = f"probe far --token-file {folder}/t --tcp --windows 32MiB --cc {congestion} --time {seconds}s --omit {omit}s --json"
                report, judged, code = lab(path, f"probe serve --token-file {folder}/t", test)
                flow = report["points"][0]["here"]["flows"][0]
                allowed = theory(congestion, rtt, loss)
                predicted = min(0.95 * RATE, allowed)
                ratio = flow["bits_per_second"] / predicted
                bound = flow["verdict"]["bound"]
                made = {"loss"} if allowed < RATE / EITHER else {"path"} if allowed > RATE * EITHER else {"loss", "path"}
                runs, right, near = runs + 1, right + (bound in made), near + (1 / 3 <= ratio <= 3)
                wrong = "" if bound in made else f"made: {' or '.join(sorted(made))}"
                late = "" if code == 0 else f" the lab was late: {judged['failures']}"
                print(f"| {congestion} | {rtt * 1e3:.0f} ms | {loss:g} | {predicted / 1e6:.1f} | {flow['bits_per_second'] / 1e6:.1f} | "
                      f"{ratio:.2f} | {bound} | {wrong}{late} |", flush=True)  # fmt: skip
    print(f"\nwithin a factor of 3: {near} of {runs}; limiting factor right: {right} of {runs}")


def accuracy(folder):
    print(cpu(), "\n\n| path | sent in the middle of the run, of what was asked | late, median | 99 % | router, of a processor | missed |\n|" + "---|" * 6)
    for rate, delay in (("100Mbps", "10ms"), ("400Mbps", "10ms"), ("1Gbps", "0ms"), ("1Gbps", "15ms")):
        asked = float(rate[:-4]) * {"M": 1e6, "G": 1e9}[rate[-4]]
        log = folder / "log"
        test = f"probe 10.77.0.2 --token-file {folder}/t --udp --sizes 1472 --rates {asked * 1.1 / 1e6:.0f}Mbps --time 4s --train 8 --mode trains --json"
        _, judged, code = lab(f"rate={rate},delay={delay},seed=3", f"probe serve --token-file {folder}/t", test, log)
        spans = collections.Counter()
        with log.open() as lines:
            for line in lines:
                one = json.loads(line)
                # When the path let it go, by its own books: what a wire at this rate would have carried.
                if one["dir"] == "fwd" and one["fate"] == "sent":
                    spans[one["sent"] // 100_000_000] += one["octets"]
        middle = sorted(spans)[5:-10]
        share = statistics.mean(spans[span] * 80 for span in middle) / asked
        late = judged["forward"]["lateness"]
        own = judged["cpu_seconds"] / judged["seconds"]
        print(f"| rate={rate},delay={delay} | {share:.4f} | {late['median_ns'] / 1e3:.0f} us | {late['p99_ns'] / 1e3:.0f} us | {own:.0%} | "
              f"{late['missed']}{'' if code == 0 else ' FAILED'} |", flush=True)  # fmt: skip


def copy(_):
    line = [SKYHAUL, "bench", "lab", "--sizes", "1472,8936", "--rounds", "7", "--json"]
    report = json.loads(subprocess.run([*line], capture_output=True, text=True, check=False).stdout)
    print(cpu(), "\n\n| bytes | bare loop, Gb/s | router | ratio of rates | bare loop, CPU s/GB | router | ratio of CPU |\n|" + "---|" * 7)
    for size in sorted({row["size"] for row in report["rows"]}):
        bare, router = (next(row for row in report["rows"] if (row["size"], row["candidate"]) == (size, name)) for name in ("bare", "skyhaul"))
        figure = lambda spread, unit=1.0: f"{spread['median'] * unit:.2f} ({spread['min'] * unit:.2f}-{spread['max'] * unit:.2f})"
        print(f"| {size} | {figure(bare['bits_per_second'], 1e-9)} | {figure(router['bits_per_second'], 1e-9)} | {figure(router['rate_ratio'])} | "
              f"{figure(bare['receive_cpu'])} | {figure(router['receive_cpu'])} | {figure(router['cpu_ratio'])} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "t").write_text("0123456789abcdef0123456789abcdef")
        (folder / "t").chmod(0o600)
        {"tcp": tcp, "accuracy": accuracy, "copy": copy}[sys.argv[1]](folder)
