"""Heaps that go into chunks with their first packet, and what of them is marked, in both packages."""

import ctypes
import socket
import struct
import time

import numpy as np
import pytest

import skyhaul.spead2 as spead2
import skyhaul.spead2.recv as recv2
from skyhaul._place import PlaceData
from skyhaul.spead import InprocQueue, recv

SOON = 30.0
IMMEDIATE = 1 << 63
PACKET = 1000
#: Packets of a heap, heaps of a chunk.
PACKETS, HEAPS = 4, 8
BYTES = PACKET * PACKETS
STAMP = 0x1600


def packet(counter, number, size=BYTES, items=True):
    """Packet `number` of the heap of this counter, SPEAD-64-48, which is also its stamp."""
    pointers = [(1, counter), (2, size), (3, number * PACKET), (4, PACKET), *([(STAMP, counter)] if items else [])]
    head = struct.pack(">BBBBHH", 0x53, 4, 2, 6, 0, len(pointers))
    return head + b"".join(struct.pack(">Q", IMMEDIATE | id << 48 | value) for id, value in pointers) + payload(counter, number)


def payload(counter, number):
    return bytes([counter * PACKETS + number & 0xFF]) * PACKET


def survivors(heaps, seed):
    """(counter, number) of packets of which some are lost, in order."""
    random = np.random.default_rng(seed)
    every = [(counter, number) for counter in range(heaps) for number in range(PACKETS)]
    return [one for one in every if random.random() > 0.07]


def check(id, data, present, arrived):
    """Every packet that arrived is marked and in its place, and no other."""
    marks = np.frombuffer(present, np.uint8)
    for at in range(HEAPS * PACKETS):
        counter, number = id * HEAPS + at // PACKETS, at % PACKETS
        assert marks[at] == ((counter, number) in arrived), (id, at)
        if marks[at]:
            assert bytes(data[at * PACKET : (at + 1) * PACKET]) == payload(counter, number)
    return int(marks.sum())


def place_by_stamp(data, _):
    stamp = data[0].items[0]
    data[0].chunk_id = stamp // HEAPS
    data[0].heap_index, data[0].heap_offset = stamp % HEAPS * PACKETS, stamp % HEAPS * BYTES


PLACE = ctypes.CFUNCTYPE(None, ctypes.POINTER(PlaceData), ctypes.c_size_t)


def capsule(function, signature=b"void (void *, size_t)"):
    compiled = PLACE(function)
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return make(("PyCapsule_New", ctypes.pythonapi))(ctypes.cast(compiled, ctypes.c_void_p), signature, None), compiled


def spead2_stream(function=place_by_stamp, chunks=4, presence=PACKET, items=(STAMP,), **config):
    data, free = recv2.ChunkRingbuffer(chunks), recv2.ChunkRingbuffer(chunks)
    for _ in range(chunks):
        free.put(recv2.Chunk(data=bytearray(BYTES * HEAPS), present=bytearray(HEAPS * PACKETS)))
    given = recv2.ChunkStreamConfig(items=list(items), place=capsule(function))
    if presence:
        given.enable_packet_presence(presence)
    settings = recv2.StreamConfig(allow_out_of_order=True, **config)
    return recv2.ChunkRingStream(spead2.ThreadPool(), settings, given, data, free)


