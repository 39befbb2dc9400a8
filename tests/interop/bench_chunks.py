"""CPU of Python programs that receive SPEAD heaps in chunks, in turns: spead2's wheel, `skyhaul.spead2`, `skyhaul.spead`.

    python tests/interop/bench_chunks.py --sender skyhaul [--peer PYTHON] [--heaps 8KiB,64KiB,1MiB] [--rounds 5]
                                         [--ours NAME=PYTHON] ...

`skyhaul send` sends in full trains from one processor; a receiver runs on another with all of its threads. A compiled
function (numba) places heaps by their counter. `--peer` is a Python with spead2's wheel, `--ours` one with Skyhaul's (both:
this one), and numba and scipy in both. The CPU seconds of a receiver are those of its whole process, from the first chunk that
it takes to the last, for each GB of the chunks between; the memory of chunks is touched before. If heaps were lost, their
number in all rounds is behind the figures.
"""

import argparse
import json
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import time

PORT = 46510
#: Bytes of a socket's buffer and of packets.
BUFFER, PACKET = 64 << 20, 8972
SO_RCVBUFFORCE = 33
SIZES = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sender", default="skyhaul", help="the command skyhaul that sends")
    parser.add_argument("--peer", default=sys.executable, help="a Python with spead2's wheel and numba")
    parser.add_argument("--ours", action="append", help="NAME=PYTHON, with Skyhaul's wheel and numba")
    parser.add_argument("--apis", default="wheel,spead2,spead")
    parser.add_argument("--heaps", default="8KiB,64KiB,1MiB")
    parser.add_argument("--chunk", type=size, default="8MiB", help="bytes of a chunk")
    parser.add_argument("--chunks", type=int, default=8, help="chunks that circulate")
    parser.add_argument("--bytes", type=size, default="2GiB", help="bytes of a round")
    parser.add_argument("--rate", default="8Gbps")
    parser.add_argument("--packet", type=int, default=PACKET)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cpus", default="0,1", help="processors of sender and receiver")
    parser.add_argument("--receive", nargs=2, metavar=("API", "HEAP"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.receive:
        return receive(given.receive[0], size(given.receive[1]), given.chunk, given.chunks, given.bytes)
    compare(given)


def size(text):
    number, unit = re.fullmatch(r"(\d+)(\w*)", text).groups()
    return int(number) * SIZES.get(unit, 1)


def compare(given):
    """All candidates, round by round."""
    candidates = []
    for api in given.apis.split(","):
        if api == "wheel":
            candidates.append((api, api, given.peer))
        else:
            ours = [one.split("=", 1) for one in given.ours or [f"={sys.executable}"]]
            candidates += [(f"skyhaul.{api} {name}".strip(), api, python) for name, python in ours]
    print(f"{processor()}; heaps {given.heaps}, packets of {given.packet}, {given.rate}, chunks of {given.chunk >> 20} MiB")
    for heap in map(size, given.heaps.split(",")):
        costs = {name: [] for name, *_ in candidates}
        lost = dict.fromkeys(costs, 0)
        for _ in range(given.rounds):
            for name, api, python in candidates:
                result = one(given, api, python, heap)
                costs[name].append(result["cpu"] / result["bytes"] * 1e9)
                lost[name] += result["lost"]
        base = statistics.median(costs[candidates[0][0]])
        for name, all in costs.items():
            median = statistics.median(all)
            note = f", {lost[name]} heaps lost" if lost[name] else ""
            print(
                f"{heap >> 10:6d} KiB  {name:24} {median:.4f} s/GB ({min(all):.4f}-{max(all):.4f})  {median / base:.2f} x{note}",
                flush=True,
            )


def one(given, api, python, heap):
    """A stream to a new process."""
    sending, receiving = given.cpus.split(",")
    words = ["--chunk", str(given.chunk), "--chunks", str(given.chunks), "--bytes", str(given.bytes)]
    words = [python, __file__, "--receive", api, str(heap), *words]
    receiver = subprocess.Popen(["taskset", "-c", receiving, *words], stdout=subprocess.PIPE, text=True)
    assert receiver.stdout.readline() == "ready\n"
    words = ["taskset", "-c", sending, given.sender, "send", "--format", "spead", "--full-packets", "--bare", "-q"]
    words += ["--to", f"udp://127.0.0.1:{PORT}", "--heap-size", str(heap), "--packet", str(given.packet)]
    # A last heap each for two later chunks, as chunks stay open until a heap moves the window past them.
    per, count = given.chunk // heap, given.bytes // heap
    for first, heaps, rate in ((0, count, given.rate), (count + 2 * per, 1, "1Gbps"), (count + 4 * per, 1, "1Gbps")):
        part = ["--first-heap", str(first), "--heaps", str(heaps), "--rate", rate]
        subprocess.run([*words, *part], check=True, capture_output=True)
        # The socket's buffer may still be full.
        time.sleep(0.3)
    return json.loads(receiver.communicate(timeout=60)[0])


def processor():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    name, family, model = (re.search(rf"^{key}\s*: (.*)$", text, re.M)[1] for key in ("model name", "cpu family", "model"))
    return f"{name}, family {family} model {model}"


def receive(api, heap, chunk_bytes, chunks, total):
    """Take the chunks of a stream, and print what they have cost."""
    import numpy as np

    per = chunk_bytes // heap
    begin = {"wheel": spead2_api, "spead2": spead2_api, "spead": spead_api}[api]
    taken, give_back = begin(api, heap, per, chunk_bytes, chunks)
    print("ready", flush=True)
    # What a program sees of a chunk: its marks.
    cpu, heaps, counted, started = 0.0, 0, 0, None
    last = total // chunk_bytes - 1
    for number, chunk in taken:
        present = int(np.count_nonzero(chunk.present))
        heaps += present
        if started is None:
            started = time.process_time()
        else:
            counted += present * heap
            cpu = time.process_time() - started
        if number >= last:
            break
        give_back(chunk)
    print(json.dumps({"cpu": cpu, "bytes": counted, "lost": (last + 1) * per - heaps}))
    sys.stdout.flush()
    # Without waiting for a stream that does not end.
    os._exit(0)


def place_function(record, intp_to_voidptr, per, heap):
    """Consecutive heaps, side by side."""
    import numba
    import numpy as np
    from numba import types

    @numba.cfunc(types.void(types.CPointer(record), types.uintp), nopython=True)
    def place(pointer, _):
        data = numba.carray(pointer, 1)
        items = numba.carray(intp_to_voidptr(data[0].items), 1, dtype=np.int64)
        number = items[0]
        data[0].chunk_id = number // per
        data[0].heap_index = number % per
        data[0].heap_offset = number % per * heap

    return place


def spead2_api(api, heap, per, chunk_bytes, chunks):
    import importlib

    import numpy as np
    import scipy

    name = "spead2" if api == "wheel" else "skyhaul.spead2"
    spead2, recv, of_numba, tools = (importlib.import_module(name + part) for part in ("", ".recv", ".recv.numba", ".numba"))
    function = place_function(of_numba.chunk_place_data, tools.intp_to_voidptr, per, heap)
    place = scipy.LowLevelCallable(function.ctypes, signature="void (void *, size_t)")
    data, free = recv.ChunkRingbuffer(chunks), recv.ChunkRingbuffer(chunks)
    stream = recv.ChunkRingStream(
        spead2.ThreadPool(),
        recv.StreamConfig(max_heaps=16),
        recv.ChunkStreamConfig(items=[spead2.HEAP_CNT_ID], max_chunks=2, place=place),
        data,
        free,
    )
    for _ in range(chunks):
        stream.add_free_chunk(recv.Chunk(data=np.full(chunk_bytes, 1, np.uint8), present=np.zeros(per, np.uint8)))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
        bound.bind(("127.0.0.1", PORT))
        stream.add_udp_reader(bound, max_size=PACKET)
    return ((chunk.chunk_id, chunk) for chunk in data), stream.add_free_chunk


def spead_api(_, heap, per, chunk_bytes, chunks):
    import numpy as np

    from skyhaul.spead import numba as of_numba
    from skyhaul.spead import recv

    place = place_function(of_numba.place_data, of_numba.intp_to_voidptr, per, heap)
    stream = recv.ChunkStream(place=place, items=[1], max_chunks=2)
    for _ in range(chunks):
        stream.add_free(recv.Chunk(np.full(chunk_bytes, 1, np.uint8), heaps=per))
    stream.add_udp(f"127.0.0.1:{PORT}", buffer=BUFFER)
    return ((chunk.id, chunk) for chunk in stream), stream.add_free


if __name__ == "__main__":
    main()
