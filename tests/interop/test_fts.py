"""Jobs of `skyhaul copy --via fts=URL` at the REST service of FTS 3 as its authors publish it, carried out between two stations; and the same jobs seen by
FTS's own client (PyPI `fts3`).

Needs fts-rest-flask 3.13: `git clone https://github.com/cern-fts/fts-rest-flask`, and set SKYHAUL_FTS_REST to that directory. What it is written for is
installed in `target/fts-rest` by uv. It runs as `fts_rest.py` says."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import BINARY, ROOT
from test_webdav import Site

PACKAGES = ["Flask==2.0.3", "Werkzeug==2.0.3", "SQLAlchemy==1.4.45", "requests", "dirq", "python-dateutil", "PyJWT", "jwcrypto", "cryptography", "oic", "Mako"]
HERE = Path(__file__).parent
# FTS's client without M2Crypto, which it needs for proxies of certificates only.
FOREIGN = """import json, sys
from unittest.mock import MagicMock
sys.modules |= {"M2Crypto": MagicMock(), "M2Crypto.ASN1": MagicMock()}
import fts3.rest.client.easy as fts3
def main(url, ca, token, what, *words):
    context = fts3.Context(url, fts_access_token=open(token).read().strip(), capath=ca)
    print(json.dumps(getattr(sys.modules[__name__], what)(context, *words)))
def status(context, job):
    return fts3.get_job_status(context, job, list_files=True)
def cancel(context, job):
    return fts3.cancel(context, job)
def submit(context, document):
    from fts3.rest.client import Submitter
    job = json.loads(document)
    return Submitter(context).submit(transfers=job["files"], params=job["params"])
main(*sys.argv[1:])
"""


@pytest.fixture(scope="session")
def python():
    """A Python with what the service needs."""
    if "SKYHAUL_FTS_REST" not in os.environ:
        pytest.skip("FTS's REST service is not here (git clone https://github.com/cern-fts/fts-rest-flask; SKYHAUL_FTS_REST=that directory)")
    where = ROOT / "target/fts-rest"
    python, whole = where / "bin/python", where / "whole"
    if not whole.exists():
        shutil.rmtree(where, ignore_errors=True)
        uv = [sys.executable, "-m", "uv"]
        lines = [[*uv, "venv", "--quiet", str(where)], [*uv, "pip", "install", "--quiet", "--python", str(python), *PACKAGES],
                 [*uv, "pip", "install", "--quiet", "--python", str(python), "--no-deps", "fts3==3.14.2"]]
        for line in lines:
            done = subprocess.run(line, capture_output=True, timeout=600, check=False)
            if done.returncode:
                pytest.skip(f"the packages of FTS's REST service cannot be had: {done.stderr.decode(errors='replace').strip().splitlines()[-1:]}")
        whole.touch()
    return python


class Fts:
    """The service, and two stations that trust its issuer."""

    def __init__(self, directory, python):
        self.here, self.python, self.sites, self.process = directory / "fts", python, [], None
        self.here.mkdir()
        self.log = directory / "fts.log"
        with self.log.open("wb") as log:
            words = [python, HERE / "fts_rest.py", os.environ["SKYHAUL_FTS_REST"], self.here]
            self.process = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        end = time.monotonic() + 120
        while not (self.here / "url").exists():
            assert self.process.poll() is None and time.monotonic() < end, self.log.read_text()
            time.sleep(0.05)
        self.url = (self.here / "url").read_text()
        issuer = (self.here / "issuer").read_text()
        for name in ("a", "b"):
            own = directory / name
            own.mkdir()
            trusted = f'{{url = "{issuer}", audiences = ["https://{name}.example"], keys = "{self.here}/keys.json"}}'
            self.sites.append(Site(own, f'copy = {{allow = ["127.0.0.1"]}}\nissuer = [{trusted}]'))

    def token(self, name):
        return self.here / f"{name}.token"

    def start(self, *words):
        line = [BINARY, "copy", "--via", f"fts={self.url}", "--ca", self.here / "ca.pem", *words]
        return subprocess.Popen([str(word) for word in line], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def copy(self, *words, expect=0, token="fts"):
        process = self.start("--via-token-file", self.token(token), *words)
        out, said = process.communicate(timeout=120)
        assert process.returncode == expect, f"{words}: {process.returncode}\n{out}{said}\n{(self.here / 'rest.log').read_text()[-3000:]}"
        for name in ("fts", "source", "destination"):
            secret = self.token(name).read_text().strip()
            assert secret not in out + said
        return out, said

    @property
    def storage(self):
        return ("--source-token-file", self.token("source"), "--token-file", self.token("destination"))

    def foreign(self, *words):
        """FTS's own client."""
        line = [self.python, "-c", FOREIGN, self.url, self.here / "ca.pem", self.token("fts"), *words]
        done = subprocess.run([str(word) for word in line], stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout.decode().strip().splitlines()[-1])

    def hold(self, what):
        """Nothing is done for jobs (`all`), or tokens are exchanged and no file is copied (`files`); until `none`."""
        path = self.here / "hold"
        path.with_suffix(".new").write_text(what)
        path.with_suffix(".new").rename(path)

    def end(self):
        self.process.kill()
        self.process.wait()
        for site in self.sites:
            site.end()