@pytest.mark.parametrize("seed", [1, 2])
def test_each_received_packet_is_marked_in_spead2s_chunks(seed):
    arrived = survivors(100, seed)
    stream = spead2_stream()
    stream.add_buffer_reader(b"".join(packet(*one) for one in arrived))
    marked = 0
    for chunk in stream.data_ringbuffer:
        marked += check(chunk.chunk_id, chunk.data, chunk.present, set(arrived))
        stream.add_free_chunk(chunk)
    assert marked == len(arrived)
    stream.stop()


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("compiled", [False, True])
def test_each_received_packet_is_marked_in_our_chunks(seed, compiled):
    arrived = survivors(100, seed)
    rule = ("item(0x1600) / 8", "item(0x1600) % 8 * 4", "item(0x1600) % 8 * 4000")
    options = {"place": PLACE(place_by_stamp), "items": [STAMP]} if compiled else {}
    stream = recv.ChunkStream(*(() if compiled else rule), packet_presence=PACKET, **options)
    for _ in range(4):
        stream.add_free(recv.Chunk(np.zeros(BYTES * HEAPS, "u1"), heaps=HEAPS * PACKETS))
    stream.add_bytes(b"".join(packet(*one) for one in arrived))
    marked = complete = 0
    for chunk in stream:
        marked += check(chunk.id, chunk.data, bytes(chunk.present), set(arrived))
        complete += chunk.heaps
        stream.add_free(chunk)
    assert marked == len(arrived)
    assert complete == sum(all((counter, n) in set(arrived) for n in range(PACKETS)) for counter in range(100))


def over_udp(address, stats, heaps):
    """Sends heaps until the kernel places them, then `heaps` more, some packets of them lost, and the end. Returns the packets."""
    host, port = address.rsplit(":", 1)
    sent, total = set(), 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect((host, int(port)))

        def send(packets):
            nonlocal total
            for one in packets:
                sender.send(packet(*one))
                sent.add(one)
                total += 1
                if total % 32 == 0:
                    wait()
            wait()

        def wait():
            until = time.monotonic() + SOON
            while stats()["packets"] < total:
                assert time.monotonic() < until, stats()
                time.sleep(0.001)

        counter, until = 0, time.monotonic() + SOON
        while stats()["readers"][0]["tier"] != "bpf":
            assert time.monotonic() < until, stats()["readers"]
            send((counter, number) for number in range(PACKETS))
            counter += 1
            time.sleep(0.002)
        send((counter + at, number) for at, number in survivors(heaps, 3))
        stop = [(1, 1 << 40), (2, 0), (3, 0), (4, 0), (6, 2)]
        words = b"".join(struct.pack(">Q", IMMEDIATE | id << 48 | value) for id, value in stop)
        sender.send(struct.pack(">BBBBHH", 0x53, 4, 2, 6, 0, len(stop)) + words)
    return sent


def placed_by_kernel(add):
    try:
        return add()
    except OSError as why:
        if "CAP_BPF" not in str(why):
            raise
        pytest.skip(str(why))


def test_the_kernel_places_what_goes_into_our_chunks():
    rule = ("item(0x1600) / 8", "item(0x1600) % 8 * 4", "item(0x1600) % 8 * 4000")
    stream = recv.ChunkStream(*rule, packet_presence=PACKET, heap_timeout=None, ring=1024)
    for _ in range(200):
        stream.add_free(recv.Chunk(np.zeros(BYTES * HEAPS, "u1"), heaps=HEAPS * PACKETS))
    address = placed_by_kernel(lambda: stream.add_udp("127.0.0.1:0", tier="bpf"))
    sent = over_udp(address, lambda: stream.stats()["streams"][0], 400)
    marked = sum(check(chunk.id, chunk.data, bytes(chunk.present), sent) for chunk in stream)
    assert marked == len(sent)
    [reader] = stream.stats()["streams"][0]["readers"]
    assert (reader["kernel_drops"], reader["error"]) == (0, None)


@pytest.mark.parametrize("own", [False, True])
def test_the_kernel_places_what_goes_into_spead2s_chunks(own):
    stream = spead2_stream(chunks=200)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        if own:
            placed_by_kernel(lambda: stream.add_udp_reader(bound, tier="bpf"))
    if not own:
        placed_by_kernel(lambda: stream.add_udp_reader(port, bind_hostname="127.0.0.1", tier="bpf"))
    sent = over_udp(f"127.0.0.1:{port}", lambda: stream._native.stats(), 400)
    marked = sum(check(chunk.chunk_id, chunk.data, chunk.present, sent) for chunk in stream.data_ringbuffer)
    assert marked == len(sent)
    assert stream._native.stats()["readers"][0]["kernel_drops"] == 0
    stream.stop()
    with pytest.raises(ValueError, match='tier is "xdp"'):
        spead2_stream().add_udp_reader(0, tier="xdp")


