"""Signatures that are written in several places agree: at run time, in stubs, in calls that pass arguments on, in tables of
docstrings, and in spead2, where it is installed.

    _native.pyi ── compiled module         recv.Stream ── recv.ChunkStream ── ReceiveConfig         spead2's stubs ── skyhaul.spead2
"""

import ast
import importlib
import importlib.util
import inspect
import pathlib
import re
import textwrap
import types

import pytest

import skyhaul.spead2.recv.asyncio
import skyhaul.spead2.send.asyncio
from skyhaul import _native, ejfat
from skyhaul.ejfat import _worker
from skyhaul.spead import recv, send

EMPTY = inspect.Parameter.empty
#: A default that is there, but not written.
SOME = "..."


# ---- what is written


def arguments(function):
    """(name, kind, default as text or None) of a function in source; a constructor or method without its first argument."""
    given = function.args
    plain = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(plain) - len(given.defaults)) + [*given.defaults]
    out = [(one.arg, "plain", default) for one, default in zip(plain, defaults)]
    if given.vararg:
        out.append((given.vararg.arg, "*", None))
    out += [(one.arg, "keyword", default) for one, default in zip(given.kwonlyargs, given.kw_defaults)]
    if given.kwarg:
        out.append((given.kwarg.arg, "**", None))
    is_static = any(isinstance(one, ast.Name) and one.id == "staticmethod" for one in function.decorator_list)
    out = out if is_static else out[1:]
    return [(name, kind, None if default is None else ast.unparse(default)) for name, kind, default in out]


def functions(body):
    """Functions of a class or module, by name: all forms of one that is overloaded. Those for type checkers only count, too."""
    found = {}
    for one in body:
        if isinstance(one, ast.If) and "TYPE_CHECKING" in ast.unparse(one.test):
            found.update(functions(one.body))
        elif isinstance(one, ast.If):
            found.update(functions([*one.body, *one.orelse]))
        elif isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)):
            is_setter = any(isinstance(named, ast.Attribute) for named in one.decorator_list)
            overloads = any(isinstance(named, ast.Name) and named.id == "overload" for named in one.decorator_list)
            if overloads:
                found.setdefault(one.name, []).append(one)
            elif one.name not in found and not is_setter:
                found[one.name] = [one]
    return found


def is_property(forms):
    return any(isinstance(named, ast.Name) and named.id == "property" for named in forms[0].decorator_list)


def classes(path):
    """Functions of each class in a file, by the class's name, and its own bases."""
    tree = ast.parse(path.read_text())
    return {one.name: (functions(one.body), [ast.unparse(base) for base in one.bases]) for one in tree.body if isinstance(one, ast.ClassDef)}


def source_of(cls):
    return pathlib.Path(inspect.getsourcefile(cls))


def at_run_time(callable_):
    """The same of an object."""
    kinds = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**", inspect.Parameter.KEYWORD_ONLY: "keyword"}
    named = [one for one in inspect.signature(callable_).parameters.values() if one.name not in ("self", "cls")]
    return {one.name: (kinds.get(one.kind, "plain"), one.default) for one in named}


# ---- the compiled module and its stub


STUB = pathlib.Path(ejfat.__file__).parent.parent / "_native.pyi"
NATIVE = classes(STUB)


def agree(what, written, real):
    """Names, order and kinds; and defaults, where both say them."""
    assert [(name, kind) for name, kind, _ in written] == [(name, kind) for name, (kind, _) in real.items()], what
    for name, _, default in written:
        actual = real[name][1]
        assert (default is None) == (actual is EMPTY), f"{what}: {name}"
        if default not in (None, SOME) and actual is not ...:
            assert ast.literal_eval(default) == actual, f"{what}: {name}"


