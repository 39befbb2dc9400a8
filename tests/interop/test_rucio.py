"""A station as a storage element of Rucio: its server, client and daemons from PyPI (41.5.1), unchanged, on SQLite, with WebDAV to the station.

Set SKYHAUL_RUCIO=1: they are installed in `target/rucio`, which takes a minute and 500 MB. The server runs as `rucio_site.py` says."""

import json
import os
import random
import shutil
import socket
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest
from conftest import ROOT
from test_webdav import Site, call, program

VERSION = "41.5.1"
HERE = Path(__file__).parent
PASSWORD = "of-nobody-else"
CONFIG = """[common]
logdir = {home}/log
loglevel = INFO
[core]
geoip_download_url = http://127.0.0.1:9/none
[client]
rucio_host = {url}
auth_host = {url}
auth_type = userpass
username = root
password = {password}
account = root
request_retries = 1
[database]
default = sqlite:///{home}/rucio.db
[bootstrap]
userpass_identity = root
userpass_pwd = {password}
userpass_email = nobody@example.org
x509_identity =
gss_identity =
ssh_identity =
[alembic]
cfg = {home}/etc/alembic.ini
[policy]
permission = generic
schema = generic
lfn2pfn_algorithm_default = hash
"""
ALEMBIC = """[alembic]
script_location = {package}/db/sqla/migrate_repo
sqlalchemy.url = sqlite:///{home}/rucio.db
[loggers]
keys = root
[handlers]
keys = console
[formatters]
keys = plain
[logger_root]
level = WARN
handlers = console
[handler_console]
class = StreamHandler
args = (sys.stderr,)
level = NOTSET
formatter = plain
[formatter_plain]
format = %(message)s
"""


@pytest.fixture(scope="session")
def environment():
    """The directory of a Python with Rucio."""
    if os.environ.get("SKYHAUL_RUCIO") != "1":
        pytest.skip(f"Rucio is not installed by default (SKYHAUL_RUCIO=1: rucio {VERSION} from PyPI, a minute and 500 MB)")
    where = ROOT / "target/rucio"
    if not (where / "whole").exists():
        shutil.rmtree(where, ignore_errors=True)
        lines = [[sys.executable, "-m", "venv", str(where)], [str(where / "bin/pip"), "install", "--quiet", f"rucio=={VERSION}"]]
        for line in lines:
            done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, timeout=900, check=False)
            if done.returncode:
                pytest.skip(f"Rucio cannot be installed: {done.stderr.decode(errors='replace').strip().splitlines()[-1:]}")
        (where / "whole").touch()
    return where


LAN = {"read": 1, "write": 1, "delete": 1}


