"""How fast samples are decoded, beside baseband, in turns: `python tests/interop/bench_decoding.py [DIRECTORY]`.

Three files of 268 MB, made from the samples that baseband ships, with time running on: VDIF of 8 threads of 2 bits, the same with
one frame in a hundred marked invalid, and Mark 5B of 8 channels of 2 bits; in the page cache. And a recording of 10^5 chunks: opened, and one sample read anywhere. And one of
large chunks: its first sample with the checksums of parts, and without them; its frames viewed and copied.
`python tests/interop/bench_decoding.py DIRECTORY large` measures only that.
"""

import json
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

import astropy.units as u
import baseband.data
import numpy as np
from baseband import mark5b, vdif
from machine import cpu

from skyhaul import recording

BYTES = 268_000_000
ROUNDS = 5
SIZES = (20_000, 160_000, 1_600_000)
# Three make a chunk.
PACKETS = 310_000


def vdif_file(path):
    once = np.fromfile(baseband.data.SAMPLE_VDIF, "<u4").reshape(2, 8, -1)
    frames = np.arange(BYTES // once[0].nbytes // 2 * 2)
    words = np.tile(once, (len(frames) // 2, 1, 1))
    words[:, :, 0] += (frames // 1600)[:, None].astype("<u4")
    words[:, :, 1] = words[:, :, 1] & 0xFF000000 | (frames % 1600)[:, None].astype("<u4")
    words.tofile(path)


def lossy_file(path, whole):
    words = np.fromfile(whole, "<u4").reshape(-1, 1258)
    words[np.random.default_rng(1).random(len(words)) < 0.01, 0] |= 1 << 31
    words.tofile(path)


def crc(words):
    """Of the time of Mark 5B headers: 48 bits, polynomial 0x8005."""
    bits = words[:, 2].astype(np.uint64) << np.uint64(16) | words[:, 3].astype(np.uint64) >> np.uint64(16)
    value = np.zeros(len(words), np.uint32)
    for bit in range(47, -1, -1):
        top = value >> 15 & 1 ^ (bits >> np.uint64(bit) & np.uint64(1)).astype(np.uint32)
        value = value << 1 & 0xFFFF ^ top * np.uint32(0x8005)
    return value


def bcd(values, digits):
    return sum(values // 10**digit % 10 << 4 * digit for digit in range(digits)).astype("<u4")


def mark5b_file(path):
    once = np.fromfile(baseband.data.SAMPLE_MARK5B, "<u4").reshape(4, -1)
    words = np.tile(once, (BYTES // once.nbytes, 1))
    frames = np.arange(len(words))
    words[:, 1] = words[:, 1] & 0xFFFF8000 | (frames % 6400).astype("<u4")
    words[:, 2] = once[0, 2] & 0xFFF00000 | bcd(19801 + frames // 6400, 5)
    words[:, 3] = bcd(frames % 6400 * 10_000 // 6400, 4) << 16
    words[:, 3] |= crc(words)
    words.tofile(path)


def rate(read, count, total, width):
    """10^9 elementary samples per second."""
    began = time.perf_counter()
    for _ in range(total // count):
        read(count)
    return total // count * count * width / (time.perf_counter() - began) / 1e9


def ours(scan, count, total):
    at = 0

    def read(count):
        nonlocal at
        samples = scan.streams[0].decoded().read_range(at, count)
        at += count
        return samples

    return rate(read, count, total, 8)


def theirs(opened, count, total):
    with opened() as reader:
        return rate(reader.read, count, total, 8)


def decoding(directory):
    files = directory / "b.vdif", directory / "b.m5b", directory / "lossy.vdif"
    vdif_file(files[0])
    mark5b_file(files[1])
    lossy_file(files[2], files[0])
    of_mark5b = {"sample_rate": 32 * u.MHz, "kday": 56000, "nchan": 8, "bps": 2}
    both = {
        "VDIF": (recording.open(files[0]), lambda: vdif.open(files[0], "rs")),
        "VDIF, 1 % lost": (recording.open(files[2]), lambda: vdif.open(files[2], "rs")),
        "Mark 5B": (recording.open(files[1], channels=8, sample_rate=32_000_000, ref_time="2014-06-01T00:00"),
                    lambda: mark5b.open(files[1], "rs", **of_mark5b)),
    }  # fmt: skip
    print("| format | samples in a read | skyhaul, Gsamples/s | baseband | ratio |\n|---|---|---|---|---|")
    for name, (scan, opened) in both.items():
        for count in SIZES:
            rates = [(ours(scan, count, 32_000_000), theirs(opened, count, 3_200_000)) for _ in range(ROUNDS)]
            ratios = [a / b for a, b in rates]
            mine, his = (statistics.median(column) for column in zip(*rates, strict=True))
            spread = f"{statistics.median(ratios):.1f} ({min(ratios):.1f}-{max(ratios):.1f})"
            print(f"| {name} | {count} | {mine:.2f} | {his:.3f} | {spread} |", flush=True)


def opening(directory):
    command = str(pathlib.Path(sys.executable).parent / "skyhaul")
    disks = [directory / f"d{n}" for n in range(2)]
    words = [command, "record", "--scan", "many", "--chunk", "4KiB", "--sync", "none", "--memory", "256MiB", "--idle", "3s",
             "--listen", "tcp://127.0.0.1:0", "--frame-rate", "2000"]  # fmt: skip
    for disk in disks:
        disk.mkdir()
        words += ["--disk", str(disk)]
    log = directory / "said"
    with log.open("w") as said, subprocess.Popen(words, stderr=said, stdout=subprocess.DEVNULL) as recorder:
        while not (found := re.search(r" from (\S+)", log.read_text())):
            time.sleep(0.1)
        sending = [command, "send", "--pattern", "--payload", "4000", "--packets", str(PACKETS), "--to", found[1],
                   "--rate", "200Mbps"]  # fmt: skip
        subprocess.run(sending, check=True, capture_output=True)
        recorder.wait()
    began = time.perf_counter()
    scan = recording.open(disks, "many", sample_rate=None)
    about = scan.about
    opened = time.perf_counter() - began
    chunks = len(scan.streams[0].decoded().piece_starts())
    chance, first = random.Random(1), []
    for _ in range(200):
        at = chance.randrange(about.samples - 1)
        began = time.perf_counter()
        scan.streams[0].decoded().read_range(at, 1)
        first.append(time.perf_counter() - began)
    print(f"\n{chunks} chunks: opened in {opened:.3f} s; first sample anywhere: median {statistics.median(first) * 1e3:.3f} ms, "
          f"most {max(first) * 1e3:.3f} ms")  # fmt: skip


def crc32c(octets):
    crc = 0xFFFFFFFF
    for octet in octets:
        crc ^= octet
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def without_parts(index):
    """The same index, as a recorder writes it that knows of no parts."""
    records = [json.loads(line[9:]) for line in index.decode().splitlines()]
    texts = [json.dumps({key: value for key, value in one.items() if key not in ("parts", "part_bytes")}) for one in records]
    return "".join(f"{crc32c(text.encode()):08x} {text}\n" for text in texts)


def spread(values, unit):
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f}) {unit}"


def recorded(directory, name, chunk, packets):
    command = str(pathlib.Path(sys.executable).parent / "skyhaul")
    disk = directory / name
    disk.mkdir()
    words = [command, "record", "--scan", "large", "--chunk", chunk, "--memory", "2GiB", "--idle", "3s", "--disk", str(disk),
             "--listen", "tcp://127.0.0.1:0", "--frame-rate", "16000"]  # fmt: skip
    log = directory / f"{name}.said"
    with log.open("w") as said, subprocess.Popen(words, stderr=said, stdout=subprocess.DEVNULL) as recorder:
        while not (found := re.search(r" from (\S+)", log.read_text())):
            time.sleep(0.1)
        sending = [command, "send", "--pattern", "--payload", "8000", "--packets", str(packets), "--to", found[1], "--rate", "4Gbps"]
        subprocess.run(sending, check=True, capture_output=True)
        recorder.wait()
    return disk


def large(directory):
    """First samples of chunks of 256 MiB, in turns: each in a scan that was just opened, so that nothing is verified yet."""
    disk = recorded(directory, "large", "256MiB", 130_000)
    whole = directory / "whole"
    (whole / "large").mkdir(parents=True)
    for path in (disk / "large").iterdir():
        if path.suffix == ".index":
            (whole / "large" / path.name).write_text(without_parts(path.read_bytes()))
        else:
            (whole / "large" / path.name).hardlink_to(path)
    for path in (disk / "large").iterdir():
        path.read_bytes()
    chance, found = random.Random(1), {disk: [], whole: []}
    for _ in range(41):
        for place, times in found.items():
            samples = recording.open(place, "large").streams[0].decoded()
            at = chance.randrange(samples.about.samples - 1)
            began = time.perf_counter()
            read = samples.read_range(at, 1, missing="raise")
            times.append((time.perf_counter() - began) * 1e3)
            assert read.size
    print(f"\nfirst sample of a chunk of 256 MiB: by parts {spread(found[disk], 'ms')}, as a whole {spread(found[whole], 'ms')}")

    disk = recorded(directory, "views", "64MiB", 130_000)
    viewed, copied = [], []
    for _ in range(9):
        for costs, take in ((viewed, lambda chunk: chunk.frames), (copied, lambda chunk: np.frombuffer(bytes(chunk.data), np.uint8))):
            began, total = time.process_time(), 0
            for chunk in recording.open(disk, "large").streams[0].chunks():
                total += take(chunk).nbytes
            costs.append((time.process_time() - began) / total * 1e9)
    print(f"frames of chunks of 64 MiB: viewed {spread(viewed, 'CPU s/GB')}, copied {spread(copied, 'CPU s/GB')}")


def main():
    warnings.simplefilter("ignore")
    parent = sys.argv[1] if len(sys.argv) > 1 else None
    directory = pathlib.Path(tempfile.mkdtemp(prefix="skyhaul-bench-", dir=parent))
    try:
        print(cpu(), "\n")
        if sys.argv[2:] != ["large"]:
            decoding(directory)
            opening(directory)
        large(directory)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
