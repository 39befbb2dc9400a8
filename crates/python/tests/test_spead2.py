"""skyhaul.spead2 where spead2's own tests, which run against it too, do not look."""

import asyncio
import ctypes
import gc
import os
import select
import threading
import time
import weakref

import numpy as np
import pytest

import skyhaul.spead2 as spead2
import skyhaul.spead2.recv as recv
import skyhaul.spead2.recv.asyncio
import skyhaul.spead2.send as send
import skyhaul.spead2.send.asyncio
from skyhaul._place import PlaceData

SIGNATURE = b"void (void *, size_t)"


def new_group(value=0):
    group = send.ItemGroup(flavour=spead2.Flavour(4, 64, 48))
    group.add_item(0x1000, "stamp", "", (), format=[("u", 48)], value=value)
    group.add_item(0x1001, "data", "", (100,), dtype="u1", value=np.full(100, value, "u1"))
    return group


def as_bytes(heaps, **config):
    stream = send.BytesStream(spead2.ThreadPool(), send.StreamConfig(max_packet_size=128, **config))
    for heap in heaps:
        stream.send_heap(heap)
    return stream.getvalue()


def test_streams_one_after_the_other_may_use_the_same_counters():
    runs = b"".join(as_bytes([new_group(n).get_heap(), new_group().get_end()]) for n in range(3))
    stream = recv.Stream(spead2.ThreadPool(), recv.StreamConfig(stop_on_stop_item=False))
    stream.add_buffer_reader(runs)
    assert [(heap.cnt, heap.is_end_of_stream()) for heap in stream] == [(1, False), (2, True)] * 3


def test_a_heap_list_is_sent_again_with_new_values():
    stamp = np.zeros((), ">u8")
    data = np.zeros(10, "u1")
    group = send.ItemGroup()
    group.add_item(0x1000, "stamp", "", (), format=[("u", 40)], value=stamp)
    group.add_item(0x1001, "data", "", data.shape, dtype=data.dtype, value=data)
    heaps = send.HeapReferenceList([send.HeapReference(group.get_heap(descriptors="all"))])
    queue = spead2.InprocQueue()
    out = send.InprocStream(spead2.ThreadPool(), [queue])
    for n in range(5):
        stamp[()] = 1 << n
        data[:] = n
        out.send_heaps(heaps, send.GroupMode.SERIAL)
    queue.stop()
    stream = recv.Stream(spead2.ThreadPool())
    stream.add_inproc_reader(queue)
    received = spead2.ItemGroup()
    for n, heap in enumerate(stream):
        received.update(heap)
        assert received["stamp"].value == 1 << n
        assert received["data"].value.tolist() == [n] * 10
    assert n == 4


async def test_a_heap_of_a_cancelled_task_goes_to_the_next():
    queue = spead2.InprocQueue()
    stream = recv.asyncio.Stream(spead2.ThreadPool())
    stream.add_inproc_reader(queue)
    out = send.InprocStream(spead2.ThreadPool(), [queue])
    first, second = (asyncio.ensure_future(stream.get()) for _ in range(2))
    await asyncio.sleep(0.01)
    out.send_heap(new_group(7).get_heap())
    while not stream.ringbuffer.size():
        time.sleep(0.001)
    # The first is given the heap, and cancelled before it runs again.
    stream._waiters._readable()
    first.cancel()
    assert (await asyncio.wait_for(second, 10)).cnt == 1
    assert first.cancelled()
    queue.stop()


async def test_a_stream_dropped_while_it_sends():
    queue = spead2.InprocQueue()
    out = send.asyncio.InprocStream(spead2.ThreadPool(), [queue], send.StreamConfig(rate=1e5))
    heap = new_group().get_heap()
    sending = [out.async_send_heap(heap) for _ in range(3)]
    held = weakref.ref(out)
    del out
    assert len([await sent for sent in sending]) == 3
    gc.collect()
    assert held() is None
    queue.stop()


def callback(function):
    """A capsule of a compiled function that calls a Python one, as a place callback."""
    compiled = ctypes.CFUNCTYPE(None, ctypes.POINTER(PlaceData), ctypes.c_size_t)(
        lambda data, _: function(data[0])
    )
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    capsule = make(("PyCapsule_New", ctypes.pythonapi))(ctypes.cast(compiled, ctypes.c_void_p), SIGNATURE, None)
    return capsule, compiled


def chunk_stream(function, chunks=2, **config):
    data, free = recv.ChunkRingbuffer(chunks), recv.ChunkRingbuffer(chunks)
    for _ in range(chunks):
        free.put(recv.Chunk(data=bytearray(1000), present=bytearray(10), extra=bytearray(16)))
    place = recv.ChunkStreamConfig(items=[0x1000], place=callback(function), **config)
    return recv.ChunkRingStream(spead2.ThreadPool(), recv.StreamConfig(), place, data, free)