class Rucio:
    """A server of Rucio, and its client and daemons."""

    def __init__(self, directory, environment, certificate):
        self.home, self.bin, self.log = directory / "rucio", environment / "bin", directory / "rucio.log"
        for name in ("etc", "log"):
            (self.home / name).mkdir(parents=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        package = next((environment / "lib").glob("python3*/site-packages/rucio"))
        values = {"home": self.home, "url": f"http://127.0.0.1:{port}", "password": PASSWORD, "package": package}
        (self.home / "etc/rucio.cfg").write_text(CONFIG.format(**values))
        (self.home / "etc/alembic.ini").write_text(ALEMBIC.format(**values))
        # What its protocol for WebDAV shows to storage.
        self.environment = {**os.environ, "RUCIO_HOME": str(self.home), "X509_USER_PROXY": str(certificate), "NO_COLOR": "1"}
        with self.log.open("wb") as log:
            words = [self.bin / "python", HERE / "rucio_site.py", "serve", port]
            self.process = subprocess.Popen([str(word) for word in words], env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.port = port

    def wait(self):
        """Until it answers."""
        end = time.monotonic() + 180
        while True:
            assert self.process.poll() is None and time.monotonic() < end, self.log.read_text()[-3000:]
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
                return
            except OSError:
                time.sleep(0.1)

    def run(self, name, *words, expect=0):
        line = [str(word) for word in (self.bin / name, *words)]
        done = subprocess.run(line, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180, check=False)
        said = done.stdout + done.stderr
        assert done.returncode == expect, f"{words}: exit {done.returncode}\n{said}\n{self.log.read_text()[-3000:]}"
        return said

    def ask(self, function, *words):
        """A function of `rucio_site.py`; what it gave."""
        said = self.run("python", HERE / "rucio_site.py", "ask", function, json.dumps(words))
        return json.loads(said.strip().splitlines()[-1])

    def end(self):
        self.process.kill()
        self.process.wait(30)


def certificate(directory, name, subject, extension=None, by=None):
    """A file with a certificate, signed by itself or by another one, and its key."""
    pem, key, request = (directory / f"{name}{end}" for end in (".pem", ".key", ".csr"))
    new = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", subject, "-keyout", key]
    more = ["-addext", extension] if extension else []
    if by is None:
        call(*new, "-x509", "-days", "2", *more, "-out", pem)
    else:
        call(*new, *more, "-out", request)
        call("openssl", "x509", "-req", "-in", request, "-CA", by, "-CAkey", by, "-CAcreateserial", "-days", "2", "-copy_extensions", "copy", "-out", pem)
    pem.write_text(pem.read_text() + key.read_text())
    return pem


class Grid:
    """A server of Rucio, and a station as its storage element."""

    def __init__(self, directory, environment):
        program("openssl", "openssl")
        own = directory / "station"
        own.mkdir()
        ca, pem = certificate(directory, "ca", "/O=Grid/CN=CA"), certificate(directory, "host", "/CN=127.0.0.1", "subjectAltName=IP:127.0.0.1")
        client = certificate(directory, "rucio", "/O=Grid/CN=rucio", "extendedKeyUsage=clientAuth", by=ca)
        scopes = '["storage.read:/exp/rucio", "storage.modify:/exp/rucio"]'
        self.station = Site(own, f"""certificate = "{pem}"
key = "{pem}"
token_file = "{own}/token"
tls = {{client_authorities = "{ca}", client = [{{subject = "/O=Grid/CN=rucio", scopes = {scopes}}}]}}
log = {{file = "{own}/access.jsonl"}}""")
        self.access, self.token = own / "access.jsonl", (own / "token").read_text().strip()
        self.root = self.station.root / "rucio"
        self.root.mkdir()
        try:
            self.rucio = Rucio(directory, environment, client)
        except BaseException:
            self.station.end()
            raise

    def set_up(self):
        """As docs/guide/serve-files-over-http.md says."""
        self.rucio.wait()
        port = int(self.station.server.rsplit(":", 1)[1])
        domains = {"lan": LAN, "wan": {**LAN, "third_party_copy_read": 1, "third_party_copy_write": 1}}
        self.rucio.run("rucio", "rse", "add", "STATION")
        self.rucio.run("rucio", "rse", "protocol", "add", "STATION", "--hostname", "127.0.0.1", "--port", port, "--scheme", "https",
                       "--prefix", "/exp/rucio/", "--impl", "rucio.rse.protocols.webdav.Default", "--domain-json", json.dumps(domains))
        for key in ("verify_checksum", "greedyDeletion"):
            self.rucio.run("rucio", "rse", "attribute", "set", "STATION", "--key", key, "--value", "True")
        self.rucio.run("rucio", "account", "limit", "set", "root", "--rse", "STATION", "--bytes", 10**12)
        self.rucio.run("rucio", "scope", "add", "--account", "root", "vlbi")

    def files(self):
        return [path for path in self.root.rglob("*") if path.is_file()]

    def end(self):
        self.rucio.end()
        self.station.end()


@pytest.fixture
def grid(skyhaul, environment, tmp_path):
    del skyhaul  # it is there
    grid = Grid(tmp_path, environment)
    try:
        grid.set_up()
        yield grid
    finally:
        grid.end()


def test_a_file_is_uploaded_found_read_and_deleted(grid, tmp_path):
    rucio = grid.rucio
    whole = random.Random(34).randbytes(3_000_017)
    (tmp_path / "scan1.vdif").write_bytes(whole)
    said = rucio.run("rucio", "upload", "--rse", "STATION", "--scope", "vlbi", tmp_path / "scan1.vdif")
    assert "Successfully uploaded file scan1.vdif" in said, said
    # Under its final name, and nothing beside it.
    [stored] = grid.files()
    assert stored.name == "scan1.vdif" and stored.read_bytes() == whole
    requests = [json.loads(line) for line in grid.access.read_text().splitlines()]
    [put] = [request for request in requests if request["method"] == "PUT"]
    [moved] = [request for request in requests if request["method"] == "MOVE"]
    assert put["path"].endswith("scan1.vdif.rucio.upload") and "CN=rucio" in put["subject"].replace(" ", "") and (put["status"], moved["status"]) == (201, 201), requests

    [replica] = rucio.ask("replicas", "vlbi", "scan1.vdif")
    [pfn] = replica["rses"]["STATION"]
    assert replica["states"] == {"STATION": "AVAILABLE"} and pfn == f"{grid.station.server}/{stored.relative_to(grid.station.root.parent)}"
    assert (replica["adler32"], replica["bytes"]) == (f"{zlib.adler32(whole):08x}", len(whole))
    assert rucio.ask("stat", "STATION", pfn)["filesize"] == len(whole)
    assert rucio.ask("exists", "STATION", pfn) and not rucio.ask("exists", "STATION", pfn + "x")
    space, disk = rucio.ask("space", "STATION", grid.token), shutil.disk_usage(grid.root)
    # Other programs write to the same disk meanwhile, and some of it is kept for its administrator.
    assert abs(space["free"] - disk.free) < 4 << 30 and abs(space["total"] - disk.total) < disk.total // 5, (space, disk)

    rucio.run("rucio", "download", "--dir", tmp_path / "back", "vlbi:scan1.vdif")
    assert (tmp_path / "back/vlbi/scan1.vdif").read_bytes() == whole
    # A file that was damaged at the station is not taken.
    stored.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    said = rucio.run("rucio", "download", "--dir", tmp_path / "damaged", "vlbi:scan1.vdif")
    assert "None of the requested files have been downloaded" in said and not (tmp_path / "damaged/vlbi/scan1.vdif").exists(), said

    [rule] = rucio.ask("rules", "vlbi", "scan1.vdif")
    assert rule["state"] == "OK", rule
    rucio.ask("delete_rules", "vlbi", "scan1.vdif")
    rucio.run("rucio-judge-cleaner", "--run-once")
    assert rucio.ask("rules", "vlbi", "scan1.vdif") == []
    assert "Deletion SUCCESS of vlbi:scan1.vdif" in rucio.run("rucio-reaper", "--run-once", "--rses", "STATION")
    assert grid.files() == [] and rucio.ask("replicas", "vlbi", "scan1.vdif") == []
