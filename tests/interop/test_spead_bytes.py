"""The octets of SPEAD heaps and descriptors beside those that spead2 makes, over many random ones.

An example program of the core prints ours. Nothing is sent: what is compared is the arithmetic.
"""

import random
import shutil
import struct
import subprocess

import numpy as np
import pytest
from conftest import ROOT

spead2 = pytest.importorskip("spead2", reason="spead2 is not installed (pip install -r tests/requirements.txt)")
import spead2.recv  # noqa: E402
import spead2.send  # noqa: E402

WIDTHS = [16, 24, 32, 40, 48, 56]


@pytest.fixture(scope="module")
def ask():
    """Asks the example for one line's octets; None where it refuses."""
    if not shutil.which("cargo"):
        pytest.skip("cargo is not installed (https://rustup.rs)")
    # Of the whole workspace, and so of what the tests are built of.
    built = subprocess.run(["cargo", "build", "--quiet", "--locked", "--workspace", "--example", "spead_bytes",
                            "--message-format", "json"], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True,
                           text=True, timeout=600, check=False)
    assert built.returncode == 0, built.stderr
    program = next(line.split('"executable":"')[1].split('"')[0] for line in built.stdout.splitlines()
                   if '"name":"spead_bytes"' in line and '"executable":"' in line)
    process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def one(*words):
        process.stdin.write(" ".join(map(str, words)) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline().strip()
        return None if answer.startswith("error") else [bytes.fromhex(part) for part in answer.split(",")]

    yield one
    process.stdin.close()
    assert process.wait(timeout=20) == 0


class RandomHeap:
    """A heap whose payload counts up, for both."""

    def __init__(self, chance):
        self.bits = chance.choice(WIDTHS)
        self.counter = chance.randrange(1 << self.bits)
        self.repeat = chance.random() < 0.3
        self.packet = chance.choice([chance.randrange(40, 200), chance.randrange(56, 1500), 56, 1472, 8972])
        self.size, self.pointers, self.items = 0, [], []
        self.theirs = spead2.send.Heap(spead2.Flavour(4, 64, self.bits, 0))
        self.theirs.repeat_pointers = self.repeat
        for item in range(0x20, 0x20 + chance.choice([0, 1, 2, 3, 5, 8, chance.randrange(60)])):
            if chance.random() < 0.5:
                value = chance.randrange(1 << self.bits)
                self.pointers.append(1 << 63 | item << self.bits | value)
                shape, data = (), value
                self.items.append((item, value))
            else:
                # What is short and of fixed shape spead2 sends as an immediate.
                length = chance.choice([chance.randrange(1, 40), chance.randrange(1, 900)])
                self.pointers.append(item << self.bits | self.size)
                shape, data = (None,), (np.arange(length) + self.size).astype(np.uint8)
                self.items.append((item, data.tobytes()))
                self.size += length
            fields = [("u", self.bits if shape == () else 8)]
            self.theirs.add_item(spead2.Item(item, "", "", shape=shape, format=fields, value=data))

    def ours(self, ask, split):
        pointers = ",".join(f"{pointer:x}" for pointer in self.pointers) or "-"
        return ask("heap", self.bits, self.counter, self.size, self.packet, int(self.repeat), split, pointers)

    def mended(self, packet):
        """spead2 4.5.1 puts dummy zeros before the last payload of a heap, not after it, and so damages an item."""
        start = 8 + 8 * struct.unpack(">H", packet[6:8])[0]
        offset = struct.unpack(">Q", packet[24:32])[0] & ((1 << self.bits) - 1)
        head, payload = packet[:start], packet[start:]
        zeros = offset + len(payload) - self.size
        return head + payload[zeros:] + payload[:zeros] if 0 < zeros < len(payload) else packet


def test_full_packets_are_those_of_spead2(ask):
    chance = random.Random(1)
    for _ in range(1500):
        heap = RandomHeap(chance)
        try:
            theirs = [heap.mended(packet) for packet in
                      spead2.send.PacketGenerator(heap.theirs, heap.counter, heap.packet)]
        except ValueError:
            theirs = None
        assert heap.ours(ask, "full") == theirs


@pytest.mark.parametrize("split", ["full", "even"])
def test_spead2_reads_packets_in_any_order(ask, split):
    chance, pool = random.Random(2), spead2.ThreadPool()
    for _ in range(300):
        heap = RandomHeap(chance)
        packets = heap.ours(ask, split)
        if packets is None:
            continue
        assert max(map(len, packets)) <= heap.packet
        chance.shuffle(packets)
        config = spead2.recv.StreamConfig(allow_out_of_order=True, stop_on_stop_item=False)
        stream = spead2.recv.Stream(pool, config)
        stream.add_buffer_reader(b"".join(packets))
        [read] = list(stream)
        items = [(item.id, item.immediate_value if item.is_immediate else bytes(item)) for item in read.get_items()]
        assert (read.cnt, sorted(items, key=lambda item: item[0])) == (heap.counter, heap.items)


def test_descriptors_are_those_of_spead2(ask):
    chance = random.Random(3)
    for _ in range(600):
        bits, bug_compat = chance.choice(WIDTHS), chance.randrange(8)
        item = chance.randrange(1, min(1 << (63 - bits), 1 << bits))
        name, description = ("".join(chance.choices("abc_ xyz09", k=chance.randrange(12))) for _ in range(2))
        flavour = spead2.Flavour(4, 64, bits, bug_compat)
        sizes = [chance.randrange(1, 100) for _ in range(chance.randrange(4))]
        if chance.random() < 0.4:
            kind = np.dtype(chance.choice(["<i2", ">f4", "|u1", "<c16", [("a", "<u2"), ("b", ">f8", (2,))]]))
            order = chance.choice("CF")
            theirs = spead2.Descriptor(item, name, description, tuple(sizes), dtype=kind, order=order)
            swapped = kind.newbyteorder() if bug_compat & 4 else kind
            header = {"descr": np.lib.format.dtype_to_descr(swapped), "fortran_order": order == "F",
                      "shape": tuple(sizes)}
            fields, numpy = "-", repr(header).encode().hex()
        else:
            widths = [(code, chance.choice([32, 64]) if code == "f" else 8 if code == "c" else chance.randrange(1, 128))
                      for code in chance.choices("uifcb", k=chance.randrange(1, 5))]
            if chance.random() < 0.4:
                sizes.insert(chance.randrange(len(sizes) + 1), None)
            theirs = spead2.Descriptor(item, name, description, tuple(sizes), format=widths)
            fields, numpy = ",".join(f"{code}{width}" for code, width in widths), "-"
        heap = spead2.send.Heap(flavour)
        heap.add_descriptor(theirs)
        [packet] = spead2.send.PacketGenerator(heap, 1, 65504)
        shape = ",".join("?" if size is None else str(size) for size in sizes) or "-"
        [ours] = ask("descriptor", bits, bug_compat, item, name.encode().hex() or "-",
                     description.encode().hex() or "-", shape, fields, numpy)
        # Header, the four pointers, that of item 5.
        assert ours == packet[48:]
