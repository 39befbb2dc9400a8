"""CPU of Python programs that receive SPEAD heaps, in chunks or one by one, in turns: spead2's wheel, `skyhaul.spead2`, `skyhaul.spead`.

    python tests/interop/bench_chunks.py --sender skyhaul [--peer PYTHON] [--heaps 8KiB,64KiB,1MiB] [--rounds 5]
                                         [--ours NAME=PYTHON] ...

`skyhaul send` sends in full trains from one processor; a receiver runs on another with all of its threads. A compiled
function (numba) places heaps by their counter. `--peer` is a Python with spead2's wheel, `--ours` one with Skyhaul's (both:
this one), and numba and scipy in both. `--apis` names who receives: `wheel`, `spead2` and `spead` in chunks, `wheel-heaps` and `spead-heaps`
one by one; with `+bpf` behind it the kernel places the payloads, which needs CAP_BPF (`spead+bpf`). The sender's CPU seconds, in which
loopback has its interrupts, are given, too, with the fraction of all seconds. The CPU seconds of a receiver are those of its whole process, from the first chunk that
it takes to the last, for each GB of the chunks between; the memory of chunks is touched before, and one by one the first eighth of the heaps is left out. If heaps were lost, their
number in all rounds is behind the figures.
"""

import argparse
import functools
import json
import os
import pathlib
import re
import resource
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
        if api.startswith("wheel"):
            candidates.append((api, api, given.peer))
        else:
            ours = [one.split("=", 1) for one in given.ours or [f"={sys.executable}"]]
            candidates += [(f"skyhaul.{api} {name}".strip(), api, python) for name, python in ours]
    print(f"{processor()}; heaps {given.heaps}, packets of {given.packet}, {given.rate}, chunks of {given.chunk >> 20} MiB")
    for heap in map(size, given.heaps.split(",")):
        costs, sending = ({name: [] for name, *_ in candidates} for _ in range(2))
        lost = dict.fromkeys(costs, 0)
        for _ in range(given.rounds):
            for name, api, python in candidates:
                result = one(given, api, python, heap)
                costs[name].append(result["cpu"] / result["bytes"] * 1e9)
                sending[name].append(result["sent"] / given.bytes * 1e9)
                lost[name] += result["lost"]
        first = candidates[0][0]
        base, both = (statistics.median(values[first]) for values in (costs, sums(costs, sending)))
        for name, all in costs.items():
            median, send = statistics.median(all), sending[name]
            total = statistics.median(sums(costs, sending)[name])
            note = f", {lost[name]} heaps lost" if lost[name] else ""
            print(
                f"{heap >> 10:6d} KiB  {name:24} {median:.4f} s/GB ({min(all):.4f}-{max(all):.4f})  {median / base:.2f} x"
                f"  sender {statistics.median(send):.4f} ({min(send):.4f}-{max(send):.4f}), both {total / both:.2f} x{note}",
                flush=True,
            )


def sums(costs, sending):
    return {name: [sum(pair) for pair in zip(costs[name], sending[name], strict=True)] for name in costs}


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
    per, count, sent = given.chunk // heap, given.bytes // heap, 0.0
    for first, heaps, rate in ((0, count, given.rate), (count + 2 * per, 1, "1Gbps"), (count + 4 * per, 1, "1Gbps")):
        part = ["--first-heap", str(first), "--heaps", str(heaps), "--rate", rate]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*words, *part], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        sent += after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        # The socket's buffer may still be full.
        time.sleep(0.3)
    return json.loads(receiver.communicate(timeout=60)[0]) | {"sent": sent}


def processor():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    name, family, model = (re.search(rf"^{key}\s*: (.*)$", text, re.M)[1] for key in ("model name", "cpu family", "model"))
    return f"{name}, family {family} model {model}"


def receive(api, heap, chunk_bytes, chunks, total):
    """Take the chunks of a stream, and print what they have cost."""
    import numpy as np

    api, _, tier = api.partition("+")
    if api.endswith("-heaps"):
        return receive_heaps(api.removesuffix("-heaps"), heap, chunk_bytes, total, tier)
    per = chunk_bytes // heap
    begin = {"wheel": spead2_api, "spead2": spead2_api, "spead": spead_api}[api]
    begin = functools.partial(begin, options={"tier": tier} if tier else {})
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


def receive_heaps(api, heap, chunk_bytes, total, tier):
    """Take heaps one by one, and print what they have cost."""
    if api == "wheel":
        import spead2
        from spead2 import recv

        pool = spead2.MemoryPool(heap, 2 * heap, 64, 64)
        config = recv.StreamConfig(max_heaps=16, memory_allocator=pool, stop_on_stop_item=False)
        stream = recv.Stream(spead2.ThreadPool(), config)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
            bound.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
            bound.bind(("127.0.0.1", PORT))
            stream.add_udp_reader(bound, max_size=PACKET)
        number = "cnt"
    else:
        from skyhaul.spead import recv

        stream = recv.Stream(stop="never")
        stream.add_udp(f"127.0.0.1:{PORT}", buffer=BUFFER, **({"tier": tier} if tier else {}))
        number = "number"
    print("ready", flush=True)
    first, last, taken, cpu, started = total // heap // 8, total // heap - 1, 0, 0.0, None
    for one in stream:
        at = getattr(one, number)
        if at > last:
            break
        taken += 1
        if started is None and at >= first:
            started, counted = time.process_time(), taken
        elif started is not None:
            cpu = time.process_time() - started
    print(json.dumps({"cpu": cpu, "bytes": (taken - counted) * heap, "lost": last + 1 - taken}))
    sys.stdout.flush()
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


def spead2_api(api, heap, per, chunk_bytes, chunks, options):
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
        stream.add_udp_reader(bound, max_size=PACKET, **options)
    return ((chunk.chunk_id, chunk) for chunk in data), stream.add_free_chunk


def spead_api(_, heap, per, chunk_bytes, chunks, options):
    import numpy as np

    from skyhaul.spead import numba as of_numba
    from skyhaul.spead import recv

    place = place_function(of_numba.place_data, of_numba.intp_to_voidptr, per, heap)
    stream = recv.ChunkStream(place=place, items=[1], max_chunks=2)
    for _ in range(chunks):
        stream.add_free(recv.Chunk(np.full(chunk_bytes, 1, np.uint8), heaps=per))
    stream.add_udp(f"127.0.0.1:{PORT}", buffer=BUFFER, **options)
    return ((chunk.id, chunk) for chunk in stream), stream.add_free


if __name__ == "__main__":
    main()
