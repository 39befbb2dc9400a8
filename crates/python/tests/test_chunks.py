"""Heaps placed into arrays: where the rule says, nowhere else, from one stream and from several."""

import ctypes

import numpy as np
import pytest

from skyhaul.spead import Empty, InprocQueue, Stopped, recv, send

SOON = 30.0
RULE = ("item(0x1600) / 256", "item(0x4103)", "item(0x4103) * 1000")


def heap(chunk, channel, size=1000):
    made = send.Heap()
    made.add_immediate(0x1600, chunk * 256)
    made.add_immediate(0x4103, channel)
    made.add_item(0x4300, np.full(size, chunk * 4 + channel, "u1"))
    made.repeat_pointers = True
    return made


def packets(heaps, **options):
    stream = send.BytesStream(**options)
    stream.send_heaps(heaps)
    return stream.getvalue()


def stream(chunks=4, rule=RULE, notes=0, **options):
    made = recv.ChunkStream(*rule, **options)
    for _ in range(chunks):
        made.add_free(recv.Chunk(np.zeros((4, 1000), "u1"), heaps=4, extra=notes))
    return made


def check(chunk, absent=()):
    for channel in range(4):
        assert chunk.present[channel] == (channel not in absent)
        assert set(chunk.data[channel]) == {0 if channel in absent else chunk.id * 4 + channel}


def test_heaps_go_where_the_rule_says():
    made = stream(notes=4 * 8, extra_at="index * 8", extra=[("item(0x1600)", 4), ("chunk", 4)],
                  counters=[("bytes", "sum", "size"), ("latest", "max", "item(0x1600)")], stream_id=77)  # fmt: skip
    made.add_bytes(packets([heap(n, channel) for n in range(10) for channel in (3, 1, 0, 2)], packet=200))
    for n in range(10):
        chunk = made.get(SOON)
        assert (chunk.id, chunk.heaps, chunk.bytes, chunk.stream_id) == (n, 4, 4000, 77)
        check(chunk)
        assert np.frombuffer(chunk.extra, "=u4").reshape(4, 2).tolist() == [[n * 256, n]] * 4
        chunk.data[:] = 0
        made.add_free(chunk)
    with pytest.raises(Stopped):
        made.get(SOON)
    stats = made.stats()
    assert (stats["chunks"], stats["counters"]) == (10, {"bytes": 40_000, "latest": 9 * 256})


def test_what_does_not_come_is_not_present():
    made = stream()
    made.add_bytes(packets([heap(0, 0), heap(0, 2), heap(1, 1)]))
    first, second = made
    check(first, absent=(1, 3))
    check(second, absent=(0, 2, 3))


def test_what_does_not_fit_is_refused():
    made = stream(rule=("item(0x1600) / 256", "item(0x4103)", "item(0x4103) * 1001"))
    made.add_bytes(packets([heap(0, 0), heap(0, 3), heap(0, 1, size=5000)]))
    [chunk] = made
    assert (chunk.heaps, list(chunk.present)) == (1, [1, 0, 0, 0])
    assert made.stats()["rejected_heaps"] == 2


@pytest.mark.parametrize("lossless", [False, True])
def test_several_streams_fill_one_sequence(lossless):
    made, queues = stream(chunks=8, streams=2, lossless=lossless, max_chunks=4), [InprocQueue(), InprocQueue()]
    for n, queue in enumerate(queues):
        made.add_inproc(queue, stream=n)
    senders = [send.InprocStream(queue) for queue in queues]
    for n in range(6):
        for part, sender in enumerate(senders):
            sender.send_heaps([heap(n, channel) for channel in (part, part + 2)])
    for queue in queues:
        queue.close()
    chunks = list(made)
    assert [chunk.id for chunk in chunks] == sorted(chunk.id for chunk in chunks)
    if lossless:
        assert [chunk.heaps for chunk in chunks] == [4] * 6
    assert sum(chunk.heaps for chunk in chunks) + made.stats()["too_old_heaps"] == 24


def rule_in_python(data, _):
    time, channel, size = (data[0].items[n] for n in range(3))
    if channel != 2:
        data[0].chunk_id, data[0].heap_index, data[0].heap_offset = time // 256, channel, channel * size
        data[0].extra[0], data[0].extra_offset, data[0].extra_size = channel + 1, channel, 1


