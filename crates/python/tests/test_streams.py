"""Heaps through every transport, and the ends of streams."""

import asyncio
import gc
import socket
import threading
import time

import numpy as np
import pytest

from skyhaul.spead import Empty, Flavour, HeapGenerator, InprocQueue, ItemGroup, Stopped, UpdateError, recv, send

# Long enough for a loaded machine; nothing waits so long when all is well.
SOON = 30.0


def a_group(elements=1000, first=0x1000, time_bits=48):
    group = ItemGroup()
    group.add_item(first, "power", "of each channel", (elements,), "<f4", value=np.arange(elements, dtype="<f4"))
    group.add_item(first + 1, "time", format=[("u", time_bits)], value=123456)
    group.add_item(first + 2, "station", shape=(None,), format=[("c", 8)], value="Effelsberg")
    group.add_item(first + 3, "packed", shape=(3,), format=[("u", 12)], value=[1, 2, 4095])
    return group


def check(group, sent):
    np.testing.assert_array_equal(group["power"].value, sent["power"].value)
    assert group["time"].value == sent["time"].value
    assert group["station"].value == sent["station"].value
    np.testing.assert_array_equal(group["packed"].value, sent["packed"].value)


def as_bytes(*heaps, **config):
    stream = send.BytesStream(**config)
    for heap in heaps:
        stream.send(heap)
    return stream.getvalue()


def from_bytes(data, **config):
    stream = recv.Stream(**config)
    stream.add_bytes(data)
    return stream


def send_all(stream, sent, heaps=5):
    generator = HeapGenerator(sent)
    for n in range(heaps):
        sent["time"].value = n
        stream.send(generator.heap(data="all"))
    stream.send(generator.end())


def receive_all(stream, sent, heaps=5):
    group = ItemGroup()
    for n in range(heaps):
        group.update(stream.get(SOON))
        sent["time"].value = n
        check(group, sent)
    with pytest.raises(Stopped):
        stream.get(SOON)


@pytest.mark.parametrize("address", ["127.0.0.1", "[::1]"])
def test_udp(address):
    if ":" in address and not socket.has_ipv6:
        pytest.skip("no IPv6 here (sysctl net.ipv6.conf.all.disable_ipv6=0)")
    stream = recv.Stream()
    try:
        at = stream.add_udp(f"{address}:0")
    except OSError as error:
        if ":" in address:
            pytest.skip(f"no IPv6 here: {error} (sysctl net.ipv6.conf.all.disable_ipv6=0)")
        raise
    with send.UdpStream(at) as sender:
        send_all(sender, a_group())
    receive_all(stream, a_group())


@pytest.mark.parametrize("packet", [None, 1472, 65536])
def test_tcp(packet):
    stream = recv.Stream()
    at = stream.add_tcp("127.0.0.1:0")
    with send.TcpStream(at, **({} if packet is None else {"packet": packet})) as sender:
        send_all(sender, a_group(100_000))
    receive_all(stream, a_group(100_000))


def test_inproc():
    queue = InprocQueue()
    stream = recv.Stream()
    stream.add_inproc(queue)
    with send.InprocStream(queue) as sender:
        send_all(sender, a_group())
    receive_all(stream, a_group())


@pytest.mark.parametrize("compat", [0, 1, 2, 4, 7])
@pytest.mark.parametrize("bits", [40, 48, 56])
def test_bytes(bits, compat):
    # SPEAD-64-56 has ids up to 127.
    sent, flavour = a_group(first=0x20, time_bits=min(bits, 48)), Flavour(bits, compat)
    generator = HeapGenerator(sent, flavour)
    stream = from_bytes(as_bytes(generator.heap(), generator.end()))
    group = ItemGroup()
    heap = stream.get(SOON)
    assert heap.address_bits == bits
    group.update(heap, compat)
    check(group, sent)


def test_values_view_the_heap_and_keep_it():
    sent = a_group()
    stream = from_bytes(as_bytes(HeapGenerator(sent).heap()))
    group = ItemGroup()
    heap = stream.get(SOON)
    group.update(heap)
    value = group["power"].value
    view = np.frombuffer(heap.payload, np.uint8)
    assert np.shares_memory(value, view)
    del heap, stream, group, view
    gc.collect()
    np.testing.assert_array_equal(value, sent["power"].value)
    value[0] = 77
    assert value[0] == 77


