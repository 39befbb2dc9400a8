"""Forked processes: what their parent's threads serve is an error there, at once, and the parent notices nothing.

Each call is made in a child of its own, forked while the parent's threads hold whatever they hold: a call that waits for
them is ended by SIGALRM.
"""

import os
import signal
import subprocess
import sys

import pytest

SOON = 60.0
# From Python 3.12 on, it warns of what is tested here: a fork of a process with threads.
FORKS = ["-W", "ignore:This process:DeprecationWarning"]

PRELUDE = """
import ctypes, gc, os, signal, sys, threading
import numpy as np
from skyhaul import spead2
import skyhaul.spead2.recv.asyncio, skyhaul.spead2.send.asyncio
from skyhaul.spead import InprocQueue, recv, send

OURS = os.getpid()
# Said of whatever is left behind in the forked process, where nothing else is printed.
sys.unraisablehook = lambda told: os._exit(9)

def heap():
    one = send.Heap()
    one.add_item(0x1000, np.ones(1000, "u1"))
    return one

def capsule(function):
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return (make(ctypes.cast(function, ctypes.c_void_p).value, NAME, None),)
NAME = b"void (void *, size_t)"
def place(data, size):
    place = ctypes.cast(data, ctypes.POINTER(recv.PlaceData)).contents
    number = place.items[0]
    place.chunk_id, place.heap_index, place.heap_offset = number // 4, number % 4, number % 4 * 1000
in_python = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)(place)
pool = spead2.ThreadPool()

def forked(call, how="raises"):
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    signal.alarm(10)
    try:
        call()
    except RuntimeError as error:
        told = f"belongs to process {OURS}, of which this process ({os.getpid()}) is a fork; hint: make a "
        os._exit(7 if told in str(error) else 8)
    except BaseException:
        os._exit(9)
    os._exit(0)
"""

#: What each thing is, and every call that reaches for its threads or locks; then that the parent still has it.
THINGS = {
    "a receive stream": (
        """
stream = recv.Stream()
queue = InprocQueue()
port = stream.add_udp("127.0.0.1:0")
sender = send.UdpStream(port)
calls = [stream.get, lambda: stream.get(0.0), stream.get_nowait, lambda: next(stream), lambda: list(stream),
         lambda: stream.get_many(4), stream.stats, stream.stop, stream.start, stream.waiting, stream.fileno,
         lambda: stream.add_udp("127.0.0.1:0"), lambda: stream.add_tcp("127.0.0.1:0"),
         lambda: stream.add_bytes(b"x" * 100), lambda: stream.add_inproc(InprocQueue()),
         lambda: stream.add_pcap("none.pcap"), lambda: recv.Stream().add_inproc(queue)]
""",
        "sender.send(heap()); stream.get(); stream.stop()",
    ),
    "a chunk stream": (
        """
stream = recv.ChunkStream("counter / 4", "counter % 4", "counter % 4 * 1000", max_chunks=1)
queue = InprocQueue()
stream.add_inproc(queue)
sender = send.InprocStream(queue)
chunk = lambda: recv.Chunk(np.zeros(4000, "u1"), 4)
calls = [stream.get, lambda: stream.get(0.0), lambda: next(stream), stream.stats, stream.stop, stream.start,
         stream.fileno, lambda: stream.add_udp("127.0.0.1:0"), lambda: stream.add_bytes(b"x" * 100),
         lambda: stream.add_free(chunk())]
""",
        "stream.add_free(chunk()); sender.send(heap()); queue.close(); assert stream.get().heaps == 1",
    ),
    "a send stream": (
        """
receiver = recv.Stream()
stream = send.UdpStream(receiver.add_udp("127.0.0.1:0"), max_heaps=100, rate=1e5, linger=0.1)
ticket = stream.queue([heap()] * 20)
calls = [lambda: stream.send(heap()), lambda: stream.send_heaps([heap()]), lambda: stream.queue(heap()),
         stream.flush, lambda: stream.flush(0.0), stream.cancel, stream.close, stream.stats, lambda: stream.rate,
         lambda: stream.progress, lambda: stream.set_rate(1e6), lambda: stream.set_counter_sequence(1),
         ticket.done, ticket.wait, ticket.result]
""",
        "stream.set_rate(0); stream.flush(); receiver.get(); stream.close()",
    ),
    "a stream into memory": (
        "stream = send.BytesStream(); calls = [stream.getvalue, lambda: stream.send(heap())]",
        "stream.send(heap()); assert stream.getvalue()",
    ),
    "a queue": (
        """
queue = InprocQueue()
calls = [lambda: queue.push(b"x"), queue.close, lambda: queue.closed, lambda: queue.waiting,
         lambda: queue.as_sender(1), lambda: send.InprocStream(queue)]
""",
        "assert queue.push(b'x') and queue.waiting == 1 and not queue.closed",
    ),
    "streams of spead2": (
        """
stream = spead2.recv.Stream(pool)
queue = spead2.InprocQueue()
stream.add_inproc_reader(queue)
sender = spead2.send.InprocStream(pool, [queue], spead2.send.StreamConfig())
group = spead2.send.ItemGroup()
group.add_item(0x1000, "x", "", (10,), dtype="u1", value=np.ones(10, "u1"))
calls = [stream.get, stream.get_nowait, lambda: list(stream), lambda: stream.stats, stream.stop, stream.start,
         lambda: stream.fd, stream.ringbuffer.size, lambda: stream.add_buffer_reader(b"x" * 100),
         lambda: sender.send_heap(group.get_heap(data="all")), lambda: sender.set_cnt_sequence(1, 1),
         lambda: queue.add_packet(b"x"), queue.stop]
""",
        "sender.send_heap(group.get_heap(data='all')); stream.get(); queue.stop()",
    ),
    "chunk rings of spead2": (
        """
data, free = spead2.recv.ChunkRingbuffer(2), spead2.recv.ChunkRingbuffer(4)
config = spead2.recv.ChunkStreamConfig(items=[1], max_chunks=2, place=capsule(in_python))
stream = spead2.recv.ChunkRingStream(pool, spead2.recv.StreamConfig(), config, data, free)
chunk = lambda: spead2.recv.Chunk(data=np.zeros(4000, "u1"), present=np.zeros(4, "u1"))
calls = [data.get, data.get_nowait, lambda: list(data), lambda: free.put(chunk()),
         lambda: free.put_nowait(chunk()), data.stop, data.add_producer, data.remove_producer, data.qsize, data.empty,
         data.full, lambda: data.data_fd, lambda: data.space_fd, stream.stop, lambda: stream.stats,
         lambda: stream.add_free_chunk(chunk())]
""",
        "stream.add_free_chunk(chunk()); assert data.empty(); stream.stop()",
    ),
}


