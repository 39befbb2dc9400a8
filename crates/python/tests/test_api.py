"""What users of Python expect of an interface: signatures, errors, context managers, names, arrays of their own."""

import asyncio
import errno
import gc
import inspect
import socket
import types
import typing
import weakref

import numpy as np
import pytest

import skyhaul.spead2.recv
import skyhaul.spead2.send
from skyhaul import _native, ejfat, recording
from skyhaul.spead import HeapGenerator, InprocQueue, ItemGroup, recv, send

SOON = 30.0


def heap(counter=1, size=100, item=0x1600):
    made = send.Heap()
    made.add_immediate(item, counter)
    made.add_item(0x1601, np.full(size, counter % 251, "u1"))
    return made


def sent(*counters, **options):
    stream = send.BytesStream(**options)
    for counter in counters:
        stream.send(heap(counter), counter)
    return stream.getvalue()


# ---- signatures


MADE = [recv.Stream, recv.ChunkStream, send.UdpStream, send.TcpStream, send.InprocStream, send.BytesStream, ejfat.Worker, ejfat.Sender,
        skyhaul.spead2.recv.StreamConfig, skyhaul.spead2.send.StreamConfig]  # fmt: skip


@pytest.mark.parametrize("made", MADE)
def test_signatures_name_every_argument(made):
    parameters = inspect.signature(made).parameters.values()
    assert not [one.name for one in parameters if one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL)]
    assert len(parameters) > 5


def test_defaults_are_those_of_the_compiled_part():
    """What a signature says is what a stream does: the two are written twice."""

    def defaults(made):
        return {name: one.default for name, one in inspect.signature(made).parameters.items() if name not in ("args", "kwargs")}

    native = defaults(_native.ReceiveConfig)
    assert native["window"] == 16
    for made in (recv.Stream, recv.ChunkStream):
        said = defaults(made)
        for name, value in native.items():
            # What the compiled part cannot write in a signature is looked at below.
            if value is not ...:
                assert said[name] == value, (made, name)
        assert (said["largest"], said["heap_timeout"], said["name"], said["cpus"]) == (1 << 30, 1.0, "spead", ())
    sending = defaults(_native.SendConfig)
    for made in (send.UdpStream, send.TcpStream, send.InprocStream, send.BytesStream):
        for name, value in sending.items():
            said = defaults(made).get(name, value)
            assert said == value or (name == "packet" and said == 0 and made in (send.TcpStream, send.InprocStream)), (made, name)


def test_an_unknown_argument_is_a_type_error():
    for made in (recv.Stream, send.BytesStream):
        with pytest.raises(TypeError, match="windows"):
            made(windows=3)


# ---- errors


def test_errors_of_the_system_have_a_number_and_a_file(tmp_path):
    absent = tmp_path / "absent.pcap"
    with pytest.raises(FileNotFoundError) as raised:
        recv.Stream().add_pcap(absent)
    assert (raised.value.errno, raised.value.filename) == (errno.ENOENT, str(absent))
    assert str(raised.value).startswith("[Errno 2] No such file or directory")
    with pytest.raises(FileNotFoundError) as raised:
        recording.open(tmp_path / "absent.vdif")
    assert (raised.value.errno, raised.value.filename) == (errno.ENOENT, str(tmp_path / "absent.vdif"))
    with pytest.raises(FileNotFoundError, match="no scan trial on these disks") as raised:
        recording.open([tmp_path], "trial")
    assert (raised.value.errno, raised.value.filename) == (errno.ENOENT, str(tmp_path / "trial"))
    with pytest.raises(FileNotFoundError, match="No such file or directory; hint") as raised:
        recording.open([tmp_path / "gone"], "trial")
    assert (raised.value.errno, raised.value.filename) == (errno.ENOENT, str(tmp_path / "gone"))
    with pytest.raises(NotADirectoryError) as raised:
        (tmp_path / "file").touch()
        recording.ls(tmp_path / "file")
    assert (raised.value.errno, raised.value.filename) == (errno.ENOTDIR, str(tmp_path / "file"))