@pytest.mark.parametrize("name", [name for name, (methods, _) in NATIVE.items() if methods])
def test_the_stub_is_what_is_compiled(name):
    cls, (methods, _) = getattr(_native, name), NATIVE[name]
    looked_at = 0
    for method, forms in methods.items():
        if is_property(forms):
            assert isinstance(inspect.getattr_static(cls, method), types.GetSetDescriptorType | types.MemberDescriptorType), (name, method)
            continue
        if method.startswith("__") and method not in ("__new__", "__init__"):
            continue
        target = cls if method == "__new__" else getattr(cls, method)
        if name in ("Chunk", "ReceiveStream") and method == "__new__":
            # Any arguments: they are those of `__init__` of a subclass, or of `ReceiveConfig`.
            continue
        agree(f"{name}.{method}", arguments(forms[0]), at_run_time(target))
        looked_at += 1
    public = {one for one in vars(cls) if not one.startswith("_")}
    assert public <= set(methods), f"{name}: not in the stub: {public - set(methods)}"
    assert looked_at or all(map(is_property, methods.values())) or all(one.startswith("__") for one in methods)


# ---- skyhaul.spead: the same arguments in each place


#: Arguments of chunk streams only.
PLACING = {name for name in at_run_time(_native.ChunkStream) if name not in ("config", "rule", "wanted")} | {
    "chunk", "index", "offset", "where", "place", "items"}  # fmt: skip


def annotations(function):
    return {name: one.annotation for name, one in inspect.signature(function).parameters.items()}


def test_streams_have_the_arguments_of_their_settings():
    settings = set(at_run_time(_native.ReceiveConfig))
    assert set(at_run_time(recv.Stream.__init__)) == settings | {"allocator"}
    assert set(at_run_time(recv.ChunkStream.__new__)) == settings | PLACING
    one, other = annotations(recv.Stream.__init__), annotations(recv.ChunkStream.__new__)
    assert {name: one[name] for name in settings} == {name: other[name] for name in settings}


def test_readers_of_chunk_streams_have_the_arguments_of_those_of_streams():
    readers = [name for name in vars(_native.ChunkStream) if name.startswith("add_") and name != "add_free"]
    assert len(readers) >= 4
    for name in readers:
        expected = at_run_time(getattr(_native.ReceiveStream, name)) | {"stream": ("keyword", 0)}
        assert at_run_time(getattr(_native.ChunkStream, name)) == expected, name


