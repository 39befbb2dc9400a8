"""What type checkers say of programs that use the package: those of the guides, tutorials and docstrings, and those
in `typed`.

All blocks of a page are one program. A page need not write types at its own functions: they are `Any` there. Libraries whose
own types are incomplete (`UNTYPED`) are `Any` as a whole; what they hide is theirs.
"""

import ast
import json
import os
import pathlib
import subprocess
import sys

import pages
import pytest
import test_docstrings
from conftest import ROOT
from test_documents import PAGES

PROGRAMS = pathlib.Path(__file__).parent / "typed"
# What programs, and signatures of the package, import of each.
UNTYPED = {
    "dask": {"__init__": [], "delayed": [], "distributed": ["Client"]},
    "matplotlib": {"__init__": [], "pyplot": [], "figure": ["Figure"], "axes": ["Axes"]},
    "h5py": {"__init__": ["File"]},
}
ANYTHING = "from typing import Any\ndef __getattr__(name: str) -> Any: ...\n"
CLASS = """class {}:
    def __init__(self, *any: Any, **more: Any) -> None: ...
    def __getattr__(self, name: str) -> Any: ...
"""
# Strict, but for what only concerns the style of a page: it imports what it shows, and uses a name again.
BASEDPYRIGHT = {"typeCheckingMode": "strict", "stubPath": "stubs", "reportUnusedImport": False,
                "ignore": ["stubs"]}  # fmt: skip
# Pages with programs of another library beside ours under the same name; its users do not type them.
OTHERS = ["from-spead2.md"]
# Whatever is checked: with the same stubs, and what was found of libraries is kept for the next.
MYPY = "[mypy]\nstrict = True\nallow_redefinition = True\ndisallow_untyped_decorators = False\nmypy_path = {0}/stubs\ncache_dir = {0}/cache\n"


class Typed(ast.NodeTransformer):
    """Gives functions without types the type `Any`."""

    def visit_FunctionDef(self, node):
        self.generic_visit(node)
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            argument.annotation = argument.annotation or ast.Name("Any")
        node.returns = node.returns or ast.Name("Any")
        return node

    visit_AsyncFunctionDef = visit_FunctionDef


def program(page):
    return typed("".join(text for language, text in pages.blocks(page) if language == "python"))


def typed(text):
    own = "" if "from typing import Any\n" in text else "from typing import Any\n"
    return own + ast.unparse(Typed().visit(ast.parse(text)))


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """A directory with all programs and the settings of both checkers."""
    for module in ("skyhaul", "mypy", "basedpyright", "xarray"):
        pytest.importorskip(module, reason=f"{module} is not installed (make python)")
    root = tmp_path_factory.mktemp("types")
    for library, modules in UNTYPED.items():
        for name, classes in modules.items():
            stub = root / "stubs" / library / f"{name}.pyi"
            stub.parent.mkdir(parents=True, exist_ok=True)
            stub.write_text(ANYTHING + "".join(CLASS.format(one) for one in classes))
    for page in (*PAGES, ROOT / "crates/python/README.md"):
        if pages.has(page, "python") and page.name not in OTHERS:
            (root / f"{page.parent.name}_{page.stem}.py".replace("-", "_")).write_text(program(page))
    for path, text in test_docstrings.PROGRAMS.items():
        (root / f"docstrings_of_{path.parent.name}_{path.stem}.py").write_text(typed(text))
    for path in PROGRAMS.glob("*.py"):
        (root / path.name).write_text(path.read_text())
    (root / "pyrightconfig.json").write_text(json.dumps(BASEDPYRIGHT))
    (root / "mypy.ini").write_text(MYPY.format(root))
    return root


def basedpyright(root, *words):
    """What it says, as JSON. It is told which Python has the packages by the path alone."""
    path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run([sys.executable, "-m", "basedpyright", "--outputjson", *words], cwd=root, env=os.environ | {"PATH": path},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100, check=False)  # fmt: skip
    assert done.returncode in (0, 1) and done.stdout, done.stdout + done.stderr
    return json.loads(done.stdout)


def mypy(root, *files):
    return subprocess.run([sys.executable, "-m", "mypy", "--no-error-summary", *files], cwd=root, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=100, check=False)  # fmt: skip


def test_basedpyright(programs):
    said = basedpyright(programs, "--project", ".")
    found = [f"{pathlib.Path(one['file']).name}:{one['range']['start']['line'] + 1}: {one['message']}" for one in said["generalDiagnostics"]]
    assert not found, "\n".join(found)
    assert said["summary"]["filesAnalyzed"] >= len(list(programs.glob("*.py")))


def test_mypy(programs):
    done = mypy(programs, *(path.name for path in programs.glob("*.py")))
    assert done.returncode == 0, done.stdout + done.stderr


MODULES = {f"skyhaul{name}" for name in ("", ".rdma", ".recording", ".spead", ".spead.recv", ".spead.send", ".spead2", ".spead2.recv", ".spead2.send",
                                         ".spead2.recv.asyncio", ".spead2.send.asyncio", ".spead2.numba")}  # fmt: skip


def test_every_public_name_is_typed(programs):
    """Of every module, with the types of all arguments, results and attributes, none of them left to be inferred."""
    said = basedpyright(programs, "--verifytypes", "skyhaul", "--ignoreexternal")["typeCompleteness"]
    assert MODULES <= {one["name"] for one in said["modules"]}
    assert sum(one["isExported"] for one in said["symbols"]) > 200
    untyped = [one["name"] for one in said["symbols"] if not one["isTypeKnown"] or one["isTypeAmbiguous"]]
    assert not untyped, "\n".join(untyped)


WRONG_ARGUMENTS = """\
from skyhaul import ejfat, spead2
from skyhaul.spead2 import recv, send
recv.StreamConfig(max_heap=4)
recv.StreamConfig(max_heaps="4")
recv.RingStreamConfig(heaps=None)
recv.ChunkStreamConfig(items=["0x1600"])
send.StreamConfig(rates=1e9)
recv.Stream(spead2.ThreadPool()).add_udp_reader(7148, interface_address="127.0.0.1")
send.TcpStream(spead2.ThreadPool(), peer=[("127.0.0.1", 1)])
ejfat.Sender("127.0.0.1:1").stats()["heaps"]
ejfat.Worker().stats()["building"]
"""


def test_wrong_arguments_are_found(programs, tmp_path):
    (tmp_path / "wrong.py").write_text(WRONG_ARGUMENTS)
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(BASEDPYRIGHT))
    (tmp_path / "mypy.ini").write_text(MYPY.format(programs))
    wrong = set(range(3, 12))
    errors = [one for one in basedpyright(tmp_path, "--project", ".")["generalDiagnostics"] if one["severity"] == "error"]
    assert {one["range"]["start"]["line"] + 1 for one in errors} == wrong
    lines = [line for line in mypy(tmp_path, "wrong.py").stdout.splitlines() if "error:" in line]
    assert {int(line.split(":")[1]) for line in lines} == wrong


def test_wrong_programs_are_found(programs, tmp_path):
    """The checks of this file can fail."""
    wrong = "from skyhaul import recording\nrecording.open(1.5)\nrecording.open('a').about.sample_rat\n"
    (tmp_path / "wrong.py").write_text(wrong)
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(BASEDPYRIGHT))
    lines = {one["range"]["start"]["line"] for one in basedpyright(tmp_path, "--project", ".")["generalDiagnostics"]}
    assert {1, 2} <= lines
    (tmp_path / "mypy.ini").write_text(MYPY.format(programs))
    assert mypy(tmp_path, "wrong.py").stdout.count("error:") == 2
