"""Interpreters that end while streams are at work: no abort, no crash, no hang, however they end.

EXITS=200 runs each program so often; the usual number is small. Each is ended in turn in the ways of `ENDS`.
"""

import concurrent.futures
import os
import subprocess
import sys

import pytest

EXITS = int(os.environ.get("EXITS", "8"))
SOON = 60.0

PRELUDE = """
import asyncio, ctypes, os, sys, threading, time
import numpy as np
from skyhaul import spead2
import skyhaul.spead2.recv.asyncio, skyhaul.spead2.send.asyncio
from skyhaul.spead import InprocQueue, recv, send
heap = send.Heap()
heap.add_item(0x1000, np.ones(1000, "u1"))
group = spead2.send.ItemGroup()
group.add_item(0x1000, "x", "", (1000,), dtype="u1", value=np.ones(1000, "u1"))
sink = recv.Stream(stop=None)
port = int(sink.add_udp("127.0.0.1:0").rpartition(":")[2])
def sender(**how):
    config = spead2.send.StreamConfig(max_heaps=1000, **how)
    return spead2.send.asyncio.UdpStream(spead2.ThreadPool(), [("127.0.0.1", port)], config)
def place(data, size):
    place = ctypes.cast(data, ctypes.POINTER(recv.PlaceData)).contents
    number = place.items[0]
    place.chunk_id, place.heap_index, place.heap_offset = number // 4, number % 4, number % 4 * 1000
in_python = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)(place)
def capsule():
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return (make(ctypes.cast(in_python, ctypes.c_void_p).value, NAME, None),)
NAME = b"void (void *, size_t)"
def feed(into):
    queue = InprocQueue(1 << 20)
    into(queue)
    feeder = send.InprocStream(queue, max_heaps=200_000, linger=0.0)
    feeder.queue([heap] * 100_000)
    return feeder
"""

#: What is at work when the interpreter ends.
PROGRAMS = {
    "asyncio.run, the last future awaited": """
async def main():
    futures = [stream.async_send_heap(group.get_heap(data="all")) for _ in range(200)]
    await asyncio.gather(*futures)
    await stream.async_send_heap(group.get_end())
stream = sender()
asyncio.run(main())
""",
    "asyncio.run, nothing awaited": """
async def main():
    for _ in range(200):
        stream.async_send_heap(group.get_heap(data="all"))
stream = sender()
asyncio.run(main())
""",
    "a loop that never ran": """
loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
stream = sender()
futures = [stream.async_send_heap(group.get_heap(data="all")) for _ in range(200)]
""",
    "a loop in the middle": """
loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
stream = sender(rate=1e5)
futures = [stream.async_send_heap(group.get_heap(data="all")) for _ in range(20)]
futures[0].add_done_callback(lambda _: loop.stop())
loop.run_forever()
""",
    "asend": """
async def main():
    await asyncio.gather(*[stream.asend(heap) for _ in range(100)])
stream = send.UdpStream(f"127.0.0.1:{port}", max_heaps=1000)
asyncio.run(main())
ticket = stream.queue([heap] * 100)
""",
    "daemon threads that wait": """
stream = send.UdpStream(f"127.0.0.1:{port}", max_heaps=1000, rate=1e6, linger=0.1)
ticket = stream.queue([heap] * 500)
ring = spead2.recv.ChunkRingbuffer(2)
works = [sink.get, lambda: list(sink), stream.flush, ticket.result, ring.get,
         lambda: asyncio.run(recv.Stream().aget()), spead2.recv.Stream(spead2.ThreadPool()).get]
for work in works:
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.05)
""",
    "daemon threads at work": """
stream = send.UdpStream(f"127.0.0.1:{port}", max_heaps=1000)
def work():
    while True:
        stream.send(heap)
        sink.stats()
        try:
            sink.get(0.0)
        except recv.Empty:
            pass
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.02)
""",
    "daemon threads whose calls fail as it ends": """
streams = [send.UdpStream(f"127.0.0.1:{port}", max_heaps=1000) for _ in range(8)]
waiting = [recv.Stream() for _ in range(8)]
for stream in streams:
    threading.Thread(target=lambda stream=stream: [stream.send(heap) for _ in range(10**9)], daemon=True).start()
for stream in waiting:
    threading.Thread(target=stream.get, daemon=True).start()
time.sleep(0.02)
""",
    "readers in a place function of Python": """
stream = recv.ChunkStream(place=in_python, items=[1], max_chunks=2)
for _ in range(4):
    stream.add_free(recv.Chunk(np.zeros(4000, "u1"), 4))
feeder = feed(stream.add_inproc)
for _ in range(20):
    stream.add_free(stream.get(10.0))
""",
    "a thread that fills chunks": """
data, free = spead2.recv.ChunkRingbuffer(2), spead2.recv.ChunkRingbuffer(4)
config = spead2.recv.ChunkStreamConfig(items=[1], max_chunks=2, place=capsule())
stream = spead2.recv.ChunkRingStream(spead2.ThreadPool(), spead2.recv.StreamConfig(), config, data, free)
for _ in range(4):
    stream.add_free_chunk(spead2.recv.Chunk(data=np.zeros(4000, "u1"), present=np.zeros(4, "u1")))
queue = spead2.InprocQueue()
stream.add_inproc_reader(queue)
feeder = feed(lambda into: None)
sending = spead2.send.InprocStream(spead2.ThreadPool(), [queue], spead2.send.StreamConfig())
for n in range(200):
    sending.send_heap(group.get_heap(data="all"))
    if n % 8 == 7 and n < 100:
        stream.add_free_chunk(data.get())
""",
    "a fork": """
stream = sender()
loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
chunks = recv.ChunkStream(place=in_python, items=[1])
chunks.add_free(recv.Chunk(np.zeros(4000, "u1"), 4))
feeder = feed(chunks.add_inproc)
futures = [stream.async_send_heap(group.get_heap(data="all")) for _ in range(100)]
child = os.fork()
if child:
    status = os.waitpid(child, 0)[1]
    assert os.waitstatus_to_exitcode(status) in (0, 3, 1), status
else:
    # What the parent's threads held when it was forked stays locked here: a stream of its own is to be used.
    sink = recv.Stream()
    sink.stop()
""",
    "multiprocessing": """
import multiprocessing
def work():
    mine = recv.Stream()
    mine.add_udp("127.0.0.1:0")
    mine.stop()
stream = sender()
stream._native.queue(spead2.send._heaps._native.Batch([(group.get_heap(data="all")._heap, None, 0, None)] * 100))
child = multiprocessing.get_context("fork").Process(target=work)
child.start()
child.join()
assert child.exitcode == 0, child.exitcode
""",
    "a buffer that a reader holds": """
collected = send.BytesStream()
collected.send_heaps([heap] * 2000)
stream = recv.Stream(ring=4)
stream.add_bytes(collected.getvalue())
stream.get()
""",
}
#: How it ends, and what the process says then.
ENDS = {
    "": 0,
    "for name in [name for name in globals() if name[0] != '_' and name != 'name']: del globals()[name]": 0,
    "sys.exit(3)": 3,
    "raise KeyError('the end')": 1,
    "asyncio.new_event_loop().call_soon(sys.exit, 3) and None": 0,
    "loop = asyncio.new_event_loop(); loop.call_soon(sys.exit, 3); loop.run_forever()": 3,
    "import atexit; atexit.register(lambda: sink.stats())": 0,
    "me = [globals()]; me.append(me); del me": 0,
}