def ran(program, *arguments):
    words = [sys.executable, *FORKS, "-c", PRELUDE + program, *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=SOON, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("thing", THINGS)
def test_what_belongs_to_the_parent_is_an_error_at_once(thing):
    made, still = THINGS[thing]
    said = ran(f"{made}\nprint(*[forked(call) for call in calls])\n{still}\n")
    assert set(said.split()) == {"7"}, said


BUSY = """
# Readers that are at work hold the stream's locks at most moments.
queue = InprocQueue()
stream = recv.Stream(full="refuse")
stream.add_inproc(queue)
feeder = send.InprocStream(queue, max_heaps=1000)
one = heap()
over = threading.Event()
def feed():
    while not over.is_set():
        feeder.send(one)
feeding = threading.Thread(target=feed)
feeding.start()
calls = [stream.stats, feeder.stats, stream.get, lambda: queue.waiting, lambda: repr(stream), sys.exc_info]
print(*[forked(calls[n % len(calls)]) for n in range(120)])
over.set()
feeding.join()
stream.stop()
feeder.close()
"""


def test_no_lock_of_a_thread_at_work_is_waited_for():
    said = ran(BUSY).split()
    assert said == ["7", "7", "7", "7", "0", "0"] * 20


DROPPED = """
import atexit
stream = recv.Stream()
address = stream.add_udp("127.0.0.1:0")
sender = send.UdpStream(address, max_heaps=100, rate=1e5, linger=600.0)
ticket = sender.queue([heap()] * 100)
queue = InprocQueue()
chunks = recv.ChunkStream("0", "0", "0")
chunks.add_inproc(queue)
chunks.add_free(recv.Chunk(np.zeros(4000, "u1"), 4))
data, free = spead2.recv.ChunkRingbuffer(2), spead2.recv.ChunkRingbuffer(4)
config = spead2.recv.ChunkStreamConfig(items=[1], place=capsule(in_python))
ring = spead2.recv.ChunkRingStream(pool, spead2.recv.StreamConfig(), config, data, free)
got = stream.get()
with stream, sender, chunks:
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        {leaves}
    else:
        sender.cancel()
if child == 0:
    del stream, sender, ticket, queue, chunks, data, free, ring, got
    gc.collect()
    mine = recv.Stream()
    mine.stop()
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize(
    "leaves, code", [("pass", 7), ("sys.exit(5)", 5), ("1 / 0", 1)], ids=["by its end", "by sys.exit", "by an error"]
)
def test_a_forked_process_drops_its_copies_and_leaves_blocks(leaves, code):
    """As itself: no error of a stream's stands before its own."""
    words = [sys.executable, *FORKS, "-c", PRELUDE + DROPPED.format(leaves=leaves)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=SOON, check=False)
    assert (done.returncode, done.stdout) == (0, f"{code}\n"), done.stderr
    assert ("ZeroDivisionError" in done.stderr) == (code == 1) and "belongs to" not in done.stderr


def test_a_fork_of_a_fork_names_its_own_parent():
    program = """
child = os.fork()
if child == 0:
    OURS = os.getpid()
    stream = recv.Stream()
    stream.stats()
    os._exit(forked(stream.stats))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert ran(program) == "7\n"


def test_a_ring_whose_lock_was_held_is_an_error():
    """A lock of Python's is held by another thread in the middle of the fork, for certain."""
    program = """
ring = spead2.recv.ChunkRingbuffer(2)
held, done = threading.Event(), threading.Event()
def hold():
    with ring._lock:
        held.set()
        done.wait()
holding = threading.Thread(target=hold)
holding.start()
held.wait()
print(forked(ring.stop))
done.set()
holding.join()
assert ring.stop()
"""
    assert ran(program) == "7\n"


def test_a_forked_process_has_the_locks_of_the_module():
    """Threads lend arrays to streams, and take them back, while the process is forked; the new one does so, and sends."""
    program = """
over = threading.Event()
def lend():
    chunks = recv.ChunkStream("counter / 4", "counter % 4", "counter % 4 * 1000")
    for _ in range(20):
        chunks.add_free(recv.Chunk(np.zeros(4000, "u1"), 4))
    chunks.stop()
def lending():
    while not over.is_set():
        lend()
def works():
    lend()
    stream = recv.Stream()
    send.UdpStream(stream.add_udp("127.0.0.1:0")).send(heap())
    stream.get()
    stream.stop()
threads = [threading.Thread(target=lending) for _ in range(2)]
[thread.start() for thread in threads]
print(*[forked(works) for _ in range(40)])
over.set()
[thread.join() for thread in threads]
works()
"""
    assert ran(program).split() == ["0"] * 40


HOOKS = """
import os, sys, threading
# Registered before this package is imported, as those of `logging` and `concurrent.futures` are: these hooks run last before a
# fork, and first after it.
asked, answered = threading.Event(), threading.Event()
work = lambda: None
def worker():
    while True:
        asked.wait()
        asked.clear()
        work()
        answered.set()
def waits():
    answered.clear()
    asked.set()
    if not answered.wait(20):
        os._exit(3)
def works():
    work()
os.register_at_fork(before=waits, after_in_parent=waits, after_in_child=works)
import faulthandler, ctypes
import numpy as np
from skyhaul.spead import InprocQueue, recv, send
def work():
    # An array is lent to a stream, and taken back: both take a lock of the module.
    chunks = recv.ChunkStream("counter / 4", "counter % 4", "counter % 4 * 1000")
    chunks.add_free(recv.Chunk(np.zeros(4000, "u1"), 4))
    chunks.stop()
    stream = recv.Stream()
    send.UdpStream(stream.add_udp("127.0.0.1:0")).close()
    stream.stop()
threading.Thread(target=worker, daemon=True).start()
faulthandler.dump_traceback_later(50, exit=True)
for _ in range(5):
    child = os.fork()
    if child == 0:
        work()
        os._exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_hooks_of_other_modules_run_without_our_locks():
    """They wait for a thread that uses this package, and use it themselves."""
    done = subprocess.run([sys.executable, *FORKS, "-c", HOOKS], capture_output=True, text=True, timeout=SOON, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["7"] * 5), done.stderr
