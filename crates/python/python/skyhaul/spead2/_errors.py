"""How a stream or a ring says that there is nothing, or nothing more."""

from .._native import Empty, Stopped


class Full(Exception):
    """There is no room now."""


__all__ = ["Empty", "Full", "Stopped"]