def passed_on(function, to):
    """Names of the keywords that a function passes to another."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    calls = [one for one in ast.walk(tree) if isinstance(one, ast.Call) and ast.unparse(one.func).endswith(to)]
    (call,) = calls
    named = {one.arg: ast.unparse(one.value) for one in call.keywords}
    # Each is passed as itself, or as something made of it.
    for name, value in named.items():
        if name not in ("wanted", "counters"):
            assert re.search(rf"\b{name}\b", value), f"{to}: {name}={value}"
    return set(named)


SENDERS = [send.UdpStream, send.TcpStream, send.InprocStream, send.BytesStream]


def test_every_argument_is_passed_on():
    assert passed_on(recv.ChunkStream.__new__, "ReceiveConfig") == set(at_run_time(_native.ReceiveConfig))
    own = set(at_run_time(_native.ChunkStream)) - {"config", "rule"}
    assert passed_on(recv.ChunkStream.__new__, "super().__new__") == own
    settings = set(at_run_time(_native.SendConfig))
    for made in SENDERS:
        passed = passed_on(made.__init__, "SendConfig")
        assert passed == settings & set(at_run_time(made)), made
        assert settings - passed <= ({"rate_start", "rate_bounds"} if made is not send.UdpStream else set()), made
    assert passed_on(send.UdpStream.__init__, "SendStream.udp") == set(at_run_time(_native.SendStream.udp)) - {"targets", "config"}
    assert passed_on(send.TcpStream.__init__, "SendStream.tcp") == set(at_run_time(_native.SendStream.tcp)) - {"target", "config"}
    assert passed_on(ejfat.Sender.__init__, "EventSender") == set(at_run_time(ejfat.Sender)) - {"to"}
    assert set(at_run_time(_native.EventSender)) == set(at_run_time(ejfat.Sender))


def test_sending_streams_have_the_same_arguments():
    first = annotations(send.BytesStream.__init__)
    for made in SENDERS:
        mine = annotations(made.__init__)
        common = set(first) & set(mine) - {"rate"}
        assert len(common) > 7 and {name: first[name] for name in common} == {name: mine[name] for name in common}, made


def test_workers_have_the_arguments_of_their_stream():
    native = at_run_time(_native.EventStream)
    assert set(_worker.Options.__annotations__) | {"uri"} == set(native)
    assert set(at_run_time(ejfat.Worker)) == set(native) | {"sources", "build_timeout", "build_window"}
    assert {name: one for name, one in at_run_time(ejfat.Worker).items() if name in native} == native


def told(text):
    """The names in the first column of tables."""
    rows = [line.strip() for line in text.splitlines() if line.strip().startswith("| `")]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}


def test_every_argument_is_described():
    settings = set(at_run_time(_native.ReceiveConfig))
    stub = next(one for one in ast.parse(STUB.read_text()).body if isinstance(one, ast.ClassDef) and one.name == "ReceiveConfig")
    assert told(ast.get_docstring(stub)) == settings
    assert told(recv.Stream.__doc__) == settings | {"allocator"}
    assert told(recv.ChunkStream.__doc__) == PLACING - {"chunk", "index", "offset"}
    assert told(send.__doc__) == set(at_run_time(_native.SendConfig))
    assert told(ejfat.Sender.__doc__) == set(at_run_time(ejfat.Sender)) - {"to"}
    assert told(ejfat.Worker.__doc__) == set(_worker.Options.__annotations__)


# ---- skyhaul.spead2: the same for type checkers and at run time


CONFIGS = [
    skyhaul.spead2.recv.StreamConfig, skyhaul.spead2.recv.RingStreamConfig, skyhaul.spead2.recv.ChunkStreamConfig,
    skyhaul.spead2.recv.ChunkStreamGroupConfig, skyhaul.spead2.send.StreamConfig,
]  # fmt: skip


@pytest.mark.parametrize("made", CONFIGS, ids=lambda made: f"{made.__module__.split('.')[2]}.{made.__name__}")
def test_settings_are_written_out_for_type_checkers(made):
    methods, _ = classes(source_of(made))[made.__name__]
    written, real = arguments(methods["__init__"][0]), at_run_time(made)
    assert [(name, kind) for name, kind, _ in written] == [(name, kind) for name, (kind, _) in real.items()]
    names = vars(importlib.import_module(made.__module__)) | vars(made)
    for name, _, default in written:
        said, actual = eval(default, dict(names)), real[name][1]  # noqa: S307
        assert type(said) is type(actual) and (said == actual or not isinstance(actual, (int, float, list))), name
        # What a signature says is what an object has.
        has = getattr(made(), name)
        assert type(has) is type(actual) and (has == actual or not isinstance(actual, (int, float, list))), name
        assert getattr(made(**{name: actual}), name) == actual
    with pytest.raises(TypeError, match="no setting wrong"):
        made(wrong=1)


# ---- and those of spead2


def installed(module):
    """spead2's stub of a module. It is not imported: nothing but the text is needed."""
    found = importlib.util.find_spec("spead2")
    if found is None or not found.submodule_search_locations:
        return None
    base = pathlib.Path(found.submodule_search_locations[0])
    return next((path for path in (base / f"{module}.pyi", base / module / "__init__.pyi") if path.exists()), None)


MODULES = {
    "recv": [skyhaul.spead2.recv], "send": [skyhaul.spead2.send],
    "recv/asyncio": [skyhaul.spead2.recv.asyncio], "send/asyncio": [skyhaul.spead2.send.asyncio],
}  # fmt: skip
# What needs a card that few have.
ABSENT = ("UdpIbvConfig", "UdpIbvStream", "_UdpIbvStream", "add_udp_ibv_reader")
# More is accepted: the last argument may be left out, and elements may be any iterable.
WIDER = {"send.asyncio.TcpStream.__init__"}


def with_private_bases(name, stubs):
    """The methods of a class in a stub, with those of its private bases."""
    own, bases = stubs[name]
    more = [base.rpartition(".")[2] for base in bases]
    found = [with_private_bases(base, stubs) for base in more if base.startswith("_") and base in stubs]
    return {method: forms for part in [*found, own] for method, forms in part.items()}


