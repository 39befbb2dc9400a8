"""skyhaul.recording, as a program with types uses it."""

import datetime
import pathlib
from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

from skyhaul import recording


def look(disks: list[pathlib.Path]) -> npt.NDArray[Any]:
    scan = recording.open(disks, "exp_st_no0001", workers=2)
    assert_type(scan, recording.Recording)
    start = datetime.datetime(2026, 11, 22, 5, 58, 31)
    plain = scan.samples(start, datetime.timedelta(seconds=0.1))
    assert_type(plain, npt.NDArray[Any])
    masked = scan.samples(duration=0.1, missing="mask")
    print(masked.mask, masked.count(), masked.var())
    assert_type(scan.samples(missing="raise"), npt.NDArray[Any])
    assert_type(scan.times(count=3), npt.NDArray[np.datetime64])
    assert_type(scan.validity(frames=(0, 8)), npt.NDArray[np.bool_])
    assert_type(scan.about, recording.About)
    assert_type(scan.survey(), recording.Survey)
    for one in recording.ls(disks):
        assert_type(one, recording.Summary)
    return plain


def chunks(stream: recording.Stream) -> list[str]:
    given = stream.chunks(missing="fill")
    for chunk in given:
        assert_type(chunk, recording.Chunk)
        print(len(chunk.data), chunk.filled)
    return [str(gap) for gap in given.gaps]


def write(path: pathlib.Path) -> int:
    with recording.create(path, sample_rate=1_000_000, start="2026-11-21T03:00:00") as file:
        file.write(np.zeros((1000, 1, 1), np.float32))
        assert_type(file.frame_samples, int)
    return recording.open(path).about.samples
