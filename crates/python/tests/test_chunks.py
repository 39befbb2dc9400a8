"""Heaps placed into arrays: where the rule says, nowhere else, from one stream and from several."""

import numpy as np
import pytest

from skyhaul.spead import Empty, InprocQueue, Stopped, recv, send

SOON = 30.0
RULE = ("item(0x1600) / 256", "item(0x4103)", "item(0x4103) * 1000")


def heap(chunk, channel, size=1000):
    made = send.Heap()
    made.add_immediate(0x1600, chunk * 256)
    made.add_immediate(0x4103, channel)
    made.add_item(0x4300, np.full(size, chunk * 4 + channel, "u1"))
    made.repeat_pointers = True
    return made


def packets(heaps, **options):
    stream = send.BytesStream(**options)
    stream.send_heaps(heaps)
    return stream.getvalue()


def stream(chunks=4, rule=RULE, notes=0, **options):
    made = recv.ChunkStream(*rule, **options)
    for _ in range(chunks):
        made.add_free(recv.Chunk(np.zeros((4, 1000), "u1"), heaps=4, extra=notes))
    return made


def check(chunk, absent=()):
    for channel in range(4):
        assert chunk.present[channel] == (channel not in absent)
        assert set(chunk.data[channel]) == {0 if channel in absent else chunk.id * 4 + channel}


def test_heaps_go_where_the_rule_says():
    made = stream(notes=4 * 8, extra_at="index * 8", extra=[("item(0x1600)", 4), ("chunk", 4)],
                  counters=[("bytes", "sum", "size"), ("latest", "max", "item(0x1600)")], stream_id=77)  # fmt: skip
    made.add_bytes(packets([heap(n, channel) for n in range(10) for channel in (3, 1, 0, 2)], packet=200))
    for n in range(10):
        chunk = made.get(SOON)
        assert (chunk.id, chunk.heaps, chunk.bytes, chunk.stream_id) == (n, 4, 4000, 77)
        check(chunk)
        assert np.frombuffer(chunk.extra, "=u4").reshape(4, 2).tolist() == [[n * 256, n]] * 4
        chunk.data[:] = 0
        made.add_free(chunk)
    with pytest.raises(Stopped):
        made.get(SOON)
    stats = made.stats()
    assert (stats["chunks"], stats["counters"]) == (10, {"bytes": 40_000, "latest": 9 * 256})


def test_what_does_not_come_is_not_present():
    made = stream()
    made.add_bytes(packets([heap(0, 0), heap(0, 2), heap(1, 1)]))
    first, second = made
    check(first, absent=(1, 3))
    check(second, absent=(0, 2, 3))


def test_what_does_not_fit_is_refused():
    made = stream(rule=("item(0x1600) / 256", "item(0x4103)", "item(0x4103) * 1001"))
    made.add_bytes(packets([heap(0, 0), heap(0, 3), heap(0, 1, size=5000)]))
    [chunk] = made
    assert (chunk.heaps, list(chunk.present)) == (1, [1, 0, 0, 0])
    assert made.stats()["rejected_heaps"] == 2


@pytest.mark.parametrize("lossless", [False, True])
def test_several_streams_fill_one_sequence(lossless):
    made, queues = stream(chunks=8, streams=2, lossless=lossless, max_chunks=4), [InprocQueue(), InprocQueue()]
    for n, queue in enumerate(queues):
        made.add_inproc(queue, stream=n)
    senders = [send.InprocStream(queue) for queue in queues]
    for n in range(6):
        for part, sender in enumerate(senders):
            sender.send_heaps([heap(n, channel) for channel in (part, part + 2)])
    for queue in queues:
        queue.close()
    chunks = list(made)
    assert [chunk.id for chunk in chunks] == sorted(chunk.id for chunk in chunks)
    if lossless:
        assert [chunk.heaps for chunk in chunks] == [4] * 6
    assert sum(chunk.heaps for chunk in chunks) + made.stats()["too_old_heaps"] == 24


async def test_chunks_with_asyncio():
    made = stream()
    with pytest.raises(Empty):
        await made.aget(0.01)
    made.add_bytes(packets([heap(n, channel) for n in range(3) for channel in range(4)]))
    async for chunk in made:
        check(chunk)


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="hint:"):
        recv.ChunkStream("item(", "0", "0")
    with pytest.raises(ValueError, match="hint:"):
        recv.ChunkStream(*RULE, max_chunks=0)
    with pytest.raises(BufferError, match="hint:"):
        recv.Chunk(b"not writable", heaps=1)
    with pytest.raises(BufferError, match="hint:"):
        recv.Chunk(np.zeros((4, 4))[:, ::2], heaps=1)
    made, chunk = recv.ChunkStream(*RULE), recv.Chunk(np.zeros(10, "u1"), heaps=1)
    made.add_free(chunk)
    with pytest.raises(ValueError, match="hint:"):
        made.add_free(chunk)
    with pytest.raises(IndexError, match="hint:"):
        made.add_bytes(b"", stream=1)
