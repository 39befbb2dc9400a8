"""Descriptors and values: every kind of type there and back, the bytes of the standard, and what a stranger may send."""

import warnings

import numpy as np
import pytest

from skyhaul import _native
from skyhaul.recording import _columns
from skyhaul.spead import BugCompat, Descriptor, Flavour, Item, ItemError, ItemGroup

FLAVOURS = [Flavour(bits, compat) for bits in (40, 48, 56) for compat in (0, 1, 2, 4, 7)]
RECORDS = np.array([(1, -2.5), (65535, 1e9)], dtype=[("count", ">u2"), ("level", "<f8")])


def there_and_back(descriptor, value):
    sent = descriptor.codec.encode(value).tobytes()
    return descriptor.codec.decode(bytearray(sent), 0, len(sent))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["u1", ">u2", "<i4", ">f4", "<f8", "<c8", ">c16", "?", "S7", "<U3", "<M8[s]"])
def test_arrays_of_every_dtype(dtype, order):
    value = np.arange(24).reshape(2, 3, 4).astype(dtype)
    got = there_and_back(Descriptor(1, "x", shape=(2, 3, 4), dtype=dtype, order=order), value)
    assert got.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(got, value)


def test_records():
    got = there_and_back(Descriptor(1, "x", shape=(2,), dtype=RECORDS.dtype), RECORDS)
    np.testing.assert_array_equal(got, RECORDS)


def test_fortran_order_lies_first_index_fastest():
    item = Descriptor(1, "x", shape=(2, 3), dtype="u1", order="F")
    assert item.codec.encode([[1, 2, 3], [4, 5, 6]]).tobytes() == bytes([1, 4, 2, 5, 3, 6])


@pytest.mark.parametrize(("shape", "value"), [((None,), [1, 2, 3]), ((None, 2), [[1, 2], [3, 4]]), ((2, None), [[1], [2]])])
def test_a_variable_dimension(shape, value):
    np.testing.assert_array_equal(there_and_back(Descriptor(1, "x", shape=shape, dtype=">u2"), value), value)


def test_text():
    assert there_and_back(Descriptor(1, "x", shape=(None,), format=[("c", 8)]), "Effelsberg") == "Effelsberg"
    assert there_and_back(Descriptor(1, "x", format=[("c", 8)]), "E") == "E"
    rows = np.array([[b"a", b"b"], [b"c", b"d"]])
    np.testing.assert_array_equal(there_and_back(Descriptor(1, "x", shape=(2, 2), format=[("c", 8)]), rows), rows)


