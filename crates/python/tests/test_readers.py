"""Readers beside the usual ones: sockets of the program, captures, multicast, many senders."""

import socket
import struct
import time

import numpy as np
import pytest

from skyhaul.spead import Empty, InprocQueue, recv, send

SOON = 30.0


def heap(value=0, size=1000):
    made = send.Heap()
    made.add_item(0x1000, np.full(size, value, "u1"))
    return made


def end():
    made = send.Heap()
    made.add_end()
    return made


def test_a_udp_socket_of_the_program():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.bind(("127.0.0.1", 0))
        receiver = recv.Stream()
        receiver.add_udp_fd(own.fileno())
        port = own.getsockname()[1]
    send.UdpStream(f"127.0.0.1:{port}").send(heap())
    assert receiver.get(SOON).counter == 1
    receiver.stop()  # what a source tells of itself is read now and then, and at its end
    [reader] = receiver.stats()["readers"]
    assert reader["packets"] == 1
    assert reader["buffer_granted"] > 0
    assert (reader["malformed"], reader["kernel_drops"], reader["error"]) == (0, 0, None)


@pytest.mark.parametrize("listening", [True, False])
def test_a_tcp_socket_of_the_program(listening):
    receiver = recv.Stream()
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = "{}:{}".format(*server.getsockname())
        if listening:
            receiver.add_tcp_fd(server.fileno(), connections=1)
            sender = send.TcpStream(address)
        else:
            sender = send.TcpStream(address)
            connection, _ = server.accept()
            with connection:
                receiver.add_tcp_fd(connection.fileno())
    with sender:
        sender.send_heaps([heap(), heap()])
    assert [heap.counter for heap in receiver] == [1, 2]


def test_numbers_that_are_no_sockets():
    receiver = recv.Stream()
    for wrong in (-1, 999_999):
        with pytest.raises((ValueError, OSError)):
            receiver.add_udp_fd(wrong)
        with pytest.raises((ValueError, OSError)):
            receiver.add_tcp_fd(wrong)


