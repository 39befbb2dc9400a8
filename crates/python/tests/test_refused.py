"""What a heap says of itself and cannot be: it is told, counted and logged, and takes nothing else with it."""

import logging
import struct

import numpy as np
import pytest

import skyhaul.spead as spead
import skyhaul.spead2 as spead2
import skyhaul.spead2.recv as recv2
from skyhaul.spead import recv

IMMEDIATE = 1 << 63
SOON = 30.0


def packet(items, payload=b""):
    """A SPEAD-64-48 packet of (id, value) immediates, and (id, address, "address") items."""
    pointers = [(0 if len(item) == 3 else IMMEDIATE) | item[0] << 48 | item[1] for item in items]
    return struct.pack(f">BBBBHH{len(items)}Q", 0x53, 4, 2, 6, 0, len(items), *pointers) + payload


def heap(counter, payload=b"payload", size=None, more=()):
    items = [(1, counter), (2, len(payload) if size is None else size), (3, 0), (4, len(payload))]
    return packet([*items, *more], payload)


def described(text, broken=False):
    """A heap with an item of two bytes, whose descriptor has this name and description."""
    fields = b"u\x00\x08"
    parts = [(0x10, b"delay"), (0x11, text), (0x13, fields), (0x12, b"\x00" + (2).to_bytes(6, "big"))]
    body = b"".join(content for _, content in parts)
    items, at = [(1, 1), (2, len(body)), (3, 0), (4, len(body))], 0
    items += [] if broken else [(0x14, 0x1234)]
    for id, content in parts:
        items.append((id, at, "address"))
        at += len(content)
    nested = packet(items, body)
    return heap(7, nested + b"\x05\x06", more=[(5, 0, "address"), (0x1234, len(nested), "address")])


def test_a_descriptor_with_a_unit_in_microseconds_hides_nothing():
    for text, seen in [("in µs".encode(), "in µs"), ("in µs".encode("latin-1"), "in µs"), (b"in us", "in us")]:
        stream = recv.Stream()
        stream.add_bytes(described(text))
        group = spead.ItemGroup()
        assert list(group.update(stream.get(SOON))) == ["delay"]
        assert group["delay"].description == seen
        assert np.asarray(group["delay"].value).tolist() == [5, 6]


def test_an_invalid_descriptor_is_told():
    stream = recv.Stream()
    stream.add_bytes(described(b"", broken=True))
    got = stream.get(SOON)
    assert got.descriptors() == []
    assert len(got.descriptor_errors()) == 1
    with pytest.raises(spead.UpdateError, match="heap 7: .*no item id"):
        spead.ItemGroup().update(got)


def test_items_beyond_the_heap_are_told_and_counted():
    stream = recv.Stream()
    stream.add_bytes(heap(1, more=[(0x1600, 0, "address"), (0x1601, 8, "address"), (0x1602, 1 << 40, "address")])
                     + heap(2, more=[(0x1600, 7, "address")]))  # fmt: skip
    first, second = list(stream)
    assert first.complete
    assert first.items_outside() == [(0x1601, 8), (0x1602, 1 << 40)]
    assert (second.outside, second.items_outside()) == (False, [])
    assert stream.stats()["items_outside"] == 2
    group = spead.ItemGroup()
    group.add_item(0x1600, "samples", shape=(7,), dtype="u1")
    with pytest.raises(spead.UpdateError, match="item 0x1601 of heap 1 begins at byte 8, beyond its end at 7") as told:
        group.update(first)
    assert list(told.value.updated) == ["samples"]


def test_spead2_drops_such_a_heap_and_logs_it(caplog):
    stream = recv2.Stream(spead2.ThreadPool())
    stream.add_buffer_reader(heap(1) + heap(2, more=[(0x1600, 8, "address")]) + heap(3))
    with caplog.at_level(logging.INFO, "spead2"):
        assert [one.cnt for one in stream] == [1, 3]
    assert stream.rejected == {"items_outside": 1}
    assert [record.name for record in caplog.records] == ["spead2"]
    assert "heap dropped: 1 items begin beyond its end" in caplog.text


def test_rejections_are_in_spead2s_log_by_reason(caplog):
    second = packet([(1, 5), (2, 8), (3, 4), (4, 4)], b"late")
    queue = spead2.InprocQueue()
    stream = recv2.Stream(spead2.ThreadPool(), recv2.StreamConfig(allow_unsized_heaps=False))
    stream.add_inproc_reader(queue)
    with caplog.at_level(logging.INFO, "spead2"):
        for one in (b"garbage", second, packet([(1, 6), (3, 0), (4, 4)], b"data"), heap(1)):
            queue.add_packet(one)
        assert stream.get().cnt == 1
        for _ in range(1000):
            queue.add_packet(b"garbage")
        queue.stop()
        with pytest.raises(spead2.Stopped):
            stream.get()
        assert len(caplog.records) <= 6, "a flood of packets is no flood of lines"
    assert stream.rejected == {"bad_magic": 1001, "out_of_order": 1, "unsized": 1}
    for line in ("packets rejected: out_of_order (1 in all)", "packets rejected: bad_magic (1001 in all)"):
        assert line in caplog.text


def test_a_chunk_stream_logs_rejections_while_it_runs(caplog):
    import ctypes

    from skyhaul._place import PlaceData

    place = ctypes.CFUNCTYPE(None, ctypes.POINTER(PlaceData), ctypes.c_size_t)(lambda data, _: None)
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    new = make(("PyCapsule_New", ctypes.pythonapi))
    given = recv2.ChunkStreamConfig(place=(new(ctypes.cast(place, ctypes.c_void_p), b"void (void *, size_t)", None), place))
    rings = recv2.ChunkRingbuffer(1), recv2.ChunkRingbuffer(1)
    stream = recv2.ChunkRingStream(spead2.ThreadPool(), recv2.StreamConfig(), given, *rings)
    with caplog.at_level(logging.INFO, "spead2"):
        stream.add_buffer_reader(packet([(1, 6), (3, 0), (4, 4)], b"data"))
        assert list(rings[0]) == []
        stream.stop()
    assert "1 packets rejected: unsized" in caplog.text


@pytest.mark.parametrize("single", [True, False])
def test_packets_that_claim_much_stop_no_stream(single):
    """The program keeps what came of them: incomplete heaps, which have no payload in spead2."""
    stream = recv2.Stream(spead2.ThreadPool(), ring_config=recv2.RingStreamConfig(contiguous_only=False))
    claims = b"".join(heap(1000 + n, b"x" * 1000, 1 << 30) for n in range(4))
    parts = [packet([(1, n), (2, 8), (3, at), (4, 4)], b"data") for n in range(100) for at in (0, 4)]
    honest = b"".join(heap(n) for n in range(100)) if single else b"".join(parts)
    stream.add_buffer_reader(claims + honest)
    kept = list(stream)
    assert [one.cnt for one in kept if isinstance(one, recv2.Heap)] == list(range(100))
    claimed = [one for one in kept if isinstance(one, recv2.IncompleteHeap)]
    assert [(one.cnt, one.heap_length, one.received_length) for one in claimed] == [
        (1000 + n, 1 << 30, 1000) for n in range(4)
    ]


def test_empty_is_a_timeout():
    assert issubclass(spead.Empty, TimeoutError)
    with pytest.raises(TimeoutError):
        recv.Stream().get(0.01)
    assert spead2.Empty is spead.Empty
    with pytest.raises(TimeoutError):
        recv2.ChunkRingbuffer(1).get_nowait()
