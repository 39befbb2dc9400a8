"""Exceptions of empty, full and ended streams and rings, and of buffers."""

from .._native import Empty, Stopped


class Full(Exception):
    """There is no room now."""


class UnusableBuffer(BufferError, ValueError):
    """A buffer is read-only or not contiguous: spead2 has a ValueError for NumPy arrays, and a BufferError for other objects."""


__all__ = ["Empty", "Full", "Stopped", "UnusableBuffer"]
