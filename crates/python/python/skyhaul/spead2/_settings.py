"""Objects with typed settings: keywords at construction, attributes later, checked at each assignment.

    class RingStreamConfig(Settings):
        heaps = setting(4, positive)          RingStreamConfig(heaps=8).heaps == 8;  heaps=0 raises ValueError

For type checkers, a class writes its constructor out, under `TYPE_CHECKING`. `named` reads the arguments of calls that have
several forms.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

T = TypeVar("T")


class Setting(Generic[T]):
    """A setting with its default, and a check that returns the value to store, or raises."""

    def __init__(self, default: Callable[[], T], check: Callable[[Any], T]) -> None:
        self.default: Callable[[], T] = default
        self.check: Callable[[Any], T] = check

    def __set_name__(self, owner: type, name: str) -> None:
        self.name: str = f"_{name}"

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        if instance is None:
            return self  # type: ignore[return-value]
        value: T = getattr(instance, self.name)
        return value

    def __set__(self, instance: Any, value: T) -> None:
        setattr(instance, self.name, self.check(value))


def setting(default: T, check: Callable[[Any], T]) -> Setting[T]:
    """A setting with a fixed default."""
    return Setting(lambda: default, check)


class Settings:
    """Base of a class with settings, which are the keywords of its constructor."""

    __signature__: ClassVar[inspect.Signature]
    _settings: ClassVar[dict[str, Setting[Any]]] = {}
    #: Whether a misspelt setting is an error; classes that users derive may have attributes of their own.
    _is_closed: ClassVar[bool] = False

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        own = {name: one for name, one in vars(cls).items() if isinstance(one, Setting)}
        cls._settings = {**cls._settings, **own}
        cls._is_closed = bool(own)
        if own:
            kind = inspect.Parameter.KEYWORD_ONLY
            keywords = [inspect.Parameter(name, kind, default=one.default()) for name, one in cls._settings.items()]
            cls.__signature__ = inspect.Signature(keywords)

    def __init__(self, **given: Any) -> None:
        for name, one in self._settings.items():
            setattr(self, name, given.pop(name) if name in given else one.default())
        if given:
            raise TypeError(f"{type(self).__name__} has no setting {', '.join(given)}")

    def __setattr__(self, name: str, value: Any) -> None:
        if self._is_closed and not name.startswith("_") and not hasattr(type(self), name):
            raise AttributeError(f"{type(self).__name__} has no setting {name}")
        super().__setattr__(name, value)


def named(
    what: str, names: list[str], needed: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Positional and named arguments as one dictionary; TypeError if they do not fit."""
    if len(args) > len(names) or set(kwargs) - set(names) or set(kwargs) & set(names[: len(args)]):
        raise TypeError(f"{what} takes ({', '.join(names)})")
    given = dict(zip(names, args))
    given.update(kwargs)
    if set(needed) - set(given):
        raise TypeError(f"{what} needs {', '.join(needed)}")
    return given


def whole(value: Any) -> int:
    """Any whole number; TypeError for anything else."""
    return operator.index(value)


def unsigned(value: Any) -> int:
    """A whole number from 0; TypeError for a negative one, as with an unsigned parameter in C."""
    number = operator.index(value)
    if number < 0:
        raise TypeError(f"must not be negative: {number}")
    return number


def positive(value: Any) -> int:
    """A whole number from 1: TypeError below 0, ValueError for 0."""
    number = unsigned(value)
    if number == 0:
        raise ValueError("must not be 0")
    return number


def flag(value: Any) -> bool:
    """True or False, also as a number; TypeError for anything that is neither."""
    if not hasattr(type(value), "__bool__"):
        raise TypeError(f"must be True or False, not {value!r}")
    return bool(value)


def text(value: Any) -> str:
    """A text; TypeError for anything else."""
    if not isinstance(value, str):
        raise TypeError(f"must be a text, not {value!r}")
    return value


def real(value: Any) -> float:
    """Any number; TypeError for anything else, texts included."""
    if isinstance(value, (str, bytes, bytearray)):
        raise TypeError(f"must be a number, not {value!r}")
    return float(value)


def rate(value: Any) -> float:
    """Bytes per second, 0 for no limit."""
    number = real(value)
    if not 0.0 <= number < float("inf"):
        raise ValueError(f"a rate must be a finite number from 0 on, not {number}")
    return number


def endpoints(value: Any) -> list[tuple[str, int]]:
    """A list of (host, port)."""
    out = []
    for host, port in value:
        if not isinstance(host, str) or not 0 <= operator.index(port) <= 65535:
            raise TypeError(f"an endpoint must be (host, port), not {(host, port)!r}")
        out.append((host, operator.index(port)))
    return out