def test_errors_of_sockets_have_a_number():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(OSError, match="hint|in use") as raised:
            recv.Stream().add_udp(f"127.0.0.1:{taken.getsockname()[1]}")
    assert raised.value.errno == errno.EADDRINUSE
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError) as raised:
            send.TcpStream(f"127.0.0.1:{nobody.getsockname()[1]}", timeout=0.2)
        assert raised.value.errno == errno.ECONNREFUSED
        control_plane = f"ejfat://token@127.0.0.1:{nobody.getsockname()[1]}/lb/1?data=127.0.0.1:19522"
        for call in (lambda: ejfat.Worker(control_plane), lambda: ejfat.Balancer(control_plane).version()):
            with pytest.raises(ConnectionRefusedError, match="cannot be reached") as raised:
                call()
            assert raised.value.errno == errno.ECONNREFUSED


# ---- names of hosts


def test_errors_of_spead2s_streams_are_both_its_own_and_the_systems(tmp_path):
    stream = skyhaul.spead2.recv.Stream(skyhaul.spead2.ThreadPool())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        calls = [
            (errno.ENOENT, str(tmp_path / "nothing.pcap"), lambda: stream.add_udp_pcap_file_reader(str(tmp_path / "nothing.pcap"))),
            (errno.EADDRINUSE, None, lambda: stream.add_udp_reader(port, bind_hostname="127.0.0.1")),
            (socket.EAI_NONAME, None, lambda: stream.add_udp_reader(port, bind_hostname="nobody.invalid")),
        ]
        for number, filename, call in calls:
            with pytest.raises(RuntimeError) as told:
                call()
            assert isinstance(told.value, OSError)
            assert told.value.filename == filename
            # Without a network, a name cannot be asked for at all.
            assert told.value.errno == number or number == socket.EAI_NONAME and told.value.errno == socket.EAI_AGAIN


def test_an_error_without_a_number_keeps_its_text():
    from skyhaul.spead2._network import TransportError

    unnumbered = TransportError.of(OSError("set SO_RXQ_OVFL on udp://127.0.0.1:0: Protocol not available"))
    assert "SO_RXQ_OVFL" in str(unnumbered) and unnumbered.errno is None
    numbered = TransportError.of(OSError(errno.EACCES, "denied", "file"))
    assert (numbered.errno, numbered.strerror, numbered.filename) == (errno.EACCES, "denied", "file")


def test_names_of_hosts_are_looked_up():
    with recv.Stream() as stream:
        address = stream.add_udp("localhost:0")
        assert address.startswith(("127.0.0.1:", "[::1]:"))
        with send.UdpStream(f"localhost:{address.rpartition(':')[2]}") as sender:
            sender.send(heap(7), 7)
        assert stream.get(SOON).counter == 7
    with recv.Stream() as stream:
        port = stream.add_tcp("localhost:0").rpartition(":")[2]
        with send.TcpStream(f"tcp://localhost:{port}?sndbuf=1MiB") as sender:
            sender.send(heap(8), 8)
        assert stream.get(SOON).counter == 8


def test_events_are_sent_to_names_of_hosts():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as syncs:
        receiver.bind(("127.0.0.1", 0))
        syncs.bind(("127.0.0.1", 0))
        for one in (receiver, syncs):
            one.settimeout(SOON)
        host = socket.getaddrinfo("localhost", 0)[0][4][0]
        if host != "127.0.0.1":
            # The receivers of this test listen on 127.0.0.1 only.
            pytest.skip(f"localhost is {host} here, not 127.0.0.1 (/etc/hosts)")
        to = f"localhost:{receiver.getsockname()[1]}"
        with ejfat.Sender(to, sync=f"localhost:{syncs.getsockname()[1]}", warm_up=0) as sender:
            assert sender.to.endswith(f"127.0.0.1:{receiver.getsockname()[1]}")
            sender.send(b"an event")
        assert receiver.recv(9000).endswith(b"an event")
        assert syncs.recv(9000).startswith(b"LC")
    for options in ({"to": "no-such-host.invalid:1"}, {"to": "127.0.0.1:1", "sync": "no-such-host.invalid:1"}):
        with pytest.raises(socket.gaierror, match=r"resolve no-such-host.invalid: .*hint: `getent hosts"):
            ejfat.Sender(**options)
    with pytest.raises(ValueError, match="over UDP, not tcp"):
        ejfat.Sender("tcp://localhost:1")


def test_an_event_that_is_not_queued_takes_no_tick():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(SOON)
        with ejfat.Sender(f"127.0.0.1:{receiver.getsockname()[1]}", first_tick=7, rate=1e5, max_events=1) as sender:
            refused = 0
            for n in range(3):
                while True:
                    try:
                        sender.queue(bytes([n]) * 1200)
                        break
                    except send.Full:
                        refused += 1
                        sender.flush(SOON)
            sender.flush(SOON)
            assert refused > 0
        got = [receiver.recv(9000) for _ in range(3)]
    assert [(int.from_bytes(one[12:20], "big"), one[20]) for one in got] == [(7, 0), (8, 1), (9, 2)]


