"""Scans: recordings on their disks, and plain files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from html import escape
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias

import numpy as np

from .. import _native
from . import _lazy, _time
from ._chunks import Chunks, Finding, Gap, Heaps
from ._columns import gaps_of
from ._identity import Identity
from ._reads import Reads
from ._samples import Options, Samples, native_options

Path: TypeAlias = str | os.PathLike[str]
Paths: TypeAlias = Path | Iterable[Path]


class Stream(Reads):
    """A datastream of a scan."""

    def __init__(
        self, source: _native.Recording | Sequence[Path], at: int, options: Options, paths: Sequence[Path], identity: Identity
    ) -> None:
        self._source, self._at, self._options = source, at, options
        self._paths = paths
        self.identity: Identity = identity
        self._samples: Samples | None = None
        self._closed = False
        # By process and bug_compat.
        self._recorded: dict[tuple[int, int], _native.RecordedHeaps] = {}
        self._process = 0
        self.name: str
        self.frame_bytes: int
        self.frames_per_second: int | None
        self.format: str
        if isinstance(source, _native.Recording):
            self.name, self.frame_bytes, self.frames_per_second, self.format = source.streams[at]
        else:
            self.name = os.path.basename(os.fspath(source[0]))
            self.format = self.about.format
            self.frame_bytes = 0
            self.frames_per_second = self.about.frames_per_second

    def __repr__(self) -> str:
        return f"<Stream {self.name!r}, {self.format or 'unknown format'}, {self.frame_bytes} bytes per frame>"

    def close(self) -> None:
        """Let go of its files. It reads nothing any more."""
        self._closed = True
        self._samples = None
        self._recorded.clear()

    def _open(self) -> None:
        if self._closed:
            raise ValueError(f"{self.name} is closed; hint: open the scan again")

    def _recording(self) -> _native.Recording:
        self._open()
        if not isinstance(self._source, _native.Recording):
            raise ValueError(f"{self.name} is a plain file without chunks; hint: use samples()")
        return self._source

    def decoded(self) -> Samples:
        self._open()
        # A forked process opens its own.
        if self._samples is None or self._process != os.getpid():
            options = native_options(self._options)
            if isinstance(self._source, _native.Recording):
                native = _native.Samples.of_recording(self._source, self._at, options)
            else:
                native = _native.Samples.of_files(list(self._source), options)
            self._samples, self._process = Samples(native), os.getpid()
        elif not isinstance(self._source, _native.Recording):
            # Nothing but its name tells a plain file; chunks of a recording are verified.
            self.identity.check()
        return self._samples

    def recorded(self, bug_compat: int = 0) -> _native.RecordedHeaps:
        """Its heaps by number, if it was recorded from SPEAD."""
        self._open()
        # A forked process opens its own.
        key = os.getpid(), bug_compat
        if key not in self._recorded:
            verify = self._options.get("verify", True)
            self._recorded[key] = _native.RecordedHeaps(self._recording(), self._at, verify, bug_compat)
        return self._recorded[key]

    def _stream(self) -> Stream:
        return self

    @property
    def gaps(self) -> list[Gap]:
        """Chunks that are missing or damaged, as far as that is known by now: damage is found when samples are read."""
        return gaps_of(self.recorded()) if self.format == "spead" else self.decoded().gaps

    def heaps_spec(self) -> _lazy.Spec:
        """What opens it again in another process, for heaps."""
        return self._spec(self._recording().name, {"verify": self._options.get("verify", True)})

    def spec(self) -> _lazy.Spec:
        """What opens it again in another process."""
        name = self._source.name if isinstance(self._source, _native.Recording) else None
        return self._spec(name, {**self._options, "sample_rate": self.about.sample_rate, "threads": self.about.threads})

    def _spec(self, name: str | None, given: dict[str, Any]) -> _lazy.Spec:
        paths = tuple(os.path.abspath(path) for path in self._paths)
        options = tuple((key, tuple(value) if isinstance(value, list) else value) for key, value in given.items())
        spec = _lazy.Spec(paths, name, self._at, options, self.identity.key, self.identity.opening)
        return _lazy.known_here(self, spec)

    def chunks(
        self, missing: Literal["raise", "skip", "fill"] = "raise", *, verify: bool = True, follow: bool = False
    ) -> Chunks:
        """Its chunks in order.

        `missing`: what to do for a missing, damaged or unproven chunk. `verify=False` returns damaged and unproven
        chunks as they are (they are still gaps). `follow` waits for data that are still being recorded.
        """
        return Chunks(self._recording().reader(self._at, missing, verify, follow), self.frame_bytes, self.frames_per_second)

    def heaps(
        self, missing: Literal["raise", "skip"] = "raise", *, verify: bool = True, follow: bool = False
    ) -> Heaps:
        """Its heaps in order of arrival, if it was recorded from SPEAD; the arguments are those of `chunks`."""
        if self.format != "spead":
            hint = "hint: use chunks()"
            raise ValueError(f"{self.name}: not a recording of SPEAD but of {self.format or 'an unknown format'}; {hint}")
        return Heaps(self._recording(), self._at, missing, verify, follow)


@dataclass(frozen=True)
class Check:
    """The result of a check."""

    verdict: str
    """whole or holes (harmless: data that never arrived are marked), unproven, damaged."""
    findings: list[Finding]
    """The findings, worst first."""
    bytes: int
    """Bytes read."""
    seconds: float
    """How long it took."""
    report: dict[str, Any] = field(repr=False)
    """All of it, as `skyhaul check --json` prints it."""

    @property
    def ledger(self) -> dict[str, Any]:
        """What became of all frames, by the names of `docs/reference/recording.md`: received, never_received, recorded, …"""
        ledger: dict[str, Any] = self.report["ledger"]
        return ledger

    @property
    def good(self) -> bool:
        """Whether every chunk is verified and none is missing."""
        return self.verdict in ("whole", "holes")


@dataclass(frozen=True)
class Summary:
    """A scan in a list."""

    name: str
    """Its label."""
    state: str
    """State of its recorder: live, ended, interrupted or unindexed."""
    started: np.datetime64 | None
    """When it began, if an index says so."""
    streams: tuple[str, ...]
    """Its datastreams' names."""
    chunks: int
    """Chunks that are there."""
    bytes: int
    """Bytes of them."""
    disks: tuple[str, ...]
    """Disks that it is on."""
    missing: int
    """Chunks that are missing, or shorter than recorded."""
    findings: tuple[Finding, ...]
    """Problems found from names, lengths and indexes."""
    ledger: dict[str, Any] = field(repr=False, hash=False)
    """What became of its frames, by names, lengths and indexes; the names are those of `Check.ledger`."""


