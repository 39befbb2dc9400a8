"""`skyhaul copy` with URLs that are signed for one request, at an S3 server that others have written: `s3s-fs` 0.14.1 of the crate `s3s`, which checks
signatures (version 4) and serves a directory.

Set SKYHAUL_S3 to the path of its binary, or to 1: then cargo builds it, which takes ten minutes of a CPU, and keeps it in `~/.cache/skyhaul`."""

import datetime
import hashlib
import hmac
import json
import os
import random
import shutil
import socket
import subprocess
import time
import urllib.parse
from pathlib import Path

import pytest
from conftest import BINARY
from test_webdav import Site

VERSION = "0.14.1"
ACCESS, SECRET = "AKIASKYHAUL", "a-secret-of-nobody-else"
REGION = "us-east-1"


@pytest.fixture(scope="session")
def binary():
    """The server; built once, outside of the tree."""
    where = os.environ.get("SKYHAUL_S3")
    if not where:
        pytest.skip(f"an S3 server is not built by default (SKYHAUL_S3=1: cargo install s3s-fs {VERSION}, ten minutes of a CPU; or the path of its binary)")
    if where != "1":
        assert os.access(where, os.X_OK), f"SKYHAUL_S3: {where} is no program"
        return where
    root = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / f"skyhaul/s3s-fs-{VERSION}"
    if not (root / "bin/s3s-fs").exists():
        if shutil.which("cargo") is None:
            pytest.skip("cargo is not installed")
        line = ["cargo", "install", "s3s-fs", "--version", VERSION, "--features", "binary", "--locked", "--root", str(root)]
        # In a directory of no workspace: the settings of this one are for its own code.
        done = subprocess.run(line, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, timeout=3600, check=False)
        if done.returncode:
            pytest.skip(f"s3s-fs cannot be built: {done.stderr.decode(errors='replace').strip().splitlines()[-1:]}")
    return str(root / "bin/s3s-fs")


def free_tcp_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Bucket:
    """A server with one bucket."""

    def __init__(self, binary, directory):
        self.root, self.port, self.log = directory / "s3", free_tcp_port(), directory / "s3.log"
        (self.root / "bucket").mkdir(parents=True)
        words = [binary, "--host", "127.0.0.1", "--port", self.port, "--access-key", ACCESS, "--secret-key", SECRET, self.root]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def wait(self):
        """Until it accepts connections."""
        end = time.monotonic() + 30
        while True:
            assert self.process.poll() is None and time.monotonic() < end, self.log.read_text()
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
                return
            except OSError:
                time.sleep(0.05)

    def url(self, method, key, *, secret=SECRET, seconds=600, age=0):
        """A URL that is signed for one request (Signature Version 4, in the query)."""
        now = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=age)
        stamp, host = now.strftime("%Y%m%dT%H%M%SZ"), f"127.0.0.1:{self.port}"
        scope = f"{stamp[:8]}/{REGION}/s3/aws4_request"
        path = urllib.parse.quote(f"/bucket/{key}")
        query = urllib.parse.urlencode(sorted({
            "X-Amz-Algorithm": "AWS4-HMAC-SHA256", "X-Amz-Credential": f"{ACCESS}/{scope}", "X-Amz-Date": stamp, "X-Amz-Expires": str(seconds),
            "X-Amz-SignedHeaders": "host"}.items()), quote_via=urllib.parse.quote, safe="")
        asked = f"{method}\n{path}\n{query}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD"
        text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(asked.encode()).hexdigest()}"
        digest = f"AWS4{secret}".encode()
        for part in (stamp[:8], REGION, "s3", "aws4_request"):
            digest = hmac.new(digest, part.encode(), hashlib.sha256).digest()
        signature = hmac.new(digest, text.encode(), hashlib.sha256).hexdigest()
        return f"http://{host}{path}?{query}&X-Amz-Signature={signature}"

    def object(self, key):
        return self.root / "bucket" / key

    def end(self):
        self.process.kill()
        self.process.wait(30)


@pytest.fixture
def bucket(skyhaul, binary, tmp_path):
    del skyhaul  # it is there
    bucket = Bucket(binary, tmp_path)
    try:
        bucket.wait()
        yield bucket
    finally:
        bucket.end()


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(random.Random(34).randbytes(9_000_017))
    return path


