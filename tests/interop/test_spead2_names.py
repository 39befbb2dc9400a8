"""Every public name of spead2, of its classes too, is in `skyhaul.spead2`, but for those that need other hardware."""

import importlib
import inspect
import types

import pytest

MODULES = ("", ".recv", ".recv.asyncio", ".recv.numba", ".send", ".send.asyncio", ".numba")
# Classes whose attributes their instances have.
MADE = {"Chunk": lambda chunk: chunk(), "ChunkRingbuffer": lambda ring: ring(2)}
# ibverbs needs a card and a library for it; a spead2 that was built without has no such names either.
ABSENT = {"UdpIbvConfig", "UdpIbvStream", "add_udp_ibv_reader"}


def names(of):
    return {name for name in dir(of) if not name.startswith("_")}


@pytest.mark.parametrize("module", MODULES)
def test_every_name_is_there(module):
    for package in ("spead2", "skyhaul", "numba"):
        pytest.importorskip(package, reason=f"{package} is not installed (make python)")
    theirs, ours = (importlib.import_module(package + module) for package in ("spead2", "skyhaul.spead2"))
    assert isinstance(ours.__all__, (list, tuple)) and all(hasattr(ours, name) for name in ours.__all__)
    lacking = set()
    for name in names(theirs) - ABSENT:
        one = getattr(theirs, name)
        # What it imports for itself is not its own.
        if isinstance(one, types.ModuleType) and not one.__name__.startswith("spead2"):
            continue
        if isinstance(one, types.ModuleType) and one.__name__ in ("spead2", "spead2._spead2"):
            continue
        if not hasattr(ours, name):
            lacking.add(name)
        elif inspect.isclass(one):
            same = MADE.get(name, lambda given: given)(getattr(ours, name))
            lacking |= {f"{name}.{member}" for member in names(one) - names(same) - ABSENT}
    assert lacking == set()
