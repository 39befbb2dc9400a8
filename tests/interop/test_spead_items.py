"""Items of `skyhaul.spead2` beside those of spead2: the same descriptors and values on the wire, the same Python values."""

import numpy as np
import pytest

spead2 = pytest.importorskip("spead2", reason="spead2 is not installed (pip install -r tests/requirements.txt)")
ours = pytest.importorskip("skyhaul.spead2", reason="skyhaul is not installed here (make python)")
import skyhaul.spead2.send  # noqa: E402
import spead2.recv  # noqa: E402
import spead2.send  # noqa: E402

CASES = [
    {"shape": (), "format": [("u", 8)], "value": 5},
    {"shape": (), "format": [("i", 16)], "value": -5},
    {"shape": (), "format": [("u", 12)], "value": 5},
    {"shape": (), "format": [("u", 40)], "value": 5},
    {"shape": (), "format": [("u", 80)], "value": 1 << 70},
    {"shape": (3,), "format": [("u", 7)], "value": [1, 2, 3]},
    {"shape": (None,), "format": [("u", 12)], "value": [0xABC, 0xDEF, 1]},
    {"shape": (None,), "format": [("c", 8)], "value": "hello"},
    {"shape": (5,), "format": [("c", 8)], "value": b"hello"},
    {"shape": (), "format": [("c", 8)], "value": "h"},
    {"shape": (), "format": [("f", 64)], "value": 1.5},
    {"shape": (), "format": [("b", 1)], "value": True},
    {"shape": (8,), "format": [("b", 1)], "value": [True, False] * 4},
    {"shape": (2, None), "format": [("u", 8)], "value": [[1, 2], [3, 4]]},
    {"shape": (), "format": [("u", 8), ("f", 32)], "value": (12, 1.5)},
    {"shape": (), "format": [("u", 4), ("f", 64)], "value": (12, 1.5)},
    {"shape": (), "format": [("i", 100), ("u", 3)], "value": (-5, 2)},
    {"shape": (2, 2), "format": [("i", 3)], "value": [[1, -2], [3, -4]]},
    {"shape": (2,), "format": [("u", 4), ("i", 4)], "value": [(1, -1), (2, -2)]},
    {"shape": (2,), "format": [("u", 4), ("i", 12)], "value": np.array([(1, -1), (2, -2)], dtype="u1,i2")},
    {
        "shape": (2,),
        "format": [("b", 1), ("i", 7), ("c", 8), ("f", 32)],
        "value": [(True, 17, b"y", 1.0), (False, -23, b"n", -1.0)],
    },
    {"shape": (), "dtype": "S5", "value": "hello"},
    {"shape": (), "dtype": ">u8", "value": 3},
    {"shape": (2, 3), "dtype": "<f4", "order": "F", "value": [[1, 2, 3], [3, 4, 5]]},
    {"shape": (2,), "dtype": [("a", "<u2"), ("b", ">f4")], "value": [(1, 2.5), (3, 4.5)]},
    {"shape": (2,), "dtype": "U3", "value": ["abc", "de"]},
    {"shape": (2,), "dtype": "c16", "value": [1 + 2j, 3]},
]
FLAVOURS = [(width, bugs) for width in (40, 48, 56) for bugs in (0, 1, 2, 4, 7)]


def packets(peer, width, bugs, case):
    item = peer.Item(0x41, "name", "what it is", **case)
    heap = peer.send.Heap(peer.Flavour(4, 64, width, bugs))
    heap.add_descriptor(item)
    heap.add_item(item)
    return [bytes(packet) for packet in peer.send.PacketGenerator(heap, 7, 200)]


def received(peer, recv, bugs, data):
    stream = recv.Stream(peer.ThreadPool(), recv.StreamConfig(bug_compat=bugs))
    stream.add_buffer_reader(data)
    group = peer.ItemGroup()
    for heap in stream:
        group.update(heap)
    return group[0x41]


@pytest.mark.parametrize(("width", "bugs"), FLAVOURS)
def test_the_same_packets(width, bugs):
    for case in CASES:
        assert packets(ours, width, bugs, case) == packets(spead2, width, bugs, case), case


@pytest.mark.parametrize(("width", "bugs"), FLAVOURS)
def test_the_same_values(width, bugs):
    import skyhaul.spead2.recv

    for case in CASES:
        data = b"".join(packets(spead2, width, bugs, case))
        one = received(ours, skyhaul.spead2.recv, bugs, data)
        other = received(spead2, spead2.recv, bugs, data)
        for name in ("id", "name", "description", "shape", "dtype", "order", "format"):
            assert getattr(one, name) == getattr(other, name), (name, case)
        assert type(one.value) is type(other.value), case
        assert getattr(one.value, "dtype", None) == getattr(other.value, "dtype", None), case
        assert np.array_equal(one.value, other.value), case
