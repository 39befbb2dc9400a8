"""Signatures of functions that pass keywords on: `help` and editors show every one of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def with_keywords_of(native: Callable[..., Any]) -> Callable[[F], F]:
    """The function's `**options` are the keywords of `native`, with its defaults."""

    def signed(function: F) -> F:
        own = inspect.signature(function)
        named = [one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD]
        more = [one for name, one in inspect.signature(native).parameters.items() if name not in own.parameters]
        keywords = [one.replace(kind=one.KEYWORD_ONLY) for one in more]
        vars(function)["__signature__"] = own.replace(parameters=[*named, *keywords])
        return function

    return signed
