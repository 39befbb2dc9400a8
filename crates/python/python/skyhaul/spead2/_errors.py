"""Exceptions of empty, full and ended streams and rings."""

from .._native import Empty, Stopped


class Full(Exception):
    """There is no room now."""


__all__ = ["Empty", "Full", "Stopped"]
