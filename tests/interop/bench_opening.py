"""How often streams that were opened at once lose packets, and how long their heaps take.

    .venv/bin/python tests/interop/bench_opening.py [--runs 1000] [--peer] [--buffer BYTES]

A run opens four streams on sockets of the usual size and sends each a heap of 160 kB at 10 MB/s, as spead2's own
test_group_modes does: their readers begin while memory for all of them is touched. `--peer`: the same with spead2.
"""

import argparse
import importlib
import socket
import sys
import threading
import time

import numpy as np

STREAMS, VALUES, RATE = 4, 20000, 10e6
#: Seconds after which a stream is ended whose stop item was lost.
PATIENCE = 1.0


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--peer", action="store_true", help="spead2 instead of skyhaul.spead2")
    parser.add_argument("--buffer", type=int, help="socket buffer, in bytes; else net.core.rmem_default")
    given = parser.parse_args()
    name = "spead2" if given.peer else "skyhaul.spead2"
    spead2, _, _ = (importlib.import_module(name + part) for part in ("", ".recv", ".send"))
    begun, lost = time.monotonic(), 0
    for done in range(given.runs):
        lost += run(spead2, given.buffer) < STREAMS
        if sys.stderr.isatty():
            print(f"\r{done + 1} of {given.runs}, {lost} with loss", end="", file=sys.stderr)
    each = (time.monotonic() - begun) / given.runs
    if sys.stderr.isatty():
        print(file=sys.stderr)
    cpu = time.process_time() / given.runs
    print(f"{name}: {lost} of {given.runs} runs lost packets; {each * 1e3:.1f} ms each, {cpu * 1e3:.1f} of CPU")


def run(spead2, buffer):
    """The number of heaps that arrived."""
    streams = [spead2.recv.Stream(spead2.ThreadPool()) for _ in range(STREAMS)]
    ends = [listen(stream, buffer) for stream in streams]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        sender = spead2.send.UdpStream(spead2.ThreadPool(), out, ends, spead2.send.StreamConfig(rate=RATE))
    generators = [generator(spead2) for _ in ends]
    heaps = [spead2.send.HeapReference(one.get_heap(), substream_index=at) for at, one in enumerate(generators)]
    sender.send_heaps(heaps, spead2.send.GroupMode.SERIAL)
    for at, one in enumerate(generators):
        sender.send_heap(one.get_end(), substream_index=at)
    patience = threading.Timer(PATIENCE, lambda: [stream.stop() for stream in streams])
    patience.start()
    arrived = sum(sum(1 for _ in stream) for stream in streams)
    patience.cancel()
    return arrived


def listen(stream, buffer):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as into:
        if buffer:
            into.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        into.bind(("127.0.0.1", 0))
        stream.add_udp_reader(socket=into)
        return into.getsockname()


def generator(spead2):
    group = spead2.send.ItemGroup()
    value = np.zeros(VALUES, np.uint64)
    group.add_item(id=0x2345, name="array", description="zeros", shape=value.shape, dtype=value.dtype, value=value)
    return spead2.send.HeapGenerator(group)


if __name__ == "__main__":
    main()