def compiled_by(kind):
    """The same rule as a ctypes function, from numba, and from numba through scipy."""
    if kind == "ctypes":
        return PLACE(rule_in_python)
    numba = pytest.importorskip("numba")
    from skyhaul.spead2.numba import intp_to_voidptr
    from skyhaul.spead2.recv.numba import chunk_place_data

    @numba.cfunc(numba.types.void(numba.types.CPointer(chunk_place_data), numba.types.uintp))
    def place(pointer, size):
        data = numba.carray(pointer, 1)
        items = numba.carray(intp_to_voidptr(data[0].items), 3, dtype=np.int64)
        if items[1] != 2:
            data[0].chunk_id, data[0].heap_index = items[0] // 256, items[1]
            data[0].heap_offset = items[1] * items[2]
            extra = numba.carray(intp_to_voidptr(data[0].extra), 1, dtype=np.uint8)
            extra[0] = items[1] + 1
            data[0].extra_offset, data[0].extra_size = items[1], 1

    if kind == "numba":
        return place
    scipy = pytest.importorskip("scipy")
    return scipy.LowLevelCallable(place.ctypes, signature="void (void *, size_t)")


PLACE = ctypes.CFUNCTYPE(None, ctypes.POINTER(recv.PlaceData), ctypes.c_size_t)


@pytest.mark.parametrize("kind", ["ctypes", "numba", "scipy"])
def test_a_compiled_function_says_where(kind):
    made = recv.ChunkStream(place=compiled_by(kind), items=[0x1600, 0x4103, 2])
    for _ in range(4):
        made.add_free(recv.Chunk(np.zeros((4, 1000), "u1"), heaps=4, extra=4))
    made.add_bytes(packets([heap(n, channel) for n in range(10) for channel in (3, 1, 0, 2)], packet=200))
    for n in range(10):
        chunk = made.get(SOON)
        assert (chunk.id, bytes(chunk.extra)) == (n, bytes([1, 2, 0, 4]))
        check(chunk, absent=(2,))
        chunk.data[:] = 0
        made.add_free(chunk)
    assert made.stats()["rejected_heaps"] == 10


@pytest.mark.parametrize(
    "hostile",
    [
        {"heap_offset": 3001},
        {"heap_offset": (1 << 64) - 500},
        {"heap_index": 4},
        {"heap_index": (1 << 64) - 1},
        {"extra_size": 5},
        {"extra_size": 65},
        {"extra_size": (1 << 64) - 1},
        {"extra_size": 4, "extra_offset": 1},
        {"extra_size": 4, "extra_offset": (1 << 64) - 2},
        {"chunk_id": -(1 << 63)},
    ],
)
def test_what_a_compiled_function_answers_is_checked(hostile):
    asked = []

    @PLACE
    def place(data, size):
        assert size == ctypes.sizeof(recv.PlaceData)
        asked.append(data[0].items[0])
        data[0].chunk_id = 0
        if len(asked) == 1:
            for name, value in hostile.items():
                setattr(data[0], name, value)

    made = recv.ChunkStream(place=place, items=[0x4103])
    made.add_free(recv.Chunk(np.zeros((4, 1000), "u1"), heaps=4, extra=4))
    made.add_bytes(packets([heap(0, 3), heap(0, 1)], packet=0))
    [chunk] = made
    assert asked == [3, 1]
    assert (list(chunk.present), bytes(chunk.extra)) == ([1, 0, 0, 0], bytes(4))
    assert chunk.data[0].tolist() == [1] * 1000
    assert not chunk.data[1:].any()
    assert made.stats()["rejected_heaps"] == 1


def test_a_place_function_that_waits_for_the_interpreter_blocks_nobody():
    """The reader holds the stream's lock while it wants the interpreter: no call may want the lock and keep it."""

    @PLACE
    def place(data, _):
        data[0].chunk_id, data[0].heap_index = data[0].items[0] // 256, 0

    made = recv.ChunkStream(place=place, items=[0x1600])
    for _ in range(4):
        made.add_free(recv.Chunk(np.zeros((4, 1000), "u1"), heaps=4))
    made.add_bytes(packets([heap(n, 0) for n in range(60)]))
    came = 0
    for chunk in made:
        made.stats(), made.start(), repr(made), made.fileno()
        came += chunk.heaps
        made.add_free(chunk)
    assert came == 60


