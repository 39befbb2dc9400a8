"""The commands of `tune-a-host.md` that need root, each line as it stands, in namespaces: an interface `eth1` with a neighbour
10.0.2.7, files in place of the host's settings, a copy of the command. What is left out needs hardware, and says so in `HARDWARE`."""

import os
import re
import shutil
import signal
import subprocess

import pages
import pytest
from conftest import BINARY, ROOT

PAGE = ROOT / "docs/tutorials/tune-a-host.md"
SHOWN = re.compile(r"^    (\S.*)$", re.MULTILINE)
# Begins with: why no test types it.
HARDWARE = {
    "hint: ": "no command: see test_the_hint_is_what_a_command_says",
    "ethtool -G eth1 rx": "a ring needs a network card",
    "echo 1 > /proc/irq/NUMBER/": "an interrupt needs a network card",
    "skyhaul host": "writes settings of the host: tried on made hosts, and one setting in a namespace, in tests/host/applied.rs",
    "skyhaul record --cpus 2,3": "four processors, and a priority that a namespace does not give",
    "cpupower": "frequencies of a processor",
}
# Two ends, and settings that are files: what is written is looked at.
READY = """
set -e
ip link set lo up
unshare -n sleep 60 & far=$!
trap "kill $far" EXIT
until [ "$(readlink /proc/$far/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
ip link add eth1 type veth peer name far0
ip link set far0 netns $far
nsenter -t $far -n sh -c 'ip address add 10.0.2.7/24 dev far0; ip link set far0 mtu 9000 up'
ip address add 10.0.2.1/24 dev eth1
ip link set eth1 up
touch rmem_max
mkdir -p bin sysctl.d
mount --bind rmem_max /proc/sys/net/core/rmem_max
mount --bind sysctl.d /etc/sysctl.d
PATH="$PWD/bin:$PATH"
set -x
"""
AFTER = """
{ set +x; } 2>/dev/null
echo "rmem_max=$(cat rmem_max)" "conf=$(cat sysctl.d/90-skyhaul.conf)" "$(ip link show eth1 | grep -o 'mtu [0-9]*')" "caps=$(getcap bin/skyhaul)"
"""
NAMESPACES = ["unshare", "-rnm", "--propagation", "private"]


def lines():
    found = [line.split("  #")[0].rstrip() for line in SHOWN.findall(PAGE.read_text())]
    # Code of the page is in blocks with fences.
    fenced = {line.strip() for _, text in pages.blocks(PAGE) for line in text.splitlines()}
    return [line for line in found if line not in fenced]


def typed():
    return [line for line in lines() if not any(line.startswith(start) for start in HARDWARE)]


def test_every_command_is_typed_or_says_why_not():
    found = lines()
    assert all(any(line.startswith(start) for line in found) for start in HARDWARE)
    assert [line.split()[0] for line in typed()] == ["sysctl", "echo", "ip", "ping", "ethtool", "setcap"]


def test_what_needs_root(skyhaul, tmp_path):
    del skyhaul  # it is there
    if subprocess.run([*NAMESPACES, "true"], stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode:
        pytest.skip("no namespaces for an ordinary user here (run as root)")
    path = f"{os.environ['PATH']}:/sbin:/usr/sbin"
    absent = [tool for tool in ("ip", "sysctl", "setcap", "nsenter") if shutil.which(tool, path=path) is None]
    if absent:
        pytest.skip(f"not installed: {', '.join(absent)}")
    (tmp_path / "bin").mkdir()
    shutil.copy(BINARY, tmp_path / "bin/skyhaul")
    # What is not installed is left out, and said at the end.
    there = [line for line in typed() if shutil.which(line.split()[0], path=path)]
    there = [f"{line} -c 1 -W 10" if line.startswith("ping ") else line for line in there]
    done = subprocess.run([*NAMESPACES, "sh", "-c", READY + "\n".join(there) + AFTER], cwd=tmp_path, env=os.environ | {"PATH": path},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    wanted = ["rmem_max=1073741824", "conf=net.core.rmem_max=1073741824", "mtu 9000", "cap_sys_nice=ep"]
    assert all(text in done.stdout for text in wanted), done.stdout
    left = [line for line in typed() if not any(one.startswith(line) for one in there)]
    if left:
        pytest.skip(f"all but {'; '.join(left)}: not installed (apt-get install iputils-ping ethtool)")


def test_the_hint_is_what_a_command_says(skyhaul):
    [hint] = [line for line in lines() if line.startswith("hint: ")]
    words = [str(BINARY), "receive", "--listen", "udp://127.0.0.1:0", "--memory", "64MiB"]
    # Without privileges, so that the limit of the host counts.
    alone = ["unshare", "-rn", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    if subprocess.run([*alone, "true"], stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode:
        alone = []
    with subprocess.Popen([*alone, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            next(line for line in process.stderr if line.startswith("receiving"))
            process.send_signal(signal.SIGINT)
            said = process.stderr.read()
        finally:
            process.kill()
    if "hint: receive buffer" not in said:
        pytest.skip("this host grants the whole buffer")
    wanted = ".*".join(map(re.escape, hint.replace("208KiB", "…").split("…")))
    assert re.search(f"^ *{wanted}$", said, re.MULTILINE), said