@pytest.mark.timeout(120 + 5 * EXITS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_interpreter_ends_as_it_should(program):
    ends = list(ENDS.items())

    def once(n):
        end, code = ends[n % len(ends)]
        words = [sys.executable, "-c", f"{PRELUDE}\n{PROGRAMS[program]}\n{end}\n"]
        done = subprocess.run(words, capture_output=True, timeout=SOON, check=False)
        said = done.stderr.decode(errors="replace")
        assert done.returncode == code, f"run {n}, ended by {end!r}: exit {done.returncode}, not {code}\n{said}"
        assert "Fatal" not in said and "panicked" not in said, said

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for run in [pool.submit(once, n) for n in range(EXITS)]:
            run.result()


def test_no_stream_is_made_when_the_interpreter_ends():
    """Handlers that were registered before the import run after the streams have ended."""
    program = """
import atexit
@atexit.register
def late():
    from skyhaul.spead import recv
    try:
        recv.Stream()
    except RuntimeError as error:
        print(error, flush=True)
from skyhaul.spead import recv
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=SOON, check=True)
    assert b"the interpreter is ending; hint: " in done.stdout


def test_what_is_queued_is_sent_before_the_end():
    """Of a stream that the program still holds, as of one that it dropped."""
    program = """
import numpy as np, os, sys
from skyhaul.spead import send
heap = send.Heap()
heap.add_item(0x1000, np.ones(1000, "u1"))
stream = send.UdpStream(sys.argv[1], max_heaps=100, rate=8e5)
hold = [stream]; hold.append(hold)
stream.queue([heap] * 40)
"""
    from skyhaul.spead import recv

    receiver = recv.Stream(idle_timeout=20.0, heap_limit=40)
    address = receiver.add_udp("127.0.0.1:0")
    subprocess.run([sys.executable, "-c", program, address], timeout=SOON, check=True)
    assert len(list(receiver)) == 40