def ours(cls, method):
    """All forms of a method, of the class that has it."""
    for base in cls.__mro__:
        if base.__module__.startswith("skyhaul.") and base is not object and not base.__module__.startswith("skyhaul._native"):
            methods, _ = classes(source_of(base)).get(base.__name__, ({}, []))
            if method in methods:
                return methods[method]
    return None


def form(function):
    """Names and kinds of the arguments, and whether they may be left out. spead2 does not name some."""
    return [("_" if name.startswith("_") else name, kind, default is not None) for name, kind, default in arguments(function)]


@pytest.mark.parametrize("module", MODULES)
def test_signatures_are_those_of_spead2(module):
    stub = installed(module)
    if stub is None:
        # It is the other side of the comparison; tests/requirements.txt has it.
        pytest.skip("spead2 is not installed (pip install -r tests/requirements.txt)")
    here = importlib.import_module(f"skyhaul.spead2.{module.replace('/', '.')}")
    looked_at, different, stubs = 0, [], classes(stub)
    for name in stubs:
        if name in ABSENT or name.startswith("_"):
            continue
        cls = getattr(here, name, None)
        if cls is None:
            # In spead2, too, these are in the stub only.
            assert name in ("AsyncStream", "Ringbuffer"), name
            continue
        for method, forms in with_private_bases(name, stubs).items():
            where = f"{module.replace('/', '.')}.{name}.{method}"
            if method in ABSENT or is_property(forms) or where in WIDER or method.startswith("__") and method != "__init__":
                continue
            mine = ours(cls, method)
            if mine is None:
                different.append(f"{where} is absent")
                continue
            looked_at += 1
            theirs, own = [form(one) for one in forms], [form(one) for one in mine]
            for one in theirs:
                if not any(accepts(other, one) for other in own):
                    different.append(f"{where}: spead2 has {one}, here are {own}")
    assert not different, "\n".join(different)
    assert looked_at >= {"recv": 20, "send": 12, "recv/asyncio": 2, "send/asyncio": 3}[module]


def accepts(own, theirs):
    """Whether each call of that form is one of ours: more optional arguments are fine behind them."""
    for at, (name, kind, optional) in enumerate(theirs):
        if at >= len(own):
            return False
        mine = own[at]
        if kind == "keyword" and mine[1] == "keyword":
            mine = next((one for one in own if one[0] == name), mine)
        if (mine[0] != name and "_" not in (name, mine[0])) or mine[1] != kind or (optional and not mine[2]):
            return False
    names = {name for name, *_ in theirs}
    return all(optional for name, kind, optional in own[len(theirs) :] if name not in names)


def test_settings_have_the_defaults_of_spead2():
    pytest.importorskip("spead2")
    for made in CONFIGS:
        theirs = getattr(importlib.import_module(made.__module__.replace("skyhaul.", "", 1).rsplit("._", 1)[0]), made.__name__)()
        mine = made()
        for name in at_run_time(made):
            one, other = getattr(mine, name), getattr(theirs, name)
            if isinstance(one, (bool, int, float, list, type(None))):
                assert one == other, (made, name)
            elif hasattr(one, "name"):
                assert one.name == other.name, (made, name)


def test_the_comparison_finds_a_difference():
    """The checks of this file can fail."""
    one = ast.parse("class A:\n def f(self, a, b=1, *, c: int = 2) -> None: ...").body[0]
    (function,) = functions(one.body)["f"]
    assert arguments(function) == [("a", "plain", None), ("b", "plain", "1"), ("c", "keyword", "2")]
    real = lambda a, b=1, *, c=2: None  # noqa: E731
    agree("f", arguments(function), at_run_time(real))
    for other in (lambda a, b=2, *, c=2: None, lambda a, c=2, *, b=1: None, lambda a, b=1, *, c: None, lambda a, b=1: None):
        with pytest.raises(AssertionError):
            agree("f", arguments(function), at_run_time(other))
    assert accepts(form(function), form(function)[:2]) and not accepts(form(function)[:2], form(function))
