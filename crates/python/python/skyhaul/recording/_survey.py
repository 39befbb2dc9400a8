"""What samples look like: spectrum, autocorrelation, levels, losses; as arrays and as plots."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .. import _native
from ._figure import shown_once

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_Floats = npt.NDArray[np.float64]
# Lines in a plot.
_MOST = 16


@dataclass(frozen=True)
class Survey:
    """What samples look like. Arrays begin with the axes thread and channel.

    A spectrum is the mean over blocks without a missing sample, with Hann's window; NaN where there is no such block.
    """

    name: str
    """Of what."""
    threads: tuple[int, ...]
    """Threads, in the order of their columns."""
    channels: int
    """Channels of a thread."""
    sample_rate: int
    """Complete samples per second."""
    range: tuple[int, int]
    """First sample, and one past the last."""
    looked: int
    """Complete samples that were decoded: all of the range, or parts spread evenly over it."""
    block: int
    """Complete samples of a block."""
    frequencies: _Floats
    """Hz of each point of a spectrum, from the lower edge of the band; of complex samples from its middle."""
    spectrum: _Floats
    """(thread, channel, frequency): power per Hz. Its integral is the mean square of the samples."""
    blocks: npt.NDArray[np.int64]
    """(thread, channel): blocks in the spectrum."""
    autocorrelation: _Floats
    """(thread, channel, lag): by lag in samples, 1 at lag 0; of complex samples its magnitude."""
    levels: _Floats
    """The level of each code, the lowest first; of more than 8 bits, of the upper 8."""
    counts: npt.NDArray[np.int64]
    """(thread, channel, code): how often each code occurs."""
    samples: npt.NDArray[np.int64]
    """(thread, channel): elementary samples that were there."""
    mean: _Floats
    """(thread, channel): their mean."""
    rms: _Floats
    """(thread, channel): root of the mean square of a complete sample."""
    loss: _Floats
    """(thread, time): the part of the frames that are missing, in equal parts of the range; NaN where none was looked at."""
    frames: int
    """Frames of threads that were looked at."""
    missing: int
    """How many of them are missing."""

    def plot(self, figure: Figure | None = None) -> Figure:
        """Draw all of it with matplotlib. For a picture without matplotlib there is the command `skyhaul plot`.

        A notebook shows the figure once, whether it is the value of a cell or not.
        """
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError(f"{error}; hint: pip install matplotlib, or use `skyhaul plot`") from None
        if figure is None:
            figure = plt.figure(figsize=(10, 7.5), layout="constrained")
        axes: Any = figure.subplot_mosaic([["spectrum"] * 2, ["correlation", "levels"], ["loss"] * 2], height_ratios=[3, 2, 1])
        looked = self.looked / max(self.range[1] - self.range[0], 1)
        figure.suptitle(f"{self.name}: {looked:.1%} looked at, {self.missing} of {self.frames} frames missing")
        self._spectrum(axes["spectrum"])
        self._correlation(axes["correlation"])
        self._levels(axes["levels"])
        self._loss(axes["loss"])
        return shown_once(figure)

    def _columns(self) -> list[tuple[int, int]]:
        return [(rank, channel) for rank in range(len(self.threads)) for channel in range(self.channels)][:_MOST]

    def _spectrum(self, axes: Axes) -> None:
        with np.errstate(divide="ignore"):
            if self.channels > _MOST:
                for rank, thread in enumerate(self.threads[:_MOST]):
                    axes.plot(20 * np.log10(self.rms[rank]), label=f"thread {thread}", linewidth=1)
                axes.set(xlabel="channel", ylabel="power, dB")
            else:
                for rank, channel in self._columns():
                    name = f"thread {self.threads[rank]}, channel {channel}"
                    axes.plot(self.frequencies / 1e6, 10 * np.log10(self.spectrum[rank, channel]), label=name, linewidth=1)
                axes.set(xlabel="frequency in the band, MHz", ylabel="power per Hz, dB")
        axes.legend(fontsize="small", ncols=4)
        axes.grid(alpha=0.3)

    def _correlation(self, axes: Axes) -> None:
        for rank, channel in self._columns():
            values = self.autocorrelation[rank, channel, 1:128]
            axes.plot(np.arange(1, 1 + len(values)), values, linewidth=1)
        axes.set(xlabel="lag, samples", ylabel="autocorrelation")
        axes.grid(alpha=0.3)

    def _levels(self, axes: Axes) -> None:
        columns = self._columns()
        parts = 100 * self.counts / np.maximum(self.samples, 1)[..., np.newaxis]
        if len(self.levels) <= 4:
            width = 0.9 / len(columns)
            for n, (rank, channel) in enumerate(columns):
                axes.bar(np.arange(len(self.levels)) - 0.45 + (n + 0.5) * width, parts[rank, channel], width)
            axes.set_xticks(np.arange(len(self.levels)), [f"{level:.3g}" for level in self.levels])
        else:
            for rank, channel in columns:
                axes.plot(self.levels, parts[rank, channel], linewidth=1)
        axes.set(xlabel="level", ylabel="how often, %")
        axes.grid(alpha=0.3)

    def _loss(self, axes: Axes) -> None:
        end = (self.range[1] - self.range[0]) / self.sample_rate
        extent = (0.0, end, len(self.threads) - 0.5, -0.5)
        image = axes.imshow(100 * self.loss, aspect="auto", interpolation="nearest", extent=extent, cmap="OrRd", vmin=0, vmax=100)
        # Not looked at.
        axes.set_facecolor("#dddddd")
        axes.set_yticks(range(len(self.threads)), [str(thread) for thread in self.threads])
        axes.set(xlabel="time, s", ylabel="thread")
        figure: Any = axes.figure
        figure.colorbar(image, ax=axes, label="missing, %", aspect=6, pad=0.01)


def survey(
    native: _native.Samples, name: str, first: int, count: int, block: int | None, most: int | None, times: int
) -> Survey:
    """See `Stream.survey`."""
    raw: dict[str, Any] = json.loads(native.survey(first, count, block or 0, most, times))
    columns = raw["columns"]
    shape = (len(raw["threads"]), raw["channels"])

    def floats(key: str, length: int) -> _Floats:
        # Without a block there is none.
        rows = [column[key] or [np.nan] * length for column in columns]
        return np.array(rows, np.float64).reshape(*shape, length)

    def numbers(key: str, kind: Any) -> Any:
        return np.array([column[key] for column in columns], kind).reshape(*shape, *np.shape(columns[0][key]))

    loss = [[np.nan if part is None else part for part in times] for times in raw["loss"]]
    return Survey(
        name=name,
        threads=tuple(raw["threads"]),
        channels=raw["channels"],
        sample_rate=raw["sample_rate"],
        range=tuple(raw["rows"]),
        looked=raw["looked"],
        block=raw["block"],
        frequencies=np.array(raw["frequencies"]),
        spectrum=floats("spectrum", len(raw["frequencies"])),
        blocks=numbers("blocks", np.int64),
        autocorrelation=floats("autocorrelation", raw["block"] // 2),
        levels=np.array(columns[0]["levels"]),
        counts=numbers("codes", np.int64),
        samples=numbers("samples", np.int64),
        mean=numbers("mean", np.float64),
        rms=numbers("rms", np.float64),
        loss=np.array(loss, np.float64),
        frames=raw["frames"],
        missing=raw["missing"],
    )
