"""How `skyhaul probe` measures, beside iperf3: `python tests/interop/bench_probe.py`, on the loopback of an otherwise idle machine.

Gaps of single packets at 10 us; the highest rate of UDP at which nothing is lost; one flow of TCP. In turns, medians with extremes.
It needs target/release/skyhaul and iperf3.
"""

import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

from machine import cpu

SKYHAUL = pathlib.Path(os.environ.get("SKYHAUL_BIN", pathlib.Path(__file__).resolve().parents[2] / "target/release/skyhaul"))
ROUNDS = 5
UDP_ROUNDS = 2
# Trials of a second until the rate is known to 3 %.
SECONDS = 1
CLOSE = 1.03
PORT = 5299


def told(line):
    done = subprocess.run([str(word) for word in line], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1) and done.stdout, f"{line}: {done.stderr}"
    return json.loads(done.stdout)


def show(values, digits=2):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


class Bench:
    def __init__(self, token):
        self.probe = [SKYHAUL, "probe", "127.0.0.1", "--token-file", token, "--json"]

    def skyhaul_udp(self, size, rate, *mode):
        line = [*self.probe, "--udp", "--sizes", size, "--rates", f"{rate / 1e6:.0f}Mbps", "--time", f"{SECONDS}s", *mode]
        point = told(line)["points"][0]["forward"]
        return point["lost"], point["user_bits_per_second"]

    def iperf3_udp(self, size, rate):
        line = ["iperf3", "-c", "127.0.0.1", "-p", PORT, "-u", "-l", size, "-b", f"{rate:.0f}", "-t", SECONDS, "-J", "-w", "8M"]
        got = told(line)["end"]["sum"]
        lost = got["lost_packets"] / max(got["packets"], 1)
        return got["lost_packets"], got["bits_per_second"] * (1 - lost)

    @staticmethod
    def highest(trial):
        """The highest rate without loss, by halving; a rate that the sender does not reach is its limit."""
        low, high, best = 50e6, 80e9, 0.0
        while high / low > CLOSE:
            rate = (low * high) ** 0.5
            lost, reached = trial(rate)
            if lost:
                high = rate
                continue
            best = max(best, reached)
            if reached < 0.95 * rate:
                high = min(high, rate)
                low = max(low, reached)
                if high / low > 1.2:
                    high = low * 1.2
            else:
                low = rate
        return best / 1e9

    def gaps(self):
        rows = []
        for _ in range(ROUNDS):
            point = told([*self.probe, "--udp", "--sizes", 1472, "--spacing", "10us", "--time", "2s"])["points"][0]
            sent = point["client"]["sent"][0]
            rows.append((sent["gaps_ns"]["mean"] / 1e3, sent["within_fifth"] * 100, sent["gaps_ns"]["p99"] / 1e3))
        mean, within, most = zip(*rows, strict=True)
        print(f"gaps asked 10 us: mean {show(mean, 3)} us, within a fifth {show(within)} %, 99 % below {show(most)} us\n")

    def udp(self):
        print("| UDP, payload | iperf3, Gb/s | trains | single | trains / iperf3 | single / iperf3 |\n|" + "---|" * 6)
        for size in (1472, 8972):
            rates = {"iperf3": [], "trains": [], "single": []}
            for _ in range(UDP_ROUNDS):
                rates["iperf3"].append(self.highest(lambda rate, size=size: self.iperf3_udp(size, rate)))
                trains = ("--mode", "trains", "--train", 64000 // size)
                rates["trains"].append(self.highest(lambda rate, size=size, mode=trains: self.skyhaul_udp(size, rate, *mode)))
                rates["single"].append(self.highest(lambda rate, size=size: self.skyhaul_udp(size, rate, "--mode", "single")))
            ratio = {name: [ours / theirs for ours, theirs in zip(rates[name], rates["iperf3"], strict=True)] for name in ("trains", "single")}
            print(f"| {size} | {show(rates['iperf3'])} | {show(rates['trains'])} | {show(rates['single'])} | "
                  f"{show(ratio['trains'])} | {show(ratio['single'])} |", flush=True)  # fmt: skip

    def tcp(self):
        print("\n| one flow of TCP, cubic | iperf3, Gb/s | skyhaul | ratio | iperf3, CPU s/GB of both ends | skyhaul |\n|" + "---|" * 6)
        for name, theirs, ours in (("1 MiB", [], []), ("without a copy", ["-Z"], ["--zerocopy"])):
            rates, costs = ([], []), ([], [])
            for _ in range(ROUNDS):
                end = told(["iperf3", "-c", "127.0.0.1", "-p", PORT, "-C", "cubic", "-l", "1M", "-t", 3, "-J", *theirs])["end"]
                used = end["cpu_utilization_percent"]
                rates[0].append(end["sum_received"]["bits_per_second"] / 1e9)
                costs[0].append((used["host_total"] + used["remote_total"]) / 100 * 8 / rates[0][-1])
                point = told([*self.probe, "--tcp", "--cc", "cubic", "--write", "1MiB", "--time", "3s", *ours])["points"][0]
                rates[1].append(point["here"]["bits_per_second"] / 1e9)
                costs[1].append(sum(point[end]["cpu_seconds_per_gb"] for end in ("here", "there")))
            ratio = [ours / theirs for ours, theirs in zip(rates[1], rates[0], strict=True)]
            print(f"| {name} | {show(rates[0])} | {show(rates[1])} | {show(ratio)} | {show(costs[0], 3)} | {show(costs[1], 3)} |", flush=True)


if __name__ == "__main__":
    print(cpu(), subprocess.run(["iperf3", "--version"], capture_output=True, text=True, check=True).stdout.split("\n")[0], "\n")
    with tempfile.TemporaryDirectory() as folder:
        token = pathlib.Path(folder, "t")
        token.write_text("0123456789abcdef0123456789abcdef")
        token.chmod(0o600)
        servers = [
            subprocess.Popen([SKYHAUL, "probe", "serve", "--token-file", token, "--listen", "127.0.0.1"], stderr=subprocess.DEVNULL),
            subprocess.Popen(["iperf3", "-s", "-p", str(PORT)], stdout=subprocess.DEVNULL),
        ]
        time.sleep(1)
        try:
            bench = Bench(token)
            bench.gaps()
            bench.udp()
            bench.tcp()
        finally:
            for server in servers:
                server.terminate()
