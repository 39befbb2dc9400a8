"""Converts host names and sockets of spead2's calls to addresses and descriptors of the native streams."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

from ._settings import whole


class TransportError(OSError, RuntimeError):
    """A socket or a file could not be opened: an OSError with its errno and filename, and the RuntimeError that spead2 raises."""

    @classmethod
    def of(cls, error: OSError, text: str | None = None) -> TransportError:
        """The same error, told as `text`; one that the kernel gave no number has its own text only."""
        text = text or error.strerror or str(error)
        if error.errno is None:
            return cls(text)
        return cls(error.errno, text, *([] if error.filename is None else [error.filename]))


def port(value: Any) -> int:
    """A port number: TypeError for anything outside 0 … 65535."""
    number = whole(value)
    if not 0 <= number <= 65535:
        raise TypeError(f"a port is a number from 0 to 65535, not {number}")
    return number


def resolve(host: str, number: int, kind: int = socket.SOCK_DGRAM) -> tuple[int, str]:
    """(family, numeric address) of a name: the resolver's first result; "" is every IPv4 address."""
    if host == "":
        return socket.AF_INET, ""
    try:
        found = socket.getaddrinfo(host, number, type=kind, flags=socket.AI_ADDRCONFIG | socket.AI_NUMERICSERV)
    except OSError:
        try:
            found = socket.getaddrinfo(host, number, type=kind)
        except OSError as error:
            raise TransportError.of(error, f"resolve {host}: {error.strerror}; hint: use a numeric address") from error
    family, _, _, _, address = found[0]
    return family, str(address[0])


def joined(family: int, address: str, number: int) -> str:
    """`1.2.3.4:7148` or `[::1]:7148`."""
    return f"[{address}]:{number}" if family == socket.AF_INET6 else f"{address}:{number}"


def is_multicast(address: str) -> bool:
    return address != "" and ipaddress.ip_address(address.partition("%")[0]).is_multicast


def interface_name(index: int) -> str | None:
    """The name of the interface with this index, None for 0."""
    index = whole(index)
    if index == 0:
        return None
    try:
        return socket.if_indextoname(index)
    except OSError as error:
        raise TransportError.of(error, f"interface {index}: {error.strerror}; hint: see `ip link`") from error


def descriptor(given: object) -> int:
    """The descriptor of the user's socket; the native streams duplicate it, so the socket may be closed afterwards."""
    if not isinstance(given, socket.socket):
        raise TypeError(f"not a socket: {given!r}")
    return given.fileno()
