"""A plan of a copy onto a disk that becomes full, or that cannot be written: it says so, and leaves nothing."""

import os
import pathlib
import re
import shutil
import subprocess
import time

import pytest
from conftest import BINARY

TOKEN = "0123456789abcdef0123456789abcdef"
# In a mount namespace of its own: a small disk, and what is run with it.
MOUNTED = 'mount -t tmpfs -o "$1" none "$2" 2>/dev/null || exit 99; shift 2; exec "$@"'


def inside(options, place, *words):
    """A command that sees a small disk at `place`."""
    return list(map(str, ["unshare", "-m", "sh", "-c", MOUNTED, "sh", options, place, BINARY, *words]))


def server(words):
    """A server, and its port; None if no disk is mounted here."""
    process = subprocess.Popen(list(map(str, words)), stderr=subprocess.PIPE, text=True)
    line = process.stderr.readline()
    port = re.search(r":(\d+)$", line.strip())
    if not port:
        assert process.wait() == 99, line
        return process, None
    return process, port[1]


@pytest.mark.parametrize("way", ["push", "pull"])
@pytest.mark.parametrize(("options", "said"), [("size=8m", "space"), ("size=8m,ro", "read-only")])
def test_a_plan_ends_with_the_reason_and_leaves_nothing(tmp_path, way, options, said):
    if os.geteuid() or not shutil.which("unshare"):
        pytest.skip("a small disk is mounted by root, with unshare (sudo make test; apt-get install util-linux)")
    token, source, small = tmp_path / "token", tmp_path / "source", tmp_path / "small"
    token.write_text(TOKEN, encoding="ascii")
    token.chmod(0o600)
    source.mkdir()
    small.mkdir()
    for number in range(800):
        (source / str(number)).write_bytes(bytes(100_000))
    # The disk is so small that a trial of a second fills it on a slow host too.
    serve = ["copy", "serve", "--root", small if way == "push" else tmp_path, "--token-file", token, "--listen", "127.0.0.1:0"]
    process, port = server(inside(options, small, *serve) if way == "push" else [BINARY, *serve])
    try:
        if port is None:
            pytest.skip("no disk can be mounted in a namespace here (CAP_SYS_ADMIN)")
        words = ["copy", "--token-file", token, "--port", port, "--plan", "--quiet"]
        if way == "push":
            run = [BINARY, *words, source, "127.0.0.1:in"]
        else:
            # The end that has the disk lists what is left on it.
            run = ["unshare", "-m", "sh", "-c", f'{MOUNTED.replace("exec ", "")}; code=$?; echo left: $(ls -A "$PLACE"); exit $code',
                   "sh", options, small, BINARY, *words, "127.0.0.1:source", small]  # fmt: skip
        done = subprocess.run(list(map(str, run)), capture_output=True, text=True, timeout=120, check=False, env=os.environ | {"PLACE": str(small)})
        if done.returncode == 99:
            pytest.skip("no disk can be mounted in a namespace here (CAP_SYS_ADMIN)")
        assert done.returncode != 0 and said in done.stderr.lower() and "hint: " in done.stderr, done.stderr
        assert "panic" not in done.stderr
        if way == "push":
            # What the server still removes, it removes soon.
            place = pathlib.Path(f"/proc/{process.pid}/root{small}")
            for _ in range(100):
                left = [name for path in place.rglob("*") if (name := path.name) != "in"]
                if not left:
                    break
                time.sleep(0.1)
            assert not left
        else:
            assert done.stdout.strip() == "left:", done.stdout
    finally:
        process.terminate()
        process.wait()


@pytest.mark.parametrize("way", ["push", "pull"])
def test_a_server_that_is_killed_amid_a_plan_is_told_with_the_next_step(tmp_path, way):
    token, source, there = tmp_path / "token", tmp_path / "source", tmp_path / "there"
    token.write_text(TOKEN, encoding="ascii")
    token.chmod(0o600)
    source.mkdir()
    for number in range(5000):
        (source / str(number)).write_bytes(b"x")
    process, port = server([BINARY, "copy", "serve", "--root", tmp_path, "--token-file", token, "--listen", "127.0.0.1:0"])
    ends = [source, "127.0.0.1:there"] if way == "push" else ["127.0.0.1:source", there]
    words = [BINARY, "copy", *ends, "--token-file", token, "--port", port, "--plan", "--quiet"]
    with subprocess.Popen(list(map(str, words)), stderr=subprocess.PIPE, text=True) as client:
        # Copies in small have begun, into a directory beside what is there.
        for _ in range(1000):
            if any(tmp_path.rglob(".skyhaul-trial-*/**/source")):
                break
            time.sleep(0.01)
        process.kill()
        process.wait()
        said = client.communicate(timeout=60)[1]
    assert client.returncode != 0 and "closed the connection\nhint: check whether it is still running" in said.replace("\n    ", "\n"), said
    left = list(there.glob(".skyhaul-trial-*"))
    assert way == "push" or not left, "what the client made, it removes"
