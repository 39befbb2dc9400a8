"""What makes no sense is told at once, with what would; nothing is cut, wrapped or left out in silence."""

import os
import socket

import numpy as np
import pytest

import skyhaul.spead2 as spead2
import skyhaul.spead2.recv as spead2_recv
import skyhaul.spead2.send as spead2_send
from skyhaul.spead import Descriptor, Flavour, HeapGenerator, InprocQueue, Item, ItemGroup, Stopped, recv, send

NAN, HUGE = float("nan"), 1 << 70


def heap():
    return send.Heap()


def stopped():
    stream = recv.Stream()
    stream.stop()
    return stream


def plain_descriptor(fd):
    return lambda: recv.Stream().add_udp_fd(fd)


READ, WRITE = os.pipe()
CASES = {
    "a negative dimension": lambda: Item(0x1000, "x", shape=(-3,), dtype="u1"),
    "a negative dimension of a format": lambda: Item(0x1000, "x", shape=(-3,), format=[("u", 8)]),
    "a huge dimension": lambda: Item(0x1000, "x", shape=(HUGE,), dtype="u1"),
    "a negative id": lambda: Item(-1, "x", dtype="u1"),
    "a huge id": lambda: Item(HUGE, "x", dtype="u1"),
    "an id beyond the flavour": lambda: Item(0x8000, "x", dtype="u1").to_bytes(),
    "half a character": lambda: Item(0x1000, "\ud800", dtype="u1"),
    "half a character in a description": lambda: Item(0x1000, "x", "\udfff", dtype="u1"),
    "a name that is not ASCII": lambda: Item(0x1000, "\u00fc", dtype="u1").to_bytes(),
    "a negative item": lambda: heap().add_item(-1, b""),
    "a huge item": lambda: heap().add_item(HUGE, b""),
    "an item of the packet": lambda: heap().add_item(1, b""),
    "an immediate of the packet": lambda: heap().add_immediate(3, 1),
    "a negative immediate": lambda: heap().add_immediate(0x1000, -1),
    "an immediate that does not fit": lambda: heap().add_immediate(0x1000, 1 << 48),
    "no immediate": lambda: heap().set_immediate(5, 1),
    "no flavour": lambda: send.Heap(-8),
    "a negative counter": lambda: send.BytesStream().send(heap(), counter=-1),
    "a counter beyond the flavour": lambda: send.BytesStream().send(heap(), counter=1 << 48),
    "a counter beyond the flavour, of a batch": lambda: send.batch([send.Send(heap(), counter=1 << 48)]),
    "a counter beyond the flavour, of packets": lambda: heap().packets(1 << 60),
    "a huge counter": lambda: send.BytesStream().send(heap(), counter=HUGE),
    "a negative substream": lambda: send.BytesStream().send(heap(), substream=-1),
    "no substream": lambda: send.BytesStream().send(heap(), substream=7),
    "a rate of NaN": lambda: send.BytesStream(rate=NAN),
    "a negative rate": lambda: send.BytesStream().set_rate(-1),
    "an infinite rate of a heap": lambda: send.BytesStream().send(heap(), rate=float("inf")),
    "a negative packet": lambda: send.BytesStream(packet=-1),
    "no payload": lambda: send.BytesStream(payload=0).send(heap()),
    "no heaps in the queue": lambda: send.BytesStream(max_heaps=0),
    "a negative linger": lambda: send.BytesStream(linger=-1),
    "a processor that is not there": lambda: send.BytesStream(cpu=5000),
    "a negative processor": lambda: recv.Stream(cpus=[-1]),
    "a processor that is not there, of readers": lambda: recv.Stream(cpus=[99_999]),
    "counters in steps of none": lambda: send.BytesStream().set_counter_sequence(1, 0),
    "a negative counter sequence": lambda: send.BytesStream().set_counter_sequence(-1),
    "a huge ttl": lambda: send.UdpStream("127.0.0.1:9", ttl=300),
    "a port too large": lambda: send.UdpStream("127.0.0.1:70000"),
    "a zero in an address": lambda: send.UdpStream("127.0.0.1\0:9"),
    "a timeout of NaN": lambda: send.TcpStream("127.0.0.1:9", timeout=NAN),
    "no descriptor": plain_descriptor(-1),
    "a closed descriptor": plain_descriptor(9999),
    "a huge descriptor": plain_descriptor(1 << 40),
    "a descriptor of a pipe": plain_descriptor(READ),
    "a negative window": lambda: recv.Stream(window=-1),
    "a huge window": lambda: recv.Stream(window=1 << 60),
    "no ring": lambda: recv.Stream(ring=0),
    "no memory": lambda: recv.Stream(memory=0),
    "no heap is small enough": lambda: recv.Stream(largest=0),
    "no senders": lambda: recv.Stream(senders=0),
    "a timeout before": lambda: recv.Stream(heap_timeout=-1),
    "an idle time before": lambda: recv.Stream(idle_timeout=-0.5),
    "a deadline before": lambda: recv.Stream(deadline=-1),
    "a limit below": lambda: recv.Stream(heap_limit=-1),
    "a zero in a name": lambda: recv.Stream(name="a\0b"),
    "no connections": lambda: recv.Stream().add_tcp("127.0.0.1:0", connections=0),
    "a keepalive before": lambda: recv.Stream().add_tcp("127.0.0.1:0", keepalive=-1),
    "a port of a capture": lambda: recv.Stream().add_pcap("/nonexistent", 70_000),
    "a chunk of less than none": lambda: recv.Chunk(np.zeros(4, "u1"), heaps=-1),
    "a chunk of too many": lambda: recv.Chunk(np.zeros(4, "u1"), heaps=1 << 40),
    "notes without end": lambda: recv.ChunkStream("1", "2", "3", extra=[("1", 1 << 40)], extra_at="0"),
    "more notes than there is room for": lambda: recv.ChunkStream("1", "2", "3", extra=[("1", 8)] * 9, extra_at="0"),
    "two counters of one name": lambda: recv.ChunkStream("1", "2", "3", counters=[("a", "sum", "1"), ("a", "max", "1")]),
    "a queue below": lambda: InprocQueue(-1),
    "descriptors with every heap less": lambda: HeapGenerator(ItemGroup(), descriptor_frequency=-1),
    "no descriptor in bytes": lambda: Descriptor.from_bytes(b"abc"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_it_is_told(case):
    with pytest.raises((ValueError, OSError), match="hint: "):
        CASES[case]()


@pytest.mark.parametrize("add", ["add_udp", "add_bytes", "add_inproc"])
def test_a_stream_that_has_ended_takes_no_reader(add):
    given = {"add_udp": "127.0.0.1:0", "add_bytes": b"", "add_inproc": InprocQueue()}[add]
    with pytest.raises(Stopped, match="has ended; hint: .*ended: stopped"):
        getattr(stopped(), add)(given)
    chunks = recv.ChunkStream("1", "2", "3")
    chunks.stop()
    with pytest.raises(Stopped, match="has ended; hint: "):
        getattr(chunks, add)(given)


def test_spead2_takes_no_reader_after_stop_and_tells_of_one_after_the_end(caplog):
    stream = spead2_recv.Stream(spead2.ThreadPool())
    stream.stop()
    with pytest.raises(RuntimeError, match=r"after stop\(\); hint: "):
        stream.add_buffer_reader(b"")
    stream = spead2_recv.Stream(spead2.ThreadPool())
    stream.add_buffer_reader(b"")
    assert list(stream) == []
    stream.add_buffer_reader(b"")
    assert "has ended" in caplog.text


@pytest.mark.parametrize(
    "given", [{"shape": (-3,)}, {"id": -1}, {"id": HUGE}, {"name": "\ud800"}, {"description": "\udc00"}]
)
def test_spead2_items(given):
    usual = {"id": 0x1000, "name": "x", "description": "", "shape": (), "dtype": "u1"}
    with pytest.raises(ValueError, match="hint: "):
        spead2_send.ItemGroup().add_item(**{**usual, **given})


def test_less_than_a_bit_a_second_is_not_as_fast_as_possible():
    assert send.BytesStream(rate=0.3).rate == 1


def test_a_stream_socket_sends_no_datagrams():
    from skyhaul import _native

    with socket.socket() as tcp, pytest.raises(OSError, match="adopt .* hint: .*UDP"):
        _native.SendStream.udp_fd(tcp.fileno(), ["127.0.0.1:9"], _native.SendConfig())


def test_a_flavour_has_whole_bits():
    with pytest.raises(TypeError):
        Flavour(48.0)


def test_dates_are_sent():
    group = ItemGroup()
    group.add_item(name="when", dtype="M8[s]", shape=(2,), value=np.array(["2026-01-02", "1999-12-31"], "M8[s]"))
    stream = send.BytesStream()
    stream.send(HeapGenerator(group).heap())
    receiver = recv.Stream()
    receiver.add_bytes(stream.getvalue())
    received = ItemGroup()
    received.update(next(iter(receiver)))
    assert (received["when"].value == group["when"].value).all()


def test_heaps_of_which_nothing_came_are_counted():
    stream = send.BytesStream()
    for counter in range(0, 300, 3):
        if counter not in (30, 33, 270):
            stream.send(heap(), counter=counter)
    receiver = recv.Stream()
    receiver.add_bytes(stream.getvalue())
    list(receiver)
    stats = receiver.stats()
    assert (stats["missing_heaps"], stats["unknown_senders"]) == (3, 0)
    receiver = recv.Stream()
    stream = send.BytesStream()
    for counter in (1, 10, 12, 100, 2000, 2100, 5000):
        stream.send(heap(), counter=counter)
    receiver.add_bytes(stream.getvalue())
    list(receiver)
    stats = receiver.stats()
    assert (stats["missing_heaps"], stats["unknown_senders"]) == (None, 1)
