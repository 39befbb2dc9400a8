"""Named tuples that the compiled part returns."""

from typing import NamedTuple


class RawItem(NamedTuple):
    """An item of a heap as it was sent."""

    id: int
    """Its id."""
    immediate: bool
    """Whether its value is in the item pointer; otherwise it is in the payload."""
    value: int
    """Its value, or its place in the payload."""
    start: int
    """First byte in the payload."""
    stop: int
    """One past its last byte in the payload."""


class Span(NamedTuple):
    """A range of bytes."""

    start: int
    """First byte."""
    stop: int
    """One past the last byte."""
