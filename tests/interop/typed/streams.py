"""skyhaul.spead, its recv and send, as a program with types uses them."""

import asyncio
from typing import assert_type

import numpy as np

import skyhaul
from skyhaul.spead import Descriptor, HeapGenerator, InprocQueue, Item, ItemGroup, recv, send

version: str = skyhaul.__version__


def sender(address: str, group: ItemGroup) -> int:
    item = group.add_item(name="power", shape=(1024,), dtype="<f4")
    assert_type(item, Item)
    generator = HeapGenerator(group)
    with send.UdpStream(address, rate=1e9) as stream:
        item.value = np.zeros(1024, "<f4")
        stream.send(generator.heap())
        stream.send(generator.end())
    return stream.rate


def receiver(stream: recv.Stream, group: ItemGroup) -> list[tuple[int, str]]:
    address: str = stream.add_udp("127.0.0.1:0")
    found = [(0, address)]
    for heap in stream:
        assert_type(heap, recv.Heap)
        for name, item in group.update(heap).items():
            found.append((heap.counter, name))
            descriptor: Descriptor = item
            print(descriptor.name, item.value)
    return found


def chunks() -> list[int | None]:
    stream = recv.ChunkStream("item(0x1600)", "item(0x4103)", "item(0x4103) * 8")
    stream.add_free(recv.Chunk(np.zeros((3, 8), "u1"), heaps=3))
    return [chunk.id for chunk in stream]


async def tasks(queue: InprocQueue) -> list[int]:
    stream = recv.Stream()
    stream.add_inproc(queue)
    first = await stream.aget(timeout=1.0)
    return [first.counter] + [heap.counter async for heap in stream]


print(asyncio.run(tasks(InprocQueue())))
