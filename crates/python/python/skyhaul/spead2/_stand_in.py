"""Makes `import spead2` give `skyhaul.spead2`, in this process."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType

_OURS = __name__.rpartition(".")[0]


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `spead2` and `spead2.…` here, as the same modules."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "spead2" and not fullname.startswith("spead2."):
            return None
        try:
            found = importlib.util.find_spec(_OURS + fullname.removeprefix("spead2"))
        except ModuleNotFoundError:
            found = None
        # None here would let another finder offer the part of a spead2 that is installed.
        if found is None:
            raise ModuleNotFoundError(f"No module named {fullname!r} in {_OURS}", name=fullname)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=found.submodule_search_locations is not None)

    def __init__(self) -> None:
        self._own: dict[str, importlib.machinery.ModuleSpec | None] = {}

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(_OURS + spec.name.removeprefix("spead2"))
        self._own[module.__name__] = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """It was executed when it was imported under its own name, which it keeps."""
        module.__spec__ = self._own[module.__name__]


def stand_in() -> None:
    """From now on. RuntimeError if spead2 was imported already."""
    if "spead2" in sys.modules and sys.modules["spead2"] is not sys.modules[_OURS]:
        raise RuntimeError("spead2 was imported already; hint: call this before")
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
