"""The wheel: what is in it, its types, and the command."""

import pathlib
import pickle
import shutil
import subprocess
import sys

import pytest

import skyhaul
from skyhaul import _native

CRATE = pathlib.Path(__file__).resolve().parents[1]


def run(*words):
    return subprocess.run(words, cwd=CRATE, capture_output=True, text=True, timeout=100, check=False)


def test_the_command_comes_with_the_package():
    command = shutil.which("skyhaul", path=str(pathlib.Path(sys.executable).parent))
    if command is None:
        pytest.skip("the wheel is not installed here (make python)")
    done = run(command, "--version")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["skyhaul", skyhaul.__version__]


def test_sources_are_typed():
    done = run(sys.executable, "-m", "mypy", "--no-incremental")
    assert done.returncode == 0, done.stdout + done.stderr


def test_stubs_say_what_the_module_is():
    done = run(sys.executable, "-m", "mypy.stubtest", "skyhaul._native", "--concise")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["Empty", "Stopped", "Full", "Cancelled", "Damaged"])
def test_exceptions_go_to_other_processes(name):
    one = getattr(_native, name)
    assert one.__module__ == "skyhaul._native"
    back = pickle.loads(pickle.dumps(one("why")))
    assert type(back) is one and back.args == ("why",)
