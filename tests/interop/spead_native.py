"""`skyhaul.spead`, the package's own interface, under the names by which the matrix knows implementations."""

import skyhaul.spead as spead
from spead_paths import Peer


class Root:
    """What stands in the place of the module `spead2`."""

    class ThreadPool:
        def __init__(self, threads):
            pass

    @staticmethod
    def Flavour(version, pointer_bits, address_bits, bug_compat):
        return spead.Flavour(address_bits, bug_compat)

    ItemGroup = spead.ItemGroup


class Recv:
    """In the place of `spead2.recv`."""

    @staticmethod
    def StreamConfig(bug_compat, allow_out_of_order, max_heaps):
        return {"in_order": not allow_out_of_order, "window": max_heaps}

    @staticmethod
    def RingStreamConfig(heaps):
        return {"ring": heaps}

    class Stream(spead.recv.Stream):
        def __new__(cls, pool, config, ring):
            return super().__new__(cls, **config, **ring)

        def __init__(self, pool, config, ring):
            super().__init__(**config, **ring)

        def add_udp_reader(self, where, port=None, bind_hostname=None, interface_address=None):
            if port is None:
                self.add_udp(_at(bind_hostname, where))
            else:
                self.add_udp(_at(where, port), interface=interface_address)

        def add_tcp_reader(self, port, bind_hostname):
            self.add_tcp(_at(bind_hostname, port))

        def add_buffer_reader(self, data):
            self.add_bytes(data)


class Send:
    """In the place of `spead2.send`."""

    class ItemGroup(spead.ItemGroup):
        def __init__(self, flavour):
            super().__init__()
            self.generator = spead.HeapGenerator(self, flavour)

        def get_heap(self):
            return self.generator.heap()

        def get_end(self):
            return self.generator.end()

    @staticmethod
    def StreamConfig(max_packet_size):
        return {"packet": max_packet_size}

    @staticmethod
    def PacketGenerator(heap, counter, size):
        return heap.packets(counter, size)

    class UdpStream(spead.send.UdpStream):
        def __init__(self, pool, endpoints, config, ttl=None, interface_address=None):
            super().__init__([_at(*one) for one in endpoints], ttl=ttl, interface=interface_address, **config)

        def send_heap(self, heap):
            self.send(heap)

    class TcpStream(spead.send.TcpStream):
        def __init__(self, pool, endpoints, config):
            super().__init__(_at(*endpoints[0]), **config)

        def send_heap(self, heap):
            self.send(heap)

    class BytesStream(spead.send.BytesStream):
        def __init__(self, pool, config):
            super().__init__(**config)

        def send_heap(self, heap):
            self.send(heap)


class Package(Peer):
    """The implementation as a whole."""

    def __init__(self):
        super().__init__(Root, Recv, Send)

    def update(self, group, heap, bug_compat):
        return group.update(heap, bug_compat)


def _at(host, port):
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
