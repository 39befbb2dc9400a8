"""What makes spead2 4.5.1 crash, hang, lose or repeat, tried against us: each defect by its number in our notes on it.

D1 (no GSO in the wheel) and D8, D9 (its command-line tools) are nothing that a stream can be asked.
"""

import asyncio
import gc
import resource
import socket
import struct
import threading
import time

import numpy as np
import pytest
from spead_paths import free_port

pytest.importorskip("skyhaul.spead2", reason="skyhaul is not installed here (make python)")
import skyhaul.spead as spead  # noqa: E402
import skyhaul.spead2 as compat  # noqa: E402
import skyhaul.spead2.recv.asyncio  # noqa: E402
import skyhaul.spead2.send  # noqa: E402

pytestmark = pytest.mark.timeout(30)
IMMEDIATE = 1 << 63


def packet(items, payload=b""):
    """A SPEAD-64-48 packet of (id, value) immediates, and (id, address, "address") items."""
    pointers = [(0 if len(item) == 3 else IMMEDIATE) | item[0] << 48 | item[1] for item in items]
    return struct.pack(f">BBBBHH{len(items)}Q", 0x53, 4, 2, 6, 0, len(items), *pointers) + payload


def heap(counter, payload=b"payload", size=None, more=()):
    items = [(1, counter), (2, len(payload) if size is None else size), (3, 0), (4, len(payload)), (0x1600, 0, "address")]
    return packet([*items, *more], payload)


STOP = packet([(1, 999), (2, 0), (3, 0), (4, 0), (6, 2)])


def payloads(stream, timeout=20):
    """The payloads of all heaps until the stream ends, which it must."""
    found = []
    reader = threading.Thread(target=lambda: found.extend(list(stream)), daemon=True)
    reader.start()
    reader.join(timeout)
    assert not reader.is_alive(), "the stream does not end"
    return [b"".join(item.tobytes() for item in one.get_items() if not item.is_immediate) for one in found]


def new_stream(**config):
    return compat.recv.Stream(compat.ThreadPool(), compat.recv.StreamConfig(**config))


def listening():
    """A stream that listens for one TCP connection, and the connection."""
    stream = new_stream()
    port = free_port(socket.SOCK_STREAM)
    stream.add_tcp_reader(port, bind_hostname="127.0.0.1")
    return stream, socket.create_connection(("127.0.0.1", port))


def test_d2_an_addressed_stream_control_item_of_64_bytes():
    raw = packet([(1, 1), (2, 64), (3, 0), (4, 64), (6, 0, "address")], bytes(64))
    for stop in (True, False):
        stream = new_stream(stop_on_stop_item=stop)
        stream.add_buffer_reader(raw)
        (got,) = list(stream)
        assert got.is_start_of_stream() is False
        assert got.is_end_of_stream() is False


@pytest.mark.parametrize("size", [64 << 30, 32 << 40, (1 << 48) - 1])
def test_d3_a_packet_that_claims_a_huge_heap(size):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    stream = new_stream()
    stream.add_buffer_reader(heap(1, b"tiny", size) + heap(2) + STOP)
    assert payloads(stream) == [b"payload"]
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 64 << 10, f"{grown} KiB"


def test_d4_a_connection_that_is_reset():
    stream, connection = listening()
    connection.sendall(heap(1) + heap(2)[:20])
    time.sleep(0.2)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    assert payloads(stream) == [b"payload"]


@pytest.mark.parametrize("stray", [1, 5, 8, 13, 1000])
def test_d5_stray_bytes_between_packets(stray):
    stream, connection = listening()
    connection.sendall(b"\xaa" * stray + heap(1) + b"S" * stray + heap(2) + STOP)
    connection.close()
    assert payloads(stream) == [b"payload", b"payload"]


def test_d6_what_is_thrown_away_is_counted():
    stream = spead.recv.Stream(in_order=True)
    port = int(stream.add_udp("127.0.0.1:0").rpartition(":")[2])
    bad = [b"garbage", b"", heap(1)[:-1], heap(1) + b"x", packet([(1, 3), (2, 8), (3, 4), (4, 4)], b"late")]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        for one in [*bad, STOP]:
            out.sendto(one, ("127.0.0.1", port))
    assert list(stream) == []
    stats = stream.stats()
    refused = sum(stats["rejected"].values())
    assert refused == len(bad), stats


