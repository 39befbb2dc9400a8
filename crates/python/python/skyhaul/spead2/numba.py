"""Helpers for callbacks compiled by numba."""

from ..spead.numba import intp_to_voidptr

__all__ = ["intp_to_voidptr"]
