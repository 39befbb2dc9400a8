"""The part of spead2 that needs ibverbs. Its names are here, so that programs which import them run; use is refused by name.

    config = recv.UdpIbvConfig(endpoints=[("239.1.1.1", 8888)], interface_address="10.1.1.1")        checked as in spead2
    stream.add_udp_ibv_reader(config)        RuntimeError, as spead2 raises where the library of ibverbs is missing

A card that is read past the kernel would need its library and a tier of its own; the kernel's sockets need neither.
"""

from __future__ import annotations

import operator
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from . import _network
from ._settings import Setting, Settings, endpoints, positive, setting, text, unsigned, whole

if TYPE_CHECKING:
    from typing_extensions import Buffer


def _at_least_one(value: Any) -> int:
    number = whole(value)
    if number < 1:
        raise ValueError(f"must be at least 1: {number}")
    return number


def _hops(value: Any) -> int:
    number = operator.index(value)
    if not 0 <= number <= 255:
        raise TypeError(f"a TTL is from 0 to 255, not {number}")
    return number


def _size(default: int) -> Setting[int]:
    """A size in bytes, 0 for the default."""
    return setting(default, lambda value: unsigned(value) or default)


class _IbvConfig(Settings):
    """What both directions have."""

    DEFAULT_MAX_POLL = 10

    endpoints: Setting[list[tuple[str, int]]] = Setting(list, endpoints)
    interface_address: Setting[str] = setting("", text)
    comp_vector: Setting[int] = setting(0, whole)
    max_poll: Setting[int] = setting(DEFAULT_MAX_POLL, _at_least_one)


class RecvUdpIbvConfig(_IbvConfig):
    """What spead2's receiver takes from a card by ibverbs. It is checked, but nothing here reads it: see `add_udp_reader`."""

    DEFAULT_BUFFER_SIZE = 16 << 20
    DEFAULT_MAX_SIZE = 9200

    buffer_size: Setting[int] = _size(DEFAULT_BUFFER_SIZE)
    max_size: Setting[int] = setting(DEFAULT_MAX_SIZE, positive)

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            endpoints: Sequence[tuple[str, int]] = (),
            interface_address: str = "",
            buffer_size: int = DEFAULT_BUFFER_SIZE,
            max_size: int = DEFAULT_MAX_SIZE,
            comp_vector: int = 0,
            max_poll: int = 10,
        ) -> None: ...


class SendUdpIbvConfig(_IbvConfig):
    """What spead2's sender gives to a card by ibverbs. It is checked, but nothing here reads it: see `UdpStream`."""

    DEFAULT_BUFFER_SIZE = 512 << 10

    buffer_size: Setting[int] = _size(DEFAULT_BUFFER_SIZE)
    ttl: Setting[int] = setting(1, _hops)
    memory_regions: Setting[list[Buffer]] = Setting(list, list)

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            endpoints: Sequence[tuple[str, int]] = (),
            interface_address: str = "",
            buffer_size: int = DEFAULT_BUFFER_SIZE,
            ttl: int = 1,
            comp_vector: int = 0,
            max_poll: int = 10,
            memory_regions: Sequence[Buffer] = (),
        ) -> None: ...


# Programs and messages know them by this name.
RecvUdpIbvConfig.__name__ = RecvUdpIbvConfig.__qualname__ = "UdpIbvConfig"
SendUdpIbvConfig.__name__ = SendUdpIbvConfig.__qualname__ = "UdpIbvConfig"


def refuse(what: str, config: RecvUdpIbvConfig | SendUdpIbvConfig, remedy: str) -> NoReturn:
    """Refuse what needs ibverbs: as spead2 refuses settings that no card could have, else RuntimeError with the remedy."""
    sends = isinstance(config, SendUdpIbvConfig)
    if not config.endpoints:
        raise ValueError("endpoints is empty")
    for host, port in config.endpoints:
        family, address = _resolved(host, port)
        if family != socket.AF_INET or sends and not _network.is_multicast(address):
            raise ValueError(f"endpoint is not an IPv4 {'multicast ' if sends else ''}address: {host}")
    if not config.interface_address:
        raise ValueError("the interface address is missing")
    if _resolved(config.interface_address, 0)[0] != socket.AF_INET:
        raise ValueError(f"interface address is not an IPv4 address: {config.interface_address}")
    if isinstance(config, SendUdpIbvConfig):
        _check_regions(config.memory_regions)
    raise RuntimeError(f"{what} needs ibverbs, which skyhaul.spead2 does not use; hint: {remedy}")


def _resolved(host: str, port: int) -> tuple[int, str]:
    try:
        return _network.resolve(host, port)
    except _network.TransportError as error:
        raise RuntimeError(f"Host not found: {host}") from error


def _check_regions(regions: list[Buffer]) -> None:
    spans = []
    for region in regions:
        view = memoryview(region)
        if not view.nbytes:
            raise ValueError("memory region must have non-zero size")
        start = np.frombuffer(view, np.uint8).ctypes.data
        spans.append((start, start + view.nbytes))
    spans.sort()
    if any(before[1] > behind[0] for before, behind in zip(spans, spans[1:])):
        raise ValueError("memory regions overlap")