@pytest.mark.parametrize(
    "hostile",
    [
        {"heap_offset": 901},
        {"heap_offset": (1 << 64) - 50},
        {"heap_index": 10},
        {"heap_index": (1 << 64) - 1},
        {"extra_size": 9},
        {"extra_size": 8, "extra_offset": 9},
        {"extra_size": 8, "extra_offset": (1 << 64) - 4},
    ],
)
def test_a_place_callback_that_points_outside(hostile):
    """Nothing is written; the heap is counted as rejected, and the next one is placed."""
    stamps = []

    def place(data):
        stamps.append(ctypes.cast(data.items, ctypes.POINTER(ctypes.c_int64))[0])
        data.chunk_id = 0
        if len(stamps) == 1:
            for name, value in hostile.items():
                setattr(data, name, value)

    stream = chunk_stream(place, max_heap_extra=8)
    heaps = [new_group(n).get_heap(descriptors="none") for n in (5, 6)]
    stream.add_buffer_reader(as_bytes(heaps))
    (chunk,) = list(stream.data_ringbuffer)
    assert stamps == [5, 6]
    assert chunk.data == b"\6" * 100 + bytes(900)
    assert chunk.present == b"\1" + bytes(9)
    assert chunk.extra == bytes(16)
    assert stream.stats["rejected_heaps"] == 1
    stream.stop()


def test_statistics_do_not_wait_for_heaps():
    stream = chunk_stream(lambda data: None)
    queue = spead2.InprocQueue()
    stream.add_inproc_reader(queue)
    begin = time.monotonic()
    for _ in range(40):
        assert stream.stats["heaps"] == 0
    assert time.monotonic() - begin < 2.0, "each waited for the thread that places"
    stream.stop()


def test_chunks_are_whole_whoever_fills_them():
    """Many heaps, chunks and laps of the rings, placed by compiled code: every byte where it belongs."""

    def place(data):
        stamp = ctypes.cast(data.items, ctypes.POINTER(ctypes.c_int64))[0]
        data.chunk_id, data.heap_index, data.heap_offset = stamp // 10, stamp % 10, stamp % 10 * 100
        data.extra[0], data.extra_size, data.extra_offset = stamp % 10 + 1, 1, stamp % 10
        data.batch_stats[0] = 1

    data, free = recv.ChunkRingbuffer(2), recv.ChunkRingbuffer(3)
    for _ in range(3):
        free.put(recv.Chunk(data=bytearray(1000), present=bytearray(10), extra=bytearray(16)))
    given = recv.ChunkStreamConfig(items=[0x1000], place=callback(place), max_heap_extra=1)
    stream = recv.ChunkRingStream(spead2.ThreadPool(), recv.StreamConfig(), given, data, free)
    stream.add_buffer_reader(as_bytes([new_group(n).get_heap(descriptors="none") for n in range(200) if n != 57]))
    ids = []
    for chunk in data:
        ids.append(chunk.chunk_id)
        for index in range(10):
            stamp = chunk.chunk_id * 10 + index
            assert chunk.present[index] == (stamp != 57)
            if stamp != 57:
                assert bytes(chunk.data[index * 100 : index * 100 + 100]) == bytes([stamp % 256]) * 100
                assert chunk.extra[index] == index + 1
        stream.add_free_chunk(chunk)
    assert ids == list(range(20))
    stream.stop()


def test_a_huge_chunk_number_fills_no_memory():
    def place(data):
        data.chunk_id = (1 << 62) + ctypes.cast(data.items, ctypes.POINTER(ctypes.c_int64))[0]

    stream = chunk_stream(place, max_chunks=1)
    stream.add_buffer_reader(as_bytes([new_group(n).get_heap(descriptors="none") for n in (5, 6)]))
    assert [chunk.chunk_id for chunk in stream.data_ringbuffer] == [(1 << 62) + 5, (1 << 62) + 6]
    stream.stop()


def test_a_chunk_stream_that_nobody_holds_ends():
    before = threading.active_count()
    stream = chunk_stream(lambda data: None)
    stream.add_inproc_reader(spead2.InprocQueue())
    thread, held = stream._thread, weakref.ref(stream)
    del stream
    gc.collect()
    assert held() is None
    thread.join(10)
    assert not thread.is_alive()
    assert threading.active_count() == before


def test_heaps_are_sent_from_a_loop_that_does_not_run_yet():
    """As spead2 does: the current loop of the thread."""
    receiver = recv.Stream(spead2.ThreadPool())
    queue = spead2.InprocQueue()
    receiver.add_inproc_reader(queue)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        stream = send.asyncio.InprocStream(spead2.ThreadPool(), [queue])
        futures = [stream.async_send_heap(new_group(1).get_heap()), stream.async_send_heap(new_group().get_end())]
        del stream
        loop.run_until_complete(asyncio.wait(futures))
        assert all(future.result() > 0 for future in futures)
    finally:
        asyncio.set_event_loop(None)
        loop.close()
    assert len(list(receiver)) == 1


