"""Rates that receivers steer: senders that ask what comes, receivers that answer."""

import socket
import time

import numpy as np
import pytest

from skyhaul.spead import Empty, InprocQueue, recv, send

SOON = 30.0


def heap(size=10_000):
    made = send.Heap()
    made.add_item(0x1000, np.zeros(size, "u1"))
    return made


def send_until_reported(sender, receivers, give_back=lambda heap: None):
    """A heap to each at a time, taken before the next is sent, until each has answered. Returns how many came."""
    came, end = [0] * len(receivers), time.monotonic() + SOON
    while not (all(came) and sender.progress and all(one.reports for one in sender.progress)):
        assert time.monotonic() < end, (came, sender.progress)
        for number, receiver in enumerate(receivers):
            sender.send(heap(), substream=number)
            try:
                give_back(receiver.get(0.2))
            except Empty:  # a loaded machine may lose one
                continue
            came[number] += 1
    return came


def test_a_receiver_answers():
    receiver = recv.Stream()
    at = receiver.add_udp("127.0.0.1:0", feedback=True)
    with send.UdpStream(at, rate="auto") as sender:
        assert (sender.rate, sender.progress) == (100_000_000, [])  # where it starts
        send_until_reported(sender, [receiver])
        [progress] = sender.progress
    assert [progress] == sender.progress  # still there when it is closed
    assert sender.rate == progress.rate > 0
    assert progress.phase in ("climb", "settle", "raise", "blind")
    assert progress.reports > 0
    assert progress.lost >= 0
    assert "Gb/s" in progress.text


def test_each_of_several_receivers_answers():
    receivers = [recv.Stream(), recv.Stream()]
    to = [receiver.add_udp("127.0.0.1:0", feedback=True) for receiver in receivers]
    with send.UdpStream(to, rate="auto") as sender:
        send_until_reported(sender, receivers)
        assert len(sender.progress) == 2


async def test_a_receiver_answers_while_tasks_run():
    receiver = recv.Stream()
    at = receiver.add_udp("127.0.0.1:0", feedback=True)
    with send.UdpStream(at, rate="auto") as sender:
        for _ in range(3):
            await sender.asend(heap())
            assert (await receiver.aget(SOON)).complete
        assert len(sender.progress) == 1


def test_a_chunk_stream_answers():
    receiver = recv.ChunkStream("counter", "0", "0", max_chunks=1)
    for _ in range(4):
        receiver.add_free(recv.Chunk(np.zeros(10_000, "u1"), heaps=1))
    at = receiver.add_udp("127.0.0.1:0", feedback=True)
    with send.UdpStream(at, rate="auto") as sender:
        send_until_reported(sender, [receiver], receiver.add_free)
    receiver.stop()


@pytest.mark.parametrize("stream", [recv.Stream, lambda: recv.ChunkStream("counter", "0", "0", max_chunks=1)])
def test_a_socket_of_the_programs_own_answers(stream):
    receiver = stream()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.bind(("127.0.0.1", 0))
        at = receiver.add_udp_fd(own.fileno(), feedback=True)
    chunks = isinstance(receiver, recv.ChunkStream)
    for _ in range(4 if chunks else 0):
        receiver.add_free(recv.Chunk(np.zeros(10_000, "u1"), heaps=1))
    with send.UdpStream(at, rate="auto") as sender:
        send_until_reported(sender, [receiver], receiver.add_free if chunks else lambda heap: None)
    receiver.stop()


def test_the_rate_begins_and_stays_where_it_is_told():
    receiver = recv.Stream()
    at = receiver.add_udp("127.0.0.1:0", feedback=True)
    with send.UdpStream(at, rate="auto", rate_start=3e6, rate_bounds=(2e6, 4e6)) as sender:
        assert sender.rate == 3_000_000
        send_until_reported(sender, [receiver])
        end = time.monotonic() + SOON
        while sender.progress[0].reports < 20:
            assert time.monotonic() < end, sender.progress
            sender.send(heap(1000))
            receiver.get(SOON)
            assert 2_000_000 <= sender.rate <= 4_000_000
        assert sender.rate > 3_000_000, "nothing was lost, so it rose"
    # What was not given follows what was.
    for bounds, begin in [((2e8, 3e8), 200_000_000), ((1e6, 5e7), 50_000_000)]:
        with send.UdpStream(at, rate="auto", rate_bounds=bounds) as sender:
            assert sender.rate == begin
    for wrong in ({"rate_bounds": (4e6, 2e6)}, {"rate_bounds": (0, 2e6)}, {"rate_start": 1e12}):
        with pytest.raises(ValueError, match="hint:"):
            send.UdpStream(at, rate="auto", **wrong)
    with pytest.raises(ValueError, match="rate='auto'"):
        send.UdpStream(at, rate=1e9, rate_bounds=(1e6, 2e9))


def test_nobody_answers():
    receiver = recv.Stream()
    at = receiver.add_udp("127.0.0.1:0")
    with send.UdpStream(at, rate="auto") as sender:
        sender.send(heap(1000))
        assert receiver.get(SOON).complete  # marks among the packets hurt no receiver
        [progress] = sender.progress
    assert (progress.reports, progress.lost) == (0, 0)


def test_a_rate_that_was_given_stays():
    sender = send.BytesStream(rate=8e9)
    assert (sender.rate, sender.progress) == (8_000_000_000, [])
    sender.set_rate(0)
    assert sender.rate == 0
    sender.close()
    assert sender.rate == 0


def test_what_receivers_cannot_steer():
    with pytest.raises(ValueError, match="'auto'"):
        send.UdpStream("127.0.0.1:9", rate="fast")
    with pytest.raises(ValueError, match="only over UDP; hint:"):
        send.BytesStream(rate="auto")
    with pytest.raises(ValueError, match="only over UDP; hint:"):
        send.InprocStream(InprocQueue(), rate="auto")
    with pytest.raises(ValueError, match="many receivers.*hint:"):
        send.UdpStream("239.255.90.18:9", rate="auto")
    with pytest.raises(ValueError, match="many receivers.*hint:"):
        recv.Stream().add_udp("239.255.90.18:0", feedback=True)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as group, pytest.raises(OSError, match="group.*hint:"):
        group.bind(("239.255.90.18", 0))
        recv.Stream().add_udp_fd(group.fileno(), feedback=True)
    with pytest.raises(ValueError, match="many receivers.*hint:"):
        recv.ChunkStream("0", "0", "0").add_udp("239.255.90.18:0", feedback=True)
    with pytest.raises(ValueError, match="rate .auto.; hint:"):
        send.UdpStream("127.0.0.1:9", rate="auto").set_rate(1e9)