def test_sent_values_are_not_copied():
    """What is in the array when the heap is sent is what is sent, also when it is sent again."""
    sent = ItemGroup()
    value = np.zeros(1000, "<u4")
    sent.add_item(name="x", shape=(1000,), dtype="<u4", value=value)
    heap = HeapGenerator(sent).heap()
    group = ItemGroup()
    for n in (1, 2):
        value[:] = n
        group.update(from_bytes(as_bytes(heap)).get(SOON))
        assert set(group["x"].value) == {n}


def test_a_generator_sends_what_changed():
    group = a_group()
    generator = HeapGenerator(group, descriptor_frequency=3)

    def ids(heap):
        return sorted(item[0] for item in from_bytes(as_bytes(heap)).get(SOON).items())

    everything = [5, 5, 5, 5, 0x1000, 0x1001, 0x1002, 0x1003]
    assert ids(generator.heap()) == everything
    group["time"].value = 5
    assert ids(generator.heap()) == [0x1001]
    group["power"].value[0] = 9
    group["power"].changed()
    assert ids(generator.heap()) == [0x1000]
    group["power"].value = group["power"].value
    assert ids(generator.heap()) == [5, 5, 5, 5, 0x1000]
    assert ids(generator.heap(descriptors="none", data="all")) == everything[4:]
    assert ids(generator.heap(descriptors="all", data="none")) == everything[:4]


def test_what_does_not_fit_spoils_only_its_item():
    good, bad = ItemGroup(), ItemGroup()
    good.add_item(0x1000, "a", shape=(4,), dtype="<u4")
    good.add_item(0x1001, "b", shape=(1000,), dtype="<u4")
    bad.add_item(0x1000, "a", shape=(4,), dtype="<u4", value=[1, 2, 3, 4])
    bad.add_item(0x1001, "b", shape=(999,), dtype="<u4", value=np.zeros(999))
    heap = from_bytes(as_bytes(HeapGenerator(bad).heap(descriptors="none"))).get(SOON)
    with pytest.raises(UpdateError, match="hint:") as caught:
        good.update(heap)
    assert list(caught.value.updated) == ["a"]
    assert good["a"].value.tolist() == [1, 2, 3, 4]
    assert good["b"].value is None


def test_iteration_ends_with_the_stream():
    sent = a_group()
    generator = HeapGenerator(sent)
    data = as_bytes(*[generator.heap(data="all") for _ in range(300)])
    counters = [heap.counter for heap in from_bytes(data)]
    assert counters == list(range(1, 301))


def test_nothing_is_lost_between_ways_of_taking():
    generator = HeapGenerator(a_group())
    stream = from_bytes(as_bytes(*[generator.heap(data="all") for _ in range(20)]))
    counters = [next(stream).counter, stream.get(SOON).counter, stream.get_nowait().counter]
    counters += [heap.counter for heap in stream]
    assert counters == list(range(1, 21))


def test_get_ends_in_time():
    stream = recv.Stream()
    stream.add_udp("127.0.0.1:0")
    with pytest.raises(Empty):
        stream.get_nowait()
    with pytest.raises(Empty):
        stream.get(0.01)
    stream.stop()
    with pytest.raises(Stopped):
        stream.get(SOON)


def test_an_idle_stream_ends():
    """The time counts from the last packet, and begins with the first."""
    stream = recv.Stream(idle_timeout=0.05)
    send.UdpStream(stream.add_udp("127.0.0.1:0")).send(HeapGenerator(a_group()).heap())
    assert [heap.counter for heap in stream] == [1]
    assert stream.stats()["ended"] == "idle"


def test_a_stream_ends_at_its_deadline():
    stream = recv.Stream(deadline=0.05)
    stream.add_udp("127.0.0.1:0")
    assert list(stream) == []
    assert stream.stats()["ended"] == "deadline"


