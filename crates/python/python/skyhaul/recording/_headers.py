"""Headers of frames as structured arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ._samples import Samples

# Frames that are looked at between two looks at signals.
_SLICE = 1 << 16


def _kind(bits: int) -> str:
    return "u1" if bits <= 8 else "u2" if bits <= 16 else "u4" if bits <= 32 else "u8"


def headers(samples: Samples, first: int, count: int) -> npt.NDArray[Any]:
    """See `Reads.headers`."""
    parts = [_part(samples, at, min(_SLICE, first + count - at)) for at in range(first, first + count, _SLICE)]
    found = [part for part in parts if len(part)]
    # Joined arrays forget the descriptions.
    return np.concatenate(found).view(found[0].dtype) if found else np.empty(0, _dtype([]))


def _names(fields: list[tuple[str, int, str]]) -> list[str]:
    """Names of the fields: `unassigned` is in several tables, and is numbered from the second on."""
    names: list[str] = []
    for name, _, _ in fields:
        again = sum(other == name for other, _, _ in fields[: len(names)])
        names.append(f"{name}_{again + 1}" if again else name)
    return names


def _dtype(fields: list[tuple[str, int, str]]) -> np.dtype[Any]:
    ours: list[Any] = [("number", "u8"), ("time", "M8[ns]"), ("thread", "u2"), ("valid", "?")]
    # A thread is a field of VDIF too, and is the same.
    theirs = [(name, bits, doc) for name, (_, bits, doc) in zip(_names(fields), fields, strict=True) if name != "thread"]
    descriptions = {name: doc for name, _, doc in theirs if doc}
    return np.dtype(ours + [(name, _kind(bits)) for name, bits, _ in theirs], metadata=descriptions)


def _part(samples: Samples, first: int, count: int) -> npt.NDArray[Any]:
    fields, numbers, threads, valid, values = samples.native.headers(first, count)
    number = np.frombuffer(numbers, np.uint64)
    array = np.empty(len(number), _dtype(fields))
    array["number"], array["thread"] = number, np.frombuffer(threads, np.uint16)
    array["valid"] = np.frombuffer(valid, np.bool_)
    array["time"] = samples.frame_times(number)
    table = np.frombuffer(values, np.uint64).reshape(len(number), len(fields))
    for at, name in enumerate(_names(fields)):
        if name != "thread":
            array[name] = table[:, at]
    return array
