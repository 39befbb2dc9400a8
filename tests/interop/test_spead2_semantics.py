"""The same packets through spead2 and through skyhaul.spead2: which heaps come, when, and which packets are marked."""

import ctypes
import struct
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("skyhaul.spead2", reason="skyhaul is not installed here (make python)")
pytest.importorskip("spead2", reason="pip install -r tests/requirements.txt")
import spead2
import spead2.recv
import spead2.send

import skyhaul.spead2
import skyhaul.spead2.recv
import skyhaul.spead2.send
from skyhaul._place import PlaceData

pytestmark = pytest.mark.timeout(60)
BOTH = [spead2, skyhaul.spead2]
IMMEDIATE = 1 << 63
STAMP = 0x1600


def packet(counter, offset, payload, size, more=()):
    pointers = [(1, counter), (2, size), (3, offset), (4, len(payload)), (STAMP, counter), *more]
    words = [(0 if len(item) == 3 else IMMEDIATE) | item[0] << 48 | item[1] for item in pointers]
    return struct.pack(f">BBBBHH{len(words)}Q", 0x53, 4, 2, 6, 0, len(words), *words) + payload


def heap(counter, parts, length=400, items=((0x2000, 0, "address"),)):
    """The packets of a heap in so many parts."""
    return [packet(counter, n * length, bytes([counter & 0xFF]) * length, parts * length, items) for n in range(parts)]


def received(module, packets, **config):
    """(counter, whether it is complete, its items) in order of delivery, and the statistics."""
    settings = module.recv.StreamConfig(**config)
    ring = module.recv.RingStreamConfig(heaps=1000, contiguous_only=False)
    queue = module.InprocQueue()
    for one in packets:
        queue.add_packet(one)
    queue.stop()
    stream = module.recv.Stream(module.ThreadPool(), settings, ring)
    stream.add_inproc_reader(queue)
    heaps = [
        (one.cnt, isinstance(one, module.recv.Heap), sorted((raw.id, bytes(raw)) for raw in one.get_items()))
        for one in stream
    ]
    stats = stream.stats
    names = ("heaps", "incomplete_heaps_evicted", "incomplete_heaps_flushed", "packets", "single_packet_heaps")
    return heaps, {name: stats[name] for name in names}


def alike(packets, **config):
    theirs, ours = (received(module, packets, **config) for module in BOTH)
    assert ours[1] == theirs[1]
    # At the end of the stream, spead2 gives up the heaps of one substream after the other.
    ended = len(theirs[0]) - theirs[1]["incomplete_heaps_flushed"]
    assert ours[0][:ended] == theirs[0][:ended]
    assert sorted(ours[0]) == sorted(theirs[0])
    return theirs[0]


@pytest.mark.parametrize("parts", [1, 2])
def test_an_incomplete_heap_is_pushed_out_by_newer_ones(parts):
    """By the fourth that begins after it, complete or not."""
    packets = heap(100, 3)[:2] + [one for counter in range(10) for one in heap(counter, parts)]
    order = [counter for counter, _, _ in alike(packets, max_heaps=4)]
    assert order.index(100) == 3


