"""The wheel with each Python that it is for, and with the oldest and the newest NumPy that each takes: a short run of all of it.

The whole tests run with one Python and one NumPy; `cargo xtask python --every` runs them with each Python.
"""

import functools
import os
import pathlib
import shutil
import subprocess
import sys

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
    """A Python of this version that runs; fetched with uv if there is none and that is possible. None without."""
    for attempt in range(2):
        for place in places(version):
            if place and ran(place, "-c", f"import sys; assert '%d.%d' % sys.version_info[:2] == '{version}'").returncode == 0:
                return place
        if attempt or os.environ.get("SKYHAUL_INSTALL") == "no":
            return None
        ran(*UV, "python", "install", version, seconds=120)
    return None


@pytest.mark.parametrize("numpy", ["oldest", "newest"])
@pytest.mark.parametrize("version", OLDEST)
def test_a_short_run_of_all(version, numpy, tmp_path):
    wheels = list((ROOT / "target/wheels").glob("skyhaul-*.whl"))
    if not wheels:
        pytest.skip("no wheel is built (make python)")
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} (uv python install {version}, or pyenv install {version})")
    wanted = f"numpy=={OLDEST[version]}" if numpy == "oldest" else "numpy"
    installed = ran(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", tmp_path / "packages",
                    "--python-version", version, "--only-binary=:all:", wanted, *wheels)  # fmt: skip
    if "Could not find a version" in installed.stderr or "connection" in installed.stderr.lower():
        pytest.skip(f"pip has no {wanted} for Python {version} (no network?): {installed.stderr.splitlines()[-1]}")
    assert installed.returncode == 0, installed.stderr
    done = ran(python, "-W", "error", SMOKE, tmp_path, PYTHONPATH=str(tmp_path / "packages"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Python {version}." in done.stdout and done.stdout.endswith(": good\n")
    if numpy == "oldest":
        assert f"NumPy {OLDEST[version]}" in done.stdout
    else:
        assert f"NumPy {OLDEST[version]}" not in done.stdout
    print(done.stdout)
