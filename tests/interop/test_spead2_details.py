"""Small programs, each run with spead2 and with skyhaul.spead2: what they see must be the same.

Each is here because the two differed once. What differs on purpose is in docs/reference/spead2.md.
"""

import itertools
import logging
import struct
import time

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

pytestmark = pytest.mark.timeout(60)


def same(program):
    """What both see, if it is the same."""
    theirs, ours = program(spead2), program(skyhaul.spead2)
    assert ours == theirs
    return theirs


def failure(call):
    """The type of the exception, the nearest of Python's own."""
    try:
        call()
    except Exception as error:
        return next(kind for kind in type(error).__mro__ if kind.__module__ == "builtins")
    return None


def group(module, **items):
    made = module.send.ItemGroup(flavour=module.Flavour(4, 64, 40))
    for n, (name, (shape, dtype, value)) in enumerate(items.items()):
        made.add_item(0x1600 + n, name, "", shape=shape, dtype=dtype, value=value)
    return made


def sent(module, heaps):
    stream = module.send.BytesStream(module.ThreadPool())
    for heap in heaps:
        stream.send_heap(heap)
    return stream.getvalue()


def receiver(module, octets, **config):
    stream = module.recv.Stream(module.ThreadPool(), module.recv.StreamConfig(**config))
    stream.add_buffer_reader(octets)
    return stream


def settled(stream):
    """The statistics once they no longer change: spead2 updates them after it has delivered heaps."""
    names = ("heaps", "incomplete_heaps_evicted", "incomplete_heaps_flushed", "packets", "single_packet_heaps")
    before = None
    for _ in itertools.repeat(None, 100):
        time.sleep(0.05)
        stats = stream.stats
        sample = {name: stats[name] for name in names}
        if sample == before and any(sample.values()):
            return sample
        before = sample
    raise AssertionError(f"no statistics: {before}")


def packet(counter, payload=b"12345678"):
    pointers = [(1, counter), (2, len(payload)), (3, 0), (4, len(payload))]
    return struct.pack(">BBBBHH4Q", 0x53, 4, 3, 5, 0, 4, *(1 << 63 | id << 40 | value for id, value in pointers)) + payload


def test_versions_of_items_grow_by_the_same():
    def program(module):
        items = group(module, a=((2,), "u4", np.array([1, 2], "u4")), b=((), ">u2", 7), c=((2,), "c8", [1, 2j]))
        heaps = [items.get_heap(), items.get_heap(data="all"), items.get_heap(descriptors="all", data="none")]
        received = module.ItemGroup()
        versions = []
        for heap in receiver(module, sent(module, heaps)):
            received.update(heap)
            versions.append([item.version for item in received.values()])
        received.add_item(0x1600, "a", "another", shape=(), dtype="u1")
        return versions, received["a"].version

    assert same(program) == ([[3, 3, 3], [5, 5, 5], [5, 5, 5]], 6)


@pytest.mark.parametrize("stop", [True, False])
def test_a_stop_heap_is_a_heap_of_one_packet_and_ends_the_count(stop):
    def program(module):
        items = group(module, a=((), "u4", 5))
        heaps = [items.get_heap(), items.get_end(), items.get_heap(data="all"), items.get_end(), items.get_start()]
        stream = receiver(module, sent(module, heaps), stop_on_stop_item=stop)
        return [heap.cnt for heap in stream], settled(stream)

    counters, stats = same(program)
    assert (len(counters), stats["packets"], stats["single_packet_heaps"]) == ((1, 2, 2) if stop else (5, 5, 5))


def test_a_stop_item_in_a_packet_of_many_is_no_heap_of_one():
    def program(module):
        heap = module.send.Heap(module.Flavour(4, 64, 40))
        heap.add_item(module.Item(0x1600, "a", "", (4000,), "u1", value=np.zeros(4000, "u1")))
        heap.add_end()
        stream = receiver(module, sent(module, [group(module, a=((), "u4", 1)).get_heap(), heap]))
        return [heap.cnt for heap in stream], settled(stream)["single_packet_heaps"], settled(stream)["packets"]

    assert same(program) == ([1], 1, 2)


def test_buffers_that_cannot_be_used_are_refused_by_the_same_exceptions():
    frozen = np.zeros(4)
    frozen.flags.writeable = False
    arrays = [np.zeros((4, 4))[:, ::2], np.zeros((4, 4), order="F"), frozen]
    others = [bytes(8), memoryview(bytearray(8))[::2]]
    for module in (spead2, skyhaul.spead2):
        for field in ("data", "present", "extra"):
            for array in arrays:
                with pytest.raises(ValueError):
                    module.recv.Chunk(**{field: array})
            for other in others:
                with pytest.raises(BufferError):
                    module.recv.Chunk(**{field: other})
            module.recv.Chunk(**{field: bytearray(8)})
        with pytest.raises(ValueError):
            receiver(module, np.zeros(8, "u1")[::2])
        with pytest.raises(TypeError):
            module.recv.Chunk(stream_id=-1)


