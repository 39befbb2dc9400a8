"""Run spead2's own tests, from its source distribution, against `skyhaul.spead2`.

    .venv/bin/python tests/spead2-suite/run.py [-k EXPRESSION …]     any words go to pytest
    … run.py --peer                                                  the same tests against spead2 itself: a control

`stand_in.py` puts our module where the tests look for `spead2`. Which tests are known not to pass, and why, is in
`expected.toml`: any other failure fails the run, and so does a listed test that passes.
"""

import importlib.util
import os
import pathlib
import subprocess
import sys

import fetch

FILES = ("test_common", "test_passthrough", "test_recv", "test_send", "test_recv_asyncio", "test_send_asyncio",
         "test_recv_chunk_stream", "test_recv_chunk_stream_group")


def main(words):
    peer = "--peer" in words
    words = [word for word in words if word != "--peer"]
    if not peer and not found("skyhaul.spead2"):
        return skip("skyhaul.spead2 is not installed in this Python (make python)")
    for needed in ("pytest_asyncio", "pytest_timeout", "netifaces"):
        if not found(needed):
            return skip(f"{needed} is missing (pip install -r tests/requirements.txt)")
    try:
        source = fetch.unpacked()
    except (fetch.Unreachable, OSError, subprocess.TimeoutExpired) as error:
        return skip(str(error))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--color=no", "-q", "-rsfEx", "--timeout=60", "--tb=short"]
    environment = dict(os.environ)
    if not peer:
        command += ["-p", "stand_in"]
        here = str(pathlib.Path(__file__).resolve().parent)
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    if not any(word.startswith("tests/") for word in words):
        words += [f"tests/{name}.py" for name in FILES]
    return subprocess.run([*command, *words], cwd=source, env=environment, check=False).returncode


def found(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False


def skip(why):
    """As pytest says it, so that whoever counts needs to know one form only."""
    print(f"SKIPPED [1] tests/spead2-suite: {why}")
    print("1 skipped in 0.00s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