def test_a_heap_with_a_lost_packet_ends_by_time():
    sent = a_group()
    packets = HeapGenerator(sent).heap().packets(9, 600)
    stream = recv.Stream(heap_timeout=0.05, incomplete=True)
    host, port = stream.add_udp("127.0.0.1:0").rsplit(":", 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for n, packet in enumerate(packets):
            if n != 2:
                sender.sendto(packet, (host, int(port)))
    heap = stream.get(SOON)
    assert (heap.counter, heap.complete) == (9, False)
    [(start, stop)] = heap.missing
    assert stop - start == heap.length - heap.received


def test_stop_wakes_who_waits():
    stream = recv.Stream()
    stream.add_udp("127.0.0.1:0")
    timer = threading.Timer(0.05, stream.stop)
    timer.start()
    assert list(stream) == []
    timer.join()


def test_waiting_lets_other_threads_run():
    stream = recv.Stream()
    stream.add_udp("127.0.0.1:0")
    taker = threading.Thread(target=lambda: list(stream))
    taker.start()
    deadline = time.monotonic() + SOON
    while time.monotonic() < deadline and taker.is_alive():
        time.sleep(0.01)
        stream.stop()
    taker.join(SOON)
    assert not taker.is_alive()


def test_every_discard_is_counted():
    stream = recv.Stream()
    host, port = stream.add_udp("127.0.0.1:0").rsplit(":", 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"no SPEAD at all", (host, int(port)))
        for packet in HeapGenerator(a_group()).heap().packets(1, 1472):
            sender.sendto(packet, (host, int(port)))
    assert stream.get(SOON).complete
    stats = stream.stats()
    assert stats["heaps"] == 1
    assert sum(stats["rejected"].values()) == 1


async def test_async_receiving():
    queue = InprocQueue()
    stream = recv.Stream()
    stream.add_inproc(queue)
    with pytest.raises(Empty):
        await stream.aget(0.01)

    async def take():
        return [heap.counter async for heap in stream]

    takers = [asyncio.create_task(take()) for _ in range(3)]
    await asyncio.sleep(0.01)
    sender, generator = send.InprocStream(queue), HeapGenerator(a_group())
    for n in range(1, 31):
        assert await sender.asend(generator.heap(data="all")) > 4000
        if n % 10 == 0:
            await asyncio.sleep(0.01)
    await sender.asend(generator.end())
    counters = [counter for taken in await asyncio.gather(*takers) for counter in taken]
    assert sorted(counters) == list(range(1, 31))


async def test_a_cancelled_wait_takes_nothing():
    queue = InprocQueue()
    stream = recv.Stream()
    stream.add_inproc(queue)
    waiting = asyncio.create_task(stream.aget())
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    send.InprocStream(queue).send(HeapGenerator(a_group()).heap())
    assert (await stream.aget(SOON)).counter == 1


def test_the_bytes_of_an_empty_heap():
    """Golden bytes of the reference: one dummy byte, a NULL item."""
    heap = send.Heap(48)
    [packet] = heap.packets(7)
    assert packet.hex() == (
        "5304020600000005" "8001000000000007" "8002000000000001" "8003000000000000" "8004000000000001"
        "0000000000000000" "00"
    )  # fmt: skip


def test_the_bytes_of_two_items():
    heap = send.Heap(40)
    heap.add_immediate(0x1001, 0x010203)
    heap.add_item(0x1002, b"hi")
    [packet] = heap.packets(7)
    assert packet.hex() == (
        "5304030500000006" "8000010000000007" "8000020000000002" "8000030000000000" "8000040000000002"
        "8010010000010203" "0010020000000000" "6869"
    )  # fmt: skip


def test_batches_and_counters():
    group = a_group()
    stream = send.BytesStream()
    stream.set_counter_sequence(100, 10)
    heaps = [HeapGenerator(group).heap() for _ in range(4)]
    stream.send_heaps(heaps[:2])
    stream.send_heaps([send.Send(heaps[2], 7), heaps[3]], round_robin=True)
    got = sorted(heap.counter for heap in from_bytes(stream.getvalue()))
    assert got == [7, 100, 110, 120]


def test_an_array_with_holes_is_refused():
    heap = send.Heap(48)
    with pytest.raises((BufferError, ValueError), match="hint:"):
        heap.add_item(0x1000, np.zeros((4, 4))[:, ::2])


def test_a_cancelled_batch_says_so():
    stream = recv.Stream()
    at = stream.add_udp("127.0.0.1:0")
    sender = send.UdpStream(at, rate=1000)
    ticket = sender.queue([HeapGenerator(a_group()).heap() for _ in range(2)])
    sender.cancel()
    with pytest.raises(send.Cancelled):
        ticket.result()