def copy(*words, expect=0):
    """The report of a copy, or what it said; in neither is a signature."""
    line = [BINARY, "copy", "--json", *words]
    done = subprocess.run([str(word) for word in line], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == expect, f"{words}: exit {done.returncode}\n{said}"
    for word in map(str, words):
        if "X-Amz-Signature=" in word:
            assert word.split("X-Amz-Signature=")[1] not in said
    assert "X-Amz" not in said, said
    return json.loads(done.stdout) if expect == 0 else said


def test_an_object_is_put_and_comes_back_over_four_connections(bucket, data, tmp_path):
    report = copy(data, bucket.url("PUT", "scans/a b.vdif"))
    assert report["unchecked"] == ["data"] and bucket.object("scans/a b.vdif").read_bytes() == data.read_bytes()
    report = copy(bucket.url("GET", "scans/a b.vdif"), tmp_path / "back", "--streams", "4", "--range", "512KiB")
    assert (tmp_path / "back").read_bytes() == data.read_bytes()
    assert report["flows"] == 4 and report["bytes"] == data.stat().st_size, report


def test_an_empty_object(bucket, tmp_path):
    (tmp_path / "none").touch()
    copy(tmp_path / "none", bucket.url("PUT", "none"))
    assert bucket.object("none").read_bytes() == b""
    copy(bucket.url("GET", "none"), tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == b""


def test_a_wrong_secret_is_refused(bucket, data, tmp_path):
    said = copy(data, bucket.url("PUT", "f", secret="another"), expect=1)
    assert "Permission denied" in said and "SignatureDoesNotMatch" in said, said
    assert not bucket.object("f").exists()
    bucket.object("f").write_bytes(b"x")
    said = copy(bucket.url("GET", "f", secret="another"), tmp_path / "back", expect=2)
    assert "SignatureDoesNotMatch" in said and not (tmp_path / "back").exists(), said


def test_a_signature_for_another_method_is_refused(bucket, data, tmp_path):
    assert "SignatureDoesNotMatch" in copy(data, bucket.url("GET", "f"), expect=1)
    assert not bucket.object("f").exists()
    bucket.object("f").write_bytes(b"x")
    assert "SignatureDoesNotMatch" in copy(bucket.url("PUT", "f"), tmp_path / "back", expect=2)


def test_a_signature_that_has_expired_is_refused(bucket, data, tmp_path):
    said = copy(data, bucket.url("PUT", "f", seconds=60, age=120), expect=1)
    assert "Permission denied" in said and "expired" in said, said
    bucket.object("f").write_bytes(b"x")
    said = copy(bucket.url("GET", "f", seconds=60, age=120), tmp_path / "back", expect=2)
    assert "expired" in said and not (tmp_path / "back").exists(), said


def test_an_object_that_exists_is_replaced_only_if_that_is_wanted(bucket, data):
    bucket.object("f").write_bytes(b"older")
    said = copy(data, bucket.url("PUT", "f"), expect=1)
    assert "Precondition" in said and bucket.object("f").read_bytes() == b"older", said
    assert copy(data, bucket.url("PUT", "f"), "--exists", "skip")["kept_files"] == 1
    assert bucket.object("f").read_bytes() == b"older"
    copy(data, bucket.url("PUT", "f"), "--exists", "replace")
    assert bucket.object("f").read_bytes() == data.read_bytes()


def test_a_station_sends_to_a_bucket_and_fetches_from_it(bucket, data, tmp_path):
    site = Site(tmp_path, 'copy = {allow = ["127.0.0.1"]}')
    try:
        shutil.copy(data, site.root / "scan")
        report = copy("--third-party", f"{site.url}/scan", bucket.url("PUT", "scan"))
        assert report["unchecked"] == ["scan"] and bucket.object("scan").read_bytes() == data.read_bytes()
        said = copy("--third-party", f"{site.url}/scan", bucket.url("PUT", "scan"), expect=1)
        assert "Precondition failed" in said and "hint: " in said, said
        copy("--third-party", f"{site.url}/scan", bucket.url("PUT", "scan"), "--exists", "replace")
        copy("--third-party", bucket.url("GET", "scan"), f"{site.url}/back/scan", "--streams", "4")
        assert (site.root / "back/scan").read_bytes() == data.read_bytes()
        said = copy("--third-party", f"{site.url}/scan", bucket.url("PUT", "g", secret="another"), expect=1)
        assert "SignatureDoesNotMatch" in said and not bucket.object("g").exists(), said
        assert "X-Amz" not in site.log.read_text()
    finally:
        site.end()