@pytest.mark.parametrize(("code", "bits"), [(c, b) for c in "ui" for b in (1, 2, 3, 7, 9, 12, 24, 31, 33, 48, 63, 64)])
def test_integers_of_any_width(code, bits):
    low, high = (0, 2**bits - 1) if code == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    value = [low, high, low, (low + high) // 2, high]
    item = Descriptor(1, "x", shape=(5,), format=[(code, bits)])
    assert len(item.codec.encode(value).tobytes()) == -(-5 * bits // 8)
    assert there_and_back(item, value).tolist() == value


def test_packed_records():
    form = [("b", 1), ("i", 7), ("f", 32), ("u", 3), ("c", 8)]
    value = [(True, -64, 1.5, 7, b"x"), (False, 63, -2.0, 0, b"y"), (True, -1, 0.0, 1, b"z")]
    assert there_and_back(Descriptor(1, "x", shape=(3,), format=form), value).tolist() == value
    assert Descriptor(1, "x", shape=(3,), format=form).codec.encode(value).nbytes == -(-3 * 51 // 8)


def test_packed_bits_are_big_endian_without_padding():
    encoded = Descriptor(1, "x", shape=(3,), format=[("u", 12)]).codec.encode([0x123, 0x456, 0x789])
    assert encoded.tobytes() == bytes.fromhex("1234567890")


def test_what_does_not_fit_a_field_is_refused():
    for value in (4096, 2**20, -1):
        with pytest.raises(ValueError, match="hint:"):
            Descriptor(1, "x", shape=(1,), format=[("u", 12)]).codec.encode([value])


def test_a_value_of_another_shape_is_refused():
    with pytest.raises(ItemError, match="shape"):
        Descriptor(1, "x", shape=(2, 2), dtype="u1").codec.encode([1, 2, 3, 4])


@pytest.mark.parametrize(
    ("form", "value", "said"),
    [
        ({"dtype": "u1"}, np.array([1, 300]), "300 does not fit into uint8"),
        ({"dtype": ">u2"}, np.array([-1, 5]), "-1 does not fit into >u2"),
        ({"dtype": "<i4"}, np.array([1.0, 2.5]), "2.5 does not fit into int32"),
        ({"dtype": "<i4"}, [1, 2.5], "2.5 does not fit into int32"),
        ({"dtype": "<u8"}, np.array([3, -2]), "-2 does not fit into uint64"),
        ({"dtype": "<f4"}, np.array([1 + 0j, 2 + 1j]), r"\(2\+1j\) does not fit into float32"),
        ({"dtype": "S3"}, [b"abc", b"abcd"], "b'abcd' does not fit into |S3"),
        ({"format": [("u", 12)]}, np.array([1, 65537]), "65537 does not fit into uint16"),
        ({"shape": (), "dtype": "u1"}, np.int64(256), "256 does not fit into uint8"),
        ({"shape": (), "dtype": "u1"}, 7.5, "7.5 does not fit into uint8"),
    ],
)
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning", "ignore:invalid value")
def test_a_value_is_sent_as_it_is_or_not_at_all(form, value, said):
    item = Descriptor(1, "x", **({"shape": (2,)} | form))
    with pytest.raises(ItemError, match=said.replace("|", r"\|")):
        item.codec.encode(value)


def test_values_of_other_types_are_sent_if_they_fit():
    for dtype, value in [("u1", np.array([1, 255])), (">i2", np.array([-5.0, 7.0])), ("<f4", np.array([0.1, 1e30])), ("<f8", [1, 2]),
                         ("<f4", np.array([1 + 0j, 2])), ("u1", [True, False]), ("S3", [b"a", b"abc"]), ("<u8", [0, 2**64 - 1])]:  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = np.array(value, dtype)
            assert Descriptor(1, "x", shape=(2,), dtype=dtype).codec.encode(value).tobytes() == expected.tobytes()


class Rows:
    """Recorded heaps with these bytes of an item."""

    def __init__(self, values):
        self.values = values

    def read(self, first, count, item, out):
        out[:] = np.frombuffer(self.values[first : first + count].tobytes(), "u1")
        return b"\1" * count


@pytest.mark.parametrize("dtype", [[("a", ">u2"), ("b", "<u2")], [("a", ">u4"), ("b", ">f8")], [("a", "u1"), ("c", ">i2", (3,))], ">u4", "<c8", ">c16"])
def test_columns_have_the_values_whatever_their_byte_order(dtype):
    sent = np.zeros((5, 4), dtype)
    for name in sent.dtype.names or ("",):
        field = sent[name] if name else sent
        field[...] = np.arange(field.size).reshape(field.shape)
    raw = _native.read_descriptor(Descriptor(0x1600, "x", shape=(4,), dtype=dtype).to_bytes())
    values, valid = _columns.Column(raw, 0).read(Rows(sent), 1, 3, hold=False)
    assert valid.all() and values.dtype == sent.dtype.newbyteorder("=")
    assert all(np.array_equal(values[name], sent[1:4][name]) for name in sent.dtype.names or (...,))


def test_times_that_no_datetime_has_are_not_known():
    clock = _columns.Clock("x", per_second=10**9)
    ticks = np.array([0, 1, 1_700_000_000_123_456_789, 2**63, 2**64 - 1], "u8")
    assert clock.times(ticks).astype("i8").tolist()[:3] == ticks[:3].tolist()
    assert np.isnat(clock.times(ticks)).tolist() == [False, False, False, True, True]
    # A rate that is wrong by a factor of a thousand million gives no date of this century.
    assert np.isnat(_columns.Clock("x").times(ticks)).tolist() == [False, False, True, True, True]
    assert np.isnat(_columns.Clock("x", per_second=0.5).times(np.array([1e300, np.nan, 2.0]))).tolist() == [True, True, False]
    exact = _columns.Clock("x", per_second=3, epoch="2026-01-01").times(np.array([5]))
    assert exact[0] == np.datetime64("2026-01-01T00:00:01.666666666")


def test_values_are_views():
    memory = bytearray(4096)
    got = Descriptor(1, "x", shape=(1000,), dtype="<u4").codec.decode(memory, 96, 4096)
    memory[96] = 7
    assert got[0] == 7
    got[1] = 9
    assert memory[100] == 9


def test_sending_views_the_value():
    value = np.arange(100, dtype="<u4")
    assert np.shares_memory(Descriptor(1, "x", shape=(100,), dtype="<u4").codec.encode(value), value)
    rows = np.asfortranarray(np.arange(6, dtype="u1").reshape(2, 3))
    assert np.shares_memory(Descriptor(1, "x", shape=(2, 3), dtype="u1", order="F").codec.encode(rows), rows)


@pytest.mark.parametrize("form", [[("u", 48)], [("i", 48)], [("u", 8)], [("i", 16)], [("u", 12), ("i", 4)], [("f", 32)]])
def test_immediate_values(form):
    item = Descriptor(1, "x", format=form)
    value = (9, -3) if len(form) == 2 else -3 if form[0][0] in "if" else 200
    encoded = item.codec.encode(value)
    assert item.codec.decode_immediate(item.codec.immediate(encoded, 48), 48).item() == value


def test_small_arrays_are_immediate_and_large_ones_not():
    item = Descriptor(1, "x", shape=(3,), dtype="u1")
    assert item.codec.immediate(item.codec.encode([1, 2, 3]), 40) == 0x010203
    assert item.codec.decode_immediate(0x010203, 40).tolist() == [1, 2, 3]
    item = Descriptor(1, "x", dtype="<f8")
    assert item.codec.immediate(item.codec.encode(1.0), 48) is None
    item = Descriptor(1, "x", shape=(None,), format=[("u", 8)])
    assert item.codec.immediate(item.codec.encode([1]), 48) is None


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_descriptors_there_and_back(flavour):
    for descriptor in (
        Descriptor(0x40, "power", "of each channel", (4096,), "<f4"),
        Descriptor(0x41, "matrix", "", (2, 3), ">i2", order="F"),
        Descriptor(0x42, "text", "", (None,), format=[("c", 8)]),
        Descriptor(0x43, "packed", "", (None, 2), format=[("u", 4), ("i", 12)]),
        Descriptor(0x44, "records", "", (2,), RECORDS.dtype),
    ):
        got = Descriptor.from_bytes(descriptor.to_bytes(flavour), flavour.bug_compat)
        assert (got.id, got.name, got.description, got.shape, got.format, got.order, got.dtype) == (
            descriptor.id, descriptor.name, descriptor.description, descriptor.shape, descriptor.format,
            descriptor.order, descriptor.dtype,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("flavour", "tail"),
    [
        (Flavour(40), "7500000869000010 010000000000 000000000002"),
        (Flavour(48), "750008690010 01000000000000 00000000000002"),
        (Flavour(48, 7), "7500000869000010 0200000000000000 0000000000000002"),
    ],
)
def test_the_bytes_of_a_descriptor(flavour, tail):
    descriptor = Descriptor(0x40, "n", "d", (None, 2), format=[("u", 8), ("i", 16)])
    assert descriptor.to_bytes(flavour).endswith(bytes.fromhex(tail))


def test_swapped_numpy_data():
    """With bit 2 the header says the byte order opposite to the data's."""
    item = Descriptor(0x40, "x", shape=(2,), dtype="<u2")
    packet = item.to_bytes(Flavour(48, BugCompat.SWAP_ENDIAN))
    assert b"'>u2'" in packet
    assert Descriptor.from_bytes(packet, BugCompat.SWAP_ENDIAN).dtype == np.dtype("<u2")


@pytest.mark.parametrize(
    "header",
    [
        "", "{}", "nonsense", "(" * 5000, "{'descr': '|O', 'fortran_order': False, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "{'descr': '<f4', 'fortran_order': 1, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 5}", "{'descr': 'V0', 'fortran_order': False, 'shape': (5,)}",
        "{'descr': 7, 'fortran_order': False, 'shape': ()}", "__import__('os').getcwd()", "{'descr': '<f4'}" + " " * 70000,
    ],
)  # fmt: skip
def test_headers_that_mean_nothing(header):
    with pytest.raises(ItemError, match="hint:"):
        Item._received((0x1000, "x", "", [], [], header), False)


@pytest.mark.parametrize("form", [[], [("u", 0)], [("u", 65)], [("f", 16)], [("c", 7)], [("0", 8)], [("x", 8)]])
def test_formats_that_mean_nothing(form):
    with pytest.raises(ItemError, match="hint:"):
        Item._received((0x1000, "x", "", [], form, None), False)


def test_too_few_bytes():
    with pytest.raises(ItemError, match="hint:"):
        Descriptor(1, "x", shape=(1000,), dtype="<u4").codec.decode(bytearray(3999), 0, 3999)
    with pytest.raises(ItemError, match="hint:"):
        Descriptor(1, "x", shape=(2**40, 2**40), dtype="<u4").codec.decode(bytearray(4), 0, 4)
    with pytest.raises(ItemError, match="hint:"):
        Descriptor(1, "x", shape=(9,), dtype="u1").codec.decode_immediate(0, 48)


def test_a_damaged_descriptor_is_an_error():
    whole = Descriptor(0x40, "name", "text", (3,), "<f4").to_bytes()
    for size in range(len(whole)):
        with pytest.raises(ValueError, match="hint:"):
            Descriptor.from_bytes(whole[:size])


def test_ambiguous_descriptors_are_refused():
    for wrong in ({}, {"dtype": "u1", "format": [("u", 8)]}, {"dtype": "O"}, {"dtype": "u1", "order": "A"},
                  {"dtype": "<c8", "shape": (None,)}, {"dtype": "u1", "shape": (None, None)}):  # fmt: skip
        with pytest.raises(ItemError, match="hint:"):
            Descriptor(1, "x", **wrong)


def test_a_group_gives_ids_and_replaces():
    group = ItemGroup()
    first = group.add_item(name="a", dtype="u1")
    second = group.add_item(name="b", dtype="u1")
    assert (first.id, second.id) == (0x1000, 0x1001)
    third = group.add_item(0x1001, "a", dtype="u2")
    assert (len(group), group["a"], group[0x1001]) == (1, third, third)
    assert "b" not in group
    assert 0x1000 not in group


def test_flavours_have_limits():
    for wrong in ({"address_bits": 41}, {"address_bits": 64}, {"bug_compat": 8}):
        with pytest.raises(ValueError, match="hint:"):
            Flavour(**wrong)
