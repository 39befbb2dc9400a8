"""Skyhaul: receive and send telescope data at the rate the hardware allows.

`skyhaul.spead` has streams, heaps and item groups of the SPEAD protocol; `skyhaul.recording` reads recordings on disks; `skyhaul.rdma` has memory
that other hosts write over UDP.
The `skyhaul` command is in this package.
"""

from ._native import VERSION as __version__

__all__ = ["__version__"]
