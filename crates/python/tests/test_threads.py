"""Threads, Ctrl-C, and interpreters that end in the middle: no deadlock, no crash, nothing lost or taken twice."""

import gc
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from skyhaul.spead import Empty, InprocQueue, recv, send

SOON = 60.0


def a_heap(size=1000):
    heap = send.Heap()
    heap.add_item(0x1000, np.zeros(size, "u1"))
    return heap


def in_threads(count, work):
    """Run `work(n)` in threads, wait for them, and return what they returned; what they raise is raised."""
    results, errors = [None] * count, []

    def run(n):
        try:
            results[n] = work(n)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]
    return results


def test_several_threads_take_from_one_stream():
    stream = send.BytesStream()
    stream.send_heaps([a_heap() for _ in range(500)])
    receiver = recv.Stream(explicit_start=True)
    receiver.add_bytes(stream.getvalue())
    receiver.start()
    taken = in_threads(4, lambda n: [heap.counter for heap in receiver])
    assert sorted(counter for part in taken for counter in part) == list(range(1, 501))


def test_several_threads_send_on_one_stream():
    stream = send.BytesStream()
    in_threads(4, lambda n: [stream.send(a_heap()) for _ in range(100)])
    receiver = recv.Stream()
    receiver.add_bytes(stream.getvalue())
    assert [heap.counter for heap in receiver] == list(range(1, 401))


def test_streams_that_are_dropped_give_their_buffers_back():
    """A reader's thread releases the buffer, for which it needs Python, while Python waits for that thread."""
    stream = send.BytesStream()
    stream.send_heaps([a_heap() for _ in range(50)])
    data = bytearray(stream.getvalue())
    for n in range(50):
        receiver = recv.Stream()
        receiver.add_bytes(data)
        if n % 2:
            receiver.get(SOON)
        del receiver
    gc.collect()
    data.extend(b"x")  # raises BufferError if any of them still held it


def test_a_full_queue_ends_with_its_stream():
    """A sender that waits for room is let go when the stream is dropped or cancelled."""
    queue = InprocQueue(limit=1000)
    stream = send.InprocStream(queue, linger=0.05)
    ticket = stream.queue([a_heap(1 << 20) for _ in range(3)])
    assert not ticket.wait(0.02)
    stream.cancel()
    with pytest.raises(send.Cancelled):
        ticket.result()


def test_values_outlive_everything():
    stream = send.BytesStream()
    stream.send_heaps([a_heap(1 << 16) for _ in range(100)])
    receiver = recv.Stream(memory=16 << 20)
    receiver.add_bytes(stream.getvalue())
    views = [np.frombuffer(heap.payload, "u1") for heap in receiver]
    del receiver
    gc.collect()
    assert len(views) == 100
    assert not any(view.any() for view in views)


def test_memory_that_the_program_keeps_is_counted():
    """Nothing waits for the program to give memory back where the sender cannot be held back."""
    receiver = recv.Stream(memory=1 << 20, heap_timeout=0.05, full="refuse")
    stream = send.BytesStream()
    stream.send_heaps([a_heap(1 << 17) for _ in range(100)])
    receiver.add_bytes(stream.getvalue())
    kept = list(receiver)
    stats = receiver.stats()
    assert 0 < len(kept) < 100
    assert stats["rejected"]["no_buffer"] > 0
    assert stats["memory_used"] <= 1 << 20


PRELUDE = """
import sys, numpy as np
from skyhaul.spead import InprocQueue, recv, send
heap = send.Heap()
heap.add_item(0x1000, np.zeros(100_000, "u1"))
receiver = recv.Stream()
address = receiver.add_udp("127.0.0.1:0")
queue = InprocQueue(limit=1000)
def ready():
    print("ready", flush=True)
"""
WAITS = {
    "get": "ready(); receiver.get()",
    "iterate": "ready(); list(receiver)",
    "get, asyncio": "import asyncio; ready(); asyncio.run(receiver.aget())",
    "send slowly": "s = send.UdpStream(address, rate=1e4); ready(); s.send(heap)",
    "send a batch slowly": "s = send.UdpStream(address, rate=1e4); ready(); s.send_heaps([heap] * 3)",
    "send at a rate that falls": "big = send.Heap(); big.add_item(0x1000, bytes(1 << 26)); "
                                 "s = send.UdpStream(address, rate='auto'); ready(); s.send(big)",
    "send to a full queue": "s = send.InprocStream(queue); ready(); s.send_heaps([heap] * 3)",
    "wait for a ticket": "s = send.UdpStream(address, rate=1e4, linger=0.1); t = s.queue(heap); ready(); t.result()",
    "flush": "s = send.UdpStream(address, rate=1e4, linger=0.1); s.queue(heap); ready(); s.flush()",
    "push": "while queue.push(bytes(900), 0.01): pass\n    ready(); queue.push(bytes(900))",
}


@pytest.mark.parametrize("wait", WAITS)
def test_ctrl_c_ends(wait):
    program = PRELUDE + f"\ntry:\n    {WAITS[wait]}\nexcept KeyboardInterrupt:\n    s = None\n    print('interrupted')\n"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as child:  # fmt: skip
        assert child.stdout.readline() == "ready\n", child.stderr.read()
        time.sleep(0.2)
        child.send_signal(signal.SIGINT)
        try:
            out, errors = child.communicate(timeout=SOON)
        except subprocess.TimeoutExpired:
            child.kill()
            pytest.fail("Ctrl-C was not heard")
    assert out == "interrupted\n", errors


@pytest.mark.parametrize(
    "end",
    [
        "",
        "receiver.add_bytes(bytearray(10_000_000))",
        "import threading; threading.Thread(target=lambda: list(receiver), daemon=True).start()",
        "kept = send.UdpStream(address, rate=1e5, linger=0.1); t = kept.queue([heap, heap])",
        "s = send.InprocStream(queue, linger=0.1); t = s.queue(heap)",
        "sys.exit(0)",
    ],
)
def test_an_interpreter_may_end_any_time(end):
    done = subprocess.run([sys.executable, "-c", PRELUDE + end], capture_output=True, text=True, timeout=SOON,
                          check=False)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


FORKED = """
import gc, os
sender = send.UdpStream(address)
sender.send(heap)
receiver.get()
chunks = recv.ChunkStream("0", "0", "0", streams=2)
chunks.add_udp("127.0.0.1:0")
child = os.fork()
if child == 0:
    {child}
    del sender, receiver, chunks
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
sender.send(heap)
print(receiver.get().counter)
"""


@pytest.mark.parametrize("child", ["pass", "gc.collect()", "sender.__exit__(None, None, None)"])
def test_a_forked_process_may_end(child):
    # From Python 3.12 on, it warns of a fork of a process with threads.
    words = [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", PRELUDE + FORKED.format(child=child)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=SOON, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "2\n", "")


def test_waiting_is_as_long_as_was_said():
    receiver = recv.Stream()
    receiver.add_udp("127.0.0.1:0")
    began = time.monotonic()
    with pytest.raises(Empty):
        receiver.get(0.25)
    assert time.monotonic() - began >= 0.25
