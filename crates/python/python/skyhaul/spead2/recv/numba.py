"""The argument of a place callback, for callbacks compiled by numba."""

from ...spead.numba import place_data

__all__ = ["chunk_place_data"]

chunk_place_data = place_data
