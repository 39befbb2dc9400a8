"""`skyhaul disk` and `skyhaul copy` beside fio and iperf3: `python tests/interop/bench_disks.py DIRECTORY`, on an otherwise idle machine.

Writing and reading 2 GiB past the page cache, in turns; then a copy of it from and to that directory over the loopback, beside what the disk
does when it is read and written at once, and what TCP carries. Medians with extremes. It needs target/release/skyhaul, fio and
iperf3, and 6 GiB of room.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from bench_probe import PORT, SKYHAUL, show, told
from machine import cpu

ROUNDS = 5
SIZE = 2 << 30


def fio(path, way, *more):
    line = ["fio", f"--filename={path}", f"--rw={way}", "--name=x", "--bs=1M", "--iodepth=16", "--ioengine=io_uring", "--direct=1",
            f"--size={SIZE}", "--output-format=json", *more]  # fmt: skip
    # A new file, as `skyhaul disk` writes one: what has been written before is 1.3 times as quick to write again.
    if way == "write":
        path.unlink(missing_ok=True)
    job = told(line)["jobs"][0]
    side, spent = job[way], job["job_runtime"] / 1e3
    return side["bw_bytes"] * 8 / 1e9, (job["usr_cpu"] + job["sys_cpu"]) / 100 * spent / (SIZE / 1e9)


def disk(folder, way):
    line = [SKYHAUL, "disk", folder, f"--{way}", "--sizes", "2GiB", "--blocks", "1MiB", "--depths", "16", "--fio-json", "--quiet"]
    job = told(line)["jobs"][0]
    side, spent = job[way], job["job_runtime"] / 1e3
    return side["bw_bytes"] * 8 / 1e9, (job["usr_cpu"] + job["sys_cpu"]) / 100 * spent / (side["io_bytes"] / 1e9)


def disks(folder):
    print("| | fio, Gb/s | skyhaul | ratio | fio, CPU s/GB | skyhaul |\n|" + "---|" * 6)
    for way, more in (("write", ["--end_fsync=1"]), ("read", [])):
        theirs, ours = [], []
        for _ in range(ROUNDS):
            theirs.append(fio(folder / "fio", way, *more))
            ours.append(disk(folder, way))
        ratio = [our[0] / their[0] for our, their in zip(ours, theirs, strict=True)]
        cells = [show([one[0] for one in theirs]), show([one[0] for one in ours]), show(ratio)]
        cells += [show([one[1] for one in theirs], 3), show([one[1] for one in ours], 3)]
        print(f"| {way} | {' | '.join(cells)} |", flush=True)


def both(folder):
    """Read one file and write another at once: the slower of the two."""
    line = ["fio", "--name=w", f"--filename={folder}/other", "--rw=write", "--bs=1M", "--iodepth=16", "--ioengine=io_uring", "--direct=1",
            f"--size={SIZE}", "--end_fsync=1", "--output-format=json"]  # fmt: skip
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as writer:
        read = fio(folder / "fio", "read")[0]
        written = json.loads(writer.communicate()[0])["jobs"][0]["write"]["bw_bytes"] * 8 / 1e9
    (folder / "other").unlink()
    return min(read, written)


def copy(folder, token):
    (folder / "to").mkdir()
    line = [SKYHAUL, "copy", folder / "fio", f"127.0.0.1:{folder}/to", "--token-file", token, "--port", "14391", "--plan", "--json", "--quiet"]
    report = told(line)
    shutil.rmtree(folder / "to")
    return report["plan"]["measured_bits_per_second"] / 1e9, report["plan"]["ratio"]


def copies(folder, token):
    rows = {"fio read": [], "fio write": [], "both at once": [], "TCP": [], "copy": [], "of prediction": []}
    for _ in range(ROUNDS):
        rows["fio read"].append(fio(folder / "fio", "read")[0])
        rows["fio write"].append(fio(folder / "fio", "write", "--end_fsync=1")[0])
        rows["both at once"].append(both(folder))
        sent = told(["iperf3", "-c", "127.0.0.1", "-p", PORT, "-C", "cubic", "-l", "1M", "-P", 4, "-t", 2, "-J"])
        rows["TCP"].append(sent["end"]["sum_received"]["bits_per_second"] / 1e9)
        rate, ratio = copy(folder, token)
        rows["copy"].append(rate)
        rows["of prediction"].append(ratio)
    print("\n| " + " | ".join(rows) + " |\n|" + "---|" * len(rows) + "\n| " + " | ".join(map(show, rows.values())) + " |")


if __name__ == "__main__":
    print(cpu(), subprocess.run(["fio", "--version"], capture_output=True, text=True, check=True).stdout, "\n")
    with tempfile.TemporaryDirectory(dir=sys.argv[1]) as name:
        folder = pathlib.Path(name)
        token = folder / "t"
        token.write_text("0123456789abcdef0123456789abcdef")
        token.chmod(0o600)
        servers = [
            subprocess.Popen([SKYHAUL, "copy", "serve", "--root", folder, "--token-file", token, "--listen", "127.0.0.1:14391"], stderr=subprocess.DEVNULL),
            subprocess.Popen(["iperf3", "-s", "-p", str(PORT)], stdout=subprocess.DEVNULL),
        ]  # fmt: skip
        time.sleep(1)
        try:
            disks(folder)
            copies(folder, token)
        finally:
            for server in servers:
                server.terminate()