@pytest.mark.parametrize("presence", [0, -1])
def test_an_impossible_presence_is_refused(presence):
    with pytest.raises(ValueError, match="packet_presence.*hint: "):
        recv.ChunkStream("0", "0", "0", packet_presence=presence)


def test_a_chunk_is_opened_by_the_first_packet_and_filled_before_the_heap_ends():
    queue = spead2.InprocQueue()
    stream = spead2_stream(presence=0)
    stream.add_inproc_reader(queue)
    # One packet of each chunk: the window of two moves on although no heap is complete.
    for chunk in range(4):
        queue.add_packet(packet(chunk * HEAPS, 1))
    for id in range(2):
        chunk = stream.data_ringbuffer.get()
        assert chunk.chunk_id == id
        assert not any(chunk.present)
        assert chunk.data[PACKET : 2 * PACKET] == payload(id * HEAPS, 1)
    stream.stop()


def test_packets_of_a_finished_chunk_are_not_written():
    stream = spead2_stream(presence=0)
    first = [packet(0, number) for number in range(PACKETS)]
    later = [packet(counter * HEAPS, 0) for counter in range(1, 4)]
    stream.add_buffer_reader(b"".join([first[0], *later, *first[1:]]))
    chunks = list(stream.data_ringbuffer)
    assert [chunk.chunk_id for chunk in chunks] == [0, 1, 2, 3]
    assert bytes(chunks[0].data[:BYTES]) == payload(0, 0) + bytes(BYTES - PACKET)
    assert stream.stats["too_old_heaps"] == 1
    assert stream.stats["rejected_heaps"] == 0
    stream.stop()


def test_a_heap_is_asked_for_once_whatever_the_answer():
    """Its first packet has the items; the others have none."""
    asked = []

    def place(data, size):
        asked.append((data[0].items[0], data[0].items[1]))
        data[0].batch_stats[recv2.StreamConfig().next_stat_index()] += 1
        if asked[-1][0] == 1:
            place_by_stamp(data, size)

    config = recv2.StreamConfig(allow_out_of_order=True)
    config.add_stat("asked")
    data, free = recv2.ChunkRingbuffer(2), recv2.ChunkRingbuffer(2)
    free.put(recv2.Chunk(data=bytearray(BYTES * HEAPS), present=bytearray(HEAPS)))
    given = recv2.ChunkStreamConfig(items=[STAMP, spead2.HEAP_LENGTH_ID], place=capsule(place))
    stream = recv2.ChunkRingStream(spead2.ThreadPool(), config, given, data, free)
    heaps = [packet(counter, number, items=number == 0) for counter in (0, 1, 2) for number in range(PACKETS)]
    stream.add_buffer_reader(b"".join(heaps))
    (chunk,) = list(data)
    assert chunk.data[BYTES : 2 * BYTES] == b"".join(payload(1, number) for number in range(PACKETS))
    assert asked == [(counter, BYTES) for counter in (0, 1, 2)]
    stats = stream.stats
    assert (stats["asked"], stats["rejected_heaps"], stats["heaps"]) == (3, 2, 3)
    stream.stop()


def test_a_heap_without_a_place_moves_no_window():
    def place(data, size):
        place_by_stamp(data, size)
        if data[0].items[0] == 10_000:
            data[0].heap_offset = BYTES * HEAPS

    stream = spead2_stream(place)
    sent = [(0, n) for n in range(PACKETS)] + [(10_000, 0)] + [(1, n) for n in range(PACKETS)]
    stream.add_buffer_reader(b"".join(packet(*one) for one in sent))
    (chunk,) = list(stream.data_ringbuffer)
    assert check(chunk.chunk_id, chunk.data, chunk.present, set(sent)) == 2 * PACKETS
    assert stream.stats["rejected_heaps"] == 1
    stream.stop()