@pytest.mark.parametrize("wrong", ["no-such-host.invalid:7148"])
def test_a_name_without_a_host_is_said(wrong):
    with pytest.raises(socket.gaierror, match=r"resolve no-such-host.invalid: .*hint: `getent hosts"):
        recv.Stream().add_udp(wrong)


@pytest.mark.parametrize("wrong", ["", "1.2.3", "1.2.3.4.5:1", "localhost", "localhost:x", "a b:7", "localhost:70000", "::1:7"])
def test_what_is_no_address_is_no_name(wrong):
    with pytest.raises(ValueError, match="hint|port"):
        recv.Stream().add_udp(wrong)


# ---- context managers


def test_streams_are_left_in_coroutines():
    async def all_of():
        queue = InprocQueue()
        async with recv.Stream() as stream, send.InprocStream(queue) as sender:
            stream.add_inproc(queue)
            await sender.asend(heap(1))
            assert (await stream.aget(SOON)).counter == 1
        with pytest.raises(recv.Stopped):
            stream.get(0)
        with pytest.raises(ValueError, match="closed"):
            sender.send(heap(2))
        async with recv.ChunkStream("counter", "0", "0") as chunks:
            chunks.add_bytes(b"")
        assert chunks.stats()["streams"][0]["ended"] is not None

    asyncio.run(all_of())


def test_queued_heaps_are_sent_when_a_coroutine_leaves():
    async def all_of():
        stream = send.BytesStream(max_heaps=100)
        async with stream:
            tickets = [stream.queue(heap(n)) for n in range(50)]
        assert all(ticket.done() for ticket in tickets)
        return stream.stats()["heaps"]

    assert asyncio.run(all_of()) == 50


# ---- one name for one thing


def test_former_names_say_the_new_ones():
    stream = recv.Stream()
    with pytest.warns(DeprecationWarning, match="add_buffer_reader is now add_bytes"):
        stream.add_buffer_reader(sent(3))
    assert stream.get(SOON).counter == 3
    assert not [name for name in dir(recv.Stream) if name.endswith("_reader")]
    with pytest.raises(AttributeError, match="'Stream' object has no attribute 'add_nothing'"):
        stream.add_nothing  # noqa: B018


# ---- named tuples, times, counters


def test_items_and_ranges_have_names():
    stream = recv.Stream(incomplete=True)
    packets = heap(5, 1000).packets(5, max_packet=300)
    stream.add_bytes(b"".join(packets[:1] + packets[2:]))
    got = stream.get(SOON)
    immediate, value = sorted(item for item in got.items() if item.id >= 0x1600)
    assert (immediate.immediate, immediate.value, value.immediate, value.stop - value.start) == (True, 5, False, 1000)
    assert immediate == got.raw_items()[got.items().index(immediate)]
    (hole,) = got.missing
    assert 0 < hole.start < hole.stop < 1000 and hole._fields == ("start", "stop")


def test_times_are_datetime64():
    before = np.datetime64("now", "ns") - np.timedelta64(2, "s")
    stream = recv.Stream()
    stream.add_bytes(sent(1))
    got = stream.get(SOON)
    assert got.first.dtype == np.dtype("M8[ns]")
    assert before < got.first <= got.last < before + np.timedelta64(60, "s")


def checked(counts, declared):
    kinds = typing.get_type_hints(declared)
    assert set(counts) == set(kinds)
    for name, kind in kinds.items():
        if isinstance(kind, type) and not typing.is_typeddict(kind):
            assert type(counts[name]) is kind, name
        elif isinstance(kind, types.UnionType):
            assert isinstance(counts[name], kind), name
        elif typing.is_typeddict(kind):
            checked(counts[name], kind)


def test_counters_are_those_that_their_types_declare():
    stream = recv.Stream()
    stream.add_udp("127.0.0.1:0")
    stats = stream.stats()
    checked(stats, recv.Stats)
    checked(stats["readers"][0], recv.ReaderStats)
    stream.stop()
    checked(recv.ChunkStream("1", "0", "0").stats(), recv.ChunkStats)
    checked(send.BytesStream().stats(), send.SendStats)
    with ejfat.Sender("127.0.0.1:9") as sender:
        checked(sender.stats(), ejfat.SendStats)


