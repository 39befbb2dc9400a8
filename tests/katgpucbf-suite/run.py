"""Run the receiving tests of katgpucbf, MeerKAT's correlator, with `spead2` replaced by `skyhaul.spead2`.

    .venv/bin/python tests/katgpucbf-suite/run.py [-k EXPRESSION ...]      any words go to pytest
    SKYHAUL_KATGPUCBF=DIRECTORY ... run.py                                 a clone of it, instead of fetching one

They run twice: with spead2 itself, which says how many can pass here, and with ours, of which as many must. They need no GPU:
what receives in katgpucbf knows of none, and `without_gpu.py` stands in for the settings of all its tests, which do.

katgpucbf is fetched with git, of one commit, and kept below `target/`; it and its tests need Python 3.12 and packages of their
own, in a virtual environment there.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "spead2-suite"))
from run import found  # noqa: E402

CACHE = HERE.parents[1] / "target/katgpucbf-suite"
ADDRESS = "https://github.com/ska-sa/katgpucbf"
COMMIT = "1e38bdc563f588e0ca2566b65173885fdee2f527"
PACKAGES = ("aiokatcp==2.3.0", "numba==0.68.1", "numpy==2.4.6", "prometheus_client==0.26.0", "pytest==9.2.0",
            "pytest-asyncio==1.5.0", "pytest-timeout==2.4.0", "scipy==1.17.1", "spead2==4.5.1")
FILES = ("test/test_recv.py", "test/fgpu/test_recv.py", "test/vgpu/test_recv.py", "test/xbgpu/test_recv.py")
TESTS = "tests/katgpucbf-suite"


class Missing(Exception):
    """What is needed is neither here nor to be had."""


def main(words):
    if not found("skyhaul.spead2"):
        return skip("skyhaul.spead2 is not installed in this Python (make python)")
    try:
        source, python = fetched(), environment()
    except (Missing, OSError, subprocess.TimeoutExpired) as error:
        return skip(str(error))
    peer = pytest(python, source, words, [])
    if peer.returncode not in (0, 1):
        return skip(f"its tests do not run with spead2 itself: {last(peer.stdout + peer.stderr)}")
    ours = pytest(python, source, words, ["-m", "skyhaul.spead2"])
    print(ours.stdout, end="")
    print(ours.stderr, end="", file=sys.stderr)
    print(f"katgpucbf's receiving tests: {passed(ours)} pass, {passed(peer)} with spead2 itself")
    if passed(ours) < passed(peer) or not passed(ours):
        print(f"FAILED {TESTS}: {passed(ours)} pass, {passed(peer)} with spead2 itself")
        return 1
    return 0 if peer.returncode else ours.returncode


def fetched():
    """The directory of katgpucbf's source at that commit."""
    source = CACHE / f"katgpucbf-{COMMIT[:12]}"
    if (source / "complete").is_file():
        return source
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    repository = os.environ.get("SKYHAUL_KATGPUCBF")
    if not repository:
        repository = CACHE / "repository"
        done(["git", "init", "--quiet", "--bare", repository], "make a repository")
        hint = f"hint: SKYHAUL_KATGPUCBF=DIRECTORY of a clone of {ADDRESS}"
        fetch = ["git", "-C", repository, "fetch", "--quiet", "--depth", "1", ADDRESS, COMMIT]
        done(fetch, f"katgpucbf cannot be fetched from {ADDRESS} ({hint})")
    # Of the repository only its objects are used: it may be someone's clone.
    inside = done(["git", "-C", repository, "rev-parse", "--absolute-git-dir"], f"{repository} is no clone")
    git = dict(os.environ, GIT_DIR=inside, GIT_WORK_TREE=str(source), GIT_INDEX_FILE=str(source / "index"))
    done(["git", "read-tree", COMMIT], f"{repository} lacks commit {COMMIT}", git)
    done(["git", "checkout", "--quiet", "--", "src", "test"], "check katgpucbf out", git)
    (source / "complete").touch()
    return source


def environment():
    """A Python 3.12 or later with what the tests need, and `skyhaul` as it is installed here."""
    inside = CACHE / "venv/bin/python"
    if not (CACHE / "venv/complete").is_file():
        shutil.rmtree(CACHE / "venv", ignore_errors=True)
        done([newer_python(), "-m", "venv", CACHE / "venv"], "make an environment")
        pip = [inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES]
        done(pip, "what katgpucbf needs cannot be installed")
        (CACHE / "venv/complete").touch()
    import skyhaul

    # One module serves every Python. A directory with nothing else, so that the packages of this one stay out.
    ours = CACHE / "ours"
    ours.mkdir(exist_ok=True)
    (ours / "skyhaul").unlink(missing_ok=True)
    (ours / "skyhaul").symlink_to(pathlib.Path(skyhaul.__file__).parent)
    return inside


def newer_python():
    """A Python that katgpucbf runs with, from the PATH, uv or pyenv."""
    if sys.version_info >= (3, 12):
        return sys.executable
    names = [f"python3.{minor}" for minor in (12, 13, 14)]
    known = [path for name in names if (path := shutil.which(name))]
    roots = [os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv")]
    for root in roots:
        known += [str(path) for name in names for path in pathlib.Path(root).glob(f"versions/*/bin/{name}")]
    for python in known:
        tried = subprocess.run([python, "-c", "import venv, ensurepip"], capture_output=True, timeout=60, check=False)
        if tried.returncode == 0:
            return python
    raise Missing("katgpucbf needs Python 3.12 or later (uv python install 3.12, or pyenv install 3.12)")


def done(command, what, surroundings=None):
    """What a command printed."""
    run = subprocess.run(command, env=surroundings, cwd=HERE, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                         timeout=900, check=False)  # fmt: skip
    if run.returncode != 0:
        raise Missing(f"{what}: {last(run.stderr)}")
    return run.stdout.strip()


def pytest(python, source, words, before):
    """The tests, by a Python that has `before` between itself and `-m pytest`."""
    settings = ["-c", os.devnull, f"--rootdir={source}", "--noconftest", "-p", "without_gpu", "-o", "asyncio_mode=auto",
                "-o", "markers=mask_timestamp", "-p", "no:cacheprovider", "--color=no", "-q", "-rsfE", "--timeout=120",
                "--tb=short", "-W", "ignore::pytest.PytestDeprecationWarning"]  # fmt: skip
    files = [] if any(word.startswith("test/") for word in words) else FILES
    command = [python, *before, "-m", "pytest", *settings, *words, *files]
    path = os.pathsep.join(map(str, [HERE, CACHE / "ours", source, source / "src"]))
    surroundings = dict(os.environ, PYTHONPATH=path)
    return subprocess.run(command, cwd=source, env=surroundings, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=600, check=False)  # fmt: skip


def passed(run):
    """How many tests passed."""
    sums = re.findall(r"(\d+) passed", run.stdout)
    return int(sums[-1]) if sums else 0


def last(text):
    return (text.strip().splitlines() or ["no answer"])[-1]


def skip(why):
    """As pytest says it, so that whoever counts needs to know one form only."""
    print(f"SKIPPED [1] {TESTS}: {why}")
    print("1 skipped in 0.00s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
