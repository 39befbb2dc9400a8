"""The Debian package, installed by dpkg in a clean root (an overlay of this system's own, thrown away afterwards): what is in it, the
service as its unit starts it and a service manager sees it, an upgrade, and what a removal leaves."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest
from conftest import BINARY, ROOT, free_port

XTASK = ROOT / "target/debug/xtask"
CONFIGURATION = "/etc/skyhaul/station.toml"
UNIT = ROOT / "packaging/debian/skyhaul.service"


@pytest.fixture(scope="module")
def package():
    if not shutil.which("dpkg-deb"):
        pytest.skip("dpkg-deb: not installed (it is part of Debian and Ubuntu)")
    if not XTASK.exists() or not BINARY.exists():
        # A run of these tests alone, without the suite, which builds both.
        pytest.skip(f"the package is made of {BINARY.name} by cargo xtask deb (make deb)")
    # That of users is not touched; `make deb` itself checks that it is no larger than 16 MiB.
    done = subprocess.run([XTASK, "deb", "--command", BINARY], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return pathlib.Path(done.stdout.strip())


def test_what_is_in_it(package):
    listed = subprocess.run(["dpkg-deb", "--contents", package], capture_output=True, text=True, check=True).stdout
    files = {line.split()[-1]: line for line in listed.splitlines()}
    for name, mode in [("./usr/bin/skyhaul", "-rwxr-xr-x"), ("./usr/lib/systemd/system/skyhaul.service", "-rw-r--r--"),
                       (f".{CONFIGURATION}", "-rw-r--r--"), ("./usr/share/man/man1/skyhaul-serve.1.gz", "-rw-r--r--"),
                       ("./usr/share/doc/skyhaul/copyright", "-rw-r--r--")]:
        assert files[name].startswith(f"{mode} root/root"), files.get(name)
    pages = {f"./usr/share/man/man1/{page.name}.gz" for page in (ROOT / "docs/reference/man").glob("*.1")}
    assert pages <= files.keys()
    fields = subprocess.run(["dpkg-deb", "--field", package], capture_output=True, text=True, check=True).stdout
    needed = {tuple(map(int, found)) for found in re.findall(rb"GLIBC_(\d+)\.(\d+)", BINARY.read_bytes())}
    assert f"libc6 (>= {max(needed)[0]}.{max(needed)[1]})" in fields
    assert len(set(pathlib.Path(package.with_suffix("") / "usr/bin/skyhaul").read_bytes()[:4])) == 4


def test_the_unit_is_valid_and_confined():
    tool = shutil.which("systemd-analyze")
    if not tool:
        pytest.skip("systemd-analyze: not installed (apt-get install systemd)")
    said = subprocess.run([tool, "verify", "--man=no", UNIT], capture_output=True, text=True, check=False).stderr
    # The command itself is not installed here.
    wrong = [line for line in said.splitlines() if "skyhaul.service" in line and "not executable" not in line]
    assert not wrong, wrong
    said = subprocess.run([tool, "security", "--offline=yes", "--threshold=45", UNIT], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout[-400:]


class Clean:
    """A root of its own, in which programs are run by `chroot`."""

    def __init__(self, directory):
        self.base, self.root = directory, directory / "root"

    def __enter__(self):
        if os.geteuid() or not shutil.which("setpriv"):
            pytest.skip("needs root, and setpriv (apt-get install util-linux)")
        mount = lambda *words: subprocess.run(["mount", *map(str, words)], capture_output=True, text=True, check=False)
        assert mount("-t", "tmpfs", "tmpfs", self.base).returncode == 0
        self.mounted = [self.base]
        upper, work = self.base / "upper", self.base / "work"
        for made in (upper, work, self.root):
            made.mkdir()
        done = mount("-t", "overlay", "overlay", "-o", f"lowerdir=/,upperdir={upper},workdir={work}", self.root)
        if done.returncode:
            self.__exit__()
            pytest.skip(f"no overlay file system here: {done.stderr.strip()}")
        self.mounted.insert(0, self.root)
        for name in ("proc", "dev"):
            assert mount("--bind", f"/{name}", self.root / name).returncode == 0
            self.mounted.insert(0, self.root / name)
        return self

    def __exit__(self, *_):
        for at in self.mounted:
            subprocess.run(["umount", "--lazy", at], check=False)

    def run(self, *words, expect=0):
        done = subprocess.run(["chroot", self.root, *map(str, words)], capture_output=True, text=True, timeout=60, check=False,
                              env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"})
        assert done.returncode == expect, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout


class Manager:
    """What systemd does with the unit: user, capabilities, a socket for notes of the service."""

    def __init__(self, clean):
        self.path = clean.root / "run/skyhaul-notify"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.path.unlink(missing_ok=True)
        self.socket.bind(str(self.path))
        os.chmod(self.path, 0o777)
        self.socket.settimeout(20)
        unit = UNIT.read_text()
        start = re.search(r"^ExecStart=(.*)$", unit, re.M)[1].split()
        capabilities = re.search(r"^AmbientCapabilities=(.*)$", unit, re.M)[1].lower().replace("cap_", "+").split()
        drop = ["--ambient-caps", ",".join(capabilities), "--inh-caps", ",".join(["-all", *capabilities]),
                "--bounding-set", ",".join(["-all", *capabilities])]
        identity = ["--reuid", "skyhaul", "--regid", "skyhaul", "--clear-groups", "--no-new-privs"]
        self.process = subprocess.Popen(
            [shutil.which("chroot"), clean.root, "setpriv", *identity, *drop, *start], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={"PATH": "/usr/bin:/bin", "NOTIFY_SOCKET": "/run/skyhaul-notify", "WATCHDOG_USEC": "300000"})

    def wait_for(self, note):
        seen = []
        while note not in seen:
            try:
                seen += self.socket.recv(4096).decode().splitlines()
            except TimeoutError:
                self.process.kill()
                pytest.fail(f"{note} was not told, but {seen[-5:]}\n{self.process.stdout.read().decode()}")

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.wait_for("STOPPING=1")
        return self.process.wait(30)


def test_installed_started_upgraded_removed(package, tmp_path):
    with Clean(tmp_path) as clean:
        shutil.copy(package, clean.root / "tmp/skyhaul.deb")
        # What it depends on is that of this system; the test is of what dpkg does with it.
        clean.run("dpkg", "--install", "/tmp/skyhaul.deb")
        assert clean.run("skyhaul", "--version").startswith("skyhaul ")
        assert "skyhaul" in clean.run("getent", "passwd", "skyhaul")
        assert clean.run("stat", "--format=%U:%G %a", "/var/lib/skyhaul").strip() == "skyhaul:skyhaul 750"
        # The configuration as it comes, on ports of its own.
        api, port = free_port(), free_port()
        text = (clean.root / CONFIGURATION[1:]).read_text()
        edited = text.replace("127.0.0.1:8088", f"127.0.0.1:{api}").replace("0.0.0.0:46227", f"127.0.0.1:{port}")
        assert edited.count(str(api)) and edited.count(str(port))
        (clean.root / CONFIGURATION[1:]).write_text(edited)
        record(clean, api, port, "exp_sk_no0001")
        # An upgrade keeps the edited configuration and the data.
        clean.run("dpkg", "--install", "--force-confold", "/tmp/skyhaul.deb")
        assert (clean.root / CONFIGURATION[1:]).read_text() == edited
        record(clean, api, port, "exp_sk_no0002")
        # A removal takes the program, a purge the configuration too, and neither the recordings.
        clean.run("dpkg", "--remove", "skyhaul")
        assert not (clean.root / "usr/bin/skyhaul").exists() and (clean.root / CONFIGURATION[1:]).exists()
        clean.run("dpkg", "--purge", "skyhaul")
        assert not (clean.root / CONFIGURATION[1:]).exists()
        kept = {path.name for path in (clean.root / "var/lib/skyhaul").iterdir()}
        assert {"exp_sk_no0001", "exp_sk_no0002"} <= kept, kept


def record(clean, api, port, scan):
    """Start the service as the unit says, record a stream through it, and end it."""
    manager = Manager(clean)
    manager.wait_for("READY=1")
    manager.wait_for("STATUS=idle")
    call(api, "recordings", {"name": scan})
    manager.wait_for(f"STATUS=recording {scan}")
    manager.wait_for("WATCHDOG=1")
    subprocess.run([BINARY, "send", "--format", "vdif", "--pattern", "--to", f"udp://127.0.0.1:{port}", "--packets", "2000", "--rate", "200Mbps", "--quiet"],
                   check=True, timeout=60)
    ended = call(api, f"recordings/{scan}/stop", {"wait": True})
    assert ended["outcome"] == "complete", ended
    assert manager.end() == 0
    owner = clean.run("stat", "--format=%U", f"/var/lib/skyhaul/{scan}").strip()
    assert owner == "skyhaul"


def call(api, path, body):
    request = urllib.request.Request(f"http://127.0.0.1:{api}/api/v1/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    for _ in range(50):
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as error:
            pytest.fail(f"{path}: {error.code} {error.read().decode()}")
        except OSError:
            time.sleep(0.1)
    pytest.fail(f"{path}: no answer")