# ---- chunks of the user's


def test_where_excludes_heaps_before_they_move_the_window():
    stream = recv.ChunkStream("item(0x1600) / 4", "item(0x1600) % 4", "item(0x1600) % 4 * 100", where="item(0x1600) < 8 or counter == 9")
    for _ in range(3):
        stream.add_free(recv.Chunk(np.zeros((4, 100), "u1"), heaps=4))
    stream.add_bytes(sent(0, 1, 2, 3, 4000, 5, 9, 6000))
    got = list(stream)
    assert [(chunk.id, chunk.present.tolist()) for chunk in got] == [
        (0, [True] * 4), (1, [False, True, False, False]), (2, [False, True, False, False])]  # fmt: skip
    stats = stream.stats()
    assert (stats["unwanted_heaps"], stats["rejected_heaps"], stats["stray_heaps"]) == (2, 0, 0)
    assert stats["streams"][0]["rejected"]["not_allowed"] == 2
    with pytest.raises(ValueError, match="comparisons are not chained; hint: write 0 <= counter and counter < 4"):
        recv.ChunkStream("1", "0", "0", where="0 <= counter < 4")


def test_presence_and_notes_go_into_arrays_of_the_user():
    everything = np.zeros((2, 4), np.uint8)
    notes = np.zeros((2, 4), ">u8").byteswap().view("=u8")
    stream = recv.ChunkStream("counter / 4", "counter % 4", "counter % 4 * 100", extra_at="index * 8", extra=[("counter", 8)])
    for row in range(2):
        stream.add_free(recv.Chunk(np.zeros((4, 100), "u1"), present=everything[row], extra=notes[row], tag=f"row {row}"))
    stream.add_bytes(sent(4, 6, 7, 8))
    got = list(stream)
    assert sorted(chunk.tag for chunk in got) == ["row 0", "row 1"]
    for chunk in got:
        row = int(chunk.tag[-1])
        assert np.shares_memory(chunk.present, everything[row]) and np.shares_memory(chunk.extra, notes[row])
    by_id = {chunk.id: int(chunk.tag[-1]) for chunk in got}
    assert everything[by_id[1]].tolist() == [1, 0, 1, 1] and notes[by_id[1]].tolist() == [4, 0, 6, 7]
    assert everything[by_id[2]].tolist() == [1, 0, 0, 0]
    with pytest.raises(ValueError, match="more than a byte for each heap"):
        recv.Chunk(np.zeros(4, "u1"), present=np.zeros(4, "i8"))
    with pytest.raises(ValueError, match="present is for 4 heaps, not 5"):
        recv.Chunk(np.zeros(4, "u1"), 5, present=np.zeros(4, "?"))
    with pytest.raises(TypeError, match="hint: pass heaps or present"):
        recv.Chunk(np.zeros(4, "u1"))


def test_another_array_of_a_chunk_is_the_one_that_is_filled():
    chunk = recv.Chunk(np.zeros((4, 100), "u1"), heaps=4)
    chunk.data = other = np.zeros((4, 100), "u1")
    chunk.present = marks = np.zeros(4, "u1")
    chunk.extra = notes = np.zeros((4, 8), "u1")
    stream = recv.ChunkStream("counter / 4", "counter % 4", "counter % 4 * 100", extra_at="index * 8", extra=[("counter", 8)])
    stream.add_free(chunk)
    with pytest.raises(ValueError, match="a stream is filling this chunk"):
        chunk.data = np.zeros((4, 100), "u1")
    assert chunk.data is other
    stream.add_bytes(sent(1, 2))
    (got,) = list(stream)
    assert got is chunk and got.data is other and other[1].tolist() == [1] * 100
    assert got.present is marks and marks.tolist() == [0, 1, 1, 0]
    assert got.extra is notes and notes[2].tobytes() == (2).to_bytes(8, "little")
    with pytest.raises(ValueError, match="more than a byte for each heap"):
        chunk.present = np.zeros(4, "i8")
    with pytest.raises(BufferError, match="read-only"):
        chunk.data = b"1234"
    assert chunk.data is other and chunk.present is marks


class Numbered(recv.Chunk):
    """A chunk with more to it."""

    def __init__(self, number, shape):
        super().__init__(np.zeros(shape, "u1"), heaps=shape[0])
        self.number = number


