"""Programs of the field read and write what `skyhaul serve` offers over HTTP and WebDAV: curl, davix, gfal2 (which FTS drives), rclone and
litmus, each as its users call it; and copy between two of its kind, or between it and XRootD."""

import base64
import hashlib
import http.server
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path

import pytest
import xrootd_site
from conftest import BINARY, free_port

STATION = """[station]
listen = "127.0.0.1:0"
memory = "64MiB"
[[station.disk]]
path = "{disk}"
[[station.input]]
name = "a"
listen = ["udp://127.0.0.1:{input}"]
memory = "64MiB"
[http]
listen = "127.0.0.1:0"
{more}
recordings = true
[[http.root]]
name = "exp"
directory = "{root}"
write = true
[[http.root]]
name = "strict"
directory = "{strict}"
write = true
rules = "rfc4918"
"""


def program(name, package):
    """A peer; the suite installs those that Debian has where it may, and any of them can be missing elsewhere."""
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed (apt-get install {package})")
    return name


def call(*words, expect=(0,)):
    done = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)
    said = (done.stdout + done.stderr).decode(errors="replace")
    assert done.returncode in expect, f"{words}: exit {done.returncode}\n{said}"
    return said


class Site:
    """A station that serves two directories; `url` is that of the one with the rules of the grid."""

    def __init__(self, directory, more="", under=()):
        """`more` belongs to [http]; `under` is what the server is run by."""
        self.root, self.strict, disk = (directory / name for name in ("exp", "strict", "disk"))
        for one in (self.root, self.strict, disk):
            one.mkdir()
        config, self.log = directory / "station.toml", directory / "log"
        config.write_text(STATION.format(disk=disk, root=self.root, strict=self.strict, input=free_port(), more=more))
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([*under, str(BINARY), "serve", "--config", str(config)], stdin=subprocess.DEVNULL, stderr=log)
        end = time.monotonic() + 60
        while not (found := re.search(r"files on (https?://\S+)", self.log.read_text())):
            assert self.process.poll() is None and time.monotonic() < end, self.log.read_text()
            time.sleep(0.02)
        self.server = found[1]
        self.url = self.server + "/exp"

    def end(self):
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(60) == 0, self.log.read_text()


@pytest.fixture
def site(skyhaul, tmp_path):
    del skyhaul  # it is there
    site = Site(tmp_path)
    yield site
    site.end()


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(random.Random(34).randbytes(9_000_017))
    return path


def test_curl(site, data, tmp_path):
    curl = (program("curl", "curl"), "--fail", "--silent", "--show-error")
    whole = data.read_bytes()
    call(*curl, "--upload-file", data, f"{site.url}/a/b/f")
    assert (site.root / "a/b/f").read_bytes() == whole
    # Without a length, from a pipe.
    with data.open("rb") as pipe:
        subprocess.run([*curl, "--upload-file", "-", f"{site.url}/piped"], stdin=pipe, check=True, timeout=120)
    assert (site.root / "piped").read_bytes() == whole
    got = tmp_path / "got"
    got.write_bytes(whole[:1_000_000])
    call(*curl, "--continue-at", "-", "--output", got, f"{site.url}/a/b/f")
    assert got.read_bytes() == whole
    head = call(*curl, "--head", "--header", "Want-Digest: adler32", f"{site.url}/a/b/f")
    assert f"Digest: adler32={zlib.adler32(whole):08x}" in head
    call(*curl, "--request", "DELETE", f"{site.url}/a/b/f")
    assert not (site.root / "a/b/f").exists()