def test_a_capture(tmp_path):
    file = tmp_path / "heaps.pcap"
    frames = []
    for counter, port in ((1, 7148), (2, 7149), (3, 7148)):
        for packet in heap(counter).packets(counter, 400):
            udp = struct.pack(">HHHH", 5000, port, 8 + len(packet), 0) + packet
            head = struct.pack(">BBHHHBB", 0x45, 0, 20 + len(udp), 0, 0, 64, 17), bytes(4) + bytes([127, 0, 0, 1])
            total = sum(struct.unpack(">9H", b"".join(head)))
            ip = head[0] + struct.pack(">H", 0xFFFF - (total & 0xFFFF) - (total >> 16)) + head[1]
            frames.append(bytes(12) + b"\x08\x00" + ip + udp)
    with file.open("wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for n, frame in enumerate(frames):
            out.write(struct.pack("<IIII", n, 0, len(frame), len(frame)) + frame)
    everything, one_port = recv.Stream(), recv.Stream()
    everything.add_pcap(file)
    one_port.add_pcap(str(file), port=7148)
    assert sorted(heap.counter for heap in everything) == [1, 2, 3]
    assert [heap.counter for heap in one_port] == [1, 3]


def test_multicast():
    receiver = recv.Stream()
    try:
        at = receiver.add_udp("239.255.90.17:0", interface="127.0.0.1")
        sender = send.UdpStream(at, interface="127.0.0.1", ttl=0)
        sender.send(heap())
        assert receiver.get(5.0).counter == 1
    except (OSError, Empty) as error:
        pytest.skip(f"no multicast on loopback here: {error} (ip link set lo multicast on)")


def test_senders_with_the_same_counters():
    """Keyed by sender, two heaps 1 are two heaps; keyed by counter, the second is a copy of the first."""
    for key, wanted in (("sender", [1, 1]), ("counter", [1])):
        receiver, queue = recv.Stream(key=key, stop="never"), InprocQueue()
        receiver.add_inproc(queue)
        for number in (1, 2):
            send.InprocStream(queue.as_sender(number)).send(heap(number))
        queue.close()
        assert [heap.counter for heap in receiver] == wanted, key
        assert receiver.stats()["rejected"]["duplicate"] == 2 - len(wanted)


def test_a_stream_ends_when_so_many_senders_have_ended():
    receiver, queue = recv.Stream(key="sender", stop=2), InprocQueue()
    receiver.add_inproc(queue)
    first, second = (send.InprocStream(queue.as_sender(number)) for number in (1, 2))
    first.send_heaps([heap(), end()])
    second.send_heaps([heap(), heap(), end()])
    assert [heap.counter for heap in receiver] == [1, 1, 2]
    assert receiver.stats()["ended"] == "stop_item"


@pytest.mark.parametrize("limit", [{"heap_limit": 3}, {"byte_limit": 2500}])
def test_a_stream_ends_at_its_limit(limit):
    receiver, queue = recv.Stream(**limit), InprocQueue()
    receiver.add_inproc(queue)
    send.InprocStream(queue).send_heaps([heap() for _ in range(10)])
    assert [heap.counter for heap in receiver] == [1, 2, 3]
    assert receiver.stats()["ended"] == "limit"


def test_heaps_before_the_first_that_is_wanted():
    receiver, queue = recv.Stream(start_at=3), InprocQueue()
    receiver.add_inproc(queue)
    with send.InprocStream(queue) as sender:
        sender.send_heaps([heap() for _ in range(5)])
    queue.close()
    assert [heap.counter for heap in receiver] == [3, 4, 5]
    assert receiver.stats()["rejected"]["before_start"] == 2


@pytest.mark.parametrize(
    "wrong",
    [{"window": 0}, {"ring": 0}, {"key": "port"}, {"full": "maybe"}, {"stop": "now"}, {"heap_timeout": float("nan")}],
)
def test_settings_that_cannot_be(wrong):
    with pytest.raises(ValueError, match="hint:"):
        recv.Stream(**wrong)


def test_addresses_that_cannot_be():
    for wrong in ("nowhere", "127.0.0.1", "tcp://127.0.0.1:0", "127.0.0.1:99999"):
        with pytest.raises(ValueError, match="hint:"):
            recv.Stream().add_udp(wrong)
        with pytest.raises(ValueError, match="hint:"):
            send.UdpStream(wrong)
    with pytest.raises(OSError, match="hint:"):
        recv.Stream().add_udp("203.0.113.1:0")


def test_the_kernel_places_payloads():
    receiver = recv.Stream(stop="never", ring=1024)
    with pytest.raises(ValueError, match='tier is "xdp"'):
        receiver.add_udp("127.0.0.1:0", tier="xdp")
    try:
        address = receiver.add_udp("127.0.0.1:0", tier="bpf")
    except OSError as why:
        if "CAP_BPF" not in str(why):
            raise
        pytest.skip(str(why))
    sender = send.UdpStream(address)
    kept, sent, until = [], 0, time.monotonic() + SOON
    while sent < 300 or receiver.stats()["readers"][0]["tier"] != "bpf":
        assert time.monotonic() < until, receiver.stats()["readers"]
        for n in range(sent, sent + 10):
            sender.send(heap(n % 251, 65536))
        # Its program is loaded meanwhile; what is kept is not written again.
        kept += [receiver.get(SOON) for _ in range(10)]
        sent += 10
        time.sleep(0.005)
        del kept[:-300]
    for n, one in enumerate(kept, sent - len(kept)):
        values = np.frombuffer(one.payload, "u1")
        assert len(values) == 65536 and (values == n % 251).all()
    receiver.stop()
    [reader] = receiver.stats()["readers"]
    assert (reader["tier"], reader["kernel_drops"], reader["error"]) == ("bpf", 0, None)
