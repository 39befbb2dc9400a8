"""Pages of the Python API, from the sources and stubs alone: nothing is imported, so nothing need be compiled.

What a module offers is its `__all__`, or without one, every name without an underscore that comes from this package. An
object of the compiled part is described where programs find it. What descriptions refer to and no module offers
(`ReceiveConfig`) follows at the end of the page. Docstrings are Markdown.
"""

import inspect
import re
import sys

import griffe

MODULES = [
    "skyhaul",
    "skyhaul.ejfat",
    "skyhaul.rdma",
    "skyhaul.recording",
    "skyhaul.spead",
    "skyhaul.spead.numba",
    "skyhaul.spead.recv",
    "skyhaul.spead.send",
    "skyhaul.spead2",
    "skyhaul.spead2.recv",
    "skyhaul.spead2.recv.asyncio",
    "skyhaul.spead2.recv.numba",
    "skyhaul.spead2.recv.stream_stat_indices",
    "skyhaul.spead2.send",
    "skyhaul.spead2.send.asyncio",
    "skyhaul.spead2.numba",
]
OWN = {"__len__", "__getitem__", "__setitem__", "__contains__", "__iter__", "__next__", "__call__", "__await__"}


def load(sources):
    """The package as its sources say."""
    package = griffe.load("skyhaul", search_paths=[str(sources)], allow_inspection=False, resolve_aliases=True)
    public = {f"skyhaul.{name}" for name in modules(package)} | {"skyhaul"}
    if public != set(MODULES):
        sys.exit(f"docs/site/api.py: MODULES lacks or has too much: {', '.join(sorted(public ^ set(MODULES)))}")
    return package


def modules(package, prefix=""):
    for name, module in package.modules.items():
        if not name.startswith("_"):
            yield prefix + name
            yield from modules(module, f"{prefix}{name}.")


def target(member):
    return member.final_target if member.is_alias else member


def offered(module):
    """Its public members that are no modules, by name."""
    if module.exports is not None:
        names = [str(getattr(name, "name", name)) for name in module.exports]
    else:
        names = [name for name, member in module.members.items() if not name.startswith("_") and ours(member)]
    found = {name: target(module.members[name]) for name in names}
    return {name: member for name, member in found.items() if not member.is_module}


def ours(member):
    return (member.target_path if member.is_alias else member.path).startswith("skyhaul.")


def text(member):
    """Its docstring, without the indentation that a string in a source has."""
    return inspect.cleandoc(member.docstring.value) if member.docstring else ""


def arguments(function, method):
    """Its signature, as a user writes the call."""
    out, star = [], False
    for at, one in enumerate(function.parameters):
        kind = one.kind.value if one.kind else ""
        if method and at == 0 and one.name in ("self", "cls"):
            continue
        if kind == "keyword-only" and not star:
            star = True
            out.append("*")
        mark = {"variadic positional": "*", "variadic keyword": "**"}.get(kind, "")
        star = star or mark == "*"
        default = "" if one.default is None or mark else str(one.default)
        note = "" if one.annotation is None else f": {flat(one.annotation)}"
        equals = "" if not default else f" = {default}" if note else f"={default}"
        out.append(f"{mark}{one.name}{note}{equals}")
    return flat(", ".join(out))


def returns(function):
    return "" if function.returns is None else f" -> {flat(function.returns)}"


# Where an object is described, by where it is defined: what annotations link to.
PUBLIC = {}


def flat(expression):
    """An annotation in one line, with the full names of what has a page."""
    if isinstance(expression, griffe.Expr):
        parts = [PUBLIC.get(part.canonical_path, part.name) if isinstance(part, griffe.ExprName) else str(part)
                 for part in expression.iterate(flat=True)]  # fmt: skip
        expression = "".join(parts)
    return re.sub(r"\s+", " ", str(expression)).replace("_native.skyhaul.", "skyhaul.")