def test_davix(site, data, tmp_path):
    program("davix-put", "davix")
    whole = data.read_bytes()
    call("davix-mkdir", f"{site.url}/d")
    call("davix-put", data, f"{site.url}/d/f")
    assert (site.root / "d/f").read_bytes() == whole
    call("davix-get", f"{site.url}/d/f", tmp_path / "got")
    assert (tmp_path / "got").read_bytes() == whole
    listed = call("davix-ls", "-l", f"{site.url}/d")
    assert re.search(rf"\b{len(whole)}\b.*\bf$", listed, re.MULTILINE), listed
    # davix-mv 0.8.4 exits with 255 when it has moved a file, too.
    call("davix-mv", f"{site.url}/d/f", f"{site.url}/d/g", expect=(0, 255))
    assert (site.root / "d/g").read_bytes() == whole and not (site.root / "d/f").exists()
    call("davix-rm", f"{site.url}/d/g")
    assert not (site.root / "d/g").exists()
    call("davix-get", f"{site.url}/d/g", tmp_path / "none", expect=range(1, 256))


# The calls of FTS for a file, and of gfal's commands. Debian builds the module for its own Python.
GFAL2 = """
import gfal2, sys
url, source, back = sys.argv[1:]
context = gfal2.creat_context()
how = context.transfer_parameters()
how.overwrite, how.create_parent = True, True
how.set_checksum(gfal2.checksum_mode.both, "ADLER32", "")
context.filecopy(how, "file://" + source, url + "/g/f")
print(context.stat(url + "/g/f").st_size, context.checksum(url + "/g/f", "ADLER32"), context.listdir(url + "/g"))
try:
    context.stat(url + "/none")
except gfal2.GError as error:
    print(error.code)
context.mkdir_rec(url + "/p/q/r", 0o755)
context.rename(url + "/g/f", url + "/p/q/r/h")
context.filecopy(how, url + "/p/q/r/h", "file://" + back)
context.unlink(url + "/p/q/r/h")
context.rmdir(url + "/p/q/r")
"""


def python_with_gfal2():
    """The system's Python, which alone can have this module: no virtual environment has it."""
    python = "/usr/bin/python3"
    if shutil.which(python) is None or subprocess.run([python, "-c", "import gfal2"], capture_output=True, check=False).returncode != 0:
        # A package of Debian's, which the tests do not install.
        pytest.skip("gfal2 is not installed (apt-get install python3-gfal2 gfal2-plugin-http gfal2-plugin-file)")
    return python


def test_gfal2(site, data, tmp_path):
    python = python_with_gfal2()
    back = tmp_path / "back"
    said = call(python, "-c", GFAL2, site.url, data, back)
    whole = data.read_bytes()
    assert f"{len(whole)} {zlib.adler32(whole):08x} ['f']\n2\n" in said, said
    assert back.read_bytes() == whole
    assert not (site.root / "p/q/r").exists() and (site.root / "p/q").is_dir()


