"""A short run of all of the package, for each Python and NumPy that it is for: `python -W error smoke.py DIRECTORY`.

It needs the package and NumPy, nothing else. `tests/interop/test_versions.py` runs it.
"""

import asyncio
import ctypes
import pathlib
import sys

import numpy as np

import skyhaul
import skyhaul.ejfat
import skyhaul.spead2 as spead2
import skyhaul.spead2.recv
import skyhaul.spead2.recv.asyncio
import skyhaul.spead2.send
import skyhaul.spead2.send.asyncio
from skyhaul import recording
from skyhaul.spead import HeapGenerator, InprocQueue, ItemGroup, recv, send

SOON = 30.0
VALUES = {
    "power": ({"shape": (8,), "dtype": "<f4"}, np.arange(8, dtype="<f4")),
    "packed": ({"shape": (5,), "format": [("u", 12)]}, np.arange(5, dtype="u2") * 800),
    "fortran": ({"shape": (2, 3), "dtype": ">i4", "order": "F"}, np.arange(6, dtype=">i4").reshape(2, 3)),
    "number": ({"shape": (), "format": [("u", 48)]}, 1 << 40),
    "text": ({"shape": (None,), "format": [("c", 8)]}, "Effelsberg"),
    "when": ({"shape": (2,), "dtype": "<M8[ns]"}, np.array(["2026-01-01", "2026-01-02"], "M8[ns]")),
}


def same(one, other):
    return one == other if isinstance(one, str) else np.array_equal(one, other)


def heaps():
    group, received = ItemGroup(), ItemGroup()
    for name, (form, value) in VALUES.items():
        group.add_item(name=name, value=value, **form)
    with recv.Stream() as stream, send.UdpStream(stream.add_udp("127.0.0.1:0")) as sender:
        sender.send(HeapGenerator(group).heap())
        heap = stream.get(SOON)
        received.update(heap)
    for name, (_, value) in VALUES.items():
        assert same(received[name].value, value), (name, received[name].value)
    assert heap.first.dtype == np.dtype("M8[ns]") and np.from_dlpack(heap.payload).size == heap.length


def chunks():
    source = send.BytesStream()
    for counter in range(8):
        heap = send.Heap()
        heap.add_item(0x1000, np.full(16, counter, "u1"))
        source.send(heap, counter)
    place = ctypes.CFUNCTYPE(None, ctypes.POINTER(recv.PlaceData), ctypes.c_size_t)

    def by_hand(data, _):
        counter = data[0].items[0]
        data[0].chunk_id, data[0].heap_index, data[0].heap_offset = counter // 4, counter % 4, counter % 4 * 16

    rules = ({"chunk": "counter / 4", "index": "counter % 4", "offset": "counter % 4 * 16", "where": "counter != 5"},
             {"place": place(by_hand), "items": [1]})  # fmt: skip
    for rule in rules:
        stream = recv.ChunkStream(**rule)
        for _ in range(2):
            stream.add_free(recv.Chunk(np.zeros((4, 16), "u1"), heaps=4))
        stream.add_bytes(source.getvalue())
        got = list(stream)
        assert [chunk.id for chunk in got] == [0, 1]
        assert got[1].present.tolist() == [True, "where" not in rule, True, True]
        assert got[1].data[3].tolist() == [7] * 16


def like_spead2():
    pool = spead2.ThreadPool()
    queue = spead2.InprocQueue()
    sender = spead2.send.InprocStream(pool, [queue], spead2.send.StreamConfig())
    group = spead2.send.ItemGroup()
    group.add_item(0x1000, "x", "", (4,), dtype="<i2", value=np.arange(4, dtype="<i2"))
    sender.send_heap(group.get_heap())
    queue.stop()
    stream = spead2.recv.Stream(pool)
    stream.add_inproc_reader(queue)
    received = spead2.ItemGroup()
    for heap in stream:
        assert all(isinstance(item, np.ndarray) for item in heap.get_items())
        received.update(heap)
    assert received["x"].value.tolist() == [0, 1, 2, 3]


async def coroutines():
    queue = InprocQueue()
    async with recv.Stream() as stream, send.InprocStream(queue) as sender:
        stream.add_inproc(queue)
        heap = send.Heap()
        heap.add_immediate(0x1000, 7)
        await sender.asend(heap)
        assert (await stream.aget(SOON)).items()[-1].value == 7


def samples(directory):
    path = directory / "smoke.vdif"
    path.unlink(missing_ok=True)  # of a run before this one
    data = np.where(np.arange(96000) % 3 == 0, np.float32(1), np.float32(-1))
    with recording.create(path, sample_rate=32_000_000, start="2026-02-03T04:05:06") as writer:
        writer.write(data)
    with recording.open(path, sample_rate=32_000_000) as scan:
        assert np.array_equal(scan.samples()[:, 0, 0], data)
        assert scan.headers()["number"].tolist() == [0, 1, 2]
        assert scan.samples(0.001, missing="mask").count() == 64000
        assert scan.times(count=2)[1] - scan.times(count=2)[0] == np.timedelta64(31, "ns")
        assert scan.survey().missing == 0


heaps()
chunks()
like_spead2()
asyncio.run(coroutines())
samples(pathlib.Path(sys.argv[1]))
print(f"skyhaul {skyhaul.__version__}, Python {sys.version.split()[0]}, NumPy {np.__version__}: good")
