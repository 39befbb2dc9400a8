"""SPEAD over every transport, between two implementations that share spead2's names: spead2 itself and ours.

    values ─▶ ItemGroup of the sender ─▶ heaps ─▶ path ─▶ stream of the receiver ─▶ ItemGroup ─▶ values

A path is opened at the receiver first. Packets that no sender makes (out of order, without a heap size) are made from
the packets of the sender's `PacketGenerator` and put on the path by plain sockets.
"""

import contextlib
import socket
import struct

import numpy as np

PACKET = 512
GROUP = "239.255.77.77"


class Peer:
    """One implementation: its modules, and a pool for all its streams."""

    def __init__(self, root, recv, send):
        self.root, self.recv, self.send = root, recv, send
        self.pool = root.ThreadPool(4)

    def flavour(self, width, bug_compat):
        return self.root.Flavour(4, 64, width, bug_compat)

    def update(self, group, heap, bug_compat):
        """Take a heap's items; spead2's streams know the bugs themselves."""
        return group.update(heap)


def free_port(kind=socket.SOCK_DGRAM, family=socket.AF_INET, host="127.0.0.1"):
    with socket.socket(family, kind) as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]


class Udp:
    """Datagrams on loopback, or to a group there."""

    kind = socket.SOCK_DGRAM

    def __init__(self, host="127.0.0.1", group=None, family=socket.AF_INET):
        self.host, self.group, self.family = host, group, family
        self.port = free_port(self.kind, family, host)

    def listen(self, stream):
        if self.group:
            stream.add_udp_reader(self.group, self.port, interface_address=self.host)
        else:
            stream.add_udp_reader(self.port, bind_hostname=self.host)

    def sender(self, peer, config):
        if self.group:
            return peer.send.UdpStream(peer.pool, [(self.group, self.port)], config, ttl=1, interface_address=self.host)
        return peer.send.UdpStream(peer.pool, [(self.host, self.port)], config)

    def put(self, packets):
        with socket.socket(self.family, self.kind) as out:
            if self.group:
                out.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(self.host))
            for packet in packets:
                out.sendto(packet, (self.group or self.host, self.port))

    def close(self):
        pass


class Tcp(Udp):
    """Packets one after the other on a connection."""

    kind = socket.SOCK_STREAM

    def listen(self, stream):
        stream.add_tcp_reader(self.port, bind_hostname=self.host)

    def sender(self, peer, config):
        return peer.send.TcpStream(peer.pool, [(self.host, self.port)], config)

    def put(self, packets):
        with socket.create_connection((self.host, self.port)) as out:
            out.sendall(b"".join(packets))


class Memory:
    """Packets one after the other in memory: the receiver gets them when all were sent."""

    def __init__(self):
        self.stream, self.source, self.packets = None, None, b""

    def listen(self, stream):
        self.stream = stream

    def sender(self, peer, config):
        self.source = peer.send.BytesStream(peer.pool, config)
        return self.source

    def put(self, packets):
        self.packets = b"".join(packets)

    def close(self):
        self.stream.add_buffer_reader(self.source.getvalue() if self.source is not None else self.packets)


def make_path(name):
    return {
        "udp": lambda: Udp(),
        "udp6": lambda: Udp("::1", family=socket.AF_INET6),
        "multicast": lambda: Udp(group=GROUP),
        "tcp": lambda: Tcp(),
        "bytes": lambda: Memory(),
    }[name]()


def has_multicast():
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
        probe.sendto(b"", (GROUP, 9))
        return True
    return False


def has_ipv6():
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
        probe.bind(("::1", 0))
        return True
    return False