class Page:
    """One module."""

    def __init__(self, package, name):
        self.package, self.name, self.lines = package, name, []
        self.module = package if name == "skyhaul" else package[name.removeprefix("skyhaul.")]

    def render(self, known):
        self.add(f"# `{self.name}`", "", f"```{{py:module}} {self.name}", "```", "", text(self.module), "")
        members = offered(self.module)
        for name, member in members.items():
            self.member(name, member)
        more = self.referred(members, known)
        if more:
            self.add("", "## Referred to above", "", "The descriptions above refer to these; no module offers them by name.", "")
            for name, member in more.items():
                self.member(name, member)
        return "\n".join(self.lines) + "\n"

    def add(self, *lines):
        self.lines += lines

    def referred(self, members, known):
        """Private classes that descriptions name, as far as they are not public elsewhere."""
        said = text(self.module) + "".join(
            text(one) + "".join(text(inner) for inner in getattr(one, "members", {}).values() if not inner.is_alias)
            for one in members.values())  # fmt: skip
        words = set(re.findall(r"`([A-Z]\w+)[`.]", said))
        found = {word: target(self.module.members[word]) for word in sorted(words) if word in self.module.members}
        return {word: member for word, member in found.items() if word not in members and member.path not in known}

    def directive(self, depth, kind, signature, body, *options):
        fence = ":" * (8 - depth)
        self.add(f"{fence}{{py:{kind}}} {signature}", *options, "")
        if body:
            self.add(body, "")
        return fence

    def member(self, name, member, depth=0, qualified=""):
        path = f"{qualified}{name}"
        if member.is_class:
            self.a_class(path, member, depth)
        elif member.is_function:
            self.function(path, member, depth, method=bool(qualified))
        else:
            self.attribute(path, member, depth)

    def function(self, path, member, depth, method):
        labels, options = member.labels, []
        if "property" in labels:
            note = [] if member.returns is None else [f":type: {flat(member.returns)}"]
            fence = self.directive(depth, "property", path, text(member), *note)
        else:
            options += [f":{word}:" for label, word in (("async", "async"), ("staticmethod", "staticmethod"), ("classmethod", "classmethod"))
                        if label in labels]  # fmt: skip
            signature = f"{path}({arguments(member, method and 'staticmethod' not in labels)}){returns(member)}"
            fence = self.directive(depth, "method" if method else "function", signature, text(member), *options)
        self.add(fence, "")

    def attribute(self, path, member, depth):
        note = [] if member.annotation is None else [f":type: {flat(member.annotation)}"]
        value = str(member.value) if member.value is not None else ""
        if re.fullmatch(r"-?\d[\w.]*", value):
            note.append(f":value: {value}")
        if "property" in member.labels:
            fence = self.directive(depth, "property", path, text(member), *note[:1])
        else:
            fence = self.directive(depth, "attribute" if "." in path else "data", path, text(member), *note)
        self.add(fence, "")

    def a_class(self, path, member, depth):
        made = member.all_members.get("__init__"), member.all_members.get("__new__")
        ways = [arguments(target(one), True) for one in made if one is not None and ours(one)]
        signature = next((way for way in ways if "*_" not in way), "")
        if any("NamedTuple" in str(base) for base in member.bases) or "dataclass" in member.labels:
            signature = signature or ", ".join(
                f"{name}: {flat(one.annotation)}" for name, one in member.members.items() if one.is_attribute and one.annotation)
        kind = "exception" if self.raised(member) else "class"
        fence = self.directive(depth, kind, f"{path}({signature})" if signature else path, text(member))
        bases = [str(base) for base in member.bases if not str(base).startswith("_") and "._" not in str(base)]
        if bases:
            self.add("Bases: " + ", ".join(f"`{base}`" for base in bases), "")
        for name, inner in member.all_members.items():
            if (name.startswith("_") and name not in OWN) or not ours(inner):
                continue
            found = self.renamed(member, target(inner))
            if name in OWN and not text(found):
                continue
            self.member(name, found, depth + 1, f"{path}.")
        self.add(fence, "")

    @staticmethod
    def raised(member):
        names = {str(base).rsplit(".", 1)[-1] for base in member.bases}
        return any(name.endswith(("Error", "Exception")) for name in names)

    @staticmethod
    def renamed(member, inner):
        """The method behind `add_udp_reader = ReceiveStream.add_udp`."""
        if inner.is_attribute and inner.value is not None:
            base, _, name = str(inner.value).rpartition(".")
            if base and base in {str(one).rsplit(".", 1)[-1] for one in member.bases}:
                return target(member.all_members[name])
        return inner


def pages(sources):
    """Name of each module, and its page."""
    package = load(sources)
    every = [Page(package, name) for name in MODULES]
    known = {member.path for page in every for member in offered(page.module).values()}
    for page in every:
        for name, member in offered(page.module).items():
            PUBLIC.setdefault(member.path, f"{page.name}.{name}")
    return {page.name: page.render(known) for page in every}


def summary(sources):
    """Name of each module, and the first sentence of its description."""
    package = load(sources)
    found = {name: package if name == "skyhaul" else package[name.removeprefix("skyhaul.")] for name in MODULES}
    return {name: text(module).split("\n")[0] for name, module in found.items()}
