"""A load balancer's control plane: reservations, senders, tokens."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from os import PathLike, fspath
from typing import Any, NamedTuple

from .._native import BalancerClient


class WorkerStatus(NamedTuple):
    """A worker as the control plane sees it. Counts are since the worker began; `heard` is a Unix time."""

    name: str
    session: int
    address: str
    port: int
    ports: int
    fill: float
    signal: float
    slots: int
    heard: float | None
    min_factor: float
    max_factor: float
    events: int
    complete: int
    incomplete: int
    taken: int
    refused: int
    bytes: int
    packets: int


class Status(NamedTuple):
    """A reservation: its `epoch` and the `tick` that the control plane expects now; times are Unix times."""

    time: float | None
    expires: float | None
    epoch: int
    tick: int
    slots: int
    senders: list[str]
    workers: list[WorkerStatus]


class Token(NamedTuple):
    """A token, without itself. Permissions are (resource, id, level)."""

    id: int
    name: str
    created: str
    permissions: list[tuple[str, str, str]]


def _status(read: dict[str, Any]) -> Status:
    workers = [WorkerStatus(**worker) for worker in read.pop("workers")]
    return Status(**read, workers=workers)


class Balancer:
    """A client of the control plane that `uri` names, or `EJFAT_URI` of the environment.

        admin = Balancer("ejfat://ADMIN-TOKEN@10.0.0.1:18008/")
        run = admin.reserve("run 7", hours=2, senders=["10.0.0.7"])
        os.environ["EJFAT_URI"] = run.uri        # for senders and workers
        ...
        run.free()

    `certificate` is a file (PEM) with the certificate of the control plane, or of who signed it, for `ejfats://`;
    `any_certificate` accepts any. A call takes `deadline` seconds at most. Errors say what was refused and what to do:
    `ConnectionError`, `TimeoutError`, `PermissionError`, `LookupError`, `ValueError`, `RuntimeError`. None shows a token.

        >>> Balancer("ejfat://secret@127.0.0.1:18008/lb/1")
        <balancer 127.0.0.1:18008>
        >>> Balancer("ejfat://127.0.0.1")
        Traceback (most recent call last):
        ValueError: EJFAT_URI: no port; hint: write the port of the control plane after the host, like host:18008
    """

    def __init__(
        self,
        uri: str | None = None,
        *,
        certificate: str | PathLike[str] | None = None,
        any_certificate: bool = False,
        deadline: float = 5.0,
    ) -> None:
        path = None if certificate is None else fspath(certificate)
        self._settings: dict[str, Any] = {"certificate": path, "any_certificate": any_certificate, "deadline": deadline}
        self._client = BalancerClient(uri, **self._settings)

    def __repr__(self) -> str:
        return f"<balancer {self._client.at}>"

    @property
    def uri(self) -> str:
        """The URI, with its token: a secret."""
        return self._client.uri

    def reserve(
        self, name: str, *, hours: float | None = None, senders: Iterable[str] = (), strategy: str = ""
    ) -> Balancer:
        """Reserve a balancer for these senders (addresses, names of hosts, or networks where the server takes them); its `uri`
        is what senders and workers need. `strategy` is "dynamic", "static" or "explicit"."""
        seconds = None if hours is None else hours * 3600
        return Balancer(self._client.reserve(name, seconds, list(senders), strategy), **self._settings)

    def get(self) -> Balancer:
        """The reservation with the addresses of its data, for a URI that lacks them."""
        return Balancer(self._client.get(), **self._settings)

    def free(self) -> None:
        """End the reservation."""
        self._client.free()

    def extend(self, hours: float) -> float | None:
        """Let the reservation last so long from now; the Unix time of its end."""
        return self._client.extend(hours * 3600)

    def status(self) -> Status:
        """Workers, senders, epoch."""
        return _status(json.loads(self._client.status()))

    def add_senders(self, *senders: str) -> None:
        """Admit senders: addresses, names of hosts (with all of their addresses), or networks."""
        self._client.add_senders(list(senders))

    def remove_senders(self, *senders: str) -> None:
        """Admit them no more."""
        self._client.remove_senders(list(senders))

    def reset(self, *, sync: bool = False, epochs: bool = False, senders: bool = False, workers: bool = False) -> None:
        """Forget what is named."""
        self._client.reset(sync, epochs, senders, workers)

    def overview(self) -> dict[str, Status | None]:
        """All reservations that the token may see, by id."""
        read = json.loads(self._client.overview())
        return {one["id"]: one["status"] and _status(one["status"]) for one in read}

    def timeseries(self, *paths: str, since: float | None = None) -> dict[str, list[tuple[int, float]]]:
        """Samples (Unix time in milliseconds, value) of what the paths select, like `/lb/1/*`."""
        read = json.loads(self._client.timeseries(list(paths), since))
        return {one["name"]: [(at, value) for at, value in one["samples"]] for one in read}

    def version(self) -> str:
        """The server's version."""
        return " ".join(part for part in self._client.version() if part)

    def create_token(self, name: str, permissions: Sequence[tuple[str, str, str]]) -> str:
        """Make a token below the own one. Permissions are (resource, id, level): "all", "load_balancer", "reservation" or
        "session"; "read_only", "register", "reserve" or "update"."""
        return self._client.create_token(name, list(permissions))

    def tokens(self) -> list[Token]:
        """The tokens below the own one."""
        read = json.loads(self._client.tokens())
        return [
            Token(one["id"], one["name"], one["created"], [(r, i, p) for r, i, p in one["permissions"]]) for one in read
        ]

    def revoke_token(self, token: int | str) -> None:
        """Revoke a token, by its id or itself, and all below it."""
        if isinstance(token, int):
            self._client.revoke_token(token, None)
        else:
            self._client.revoke_token(None, token)
