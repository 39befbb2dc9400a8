"""RDMA Writes that `skyhaul.rdma` takes in Python, beside `skyhaul rdma serve`, in turns: rates and CPU with one sender for both.

    python tests/interop/bench_rdma.py [--skyhaul skyhaul] [--python PYTHON] [--messages 64KiB,1MiB] [--rounds 5]
                                       [--rate max] [--bytes 4GiB] [--packet 8972] [--immediate]

`skyhaul rdma write --pattern` sends from one CPU; the receiver runs on another with all of its threads. Both receivers place with their own
thread (tier `stage`) and count messages; the Python one takes each message from its queue, as a program would. The rate is that of the sender;
a run that lost anything is listed, and in no figure. CPU seconds are those of the receiver's whole process, from the first message to the
last in Python and of the serving thread in the command, for each GB that was placed; ratios are those of runs of one round.
"""

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import time

SIZES = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
#: Bytes of the region and of the socket's buffer.
REGION, BUFFER = 64 << 20, 64 << 20
#: Seconds for a receiver to listen, and to end after its peer.
PATIENCE = 30
GOAL = 1.05


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--skyhaul", default="skyhaul", help="the command that sends, and serves")
    parser.add_argument("--python", default=sys.executable, help="a Python with Skyhaul's package")
    parser.add_argument("--messages", default="64KiB,1MiB")
    parser.add_argument("--bytes", type=size, default="4GiB", help="bytes of a run")
    parser.add_argument("--rate", default="max", help="of datagrams, such as 8Gbps; max: as fast as the sender goes")
    parser.add_argument("--packet", type=int, default=8972)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cpus", default="0,1", help="CPUs of sender and receiver")
    parser.add_argument("--immediate", action="store_true", help="each message has immediate data, which wake the receiver")
    parser.add_argument("--receive", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.receive:
        return receive()
    sys.exit(compare(given))


def size(text):
    number, unit = re.fullmatch(r"(\d+)(\w*)", text).groups()
    return int(number) * SIZES[unit]


def compare(given):
    """All sizes, round by round; 1 if a run failed."""
    failed = 0
    for message in given.messages.split(","):
        rates, costs, sleeps = ({"rust": [], "python": []} for _ in range(3))
        by_round = []
        for turn in range(given.rounds):
            # Each begins every other round.
            order = ["rust", "python"][:: 1 if turn % 2 == 0 else -1]
            kept = {}
            for name in order:
                run = one(given, name, size(message))
                if run["lost"]:
                    print(f"{message}, round {turn + 1}, {name}: {run['lost']} messages lost or incomplete", flush=True)
                    continue
                kept[name] = run
                rates[name].append(run["rate"] / 1e9)
                costs[name].append(run["cpu"])
                sleeps[name].append(run["sleeps"])
            if len(kept) == 2:
                by_round.append([kept["python"][key] / kept["rust"][key] for key in ("rate", "cpu")])
        for name in rates:
            print(f"{message:>7}  {name:6}  {spread(rates[name])} Gb/s  {spread(costs[name], 3)} s/GB  {spread(sleeps[name], 0)} sleeps", flush=True)
        if not by_round:
            print(f"{message:>7}  no round without loss")
            failed = 1
            continue
        rate, cpu = (spread([pair[at] for pair in by_round]) for at in (0, 1))
        behind = statistics.median(1 / pair[0] for pair in by_round)
        verdict = "within 5 %" if behind <= GOAL else "not within 5 %"
        print(f"{message:>7}  python : rust  rate {rate}, {verdict}; CPU {cpu}; {len(by_round)} rounds", flush=True)
    return failed


def spread(values, digits=2):
    if not values:
        return "-"
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def one(given, name, message):
    """One run: its rate, the receiver's CPU seconds for a GB, and what was lost."""
    sending, receiving = given.cpus.split(",")
    region = f"bench:{REGION}B:write"
    if name == "python":
        words = [given.python, __file__, "--receive"]
    else:
        listen = f"rdma+udp://127.0.0.1:0?rcvbuf={BUFFER >> 20}MiB"
        words = [given.skyhaul, "rdma", "serve", "--listen", listen, "--region", region, "--connections", "1", "--json"]
    receiver = subprocess.Popen(["taskset", "-c", receiving, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        # The command writes its address to its standard error, the other to its output.
        line = (receiver.stdout if name == "python" else receiver.stderr).readline()
        address = re.search(r"rdma\+udp://\S+", line)
        if not address:
            raise RuntimeError(f"{name} does not listen: {line}{receiver.stderr.read()}")
        messages = max(given.bytes // message, 1)
        words = [given.skyhaul, "rdma", "write", address[0], "--pattern", "--message", f"{message}B"]
        words += ["--messages", str(messages), "--rate", given.rate, "--packet", str(given.packet), "--json"]
        words += ["--imm"] if given.immediate else []
        sent = subprocess.run(["taskset", "-c", sending, *words], check=True, capture_output=True, text=True, timeout=600)
        sent = json.loads(sent.stdout)
        output, errors = receiver.communicate(timeout=PATIENCE)
        if receiver.returncode:
            raise RuntimeError(f"{name} has failed: {errors}")
        told = json.loads(output)
    finally:
        receiver.kill()
        receiver.wait()
    lost = messages - told["complete"] + told.get("not_taken", 0)
    gigabytes = sent["bytes"] / 1e9
    return {"rate": sent["bits_per_second"], "cpu": told["cpu_seconds"] / gigabytes, "sleeps": told["voluntary_switches"], "lost": lost}


def receive():
    """Serve one connection, take its messages, and print what they have cost."""
    from skyhaul import rdma

    with rdma.Server("127.0.0.1:0", f"bench:{REGION}B:write", connections=1, buffer=BUFFER) as server:
        print(f"{server.address}/bench", flush=True)
        taken, began, before = 0, None, None
        for message in server:
            if began is None:
                began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
            taken += isinstance(message, rdma.Written) and message.complete
        cpu = time.process_time() - (began or 0.0)
        sleeps = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - (before or 0)
        report = server.report()
    told = {"complete": taken, "not_taken": report["not_queued"], "cpu_seconds": cpu, "voluntary_switches": sleeps}
    print(json.dumps(told), flush=True)
    # Without waiting for threads of a library.
    os._exit(0)


if __name__ == "__main__":
    main()