@pytest.fixture
def fts(skyhaul, python, tmp_path):
    del skyhaul  # it is there
    fts = Fts(tmp_path, python)
    yield fts
    fts.end()


def test_jobs_are_taken_carried_out_and_shown(fts):
    a, b = fts.sites
    whole = random.Random(34).randbytes(3_000_017)
    names = {"t/a": 3_000_017, "t/sub/b c": 70_000, "t/empty": 0, "one": 5}
    for name, size in names.items():
        path = a.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(whole[:size])
    out, said = fts.copy(*fts.storage, f"{a.url}/t/", f"{a.url}/one", f"{b.url}/in/", "--wait", "--json", "--streams", "2", "--retry", "0",
                         "--priority", "5", "--activity", "Recordings", "--scitag", "449")
    report = json.loads(out)
    assert report["state"] == "FINISHED" and report["is_whole"]
    assert sorted(file["bytes"] for file in report["files"]) == sorted(names.values())
    for name, size in names.items():
        assert (b.root / "in" / name).read_bytes() == whole[:size], name
    job = report["job_id"]
    assert re.search(f"^job {job}$", said, re.M), said
    # As FTS's own client sees it.
    seen = fts.foreign("status", job)
    assert (seen["job_state"], seen["priority"], seen["retry"], seen["verify_checksum"], seen["internal_job_params"]) == ("FINISHED", 5, -1, "b", "nostreams:2")
    assert {(file["file_state"], file["activity"], file["scitag"], file["checksum"]) for file in seen["files"]} == {("FINISHED", "Recordings", 449, "ADLER32")}
    # What is there stays, unless it is to be replaced; other failures have FTS's words.
    (b.root / "in/one").write_bytes(b"other")
    out, _ = fts.copy(*fts.storage, f"{a.url}/one", f"{b.url}/in/", "--wait", expect=1)
    assert "FAILED: 0 of 1 file finished, 1 failed" in out and "Destination file exists and overwrite is not enabled" in out
    fts.copy(*fts.storage, f"{a.url}/one", f"{b.url}/in/", "--wait", "--exists", "replace")
    assert (b.root / "in/one").read_bytes() == whole[:5]
    out, _ = fts.copy(*fts.storage, f"{a.url}/t/a", f"{a.url}/nothing", f"{b.url}/two/", "--wait", expect=1)
    assert "FINISHEDDIRTY: 1 of 2 files finished, 1 failed" in out and f"FAILED {b.url}/two/nothing: SOURCE [2]" in out
    # With the checksum of the one file, right and wrong.
    fts.copy(*fts.storage, f"{a.url}/one", f"{b.url}/right", "--wait", "--checksum-mode", "target", "--checksum", f"ADLER32:{adler(whole[:5])}")
    out, _ = fts.copy(*fts.storage, f"{a.url}/one", f"{b.url}/wrong", "--wait", "--checksum-mode", "target", "--checksum", "ADLER32:00000001", expect=1)
    assert "checksum are different" in out


def adler(data):
    import zlib
    return f"{zlib.adler32(data):08x}"


