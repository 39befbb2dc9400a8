"""skyhaul.spead2, as a program with types that was written for spead2 uses it."""

import numpy as np

from skyhaul import spead2
from skyhaul.spead2 import recv, send
from skyhaul.spead2.recv import asyncio as recv_asyncio
from skyhaul.spead2.recv import stream_stat_indices
from skyhaul.spead2.send import asyncio as send_asyncio

POOL = spead2.ThreadPool(1)


def receive(address: str) -> list[int]:
    stream = recv.Stream(POOL, recv.StreamConfig(max_heaps=4), recv.RingStreamConfig(heaps=2))
    stream.add_udp_reader(7148, bind_hostname=address)
    stream.add_udp_reader("239.1.2.3", 7148, interface_address=address)
    stream.add_udp_reader("239.1.2.4", 7148, 9200, 1 << 20, interface_index=1)
    stream.add_tcp_reader(7148, buffer_size=1 << 20)
    group = spead2.ItemGroup()
    counters: list[int] = []
    for heap in stream:
        group.update(heap)
        counters.append(heap.cnt)
    return counters


def transmit(address: str) -> None:
    stream = send.UdpStream(POOL, [(address, 7148)], send.StreamConfig(rate=1e9))
    group_of = send.UdpStream(POOL, endpoints=[("239.1.2.3", 7148)], ttl=4, interface_address=address)
    print(group_of.num_substreams, send.TcpStream(POOL, endpoints=[(address, 7148)], interface_address=address))
    group = send.ItemGroup()
    group.add_item(0x1000, "power", "per channel", shape=(4,), dtype=np.float32)
    stream.send_heap(send.HeapGenerator(group).get_heap())


async def both(queue: spead2.InprocQueue) -> int:
    sender = send_asyncio.InprocStream(POOL, [queue])
    await sender.async_send_heap(send.Heap())
    receiver = recv_asyncio.Stream(POOL)
    receiver.add_inproc_reader(queue)
    heap = await receiver.get()
    print(stream_stat_indices.HEAPS)
    return heap.cnt
