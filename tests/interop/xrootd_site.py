"""XRootD with a directory of its own, over HTTP and HTTPS on one port: a peer of the tests and of `bench_http.py`."""

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from conftest import free_port

CONFIGURATION = """all.export /
all.sitename test
oss.localroot {root}
all.adminpath {state}
all.pidpath {state}
xrd.port {port}
xrd.tlsca certfile {certificate}
xrd.tls {certificate} {key}
xrd.protocol XrdHttp:{port} libXrdHttp.so
http.exthandler xrdtpc libXrdHttpTPC.so
xrootd.chksum max 2 adler32 crc32c md5
"""


class XRootD:
    """A server that runs: `url` is plain, `address` also takes TLS, and `root` is what it serves."""

    def __init__(self, process, address, root, certificate):
        self.process, self.address, self.root, self.certificate = process, address, root, certificate
        self.url = f"http://{address}"


@contextlib.contextmanager
def started(under=(), where=None):
    """It does not run as root, and its plug-in for copies is there only with TLS. `under` is what it is run by, `where` a directory for its own."""
    top = Path(tempfile.mkdtemp(prefix="skyhaul-xrootd-", dir=where))
    certificate, key = top / "cert.pem", top / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", key, "-out", certificate], check=True, capture_output=True, timeout=120)  # fmt: skip
    root, state, port, log = top / "root", top / "state", free_port(), top / "log"
    root.mkdir()
    state.mkdir()
    (top / "config").write_text(CONFIGURATION.format(root=root, state=state, port=port, certificate=certificate, key=key))
    key.chmod(0o400)
    other = pwd.getpwnam("nobody")
    for path in (top, *top.rglob("*")):
        os.chown(path, other.pw_uid, other.pw_gid)
    process = subprocess.Popen(
        [*under, "setpriv", "--reuid", "nobody", "--regid", str(other.pw_gid), "--clear-groups", "xrootd", "-c", str(top / "config"), "-n", "t", "-l", str(log)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=top,
    )  # fmt: skip
    try:
        server, end = XRootD(process, f"127.0.0.1:{port}", root, certificate), time.monotonic() + 60
        while subprocess.run(["curl", "--silent", "--output", "/dev/null", server.url], check=False).returncode != 0:
            said = "".join(path.read_text(errors="replace") for path in top.rglob("log"))
            assert process.poll() is None and time.monotonic() < end, said
            time.sleep(0.05)
        yield server
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(top)