@pytest.mark.parametrize("max_heaps", [1, 2, 4, 7])
@pytest.mark.parametrize("substreams", [1, 3])
@pytest.mark.parametrize("out_of_order", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_heaps_with_losses_end_in_the_same_order(max_heaps, substreams, out_of_order, seed):
    random = np.random.default_rng(seed)
    packets = [one for counter in range(200) for one in heap(counter, int(random.integers(1, 4)), 40)]
    kept = [one for one in packets if random.random() > 0.2]
    settings = {"max_heaps": max_heaps, "substreams": substreams, "allow_out_of_order": out_of_order}
    heaps = alike(kept, **settings)
    assert any(not complete for _, complete, _ in heaps)
    assert any(complete for _, complete, _ in heaps)


def test_a_heap_with_an_item_beyond_its_end_is_dropped_whole():
    packets = heap(1, 1) + heap(2, 1, items=((0x2000, 401, "address"),)) + heap(3, 2)
    for module in BOTH:
        heaps, _ = received(module, packets)
        assert [counter for counter, complete, _ in heaps if complete] == [1, 3]
    packets = heap(1, 1, items=((0x2000, 0, "address"), (0x2001, 400, "address")))
    assert [len(items) for _, _, items in alike(packets)] == [2]


def test_incomplete_heaps_have_their_ranges():
    packets = heap(5, 4, 100)
    ranges = {}
    for module in BOTH:
        ring = module.recv.RingStreamConfig(contiguous_only=False, incomplete_keep_payload_ranges=True)
        stream = module.recv.Stream(module.ThreadPool(), module.recv.StreamConfig(allow_out_of_order=True), ring)
        stream.add_buffer_reader(packets[0] + packets[2])
        (one,) = list(stream)
        ranges[module] = one.payload_ranges, one.received_length, one.heap_length, len(one.get_items())
    assert ranges[spead2] == ranges[skyhaul.spead2] == ([(0, 100), (200, 300)], 200, 400, 1)


PLACE = ctypes.CFUNCTYPE(None, ctypes.POINTER(PlaceData), ctypes.c_size_t)
PACKETS, HEAPS, LENGTH = 4, 8, 100


@PLACE
def place(data, _):
    stamp = ctypes.cast(data[0].items, ctypes.POINTER(ctypes.c_int64))[0]
    data[0].chunk_id = stamp // HEAPS if stamp < 1 << 40 else -1
    by_packet = ctypes.cast(data[0].items, ctypes.POINTER(ctypes.c_int64))[1] == 1
    data[0].heap_index = stamp % HEAPS * (PACKETS if by_packet else 1)
    data[0].heap_offset = stamp % HEAPS * PACKETS * LENGTH


placed = place


def chunks(module, packets, presence, **config):
    """(number, marks, bytes where there are marks) of each chunk, and the statistics."""
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    new = make(("PyCapsule_New", ctypes.pythonapi))
    capsule = new(ctypes.cast(placed, ctypes.c_void_p), b"void (void *, size_t)", None)
    given = module.recv.ChunkStreamConfig(items=[STAMP, 0x1700], max_chunks=3, place=(capsule,))
    if presence:
        given.enable_packet_presence(LENGTH)
    data, free = module.recv.ChunkRingbuffer(100), module.recv.ChunkRingbuffer(100)
    for _ in range(100):
        free.put(module.recv.Chunk(data=np.zeros(HEAPS * PACKETS * LENGTH, "u1"), present=np.zeros(HEAPS * PACKETS, "u1")))
    queue = module.InprocQueue()
    for one in packets:
        queue.add_packet(one)
    queue.stop()
    stream = module.recv.ChunkRingStream(module.ThreadPool(), module.recv.StreamConfig(**config), given, data, free)
    stream.add_inproc_reader(queue)
    told = [(chunk.chunk_id, bytes(chunk.present), bytes(chunk.data)) for chunk in data]
    stats = stream.stats
    names = ("heaps", "incomplete_heaps_evicted", "packets", "too_old_heaps", "rejected_heaps")
    stream.stop()
    return told, {name: stats[name] for name in names}


@pytest.mark.parametrize("presence", [False, True])
@pytest.mark.parametrize("out_of_order", [False, True])
@pytest.mark.parametrize("max_heaps", [1, 4, 64])
@pytest.mark.parametrize("seed", range(3))
def test_chunks_have_the_same_packets_and_marks(presence, max_heaps, out_of_order, seed):
    random = np.random.default_rng(seed)
    more = ((0x1700, int(presence)), (0x2000, 0, "address"))
    sent = [one for counter in range(120) for one in heap(counter, PACKETS, LENGTH, more)]
    # One in some is rejected, which is no reason to ask again.
    for at in (0, 100, 300):
        sent[at:at] = heap((1 << 47) + at, 3, LENGTH, more)
    kept = [one for one in sent if random.random() > 0.08]
    theirs, ours = (
        chunks(module, kept, presence, max_heaps=max_heaps, allow_out_of_order=out_of_order) for module in BOTH
    )
    assert ours == theirs
    assert theirs[1]["rejected_heaps"] >= 2
    if presence and out_of_order:
        marked = sum(sum(present) for _, present, _ in theirs[0])
        assert marked >= len(kept) - 3 * 3


@pytest.mark.parametrize("module", BOTH, ids=["spead2", "skyhaul"])
def test_a_place_function_gets_the_same_packet(module, monkeypatch):
    seen = []

    @PLACE
    def kept(data, size):
        seen.append(ctypes.string_at(data[0].packet, data[0].packet_size))
        place(data, size)

    monkeypatch.setitem(globals(), "placed", kept)
    packets = [one for counter in range(20) for one in heap(counter, PACKETS, LENGTH)[counter % PACKETS :]]
    chunks(module, packets, False, allow_out_of_order=True)
    assert seen == [heap(counter, PACKETS, LENGTH)[counter % PACKETS] for counter in range(20)]


@pytest.mark.parametrize("words", [["program.py", "1", "two"], ["-m", "program", "1", "two"]])
def test_a_program_of_spead2s_runs_unchanged(tmp_path, words):
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\n"
        "import spead2, spead2.recv, spead2.send.asyncio\n"
        "from spead2.recv.asyncio import ChunkRingbuffer\n"
        "import skyhaul.spead2.recv\n"
        "assert spead2.recv.Stream is skyhaul.spead2.recv.Stream, spead2.__file__\n"
        "assert __name__ == '__main__'\n"
        "try:\n"
        "    import spead2.tools\n"
        "except ModuleNotFoundError as error:\n"
        "    print(error.name)\n"
        "print(sys.argv[1:], spead2.recv.__name__)\n"
    )
    run = [sys.executable, "-m", "skyhaul.spead2", *words]
    ended = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False)
    assert ended.stderr == ""
    assert ended.stdout.splitlines() == ["spead2.tools", "['1', 'two'] skyhaul.spead2.recv"]
    assert ended.returncode == 0


def test_a_program_that_is_not_there_is_wrong_use():
    for words in (["no_such_program.py"], []):
        run = [sys.executable, "-m", "skyhaul.spead2", *words]
        ended = subprocess.run(run, capture_output=True, text=True, timeout=50, check=False)
        assert ended.returncode == 2
        assert "usage: python -m skyhaul.spead2" in ended.stderr