def _started(said: str | None) -> np.datetime64 | None:
    since = None if said is None else _time.absolute(said)
    return None if since is None else np.datetime64(int(since * 10**9), "ns")


def scans(disks: Sequence[Path]) -> list[Summary]:
    """All scans on these disks."""
    return [
        Summary(
            name=raw["scan"],
            state=raw["state"],
            started=_started(raw["started"]),
            streams=tuple(raw["datastreams"]),
            chunks=raw["chunks"],
            bytes=raw["bytes"],
            disks=tuple(raw["disks"]),
            missing=raw["missing"],
            findings=tuple(Finding(found["verdict"], found.get("path"), found["text"]) for found in raw["findings"]),
            ledger=raw["ledger"],
        )
        for raw in json.loads(_native.list_scans(list(disks)))
    ]


class Recording(Reads):
    """A scan: a recording on its disks, or plain files. If it has one stream, it has that stream's methods. For `with`, which
    closes it."""

    streams: list[Stream]
    """Its datastreams, in order of their names."""

    def __init__(self, paths: Sequence[Path], name: str | None, options: Options) -> None:
        self._native = None if name is None else _native.Recording(list(paths), name)
        self._paths = [os.fspath(path) for path in paths]
        identity = Identity(self._native or self._paths, self._paths)
        count = 1 if self._native is None else len(self._native.streams)
        self.streams = [Stream(self._native or self._paths, at, options, self._paths, identity) for at in range(count)]

    def __repr__(self) -> str:
        return f"<Recording {self.name!r}, {self.state}, {len(self.streams)} streams>"

    def close(self) -> None:
        """Let go of its files. Arrays and chunks that were given stay; its streams read nothing any more."""
        for stream in self.streams:
            stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def name(self) -> str:
        """Its label."""
        return self._native.name if self._native else os.path.basename(self._paths[0])

    @property
    def state(self) -> str:
        """State of its recorder: live, ended, interrupted or unindexed; "file" for plain files."""
        return self._native.state if self._native else "file"

    @property
    def missing_disks(self) -> list[str]:
        """Disks of the recording that were not given, and disks that did not respond."""
        return [str(path) for path in self._native.missing_disks] if self._native else []

    @property
    def findings(self) -> list[Finding]:
        """Problems found from names, lengths and indexes. No data are read; use `skyhaul check` for that."""
        found = self._native.findings if self._native else []
        return [Finding(verdict, None if path is None else str(path), text) for verdict, path, text in found]

    def check(self) -> Check:
        """Read everything, and compare it with the index and the frames with each other: `skyhaul check`."""
        if self._native is None:
            raise ValueError(f"{self.name} is a plain file: there is nothing to compare it with; hint: validity()")
        report: dict[str, Any] = json.loads(self._native.check())
        findings = [Finding(found["verdict"], found.get("path"), found["text"]) for found in report["findings"]]
        return Check(report["verdict"], findings, report["bytes"], report["seconds"], report)

    def _stream(self) -> Stream:
        if len(self.streams) != 1:
            names = ", ".join(stream.name for stream in self.streams)
            raise ValueError(f"{self.name} has {len(self.streams)} streams ({names}); hint: scan.streams[0].samples()")
        return self.streams[0]

    @property
    def gaps(self) -> list[Gap]:
        """What is missing or damaged in all its streams, as far as that is known by now."""
        return [gap for stream in self.streams for gap in stream.gaps]

    def _rows(self) -> list[tuple[str, str]]:
        rows = [("state", self.state)]
        for stream in self.streams:
            try:
                about = stream.about
            except (ValueError, OSError) as error:
                if stream.format == "spead":
                    rows.append((stream.name, f"SPEAD, {stream.recorded().rows} heaps"))
                    rows += [("missing", str(gap)) for gap in stream.gaps[:10]]
                    continue
                rows.append((stream.name, f"{stream.format or 'unknown format'}; {str(error).splitlines()[0]}"))
                continue
            since = Fraction(int(about.start.astype(np.int64)), 10**9)
            end = _time.shown(since + Fraction(about.samples, about.sample_rate))
            rows.append((stream.name, about.describe))
            rows.append(("", f"{_time.shown(since)} to {end}, {about.duration:.6g} s, {_bytes(about.bytes)}"))
            kind = "complex" if about.complex else "real"
            shape = f"{len(about.threads)} threads x {about.channels} channels"
            rows.append(("", f"{about.sample_rate / 1e6:g} Msamples/s, {shape}, {about.bits} bits, {kind}"))
            rows += [("missing", str(gap)) for gap in stream.gaps[:10]]
            more = len(stream.gaps) - 10
            rows += [("", f"and {more} more gaps")] if more > 0 else []
        rows += [("missing disk", path) for path in self.missing_disks]
        return rows

    def __str__(self) -> str:
        rows = self._rows()
        width = max(len(name) for name, _ in rows)
        return "\n".join([self.name] + [f"  {name:<{width}}  {text}".rstrip() for name, text in rows])

    def _repr_html_(self) -> str:
        body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in self._rows())
        return f"<table><caption>{escape(self.name)}</caption>{body}</table>"


def reopened(paths: Sequence[Path], name: str | None, options: Options) -> Recording:
    """A scan opened with the options of another process."""
    return Recording(paths, name, options)


def _bytes(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} TiB"