def test_our_own_senders_heap_of_descriptors_moves_no_window():
    """It has the largest counter, and comes first."""
    stream = recv.ChunkStream("counter / 8", "counter % 8", "counter % 8 * 4000")
    for _ in range(2):
        stream.add_free(recv.Chunk(np.zeros(BYTES * HEAPS, "u1"), heaps=HEAPS))
    # As `skyhaul send` makes it: several packets, of which the first alone has items.
    nested = bytes(3000)
    first = struct.pack(">BBBBHH", 0x53, 4, 2, 6, 0, 5)
    pointers = [(1, (1 << 48) - 1), (2, 3000), (3, 0), (4, 1500)]
    own = b"".join(struct.pack(">Q", IMMEDIATE | id << 48 | value) for id, value in pointers)
    second = [(1, (1 << 48) - 1), (2, 3000), (3, 1500), (4, 1500)]
    rest = b"".join(struct.pack(">Q", IMMEDIATE | id << 48 | value) for id, value in second)
    heap = first + own + struct.pack(">Q", 5 << 48) + nested[:1500]
    heap += struct.pack(">BBBBHH", 0x53, 4, 2, 6, 0, 4) + rest + nested[1500:]
    stream.add_bytes(heap + b"".join(packet(counter, n) for counter in range(16) for n in range(PACKETS)))
    assert [(chunk.id, chunk.heaps) for chunk in stream] == [(0, 8), (1, 8)]
    stats = stream.stats()
    assert (stats["rejected_heaps"], stats["too_old_heaps"]) == (1, 0)


def test_a_function_of_ours_counts_in_batch_stats():
    def place(data, size):
        data[0].batch_stats[0] = 1
        data[0].batch_stats[1] = data[0].items[0]
        if data[0].items[0] % 2:
            place_by_stamp(data, size)

    counters = [("bytes", "sum", "size"), ("asked", "sum"), ("latest", "max")]
    stream = recv.ChunkStream(place=PLACE(place), items=[STAMP], counters=counters)
    stream.add_free(recv.Chunk(np.zeros(BYTES * HEAPS, "u1"), heaps=HEAPS * PACKETS))
    stream.add_bytes(b"".join(packet(counter, n) for counter in range(6) for n in range(PACKETS)))
    (chunk,) = list(stream)
    assert chunk.heaps == 3
    assert stream.stats()["counters"] == {"bytes": 3 * BYTES, "asked": 6, "latest": 5}
    with pytest.raises(ValueError, match="hint: pass place"):
        recv.ChunkStream("0", "0", "0", counters=[("asked", "sum")])
    with pytest.raises(ValueError, match="17 counters.*hint: "):
        recv.ChunkStream(place=PLACE(place), counters=[(f"counter_{n}", "sum") for n in range(17)])


def test_a_chunk_stream_that_waits_for_chunks_can_be_stopped():
    queue = spead2.InprocQueue()
    stream = spead2_stream(chunks=1)
    stream.add_inproc_reader(queue)
    for chunk in range(4):
        queue.add_packet(packet(chunk * HEAPS, 0))
    # The first chunk is being filled, and the reader waits for one to put beside it.
    while not stream.free_ringbuffer.empty():
        time.sleep(0.01)
    stream.stop()
    with pytest.raises(spead2.Stopped):
        stream.data_ringbuffer.get()