def test_jobs_are_followed_cancelled_and_refused(fts):
    a, b = fts.sites
    (a.root / "f").write_bytes(b"data")
    fts.hold("all")
    out, said = fts.copy(*fts.storage, f"{a.url}/f", f"{b.url}/x")
    job = out.strip()
    assert f"--job {job} " in said
    # The server is to renew the token for the destination, and exchanges it first: a state of files that jobs do not have.
    shown = json.loads(fts.copy("--job", job, "--json")[0])
    assert (shown["state"], shown["files"][0]["state"]) == ("SUBMITTED", "TOKEN_PREP")
    # Left while it waits, and followed to its end by another command.
    process = fts.start("--via-token-file", fts.token("fts"), "--job", job, "--wait")
    while "SUBMITTED" not in (line := process.stderr.readline()):
        assert line
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=60)
    assert process.returncode == 1 and f"job {job} continues at the server" in said
    fts.hold("none")
    fts.copy("--job", job, "--wait")
    assert (b.root / "x").read_bytes() == b"data"
    # Cancelled here, and seen so there; and the other way round. (FTS leaves files in TOKEN_PREP as they are, so tokens are exchanged first.)
    fts.hold("files")
    for ours in (True, False):
        job = fts.copy(*fts.storage, f"{a.url}/f", f"{b.url}/y{ours}", "--quiet")[0].strip()
        while json.loads(fts.copy("--job", job, "--json")[0])["files"][0]["state"] != "SUBMITTED":
            time.sleep(0.05)
        if ours:
            out, _ = fts.copy("--job", job, "--cancel")
            assert "CANCELED: 0 of 1 file finished, 1 canceled" in out and "Job canceled by the user" in out
            assert fts.foreign("status", job)["job_state"] == "CANCELED"
        else:
            assert fts.foreign("cancel", job)["job_state"] == "CANCELED"
            out, _ = fts.copy("--job", job, "--wait", expect=1)
            assert "CANCELED" in out
        assert not (b.root / f"y{ours}").exists()
    # The document is one that FTS's client submits, too.
    document = fts.copy(*fts.storage, f"{a.url}/f", f"{b.url}/z", "--dry-run")[0]
    job = json.loads(document)
    for file in job["files"]:
        file |= {f"{side}_tokens": [fts.token(side).read_text().strip()] for side in ("source", "destination")}
    fts.hold("none")
    fts.copy("--job", fts.foreign("submit", json.dumps(job)), "--wait")
    assert (b.root / "z").read_bytes() == b"data"
    # The service takes who shows a token that it does not accept for a user without a name, and says so at `/whoami`.
    for token in ("expired", "other", "forged"):
        _, said = fts.copy(*fts.storage, f"{a.url}/f", f"{b.url}/no", expect=2, token=token)
        assert "Permission denied: the FTS server" in said and "hint: the token must be of an issuer" in said, (token, said)
    _, said = fts.copy("--job", "9fee8c1e-c46d-11e3-8299-02163e00a17a", expect=2)
    assert "answered 404" in said and "No job with the id" in said


def test_a_submission_whose_reply_is_lost_is_one_job(fts):
    """The server makes the number from the text that is sent, as the client works it out: a second submission of the same text is refused."""
    a, b = fts.sites
    (a.root / "f").write_bytes(b"data")
    fts.hold("files")
    with Losing(fts.url) as between:
        line = ("--via", f"fts={between.url}", "--ca", fts.here / "ca.pem", "--via-token-file", fts.token("fts"), *fts.storage,
                f"{a.url}/f", f"{b.url}/f", "--plain-token")
        done = subprocess.run([str(BINARY), "copy", *map(str, line)], stdin=subprocess.DEVNULL, capture_output=True, timeout=120, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert between.lost == 1
    job = done.stdout.strip()
    assert fts.foreign("status", job)["job_id"] == job
    log = (fts.here / "rest.log").read_text()
    assert re.findall(r'\[(\d+) [A-Z ]+\] "POST /jobs', log) == ["200", "409"], log


class Losing:
    """Passes requests on, and loses the reply to the first job."""

    def __init__(self, url):
        import http.server
        import ssl
        import threading
        import urllib.error
        import urllib.request

        outer, context = self, ssl._create_unverified_context()
        self.lost = 0

        class Handler(http.server.BaseHTTPRequestHandler):
            def pass_on(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))) or None
                headers = {name: self.headers[name] for name in ("Authorization", "Content-Type") if name in self.headers}
                request = urllib.request.Request(url + self.path, data=body, method=self.command, headers=headers)
                try:
                    reply = urllib.request.urlopen(request, context=context, timeout=60)
                except urllib.error.HTTPError as error:
                    reply = error
                text = reply.read()
                self.close_connection = True
                if self.command == "POST" and not outer.lost:
                    outer.lost = 1
                    return
                self.send_response(reply.status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_DELETE = pass_on

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