def test_d7_repeated_packets():
    first, second = (packet([(1, 5), (2, 8), (3, at), (4, 4), (0x1600, 0, "address")], b"abcd") for at in (0, 4))
    ring = compat.recv.RingStreamConfig(contiguous_only=False)
    stream = compat.recv.Stream(compat.ThreadPool(), compat.recv.StreamConfig(), ring)
    stream.add_buffer_reader(heap(1) + heap(1) + first + second + second + first + STOP)
    got = list(stream)
    assert [one.cnt for one in got] == [1, 5]
    assert all(isinstance(one, compat.recv.Heap) for one in got)


def test_d10_heaps_without_bounds():
    """Items beyond the heap, offsets beyond the size, pointers without end: nothing of it is written anywhere."""
    bad = [
        packet([(1, 1), (2, 8), (3, 6), (4, 8)], bytes(8)),
        packet([(1, 2), (2, 8), (3, (1 << 48) - 4), (4, 8)], bytes(8)),
        packet([(1, 3), (2, 8), (3, 0), (4, 8), (0x1600, 9, "address")], bytes(8)),
        packet([(1, 4), (3, (1 << 47)), (4, 8)], bytes(8)),
        struct.pack(">BBBBHH", 0x53, 4, 2, 6, 0, 65535),
    ]
    stream = new_stream(allow_out_of_order=True)
    port = free_port()
    stream.add_udp_reader(port, bind_hostname="127.0.0.1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        for one in [*bad, heap(7), STOP]:
            out.sendto(one, ("127.0.0.1", port))
    assert b"payload" in payloads(stream)


@pytest.mark.parametrize("item", [4, 5, 1 << 20, (1 << 47) - 1, (1 << 48) - 1])
@pytest.mark.parametrize("rule", [("0", "item(1) & 1", "item(0x4000) * 1000"), ("0", "item(0x4000)", "0"), ("0", "0", "item(0x4000) * 1001")])
def test_d10_heaps_placed_outside_their_chunk(item, rule):
    """Whatever a packet says, a rule that is made of it writes nowhere but into the chunk's arrays."""
    stream = spead.recv.ChunkStream(*rule, max_chunks=1)
    space = np.zeros(6000, "u1")
    stream.add_free(spead.recv.Chunk(space[1000:5000], heaps=4))
    hostile = heap(2, b"\xff" * 1000, more=[(0x4000, item)])
    stream.add_bytes(hostile + heap(3, b"\x07" * 1000, more=[(0x4000, 0)]) + STOP)
    (chunk,) = list(stream)
    assert set(space[:1000]) == set(space[5000:]) == {0}
    assert 0xFF not in chunk.data
    assert chunk.heaps == 1
    assert stream.stats()["rejected_heaps"] == 1


def test_d11_waiting_tasks_that_were_cancelled_before_the_end():
    problems = []

    async def wait():
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: problems.append(context))
        queue = compat.InprocQueue()
        stream = compat.recv.asyncio.Stream(compat.ThreadPool())
        stream.add_inproc_reader(queue)
        waiting = [loop.create_task(stream.get()) for _ in range(4)]
        await asyncio.sleep(0.02)
        waiting[0].cancel()
        waiting[2].cancel()
        queue.add_packet(heap(1))
        queue.stop()
        return await asyncio.gather(*waiting, return_exceptions=True)

    got = asyncio.run(wait())
    assert [type(one).__name__ for one in got] == ["CancelledError", "Heap", "CancelledError", "Stopped"]
    assert problems == []


def test_heaps_that_never_end_take_no_more_memory():
    """A sender that begins heaps and never ends them: the window bounds what is held."""
    stream = new_stream(max_heaps=4)
    chunk = bytes(1 << 16)
    begun = b"".join(heap(counter, chunk, 1 << 20) for counter in range(1, 400))
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    stream.add_buffer_reader(begun + heap(1000) + STOP)
    assert payloads(stream) == [b"payload"]
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 100 << 10, f"{grown} KiB"


def test_arrays_outlive_their_stream():
    """Values view the heap's memory: it stays while any of them does."""
    sender = compat.send.BytesStream(compat.ThreadPool())
    group = compat.send.ItemGroup()
    group.add_item(None, "x", "", (1000,), dtype="<u4", value=np.arange(1000, dtype="<u4"))
    sender.send_heap(group.get_heap())
    sender.send_heap(group.get_end())
    stream = new_stream()
    stream.add_buffer_reader(sender.getvalue())
    received = compat.ItemGroup()
    for one in stream:
        received.update(one)
    value = received["x"].value
    del stream, received, one, sender
    gc.collect()
    assert np.array_equal(value, np.arange(1000))