def test_several_readers_of_a_chunk_stream_may_wait_at_once():
    queues = [InprocQueue() for _ in range(3)]
    stream = spead2_stream(max_heaps=64)
    native = stream._native
    for queue in queues:
        native.add_inproc(queue)
    for counter in range(64):
        for number in range(PACKETS):
            queues[number % 3].push(packet(counter, number))
    for queue in queues:
        queue.close()
    marked = 0
    for chunk in stream.data_ringbuffer:
        marked += sum(chunk.present)
        stream.add_free_chunk(chunk)
    assert marked + PACKETS * stream.stats["too_old_heaps"] >= 32 * PACKETS
    stream.stop()


def test_members_of_a_group_fill_the_same_chunks_at_once():
    chunks, members = 40, 2
    data, free = recv2.ChunkRingbuffer(4), recv2.ChunkRingbuffer(4)
    lossless = recv2.ChunkStreamGroupConfig.EvictionMode.LOSSLESS
    group = recv2.ChunkStreamRingGroup(recv2.ChunkStreamGroupConfig(eviction_mode=lossless), data, free)
    for _ in range(4):
        group.add_free_chunk(recv2.Chunk(data=bytearray(BYTES * HEAPS), present=bytearray(HEAPS * PACKETS)))
    given = recv2.ChunkStreamConfig(items=[STAMP], place=capsule(place_by_stamp)).enable_packet_presence(PACKET)
    for _ in range(members):
        group.emplace_back(spead2.ThreadPool(), recv2.StreamConfig(), given)
    every = [(counter, number) for counter in range(chunks * HEAPS) for number in range(PACKETS)]
    for at, member in enumerate(group):
        member.add_buffer_reader(b"".join(packet(*one) for one in every if one[0] % members == at))
    arrived = set(every)
    for chunk in data:
        assert check(chunk.chunk_id, chunk.data, chunk.present, arrived) == HEAPS * PACKETS
        group.add_free_chunk(chunk)
    group.stop()


# ---- what is no place function


def three_arguments(kind):
    if kind == "ctypes":
        return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)(lambda data, size, user: None)
    numba = pytest.importorskip("numba")
    from skyhaul.spead.numba import place_data

    types = numba.types
    return numba.cfunc(types.void(types.CPointer(place_data), types.uintp, types.CPointer(types.int64)))(
        lambda data, size, user: None
    )


@pytest.mark.parametrize("kind", ["ctypes", "numba"])
def test_a_function_of_three_arguments_needs_its_user_data(kind):
    with pytest.raises(TypeError, match="has 3; hint: .*user_data"):
        recv.ChunkStream(place=three_arguments(kind))
    scipy = pytest.importorskip("scipy")
    function = three_arguments(kind)
    bare = function if kind == "ctypes" else function.ctypes
    with pytest.raises(ValueError, match="3 arguments.*signature.*hint: "):
        recv.ChunkStream(place=scipy.LowLevelCallable(bare, signature="void (void *, size_t)"))
    user = ctypes.cast(ctypes.pointer(ctypes.c_int64(5)), ctypes.c_void_p)
    accepted = scipy.LowLevelCallable(bare, user_data=user, signature="void (void *, size_t, void *)")
    recv.ChunkStream(place=accepted)
    recv2.ChunkStreamConfig(place=accepted)


def test_a_third_argument_that_the_signature_leaves_out_is_null_in_spead2():
    scipy = pytest.importorskip("scipy")
    seen = []

    @ctypes.CFUNCTYPE(None, ctypes.POINTER(PlaceData), ctypes.c_size_t, ctypes.c_void_p)
    def place(data, size, user):
        seen.append(user)
        place_by_stamp(data, size)

    place_config = recv2.ChunkStreamConfig(
        items=[STAMP], place=scipy.LowLevelCallable(place, signature="void (void *, size_t)")
    )
    data, free = recv2.ChunkRingbuffer(1), recv2.ChunkRingbuffer(1)
    free.put(recv2.Chunk(data=bytearray(BYTES * HEAPS), present=bytearray(HEAPS * PACKETS)))
    stream = recv2.ChunkRingStream(spead2.ThreadPool(), recv2.StreamConfig(), place_config, data, free)
    stream.add_buffer_reader(b"".join(packet(0, n) for n in range(PACKETS)))
    assert len(list(data)) == 1
    assert seen == [None]
    stream.stop()


