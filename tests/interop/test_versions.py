"""The wheel with each Python that it is for, and with the oldest and the newest NumPy that each takes: a short run of all of it.

The whole tests run with one Python and one NumPy; `cargo xtask python --every` runs them with each Python.
"""

import functools
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys

import debian_python
import pytest
from conftest import ROOT

SMOKE = ROOT / "crates/python/tests/smoke.py"
# For each Python the oldest NumPy that has a wheel for it, and that the package takes.
OLDEST = {"3.11": "1.26.0", "3.12": "1.26.0", "3.13": "2.1.0", "3.14": "2.3.2"}


def ran(*words, seconds=240, **environment):
    return subprocess.run(list(map(str, words)), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds,
                          env=os.environ | {"PYTHONPATH": ""} | environment, check=False)  # fmt: skip


def places(version):
    """Where such a Python may be: on the PATH, in the environment of uv, of pyenv (whose commands on the PATH may not work)."""
    yield shutil.which(f"python{version}")
    yield ran(*UV, "python", "find", "--no-python-downloads", version).stdout.strip()
    root = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv"))
    yield from sorted(root.glob(f"versions/{version}*/bin/python{version}"))


UV = [sys.executable, "-m", "uv"]


@functools.cache
def interpreter(version):
    """A Python of this version that runs; fetched with uv, or from Debian, if there is none and that is possible. None without."""

    def good(place):
        return place and ran(place, "-c", f"import sys; assert '%d.%d' % sys.version_info[:2] == '{version}'").returncode == 0

    if found := next(filter(good, places(version)), None):
        return found
    if os.environ.get("SKYHAUL_INSTALL") == "no":
        return None
    ran(*UV, "python", "install", version, seconds=120)
    fetched = next(filter(good, places(version)), None)
    if fetched:
        return fetched
    unpacked = debian_python.python(version, ROOT / f"target/python/debian-{version}")
    return unpacked if good(unpacked) else None


# How pip words that it did not reach the index.
UNREACHED = re.compile(
    r"Temporary failure in name resolution|Name or service not known|No address associated with hostname|NameResolutionError"
    r"|Connection refused|Network is unreachable|No route to host|timed out|ConnectTimeout|ReadTimeout"
)


def is_network_error(said):
    """Whether pip failed because the index was not reached. A warning alone is not enough: pip may have tried again."""
    unreached = [line for line in said.splitlines() if UNREACHED.search(line)]
    return any(not line.startswith("WARNING") for line in unreached) or bool(unreached) and "(from versions: none)" in said


@pytest.fixture
def indexes(tmp_path):
    """Indexes of packages, by what is wrong with them."""
    (tmp_path / "simple" / "nothing-connection").mkdir(parents=True)
    (tmp_path / "simple" / "nothing-connection" / "index.html").write_text("<!DOCTYPE html><html><body></body></html>")
    with socket.socket() as silent, socket.socket() as closed:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        closed.bind(("127.0.0.1", 0))
        yield {
            "refused": f"http://127.0.0.1:{closed.getsockname()[1]}/simple",
            "silent": f"http://127.0.0.1:{silent.getsockname()[1]}/simple",
            "nameless": "https://index.invalid/simple",
            "empty": (tmp_path / "simple").as_uri(),
        }


@pytest.mark.parametrize(("index", "is_network"), [("refused", True), ("silent", True), ("nameless", True), ("empty", False)])
def test_only_a_network_error_of_pip_is_one(indexes, index, is_network, tmp_path):
    done = ran(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--isolated", "--no-cache-dir",
               "--retries", "1", "--timeout", "1", "--index-url", indexes[index], "--target", tmp_path / "packages",
               "nothing-connection", no_proxy="*")  # fmt: skip
    assert done.returncode != 0 and is_network_error(done.stderr) == is_network, done.stderr


def test_a_warning_that_a_retry_made_up_for_is_no_network_error():
    retried = "WARNING: Retrying after connection broken by 'ReadTimeoutError(\"Read timed out.\")': /simple/numpy/\n"
    conflict = "ERROR: Cannot install skyhaul because these package versions have conflicting dependencies.\n"
    none = "ERROR: Could not find a version that satisfies the requirement numpy (from versions: none)\n"
    some = "ERROR: Could not find a version that satisfies the requirement numpy==9 (from versions: 2.0.0, 2.1.0)\n"
    assert not any(map(is_network_error, (conflict, none, some, retried, retried + conflict, retried + some)))
    assert is_network_error(retried + none)


def newest(version):
    """The newest NumPy that the index has for this Python."""
    said = ran(sys.executable, "-m", "pip", "index", "versions", "--disable-pip-version-check", "numpy", "--python-version", version, "--only-binary=:all:")
    # Only the index knows which one is the newest.
    if said.returncode != 0 and is_network_error(said.stderr):
        pytest.skip(f"pip does not reach its index ({said.stderr.splitlines()[-1]}; connect this host to a network)")
    return re.match(r"numpy \(([\d.]+)\)", said.stdout)[1]


def install(packages, version, *what):
    """Packages for this Python, with uv, which takes a fifth of the time of pip; with pip where uv fails, as it does not read pip's settings."""
    how = ["--quiet", "--target", packages, "--python-version", version, "--only-binary=:all:"]
    by_uv = ran(*UV, "pip", "install", *how, *what)
    if by_uv.returncode == 0:
        return by_uv
    # pip compares what a package requires with the Python that runs pip, not with the one that was asked for: it took an older NumPy.
    pip = ["-m", "pip", "install", "--disable-pip-version-check", "--no-compile", "--ignore-requires-python"]
    return ran(sys.executable, *pip, *how, *what)


@pytest.mark.parametrize("numpy", ["oldest", "newest"])
@pytest.mark.parametrize("version", OLDEST)
def test_a_short_run_of_all(version, numpy, tmp_path):
    wheels = list((ROOT / "target/wheels").glob("skyhaul-*.whl"))
    if not wheels:
        pytest.skip("no wheel is built (make python)")
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} (uv python install {version}, or pyenv install {version})")
    wanted = OLDEST[version] if numpy == "oldest" else newest(version)
    installed = install(tmp_path / "packages", version, f"numpy=={wanted}", *wheels)
    if installed.returncode != 0 and is_network_error(installed.stderr):
        pytest.skip(f"pip does not reach its index ({installed.stderr.splitlines()[-1]}; connect this host to a network)")
    assert installed.returncode == 0, installed.stderr
    done = ran(python, "-W", "error", SMOKE, tmp_path, PYTHONPATH=str(tmp_path / "packages"), PYTHONDONTWRITEBYTECODE="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Python {version}." in done.stdout and done.stdout.endswith(": good\n")
    assert f"NumPy {wanted}:" in done.stdout
    print(done.stdout)
