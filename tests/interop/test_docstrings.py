"""The examples in docstrings run as they stand: all ```` ```python ```` blocks of a module are one program.

They read the recordings they name, which are made here on the disks they name. What is indented is an outline, not an example.
"""

import ast
import subprocess
import sys

import pages
import pytest
from conftest import ROOT

SOURCES = ROOT / "crates/python/python"
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def program(path):
    """The examples of a module, in order."""
    found = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, DOCUMENTED)]
    blocks = [block for node in found for block in pages.BLOCK.findall(ast.get_docstring(node) + "\n" if ast.get_docstring(node) else "")]
    return "".join(text for language, text in blocks if language == "python")


PROGRAMS = {path: program(path) for path in sorted(SOURCES.rglob("*.py")) if program(path)}


@pytest.fixture
def disks(skyhaul, record, tmp_path):
    """Two disks with a scan of samples, of which a packet was lost, and a scan of heaps."""
    np = pytest.importorskip("numpy")
    recording = pytest.importorskip("skyhaul.recording", reason="the package is not installed (make python)")
    from skyhaul.spead import HeapGenerator, ItemGroup, send

    with recording.create(tmp_path / "a.vdif", sample_rate=1_000_000, start="2026-11-22T05:58:31", payload=5000, edv=1) as file:
        file.write(np.random.default_rng(5).standard_normal((1_000_000, 1, 1), np.float32))
    recorder = record(scan="exp_st_no0001")
    skyhaul.run("send", "--input", tmp_path / "a.vdif", "--rate", "50Mbps", "--faults", "loss=0.1,seed=1", "--to",
                f"udp://127.0.0.1:{recorder.port}")  # fmt: skip
    recorder.finish()

    heaps = record("--stop-items", "never", form="spead", scan="heaps_no0001")
    group = ItemGroup()
    group.add_item(name="power", shape=(4,), dtype="<f4", value=np.ones(4, "<f4"))
    with send.UdpStream(f"127.0.0.1:{heaps.port}", rate=1e8) as stream:
        stream.send(HeapGenerator(group).heap())
    heaps.finish()
    return {"exp_st_no0001": recorder.disks, "heaps_no0001": heaps.disks}


def test_there_are_examples():
    assert [path.relative_to(SOURCES).as_posix() for path in PROGRAMS] == ["skyhaul/recording/__init__.py"]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.relative_to(SOURCES).as_posix())
def test_examples(path, disks, tmp_path):
    text = PROGRAMS[path]
    for scan, (first, second) in disks.items():
        named = f'["/data/d1", "/data/d2"], "{scan}"'
        assert named in text, scan
        text = text.replace(named, f'["{first}", "{second}"], "{scan}"')
    assert "/data/" not in text
    text += '\nprint(x.shape, np.isnan(x).any(), sorted(group), group["power"].value)\n'
    done = subprocess.run([sys.executable, "-W", "error", "-c", "import numpy as np\n" + text], cwd=tmp_path, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[0].startswith("exp_st_no0001")
    assert said[-1] == "(100000, 1, 1) True ['power'] [1. 1. 1. 1.]", said