def test_a_function_of_unknown_arguments_is_not_called():
    function = ctypes.CDLL(None).abort
    with pytest.raises(TypeError, match="not known; hint: function.argtypes"):
        recv.ChunkStream(place=function)
    function = ctypes.CDLL(None).free
    function.argtypes = [ctypes.c_void_p]
    with pytest.raises(TypeError, match="has 1; hint: "):
        recv.ChunkStream(place=function)


def test_the_type_for_numba_is_that_of_ctypes():
    pytest.importorskip("numba")
    import skyhaul.spead2.recv.numba
    from skyhaul.spead.numba import place_data

    assert place_data.size == ctypes.sizeof(PlaceData)
    for name, _ in PlaceData._fields_:
        assert place_data.offset(name) == getattr(PlaceData, name).offset
    assert skyhaul.spead2.recv.numba.chunk_place_data is place_data


# ---- the packet of a place function


class Seen:
    """A place function that keeps the packets that it gets."""

    def __init__(self):
        self.packets = []

    def __call__(self, data, size):
        self.packets.append(ctypes.string_at(data[0].packet, data[0].packet_size))
        place_by_stamp(data, size)


def placed_by(seen):
    stream = recv.ChunkStream(place=PLACE(seen), items=[STAMP])
    for _ in range(2):
        stream.add_free(recv.Chunk(np.zeros(BYTES * HEAPS, "u1"), heaps=HEAPS * PACKETS))
    return stream


# The first packet of a heap that arrives need not be its first one.
ARRIVING = [(0, 0), (0, 1), (0, 2), (0, 3), (1, 2), (1, 0), (2, 1), (2, 3)]
FIRST = [packet(0, 0), packet(1, 2), packet(2, 1)]


@pytest.mark.parametrize("way", ["bytes", "inproc", "udp"])
def test_a_place_function_gets_the_first_packet_of_a_heap(way):
    seen = Seen()
    with placed_by(seen) as stream:
        sent = [packet(*one) for one in ARRIVING]
        if way == "bytes":
            stream.add_bytes(b"".join(sent))
        elif way == "inproc":
            queue = InprocQueue()
            stream.add_inproc(queue)
            for one in sent:
                queue.push(one)
            queue.close()
        else:
            host, _, port = stream.add_udp("127.0.0.1:0").rpartition(":")
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
                for one in sent:
                    out.sendto(one, (host, int(port)))
            wait_for(lambda: stream.stats()["streams"][0]["packets"] == len(sent))
        if way != "udp":
            list(stream)
    assert seen.packets == FIRST


def test_over_tcp_it_gets_the_head_of_the_first_packet():
    seen = Seen()
    with placed_by(seen) as stream:
        host, _, port = stream.add_tcp("127.0.0.1:0", buffer=1 << 20).rpartition(":")
        with socket.create_connection((host, int(port))) as out:
            out.sendall(b"".join(packet(*one) for one in ARRIVING))
        wait_for(lambda: stream.stats()["streams"][0]["packets"] == len(ARRIVING))
    assert seen.packets == [one[:-PACKET] for one in FIRST]


def test_a_place_function_of_spead2_gets_it_too():
    seen = Seen()
    stream = spead2_stream(seen)
    stream.add_buffer_reader(b"".join(packet(*one) for one in ARRIVING))
    list(stream.data_ringbuffer)
    stream.stop()
    # It is asked once for a heap, also if the chunk had to be opened first.
    assert seen.packets == FIRST


def wait_for(done):
    end = time.monotonic() + SOON
    while not done():
        assert time.monotonic() < end
        time.sleep(0.01)