def test_futures_have_their_results_without_the_loop():
    queue = spead2.InprocQueue()
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        stream = send.asyncio.InprocStream(spead2.ThreadPool(), [queue])
        early = stream.async_send_heap(new_group(1).get_heap())
        assert select.select([stream.fd], [], [], 30)[0]
        late = stream.async_send_heap(new_group(2).get_heap())
        stream.flush()
        stream.process_callbacks()
        assert early.done() and early.result() > 100 and late.done()
        assert select.select([stream.fd], [], [], 0)[0] == []
        stream.process_callbacks()
        # The loop goes on as if nothing had been.
        assert loop.run_until_complete(stream.async_send_heap(new_group(3).get_heap())) > 100
        loop.run_until_complete(stream.async_flush())
        # Another loop's are under the same descriptor.
        other = asyncio.new_event_loop()
        asyncio.set_event_loop(other)
        last = stream.async_send_heap(new_group(4).get_heap())
        assert select.select([stream.fd], [], [], 30)[0]
        stream.process_callbacks()
        assert last.done()
        other.close()
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def test_a_pool_has_its_setting():
    pool = spead2.MemoryPool(1000, 2000, 4, 2)
    assert pool.warn_on_empty is True
    pool.warn_on_empty = False
    assert pool.warn_on_empty is False
    with pytest.raises(TypeError, match="True or False"):
        pool.warn_on_empty = "no"


def test_a_stream_is_used_from_one_loop_after_the_other():
    """What was on its way when a loop closed takes no room from the next."""
    queue = spead2.InprocQueue()
    stream = send.asyncio.InprocStream(spead2.ThreadPool(), [queue], send.StreamConfig(max_heaps=2))

    async def leave():
        futures = [stream.async_send_heap(new_group(n).get_heap()) for n in range(2)]
        assert not any(future.done() for future in futures)

    async def send_two():
        await asyncio.gather(*[stream.async_send_heap(new_group(n).get_heap()) for n in range(2)])

    for _ in range(3):
        asyncio.run(leave())
        stream.flush()
        asyncio.run(send_two())
    asyncio.run(stream.async_flush())
    queue.stop()
    receiver = recv.Stream(spead2.ThreadPool())
    receiver.add_inproc_reader(queue)
    assert len(list(receiver)) == 12


def test_a_core_that_is_not_there_is_told_and_changes_nothing(caplog):
    """As spead2 does: a program for a larger machine runs on."""
    before = os.sched_getaffinity(0)
    for core in (-1, 1023, 99999, 1 << 40):
        caplog.clear()
        spead2.ThreadPool.set_affinity(core)
        assert f"core {core}" in caplog.text
        assert "hint: " in caplog.text
        caplog.clear()
        pool = spead2.ThreadPool(2, [core, min(before)])
        assert f"core {core}" in caplog.text
        stream = recv.Stream(pool)
        stream.add_buffer_reader(as_bytes([new_group().get_heap()]))
        assert len(list(stream)) == 1
    assert os.sched_getaffinity(0) == before
    with pytest.raises(TypeError):
        spead2.ThreadPool.set_affinity(1.5)
    with pytest.raises(TypeError):
        spead2.ThreadPool(1, ["first"])


def test_chunks_over_one_array_are_told_and_left_out(caplog):
    """One array cannot be filled for two chunks at a time; the stream goes on with the others."""

    def place(data):
        stamp = ctypes.cast(data.items, ctypes.POINTER(ctypes.c_int64))[0]
        data.chunk_id, data.heap_offset = stamp, 0

    shared = np.zeros(4096, "u1")
    made = [recv.Chunk(data=shared[at:][:1024], present=np.zeros(1, "u1")) for at in (0, 512, 1024)]
    data, free = recv.ChunkRingbuffer(3), recv.ChunkRingbuffer(3)
    given = recv.ChunkStreamConfig(items=[0x1000], place=callback(place), max_chunks=3)
    stream = recv.ChunkRingStream(spead2.ThreadPool(), recv.StreamConfig(), given, data, free)
    for chunk in made:
        stream.add_free_chunk(chunk)
    stream.add_buffer_reader(as_bytes([new_group(n).get_heap(descriptors="none") for n in range(2)]))
    taken = list(data)
    assert [chunk.chunk_id for chunk in taken] == [0, 1]
    assert taken == [made[0], made[2]]
    assert "overlaps" in caplog.text
    assert "hint: " in caplog.text