class Issuer:
    """An issuer of tokens: OpenID Connect on loopback, with one RSA key that openssl makes and signs with."""

    def __init__(self, directory):
        program("openssl", "openssl")
        self.key = directory / "issuer.key"
        call("openssl", "genrsa", "-out", self.key, "2048")
        modulus = call("openssl", "rsa", "-in", self.key, "-noout", "-modulus").split("Modulus=")[1].strip()
        keys = {"keys": [{"kty": "RSA", "kid": "k1", "alg": "RS256", "n": encoded(bytes.fromhex(modulus)), "e": "AQAB"}]}
        issuer = self

        class Says(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                known = {
                    "/.well-known/openid-configuration": {"issuer": issuer.url, "jwks_uri": issuer.url + "/jwk"},
                    "/jwk": keys,
                }
                body = json.dumps(known[self.path]).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Says)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def token(self, scope):
        now = int(time.time())
        claims = {"iss": self.url, "sub": "observer", "aud": "https://wlcg.cern.ch/jwt/v1/any", "wlcg.ver": "1.0",
                  "iat": now, "nbf": now, "exp": now + 600, "jti": "1", "scope": scope}
        message = ".".join(encoded(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": "k1"}, claims))
        signed = subprocess.run(["openssl", "dgst", "-sha256", "-sign", self.key], input=message.encode(), capture_output=True, check=True)
        return f"{message}.{encoded(signed.stdout)}"

    def end(self):
        self.server.shutdown()
        self.server.server_close()


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


# What FTS does with a token for a file: its size and checksum, a directory, the file there and back, and away again.
GFAL2_TOKEN = """
import gfal2, sys
url, token, source, back = sys.argv[1:]
context = gfal2.creat_context()
gfal2.cred_set(context, url, gfal2.cred_new("BEARER", token))
how = context.transfer_parameters()
how.overwrite = True
how.set_checksum(gfal2.checksum_mode.both, "ADLER32", "")
try:
    context.mkdir_rec(url + "/g/h", 0o755)
    context.filecopy(how, "file://" + source, url + "/g/h/f")
except gfal2.GError as error:
    print("refused", error.code)
    sys.exit(0)
print(context.stat(url + "/g/h/f").st_size, context.listdir(url + "/g/h"))
context.filecopy(how, url + "/g/h/f", "file://" + back)
context.unlink(url + "/g/h/f")
"""


@pytest.fixture
def guarded(skyhaul, tmp_path):
    """A station that signs tokens and trusts an issuer, and a token of each for some scopes."""
    issuer = Issuer(tmp_path)
    own = f'own_tokens = {{ issuer = "https://mh.example", key = "{tmp_path / "token.key"}" }}'
    other = f'issuer = [{{ url = "{issuer.url}", audiences = ["https://mh.example"], allow = ["127.0.0.1"] }}]'
    site = Site(tmp_path, f'state = "{tmp_path / "state"}"\n{own}\n{other}')

    def tokens(*scopes):
        options = [word for scope in scopes for word in ("--scope", scope)]
        made = skyhaul.run("token", "create", "--config", tmp_path / "station.toml", *options)
        return made.decode().strip(), issuer.token(" ".join(scopes))

    yield site, tokens
    site.end()
    issuer.end()


def test_curl_and_davix_with_tokens(guarded, data, tmp_path):
    site, tokens = guarded
    curl = (program("curl", "curl"), "--silent", "--show-error", "--output", "/dev/null", "--write-out", "%{http_code}")
    all_rights = tokens("storage.read:/exp", "storage.modify:/exp")
    for n, (token, reader) in enumerate(zip(all_rights, tokens("storage.read:/exp"), strict=True)):
        bearer = ("--header", f"Authorization: Bearer {token}")
        only_reads = ("--header", f"Authorization: Bearer {reader}")
        assert call(*curl, *bearer, "--upload-file", data, f"{site.url}/{n}/f") == "201"
        assert call(*curl, *only_reads, f"{site.url}/{n}/f") == "200"
        assert call(*curl, *only_reads, "--upload-file", data, f"{site.url}/{n}/f") == "403"
        assert call(*curl, f"{site.url}/{n}/f") == "401"
        assert call(*curl, *bearer, f"{site.server}/recordings/") == "403"
        program("davix-put", "davix")
        davix = ("-H", f"Authorization: Bearer {token}")
        call("davix-put", *davix, data, f"{site.url}/{n}/g")
        call("davix-get", *davix, f"{site.url}/{n}/g", tmp_path / "got")
        assert (tmp_path / "got").read_bytes() == data.read_bytes()
        call("davix-put", "-H", f"Authorization: Bearer {reader}", data, f"{site.url}/{n}/h", expect=range(1, 256))
        assert not (site.root / f"{n}/h").exists()
        call("davix-rm", *davix, f"{site.url}/{n}/g")
        assert not (site.root / f"{n}/g").exists()
    assert "eyJ" not in site.log.read_text()


def test_gfal2_with_tokens(guarded, data, tmp_path):
    site, tokens = guarded
    python = python_with_gfal2()
    whole = data.read_bytes()
    for token in tokens("storage.read:/exp", "storage.modify:/exp/g"):
        back = tmp_path / "back"
        back.unlink(missing_ok=True)
        said = call(python, "-c", GFAL2_TOKEN, site.url, token, data, back)
        assert f"{len(whole)} ['f']" in said, said
        assert back.read_bytes() == whole and not (site.root / "g/h/f").exists()
    for token in tokens("storage.read:/exp", "storage.modify:/exp/gone"):
        said = call(python, "-c", GFAL2_TOKEN, site.url, token, data, tmp_path / "back")
        # EPERM or EACCES, with which FTS does not try again.
        assert re.search(r"^refused (1|13)$", said, re.MULTILINE), said


def test_rclone(site, tmp_path):
    rclone = (program("rclone", "rclone"), "--config", "/dev/null", "--webdav-url", site.server, "--retries", "1")
    tree = tmp_path / "tree"
    for at in range(30):
        path = tree / f"d{at % 3}" / f"file {at}.vdif"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(random.Random(at).randbytes(at * 3001))
    call(*rclone, "copy", tree, ":webdav:exp/tree")
    sums = {path.relative_to(tree): hashlib.sha256(path.read_bytes()).hexdigest() for path in tree.rglob("*.vdif")}
    there = site.root / "tree"
    assert {path.relative_to(there): hashlib.sha256(path.read_bytes()).hexdigest() for path in there.rglob("*.vdif")} == sums
    call(*rclone, "check", "--download", tree, ":webdav:exp/tree")
    call(*rclone, "moveto", ":webdav:exp/tree/d0/file 3.vdif", ":webdav:exp/tree/moved")
    assert (there / "moved").exists() and not (there / "d0/file 3.vdif").exists()
    call(*rclone, "copy", ":webdav:exp/tree", tmp_path / "back")
    assert len([path for path in (tmp_path / "back").rglob("*") if path.is_file()]) == 30
    call(*rclone, "delete", ":webdav:exp/tree")
    assert not [path for path in there.rglob("*") if path.is_file()]


@pytest.mark.parametrize("suite", ["basic", "copymove", "http"])
def test_litmus(site, suite, tmp_path, monkeypatch):
    program("litmus", "litmus")
    monkeypatch.chdir(tmp_path)  # it writes its log here
    monkeypatch.setenv("TESTS", suite)
    said = call("litmus", "-k", f"{site.server}/strict/")
    assert re.search(rf"summary for `{suite}': of (\d+) tests run: \1 passed, 0 failed", said), said


def test_tls(skyhaul, data, tmp_path):
    del skyhaul  # it is there
    program("openssl", "openssl")
    program("curl", "curl")
    certificate, key, token = (tmp_path / name for name in ("cert.pem", "key.pem", "token"))
    call("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate)  # fmt: skip
    site = Site(tmp_path, f'certificate = "{certificate}"\nkey = "{key}"\ntoken_file = "{token}"')
    try:
        assert site.url.startswith("https://")
        right = f"Authorization: Bearer {token.read_text().strip()}"
        curl = ("curl", "--silent", "--show-error", "--cacert", certificate)
        said = call(*curl, "--verbose", "--fail", "--header", right, "--upload-file", data, f"{site.url}/f")
        assert "TLSv1.3" in said and "HTTP/1.1 201 Created" in said, said
        assert (site.root / "f").read_bytes() == data.read_bytes()
        call(*curl, "--fail", "--header", right, "--output", tmp_path / "got", f"{site.url}/f")
        assert (tmp_path / "got").read_bytes() == data.read_bytes()
        assert call(*curl, "--output", "/dev/null", "--write-out", "%{http_code}", f"{site.url}/f") == "401"
        if shutil.which("davix-get"):
            davix = ("davix-get", "-k", "-H", right, site.url.replace("https", "davs") + "/f", tmp_path / "davix")
            call(*davix)
            assert (tmp_path / "davix").read_bytes() == data.read_bytes()
        # The token is nowhere in what the server says.
        assert token.read_text().strip() not in site.log.read_text()
    finally:
        site.end()


def certified(certificate, key):
    """A new key, and its own certificate for this host."""
    call("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate)  # fmt: skip


def test_a_renewed_certificate_is_used_without_a_restart(skyhaul, tmp_path):
    del skyhaul  # it is there
    program("openssl", "openssl")
    program("curl", "curl")
    certificate, key, old, new = (tmp_path / name for name in ("cert.pem", "key.pem", "old.pem", "new.pem"))
    certified(certificate, key)
    shutil.copy(certificate, old)
    site = Site(tmp_path, f'certificate = "{certificate}"\nkey = "{key}"')

    def is_trusted(authority):
        words = ("curl", "--silent", "--fail", "--cacert", str(authority), "--output", "/dev/null", f"{site.url}/")
        return subprocess.run(words, check=False, timeout=120).returncode == 0

    def wait_until(what):
        end = time.monotonic() + 60
        while not what():
            assert time.monotonic() < end, site.log.read_text()
            time.sleep(0.1)

    try:
        assert is_trusted(old)
        # One after the other, as tools that renew do: until both are there, the old pair stays.
        certified(new, tmp_path / "new.key")
        shutil.copy(new, certificate)
        wait_until(lambda: is_trusted(old) and "stays in use" in site.log.read_text())
        shutil.copy(tmp_path / "new.key", key)
        wait_until(lambda: is_trusted(new))
        assert not is_trusted(old)
        certificate.write_text("no certificate")
        wait_until(lambda: is_trusted(new) and "is not a valid certificate" in site.log.read_text())
        certificate.unlink()
        wait_until(lambda: is_trusted(new) and site.log.read_text().count("stays in use") >= 3)
        assert "PRIVATE KEY" not in site.log.read_text()
    finally:
        site.end()


# Copies between servers may connect to this host.
INSIDE = 'copy = { allow = ["127.0.0.1"] }'


@pytest.fixture
def two(skyhaul, tmp_path):
    del skyhaul  # it is there
    for name in "ab":
        (tmp_path / name).mkdir()
    sites = [Site(tmp_path / name, INSIDE) for name in "ab"]
    yield sites
    for one in sites:
        one.end()


def adler32(whole):
    return f"{zlib.adler32(whole):08x}"


def copied(url, *headers, expect="success: Created"):
    """Asks for a copy as an engine does, and reads it to its end."""
    words = [word for header in headers for word in ("--header", header)]
    said = call(program("curl", "curl"), "--silent", "--show-error", "--include", "--request", "COPY", *words, url)
    assert said.rstrip().endswith(expect), said
    return said


def test_curl_drives_copies(two, data):
    a, b = two
    whole = data.read_bytes()
    (a.root / "f").write_bytes(whole)
    said = copied(f"{b.url}/pulled", f"Source: {a.url}/f", "RequireChecksumVerification: true")
    assert re.search(r"^HTTP/1.1 202 Accepted\r?$", said, re.MULTILINE), said
    assert f"Stripe Bytes Transferred: {len(whole)}\n" in said
    copied(f"{a.url}/f", f"Destination: {b.url}/d/pushed", "Credential: none")
    assert (b.root / "pulled").read_bytes() == whole and (b.root / "d/pushed").read_bytes() == whole


def test_copies_over_tls_verify_the_certificate(skyhaul, data, tmp_path):
    del skyhaul  # it is there
    program("openssl", "openssl")
    certificate, key, token = (tmp_path / name for name in ("cert.pem", "key.pem", "token"))
    call("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", key, "-out", certificate)  # fmt: skip
    more = (f'certificate = "{certificate}"\nkey = "{key}"\ntoken_file = "{token}"', INSIDE.replace("}", f', authorities = "{certificate}" }}'), INSIDE)
    for name in "abc":
        (tmp_path / name).mkdir()
    source, knows, other = (Site(tmp_path / name, text) for name, text in zip("abc", more, strict=True))
    try:
        (source.root / "f").write_bytes(data.read_bytes())
        right = f"TransferHeaderAuthorization: Bearer {token.read_text().strip()}"
        copied(f"{knows.url}/f", f"Source: {source.url.replace('https', 'davs')}/f", right, "X-Number-Of-Streams: 2", "RequireChecksumVerification: true")
        assert (knows.root / "f").read_bytes() == data.read_bytes()
        copied(f"{knows.url}/f", f"Destination: {source.url}/g", right)
        assert (source.root / "g").read_bytes() == data.read_bytes()
        # A certificate of nobody that is known: the token is not sent.
        said = call("curl", "--silent", "--include", "--request", "COPY", "--header", f"Source: {source.url}/f", "--header", right, f"{other.url}/f")
        assert said.startswith("HTTP/1.1 502") and "TLS" in said and "certificate" in said, said
        for site in (source, knows, other):
            assert token.read_text().strip() not in site.log.read_text()
    finally:
        for site in (source, knows, other):
            site.end()


def gfal(*words):
    script = program("gfal-copy", "gfal2-util-scripts gfal2-plugin-http gfal2-plugin-file")
    # A script of the system's Python, which no virtual environment has.
    return ("/usr/bin/python3", shutil.which(script), "-D", "HTTP PLUGIN:ENABLE_FALLBACK_TPC_COPY=false", *words)


@pytest.mark.parametrize("mode", ["pull", "push"])
def test_gfal2_copies_between_two_stations(two, data, mode):
    a, b = two
    whole = data.read_bytes()
    (a.root / "f").write_bytes(whole)
    call(*gfal("--copy-mode", mode, "--parent", "--checksum", "ADLER32", "--nbstreams", "4", f"{a.url}/f", f"{b.url}/p/q/f"))
    assert (b.root / "p/q/f").read_bytes() == whole
    # A second one is refused, and with --force replaces the first; a missing source is told as what it is.
    (a.root / "f").write_bytes(whole[1:])
    call(*gfal("--copy-mode", mode, f"{a.url}/f", f"{b.url}/p/q/f"), expect=[17])
    call(*gfal("--copy-mode", mode, "--force", f"{a.url}/f", f"{b.url}/p/q/f"))
    assert (b.root / "p/q/f").read_bytes() == whole[1:]
    said = call(*gfal("--copy-mode", mode, "--just-copy", f"{a.url}/none", f"{b.url}/none"), expect=[2])
    assert "No such file" in said
    # What FTS does in its order: no more of it, and no other words, than gfal2 itself.
    fts = FTS.format(mode=mode)
    assert call("/usr/bin/python3", "-c", fts, f"{a.url}/f", f"{b.url}/fts/f") == f"{len(whole) - 1} {adler32(whole[1:])}\n"


FTS = """
import gfal2, sys
source, destination = sys.argv[1:]
context = gfal2.creat_context()
context.set_opt_boolean("HTTP PLUGIN", "ENABLE_FALLBACK_TPC_COPY", False)
context.set_opt_string("HTTP PLUGIN", "DEFAULT_COPY_MODE", "{mode}".replace("pull", "3rd pull").replace("push", "3rd push"))
size, checksum = context.stat(source).st_size, context.checksum(source, "ADLER32")
try:
    context.stat(destination)
    raise SystemExit("it exists")
except gfal2.GError as error:
    assert error.code == 2, error
context.mkdir_rec(destination.rsplit("/", 1)[0], 0o755)
how = context.transfer_parameters()
how.strict_copy, how.timeout, how.nbstreams = True, 60, 2
seen = []
how.monitor_callback = lambda source, destination, *rest: seen.append(rest)
context.filecopy(how, source, destination)
assert context.stat(destination).st_size == size and context.checksum(destination, "ADLER32") == checksum
print(size, checksum)
"""


def test_davix_copies_between_two_stations(two, data):
    program("davix-cp", "davix")
    a, b = two
    (a.root / "f").write_bytes(data.read_bytes())
    for mode in ("pull", "push"):
        call("davix-cp", "--copy-mode", mode, f"{a.url}/f", f"{b.url}/{mode}")
        assert (b.root / mode).read_bytes() == data.read_bytes()
    said = call("davix-cp", "--copy-mode", "pull", f"{a.url}/none", f"{b.url}/x", expect=range(1, 256))
    assert "No such file" in said or "not found" in said.lower(), said


@pytest.fixture
def xrootd():
    program("xrootd", "xrootd-server xrootd-server-plugins")
    program("openssl", "openssl")
    if os.geteuid() != 0:
        pytest.skip("XRootD is started as another user (needs root)")
    with xrootd_site.started() as server:
        yield server.url, server.root


def test_the_command_downloads_from_a_server_without_ranges(skyhaul, data, tmp_path):
    """Python's own server: no ranges, no checksum, no WebDAV."""
    del skyhaul  # it is there
    port, whole = free_port(), data.read_bytes()
    served = subprocess.Popen([sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(tmp_path)],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        url, end = f"http://127.0.0.1:{port}", time.monotonic() + 60
        while subprocess.run(["curl", "--silent", "--output", "/dev/null", url], check=False).returncode != 0:
            assert served.poll() is None and time.monotonic() < end
            time.sleep(0.05)
        said = call(BINARY, "copy", "--quiet", "--range", "256KiB", f"{url}/data", tmp_path / "got")
        assert (tmp_path / "got").read_bytes() == whole and "gives no checksum" in said, said
        assert int((tmp_path / "got").stat().st_mtime) == int(data.stat().st_mtime)
        call(BINARY, "copy", "--quiet", f"{url}/data", tmp_path / "got", "--exists", "skip")
        said = call(BINARY, "copy", "--quiet", f"{url}/", f"{tmp_path}/all/", expect=[2])
        assert "does not list" in said, said
    finally:
        served.kill()
        served.wait()


def test_others_read_what_the_command_uploads(site, data, tmp_path):
    call(BINARY, "copy", "--quiet", data, f"{site.url}/d/")
    whole, url = data.read_bytes(), f"{site.url}/d/data"
    call(program("davix-get", "davix"), url, tmp_path / "davix")
    call(*gfal("--checksum", "ADLER32", url, f"file://{tmp_path}/gfal"))
    assert (tmp_path / "davix").read_bytes() == whole and (tmp_path / "gfal").read_bytes() == whole


def test_the_command_trusts_the_system_and_more(skyhaul, data, tmp_path):
    """`--ca` adds to the system's authorities, which SSL_CERT_FILE names here."""
    del skyhaul  # it is there
    program("openssl", "openssl")
    sites, certificates = [], []
    try:
        for name in "ab":
            (tmp_path / name).mkdir()
            certificate, key, token = (tmp_path / name / word for word in ("cert.pem", "key.pem", "token"))
            call("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                 "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", key, "-out", certificate)  # fmt: skip
            sites.append(Site(tmp_path / name, f'certificate = "{certificate}"\nkey = "{key}"\ntoken_file = "{token}"'))
            certificates.append(certificate)
        system = ("env", f"SSL_CERT_FILE={certificates[0]}", BINARY, "copy", "--quiet", data)
        for at, site in enumerate(sites):
            how = (f"{site.url}/", "--token-file", tmp_path / "ab"[at] / "token")
            call(*system, *how, "--ca", certificates[1])
            assert (site.root / "data").read_bytes() == data.read_bytes()
        said = call(*system, *how, "--exists", "replace", expect=[1, 2])
        assert "UnknownIssuer" in said or "certificate" in said, said
    finally:
        for site in sites:
            site.end()


def test_xrootd_is_the_other_server(skyhaul, xrootd, data, tmp_path):
    del skyhaul  # it is there
    program("curl", "curl")
    url, root = xrootd
    site = Site(tmp_path, INSIDE)
    try:
        whole = data.read_bytes()
        (root / "f").write_bytes(whole)
        (root / "f").chmod(0o644)
        (site.root / "f").write_bytes(whole)
        # This server is the one that acts, then XRootD is.
        copied(f"{site.url}/pulled", f"Source: {url}/f", "RequireChecksumVerification: true")
        copied(f"{site.url}/streamed", f"Source: {url}/f", "X-Number-Of-Streams: 4")
        assert (site.root / "pulled").read_bytes() == whole and (site.root / "streamed").read_bytes() == whole
        copied(f"{site.url}/f", f"Destination: {url}/pushed", "RequireChecksumVerification: true")
        assert (root / "pushed").read_bytes() == whole
        # XRootD 5.5 knows its headers in these letters only.
        said = copied(f"{url}/pulled", f"Source: {site.url}/f", "X-Number-Of-Streams: 3")
        assert "success" in said and (root / "pulled").read_bytes() == whole
        copied(f"{url}/f", f"Destination: {site.url}/from-xrootd")
        assert (site.root / "from-xrootd").read_bytes() == whole
        head = call("curl", "--silent", "--head", "--header", "Want-Digest: adler32", f"{site.url}/from-xrootd")
        assert f"Digest: adler32={adler32(whole)}" in head
        # The command: from XRootD, a file and a tree; and each of them asked to copy.
        (root / "t/sub").mkdir(parents=True)
        for name in ("t/f", "t/sub/g"):
            (root / name).write_bytes(whole)
        copy = (BINARY, "copy", "--quiet", "--range", "256KiB", "--streams", "3")
        said = call(*copy, f"{url}/f", tmp_path / "got")
        assert (tmp_path / "got").read_bytes() == whole and "no checksum" not in said, said
        call(*copy, f"{url}/t", f"{tmp_path}/tree/")
        assert (tmp_path / "tree/t/sub/g").read_bytes() == whole and (tmp_path / "tree/t/f").read_bytes() == whole
        call(*copy, f"{url}/t", f"{tmp_path}/tree/", "--verify")
        said = call(*copy, f"{url}/none", tmp_path / "none", expect=[2])
        assert "No such file or directory" in said and not (tmp_path / "none").exists(), said
        between = (BINARY, "copy", "--quiet", "--third-party", "--streams", "2")
        call(*between, f"{url}/t", f"{site.url}/")
        assert (site.root / "t/sub/g").read_bytes() == whole
        call(*between, f"{site.url}/f", f"{url}/by-command")
        assert (root / "by-command").read_bytes() == whole
        call(*between, "--mode", "push", f"{url}/f", f"{site.url}/sent-by-command")
        assert (site.root / "sent-by-command").read_bytes() == whole
        # Uploads, read back by others.
        upload = (BINARY, "copy", "--quiet", "--streams", "2")
        said = call(*upload, data, f"{url}/up/by-name")
        assert (root / "up/by-name").read_bytes() == whole and "no checksum" not in said, said
        (tmp_path / "tree/t/empty").touch()
        call(*upload, tmp_path / "tree/t", f"{url}/uploaded/")
        for name in ("f", "sub/g", "empty"):
            assert (root / "uploaded/t" / name).read_bytes() == (tmp_path / "tree/t" / name).read_bytes(), name
        said = call(*upload, tmp_path / "tree/t", f"{url}/uploaded/", "--verify")
        assert "3 files all equal" in said, said
        said = call(*upload, tmp_path / "tree/t/empty", f"{url}/f", expect=[1])
        assert "a different file exists" in said and (root / "f").read_bytes() == whole, said
        # XRootD keeps a checksum by the second in which the file changed.
        time.sleep(1.1)
        call(*upload, tmp_path / "tree/t/empty", f"{url}/up/by-name", "--exists", "replace")
        assert (root / "up/by-name").read_bytes() == b""
        # What XRootD does not have, or does not allow.
        said = call("curl", "--silent", "--include", "--request", "COPY", "--header", f"Source: {url}/none", f"{site.url}/none")
        assert said.startswith("HTTP/1.1 404") and "No such file or directory" in said, said
        assert not (site.root / "none").exists()
    finally:
        site.end()
