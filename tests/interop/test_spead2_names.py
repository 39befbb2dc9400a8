"""Every public name of spead2, of its classes too, is in `skyhaul.spead2`; those that need ibverbs are refused when they are used."""

import importlib
import inspect
import types

import pytest

MODULES = ("", ".recv", ".recv.asyncio", ".recv.numba", ".send", ".send.asyncio", ".numba")
# Classes whose attributes their instances have.
MADE = {"Chunk": lambda chunk: chunk(), "ChunkRingbuffer": lambda ring: ring(2)}


def names(of):
    return {name for name in dir(of) if not name.startswith("_")}


@pytest.mark.parametrize("module", MODULES)
def test_every_name_is_there(module):
    for package in ("spead2", "skyhaul", "numba"):
        pytest.importorskip(package, reason=f"{package} is not installed (make python)")
    theirs, ours = (importlib.import_module(package + module) for package in ("spead2", "skyhaul.spead2"))
    assert isinstance(ours.__all__, (list, tuple)) and all(hasattr(ours, name) for name in ours.__all__)
    lacking = set()
    for name in names(theirs):
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
            lacking |= {f"{name}.{member}" for member in names(one) - names(same)}
    assert lacking == set()


#: Where a program asks for a card by ibverbs, and what it is named in its place.
IBVERBS = {
    "add_udp_ibv_reader": "add_udp_reader('239.1.1.1', 8888, interface_address='127.0.0.1')",
    "send.UdpIbvStream": "UdpStream(thread_pool, [('239.1.1.1', 8888)], config, ttl=1, interface_address='127.0.0.1')",
    "send.asyncio.UdpIbvStream": "UdpStream(thread_pool, [('239.1.1.1', 8888)], config, ttl=1, ",
}


def used(package, what, **settings):
    """What a use of ibverbs raises."""
    base, recv, send, sending = (
        importlib.import_module(package + name) for name in ("", ".recv", ".send", ".send.asyncio")
    )
    pool = base.ThreadPool()
    with pytest.raises((RuntimeError, TypeError, ValueError)) as raised:
        if what == "add_udp_ibv_reader":
            recv.Stream(pool).add_udp_ibv_reader(recv.UdpIbvConfig(**settings))
        else:
            module = sending if "asyncio" in what else send
            module.UdpIbvStream(pool, send.StreamConfig(), send.UdpIbvConfig(**settings))
    return raised


@pytest.mark.parametrize("what", IBVERBS)
def test_ibverbs_is_refused_where_spead2_finds_no_library_and_the_remedy_is_named(what):
    pytest.importorskip("skyhaul", reason="skyhaul is not installed (make python)")
    group = {"endpoints": [("239.1.1.1", 8888)], "interface_address": "127.0.0.1"}
    refused = used("skyhaul.spead2", what, **group)
    assert refused.type is RuntimeError and IBVERBS[what] in str(refused.value)
    refusals = [{}, {"max_poll": 0}, {"buffer_size": -1}, {"interface_address": 3}, {"endpoints": [("a", "b")]}, {"no": 1}]
    for wrong in refusals:
        assert used("skyhaul.spead2", what, **wrong).type is used("spead2", what, **wrong).type, wrong


def test_settings_of_ibverbs_are_those_of_spead2():
    for package in ("spead2", "skyhaul"):
        pytest.importorskip(package, reason=f"{package} is not installed (make python)")
    for way in ("recv", "send"):
        theirs, ours = (importlib.import_module(f"{name}.{way}").UdpIbvConfig for name in ("spead2", "skyhaul.spead2"))
        assert {name: getattr(theirs(), name) for name in names(theirs)} == {
            name: getattr(ours(), name) for name in names(theirs)
        }
        assert ours(buffer_size=0).buffer_size == theirs(buffer_size=0).buffer_size