def items(width):
    """(arguments of add_item, first value, second value) of items of every kind, with numbers that fit the flavour."""
    rng = np.random.default_rng(width)
    first = 0x1000 if width < 56 else 0x20
    kinds = [
        ("floats", {"shape": (30, 20), "dtype": "<f4"}, lambda: rng.normal(size=(30, 20)).astype("<f4")),
        ("big", {"shape": (300,), "dtype": ">u2"}, lambda: rng.integers(0, 65536, 300).astype(">u2")),
        ("fortran", {"shape": (9, 7), "dtype": "<i8", "order": "F"}, lambda: rng.integers(-9, 9, (9, 7))),
        ("struct", {"shape": (5,), "dtype": [("t", "<u4"), ("x", ">f8")]}, lambda: _pairs(rng)),
        ("text", {"shape": (None,), "format": [("c", 8)]}, lambda: "".join(rng.choice(list("abc "), 700))),
        ("grown", {"shape": (None, 3), "format": [("i", 32)]}, lambda: rng.integers(-9, 9, (int(rng.integers(1, 90)), 3))),
        ("packed", {"shape": (11,), "format": [("u", 4), ("i", 12)]}, lambda: _nibbles(rng)),
        ("odd", {"shape": (3, 5), "format": [("u", 11)]}, lambda: rng.integers(0, 2048, (3, 5)).tolist()),
        ("small", {"shape": (), "format": [("u", 32)]}, lambda: int(rng.integers(1 << 32))),
        ("negative", {"shape": (), "format": [("i", 16)]}, lambda: int(rng.integers(-(1 << 15), 0))),
        ("stamp", {"shape": (), "format": [("u", 40)]}, lambda: int(rng.integers(1 << 40))),
        ("flag", {"shape": (), "dtype": "?"}, lambda: bool(rng.integers(2))),
    ]
    return [
        ({"id": first + n, "name": name, "description": f"{name} of the matrix", **how}, make(), make())
        for n, (name, how, make) in enumerate(kinds)
    ]


def _pairs(rng):
    out = np.zeros(5, [("t", "<u4"), ("x", ">f8")])
    out["t"], out["x"] = rng.integers(0, 1 << 32, 5), rng.normal(size=5)
    return out


def _nibbles(rng):
    return [(int(a), int(b)) for a, b in zip(rng.integers(0, 16, 11), rng.integers(-2048, 2048, 11))]


def same(sent, received):
    """Whether a received value is the one sent, whatever its byte order and container."""
    plain = [value.tolist() if hasattr(value, "tolist") else value for value in (sent, received)]
    return _lists(plain[0]) == _lists(plain[1])


def _lists(value):
    return [_lists(one) for one in value] if isinstance(value, (list, tuple)) else value


def heaps(peer, flavour, values, repeat):
    """Two heaps (descriptors and first values, second values) and the one that ends the stream."""
    group = peer.send.ItemGroup(flavour=flavour)
    for how, _, _ in values:
        group.add_item(**how)
    out = []
    for n in (1, 2):
        for value in values:
            group[value[0]["name"]].value = value[n]
        heap = group.get_heap()
        heap.repeat_pointers = repeat
        out.append(heap)
    return [*out, group.get_end()]


def packets(peer, heap, counter):
    return [bytes(packet) for packet in peer.send.PacketGenerator(heap, counter, PACKET)]


def without_size(packet):
    """The same packet without the item that says how large the heap is."""
    count = struct.unpack_from(">H", packet, 6)[0]
    pointers = [packet[8 + 8 * n : 16 + 8 * n] for n in range(count)]
    shift = packet[3] * 8
    kept = [pointer for pointer in pointers if (int.from_bytes(pointer, "big") & ~(1 << 63)) >> shift != 2]
    return packet[:6] + struct.pack(">H", len(kept)) + b"".join(kept) + packet[8 + 8 * count :]


def transfer(sender, receiver, path, flavour, variant, values):
    """Send the heaps of `values` from one implementation to the other: a list of {name: value}, one for each heap."""
    width, bug_compat = flavour
    config = receiver.recv.StreamConfig(bug_compat=bug_compat, allow_out_of_order=variant == "out of order", max_heaps=8)
    stream = receiver.recv.Stream(receiver.pool, config, receiver.recv.RingStreamConfig(heaps=8))
    path.listen(stream)
    made = heaps(sender, sender.flavour(width, bug_compat), values, variant == "repeat pointers")
    if variant in ("plain", "repeat pointers"):
        out = path.sender(sender, sender.send.StreamConfig(max_packet_size=PACKET))
        for heap in made:
            out.send_heap(heap)
    else:
        cut = [packets(sender, heap, counter + 1) for counter, heap in enumerate(made)]
        if variant == "out of order":
            cut = [list(reversed(part)) for part in cut]
        else:
            # The heap that ends the stream keeps its size.
            cut = [[without_size(packet) for packet in part] for part in cut[:-1]] + cut[-1:]
        out = None
        path.put([packet for part in cut for packet in part])
    path.close()
    group = receiver.root.ItemGroup()
    got = []
    for heap in stream:
        got.append({name: item.value for name, item in receiver.update(group, heap, bug_compat).items()})
    stream.stop()
    del out
    return got
