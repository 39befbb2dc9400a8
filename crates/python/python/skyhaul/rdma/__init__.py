"""RDMA over UDP or TCP: memory that other hosts write and read, and the memory of other hosts.

| | |
|---|---|
| `Server` | exposes regions, whose memory is arrays, and iterates the messages that peers wrote |
| `connect` | connects to a region of another host, to write arrays into it and to read it |

Loss is a value: a message is given with the ranges that arrived (`Written.valid`, `Written.mask`), or as `Lost`.
"""

from ._client import ReadDone, RemoteRegion, WriteDone, connect
from ._report import ClientReport, ConnectionReport, DatagramReport, LossReport, RegionReport, ServerReport
from ._server import Empty, Lost, Region, Server, Stopped, Written

__all__ = [
    "ClientReport", "ConnectionReport", "DatagramReport", "Empty", "Lost", "LossReport", "ReadDone", "Region", "RegionReport",
    "RemoteRegion", "Server", "ServerReport", "Stopped", "WriteDone", "Written", "connect",
]  # fmt: skip