async def test_chunks_with_asyncio():
    made = stream()
    with pytest.raises(Empty):
        await made.aget(0.01)
    made.add_bytes(packets([heap(n, channel) for n in range(3) for channel in range(4)]))
    async for chunk in made:
        check(chunk)


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="hint:"):
        recv.ChunkStream("item(", "0", "0")
    with pytest.raises(ValueError, match="hint:"):
        recv.ChunkStream(*RULE, max_chunks=0)
    with pytest.raises(TypeError, match="hint:"):
        recv.ChunkStream(*RULE, place=PLACE(rule_in_python))
    with pytest.raises(TypeError, match="hint:"):
        recv.ChunkStream("0", "0")
    with pytest.raises(TypeError, match="compiled.*hint:"):
        recv.ChunkStream(place=rule_in_python)
    with pytest.raises(ValueError, match="hint:"):
        recv.ChunkStream(place=PLACE(0))
    with pytest.raises(ValueError, match="65 items.*hint:"):
        recv.ChunkStream(place=PLACE(rule_in_python), items=range(65))
    with pytest.raises(BufferError, match="hint:"):
        recv.Chunk(b"not writable", heaps=1)
    with pytest.raises(BufferError, match="hint:"):
        recv.Chunk(np.zeros((4, 4))[:, ::2], heaps=1)
    for objects in (np.array([object()]), np.zeros(2, [("number", "u1"), ("what", "O")])):
        with pytest.raises(BufferError, match="objects.*hint:"):
            recv.Chunk(objects, heaps=1)
        with pytest.raises(BufferError, match="objects.*hint:"):
            send.Heap().add_item(0x1000, objects)
    recv.Chunk(np.zeros(2, [("Offset", "u1"), ("O", "<f4")]), heaps=1)
    for many in ({"heaps": 10**15}, {"heaps": 2**63}, {"heaps": 1, "extra": 10**15}):
        with pytest.raises(ValueError, match="at most.*"):
            recv.Chunk(np.zeros(10, "u1"), **many)
    with pytest.raises(ValueError, match="streams.*hint:"):
        recv.ChunkStream(*RULE, streams=1025)
    with pytest.raises(ValueError, match="extra_at"):
        recv.ChunkStream(*RULE, extra=[("counter", 8)])
    made, chunk = recv.ChunkStream(*RULE), recv.Chunk(np.zeros(10, "u1"), heaps=1)
    made.add_free(chunk)
    with pytest.raises(ValueError, match="hint:"):
        made.add_free(chunk)
    with pytest.raises(IndexError, match="hint:"):
        made.add_bytes(b"", stream=1)


def test_memory_is_lent_once_at_a_time():
    """Python keeps the array that it lends; two chunks over one would be two writers of the same bytes."""
    array = np.zeros((8, 1000), "u1")
    made = stream(chunks=0)
    made.add_free(recv.Chunk(array[:4], heaps=4))
    for overlapping in (array[:4], array[3:7], array, array[0, :1]):
        twice = recv.Chunk(overlapping, heaps=4)
        for other in (made, stream(chunks=0)):
            with pytest.raises(BufferError, match="overlaps .*hint: "):
                other.add_free(twice)
    beside = recv.Chunk(array[4:], heaps=4)
    made.add_free(beside)
    with pytest.raises(ValueError, match="already given"):
        made.add_free(beside)
    made.add_free(recv.Chunk(array[:0], heaps=0))
    del made
    other = stream(chunks=0)
    other.add_free(twice)
    other.add_free(recv.Chunk(array[1:], heaps=4))


def test_an_array_is_lent_until_the_chunk_comes_back():
    array = np.zeros((4, 1000), "u1")
    made = stream(chunks=0)
    made.add_free(recv.Chunk(array, heaps=4))
    made.add_bytes(packets([heap(7, channel) for channel in range(4)]))
    chunk = made.get(SOON)
    check(chunk)
    other = stream(chunks=0)
    other.add_free(recv.Chunk(array, heaps=4))
    with pytest.raises(BufferError):
        made.add_free(chunk)
    del other
    made.add_free(chunk)


def test_packets_that_the_program_changes_meanwhile_are_read_as_they_were():
    data = bytearray(packets([heap(n, channel) for n in range(10) for channel in range(4)]))
    receiver = recv.Stream(explicit_start=True)
    receiver.add_bytes(data)
    data[:] = bytes(len(data))
    data.extend(b"it may even grow")
    receiver.start()
    assert [got.counter for got in receiver] == list(range(1, 41))


def test_python_may_write_to_an_array_that_is_being_filled():
    arrays = [np.zeros((4, 1000), "u1") for _ in range(4)]
    made = stream(chunks=0)
    for array in arrays:
        made.add_free(recv.Chunk(array, heaps=4))
    made.add_bytes(packets([heap(n, channel) for n in range(60) for channel in range(4)]))
    for n in range(60):
        for array in arrays:
            array[:, 500:] = 255
        chunk = made.get(SOON)
        assert (chunk.id, chunk.heaps) == (n, 4)
        assert set(np.unique(chunk.data)) <= {255, *(n * 4 + channel for channel in range(4))}
        made.add_free(chunk)
