"""How `skyhaul probe` measures, beside iperf3, udpmon and bare loops: `python tests/interop/bench_probe.py [PART ...]`, on the loopback of
an otherwise idle machine.

| part | | takes |
|---|---|---|
| `gaps` | gaps of single packets at 10 us, beside udpmon's | 1 min |
| `sweep` | 10 sizes x 40 spacings | 1 min |
| `udp` | the highest rate at which nothing is lost, beside iperf3 and the bare loops of `skyhaul bench` | 15 min |
| `tcp` | one flow | 2 min |

In turns, medians with extremes; without a part, all. It needs target/release/skyhaul and iperf3; for the gaps of udpmon a
directory with its programs (UDPMON=DIRECTORY), and dumpcap as root.
"""

import json
import os
import pathlib
import signal
import statistics
import struct
import subprocess
import sys
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


def stamps(path):
    """Times of the packets of a capture (pcapng), in us."""
    octets, at, times, unit = path.read_bytes(), 0, [], 1.0
    while at + 12 <= len(octets):
        kind, length = struct.unpack_from("<II", octets, at)
        if kind == 1:
            option = at + 16
            while option + 4 < at + length:
                code, size = struct.unpack_from("<HH", octets, option)
                if code in (0, 9):
                    unit = 10.0 ** (6 - octets[option + 4]) if code else unit
                    break
                option += 4 + (size + 3) // 4 * 4
        elif kind == 6:
            _, high, low, _, wire = struct.unpack_from("<5I", octets, at + 8)
            if wire > 1472:
                times.append((high << 32 | low) * unit)
        at += length
    return times


def captured(line):
    """Gaps as the kernel saw them: their mean, and the percentage within a fifth of 10 us."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "c.pcapng")
        with subprocess.Popen(["dumpcap", "-q", "-i", "lo", "-s", "60", "-B", "64", "-f", "udp and greater 1400", "-w", path], stderr=subprocess.DEVNULL) as capture:
            time.sleep(1)
            subprocess.run([str(word) for word in line], capture_output=True, check=False)
            time.sleep(0.5)
            capture.send_signal(signal.SIGINT)
        times = stamps(path)
    # What lies between runs is none of them.
    gaps = [later - one for one, later in zip(times, times[1:], strict=False) if later - one < 100_000]
    return statistics.mean(gaps), 100 * sum(abs(gap - 10) <= 2 for gap in gaps) / len(gaps)


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

    def probe_gaps(self):
        return [*self.probe, "--udp", "--sizes", 1472, "--spacing", "10us", "--time", "2s"]

    def gaps(self):
        rows, ours, theirs = [], [], []
        udpmon = os.environ.get("UDPMON")
        for _ in range(ROUNDS):
            sent = told(self.probe_gaps())["points"][0]["client"]["sent"][0]
            rows.append((sent["gaps_ns"]["mean"] / 1e3, sent["within_fifth"] * 100, sent["gaps_ns"]["p99"] / 1e3))
            if udpmon:
                ours.append(captured(self.probe_gaps()))
                theirs.append(captured([f"{udpmon}/udpmon_bw_mon", *"-d 127.0.0.1 -p 1472 -l 200000 -w 10 -e 10 -i 1 -u 14233".split()]))
        mean, within, most = zip(*rows, strict=True)
        print(f"gaps asked 10 us: mean {show(mean, 3)} us, within a fifth {show(within)} %, 99 % below {show(most)} us")
        for name, gaps in (("skyhaul", ours), ("udpmon", theirs)):
            if gaps:
                mean, within = zip(*gaps, strict=True)
                print(f"the same, captured, {name}: mean {show(mean, 3)} us, within a fifth {show(within)} %")
        print()

    def sweep(self):
        begun = time.monotonic()
        report = told([*self.probe, "--udp", "--sizes", "64..8972", "--spacing", "0us..40us"])
        print(f"{len(report['points'])} points in {time.monotonic() - begun:.1f} s\n")

    @staticmethod
    def bare(size, *more):
        line = [SKYHAUL, "bench", "receive", "--search", "--candidates", "bare", "--sizes", size, "--time", "1s", "--rounds", 1, "--json", *more]
        return told(line)["rows"][0]["bits_per_second"]["median"] / 1e9

    def udp(self):
        names = ("iperf3", "bare, trains", "trains", "bare, single", "single")
        print("| UDP, payload | " + " | ".join(names) + " | trains / iperf3 | trains / bare | single / iperf3 | single / bare |\n|" + "---|" * 10)
        for size in (1472, 8972):
            rates = {name: [] for name in names}
            for _ in range(UDP_ROUNDS):
                rates["iperf3"].append(self.highest(lambda rate, size=size: self.iperf3_udp(size, rate)))
                rates["bare, trains"].append(self.bare(size))
                trains = ("--mode", "trains", "--train", 64000 // size)
                rates["trains"].append(self.highest(lambda rate, size=size, mode=trains: self.skyhaul_udp(size, rate, *mode)))
                rates["bare, single"].append(self.bare(size, "--no-gso"))
                rates["single"].append(self.highest(lambda rate, size=size: self.skyhaul_udp(size, rate, "--mode", "single")))
            pairs = (("trains", "iperf3"), ("trains", "bare, trains"), ("single", "iperf3"), ("single", "bare, single"))
            ratios = [show([our / their for our, their in zip(rates[ours], rates[theirs], strict=True)]) for ours, theirs in pairs]
            print(f"| {size} | {' | '.join(show(rates[name]) for name in names)} | {' | '.join(ratios)} |", flush=True)

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
        if "UDPMON" in os.environ:
            servers.append(subprocess.Popen([f"{os.environ['UDPMON']}/udpmon_resp", "-u", "14233"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        time.sleep(1)
        try:
            bench = Bench(token)
            for part in sys.argv[1:] or ("gaps", "sweep", "udp", "tcp"):
                getattr(bench, part)()
        finally:
            for server in servers:
                server.terminate()
            for server in servers:
                server.wait(timeout=20)