def test_settings_are_checked_alike():
    def program(module):
        def tries(config, *settings):
            kinds = [failure(lambda: setattr(config, name, value)) for name, value in settings]  # noqa: B023
            return kinds, [getattr(config, name, None) for name, _ in settings if name != "rate_method"]

        send = module.send.StreamConfig()
        receive = module.recv.StreamConfig()
        return [
            tries(send, ("rate", "5"), ("rate", 5), ("burst_rate_ratio", "2"), ("max_heaps", 0), ("max_heap", 3)),
            tries(receive, ("max_heap", 3), ("stop_on_stop_item", 0), ("allow_out_of_order", np.bool_(True))),
            tries(receive, ("allow_out_of_order", "yes"), ("stream_id", -1), ("max_heaps", 2.5), ("bug_compat", 8)),
            tries(module.recv.RingStreamConfig(), ("heap", 1)),
            tries(module.recv.ChunkStreamConfig(), ("max_chunk", 1)),
            tries(module.recv.ChunkStreamGroupConfig(), ("max_chunk", 1)),
        ]

    kinds, values = same(program)[0]
    assert kinds == [TypeError, None, TypeError, ValueError, AttributeError]
    assert values == [5.0, 5.0, 1.05, 4, None]


def test_settings_can_be_derived():
    def program(module):
        class Mine(module.recv.StreamConfig):
            def __init__(self, **settings):
                super().__init__(**settings)
                self.note = "own"

        config = Mine(max_heaps=7)
        stream = receiver_of(module, config)
        return config.max_heaps, config.substreams, config.note, stream.config.max_heaps, [heap.cnt for heap in stream]

    def receiver_of(module, config):
        stream = module.recv.Stream(module.ThreadPool(), config)
        stream.add_buffer_reader(packet(3))
        return stream

    assert same(program) == (7, 1, "own", 7, [3])


def test_counter_sequences_are_checked_alike():
    def program(module):
        stream = module.send.BytesStream(module.ThreadPool())
        wrong = [(0, 0), (-1, 1), (1, -1), ("x", 1)]
        kinds = [failure(lambda: stream.set_cnt_sequence(*given)) for given in wrong]  # noqa: B023
        stream.set_cnt_sequence((1 << 40) - 1, 3)
        heap = group(module, a=((), "u4", 1)).get_heap()
        for _ in range(2):
            stream.send_heap(heap)
        return kinds, [heap.cnt for heap in receiver(module, stream.getvalue())]

    assert same(program) == ([ValueError, TypeError, TypeError, TypeError], [(1 << 40) - 1, 2])


def test_values_of_immediate_items_can_be_written_to():
    def program(module):
        items = group(module, a=((2,), "u2", np.array([1, 2], "u2")))
        items.add_item(0x1700, "r", "", shape=(), format=[("u", 8), ("i", 8)], value=(3, -4))
        items.add_item(0x1701, "m", "", shape=(2,), format=[("u", 16)], value=[1, 2])
        received = module.ItemGroup()
        received.update(receiver(module, sent(module, [items.get_heap()])).get())
        received["a"].value[0] = 9
        return received["a"].value.tolist(), [item.value.flags.writeable for item in received.values()]

    assert same(program) == ([9, 2], [True] * 3)


def test_descriptors_are_as_spead2_reads_them():
    def program(module):
        items = group(module, a=((2,), "u2", [1, 2]))
        items.add_item(0x1700, "f", "", shape=(2, None), format=[("u", 8)], value=[[1], [2]])
        heap = receiver(module, sent(module, [items.get_heap()])).get()
        raw = [(one.id, one.name, one.numpy_header, one.format, one.shape) for one in heap.get_descriptors()]
        return sorted(raw), items["a"].dynamic_shape(9), items["f"].dynamic_shape(9)

    raw, *shapes = same(program)
    assert [shape for *_, shape in raw] == [[], [2, None]]
    assert shapes == [(2,), [2, 4]]


def test_what_is_skipped_and_replaced_is_logged(caplog):
    caplog.set_level(logging.INFO, "spead2")

    def program(module):
        caplog.clear()
        items = module.ItemGroup()
        for id, name in ((0x1600, "a"), (0x1600, "b"), (0x1601, "b")):
            items.add_item(id, name, "", shape=(), dtype="u1")
        replaced = [record.levelname for record in caplog.records if record.name == "spead2"]
        caplog.clear()
        stream = receiver(module, packet(1) + bytes(64))
        assert [heap.cnt for heap in stream] == [1]
        for _ in range(100):
            skipped = {record.levelname for record in caplog.records if record.name == "spead2"}
            if skipped:
                break
            time.sleep(0.05)
        return replaced, skipped

    assert same(program) == (["INFO", "INFO"], {"INFO"})


def test_the_last_producer_is_told_so_though_the_ring_was_stopped_before():
    def program(module):
        ring = module.recv.ChunkRingbuffer(2)
        ring.add_producer()
        ring.add_producer()
        first = ring.remove_producer()
        ring.stop()
        return first, ring.remove_producer()

    assert same(program) == (False, True)