def test_chunks_are_the_objects_that_were_given():
    stream = recv.ChunkStream("counter / 4", "counter % 4", "counter % 4 * 100", max_chunks=1)
    given = [Numbered(n, (4, 100)) for n in range(2)]
    for chunk in given:
        stream.add_free(chunk)
    queue = InprocQueue()
    stream.add_inproc(queue)
    sender = send.InprocStream(queue)
    for n in range(40):
        sender.send(heap(n), n)
        if n % 4 == 0 and n:
            chunk = stream.get(SOON)
            assert chunk is given[chunk.number] and chunk.id == n // 4 - 1
            assert chunk.present.all()
            stream.add_free(chunk)
    with pytest.raises(ValueError, match="was already given to a stream"):
        stream.add_free(given[0])
    # A stream that ends lets go of what it holds.
    gone = [weakref.ref(chunk) for chunk in given]
    queue.close()
    stream.stop()
    del stream, chunk, given
    gc.collect()
    assert [one() for one in gone] == [None, None]


def test_arrays_that_two_chunks_share_are_filled_by_one():
    data, present = np.zeros((4, 100), "u1"), np.zeros(4, "?")
    stream = recv.ChunkStream("counter", "0", "0")
    stream.add_free(recv.Chunk(data, present=present))
    for other in (recv.Chunk(data, heaps=4), recv.Chunk(data.copy(), present=present)):
        with pytest.raises(BufferError, match="overlaps"):
            stream.add_free(other)
        # It is as it was.
        recv.ChunkStream("counter", "0", "0")
    fresh = recv.Chunk(data.copy(), heaps=4)
    stream.add_free(fresh)


# ---- memory of the user's


def test_an_allocator_provides_the_memory_of_payloads():
    pool = [np.zeros(4096, "u1") for _ in range(3)]
    asked = []

    def take(size):
        asked.append(size)
        return pool.pop()

    everything = list(pool)
    stream = recv.Stream(allocator=take)
    stream.add_bytes(sent(1, 2))
    for n in (1, 2):
        got = stream.get(SOON)
        assert any(got.memory is one for one in everything)
        value = np.frombuffer(got.payload, "u1")
        assert np.shares_memory(value, got.memory) and value.tolist() == [n] * 100
    assert asked == [100, 100]
    assert recv.Stream().forked is False

    stream = recv.Stream(allocator=lambda size: bytearray(size - 1))
    stream.add_bytes(sent(1))
    with pytest.raises(ValueError, match="returned 99 bytes for a heap of 100"):
        stream.get(SOON)
    stream = recv.Stream(allocator=lambda size: bytes(size))
    stream.add_bytes(sent(1, 2))
    with pytest.raises(BufferError, match="read-only"):
        stream.get(SOON)
    # Heaps that are taken together are not lost with one whose allocator raises.
    def once(size, left=[1]):
        if not left:
            raise MemoryError("the pool is empty")
        return bytearray(left.pop() * size)

    stream = recv.Stream(allocator=once)
    stream.add_bytes(sent(1, 2, 3))
    assert [one.counter for one in stream.get_many(8, SOON)] == [1]
    with pytest.raises(MemoryError, match="the pool is empty"):
        stream.get_many(8, SOON)
    # And values come from it, as from any heap.
    group, received = ItemGroup(), ItemGroup()
    group.add_item(name="x", shape=(100,), dtype="<u2", value=np.arange(100, dtype="<u2"))
    sender = send.BytesStream()
    sender.send(HeapGenerator(group).heap())
    stream = recv.Stream(allocator=lambda size: np.empty(size, "u1"))
    stream.add_bytes(sender.getvalue())
    assert received.update(stream.get(SOON))["x"].value.tolist() == list(range(100))


def test_memory_goes_to_other_libraries_by_dlpack():
    stream = recv.Stream()
    stream.add_bytes(sent(9))
    got = stream.get(SOON)
    array = np.from_dlpack(got.payload)
    assert array.tolist() == [9] * 100 and np.shares_memory(array, np.frombuffer(got.payload, "u1"))
    chunk = recv.Chunk(np.arange(8, dtype="f4"), heaps=2)
    assert np.shares_memory(np.from_dlpack(chunk), chunk.data)


def test_events_have_the_same_context_managers():
    for name in ("__aenter__", "__aexit__", "__enter__", "__exit__"):
        assert hasattr(ejfat.Sender, name) and hasattr(ejfat.Worker, name)
