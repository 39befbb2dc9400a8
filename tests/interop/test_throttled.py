"""`skyhaul disk --against` names the part that bounds, with a disk that the kernel throttles."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest
from conftest import BINARY

# In a mount namespace of its own: the group of processes that is throttled, and what is run in it.
THROTTLED = """
set -e
device=$1 way=$2 rate=$3; shift 3
at=$(mktemp -d); group=
trap 'rmdir "$group" 2>/dev/null; umount "$at" 2>/dev/null; rmdir "$at"' EXIT
if mount -t cgroup -o blkio none "$at" 2>/dev/null; then file="blkio.throttle.${way}_bps_device" text="$device $rate"
elif mount -t cgroup2 none "$at" 2>/dev/null; then file=io.max text="$device $(echo "$way" | cut -c1)bps=$rate"
else exit 99; fi
group="$at/skyhaul-test-$$"; mkdir "$group" 2>/dev/null || exit 99
{ echo "$text" > "$group/$file"; } 2>/dev/null || exit 99
sh -c 'echo $$ > "$0/cgroup.procs"; exec "$@"' "$group" "$@"
"""
RATE = 20 << 20


def device(directory):
    """The disk of a directory, as MAJOR:MINOR, or None."""
    number = os.stat(directory).st_dev
    block = pathlib.Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if not block.exists():
        return None
    block = block.resolve()
    # A partition is throttled with its disk.
    return (block.parent if (block / "partition").exists() else block).joinpath("dev").read_text(encoding="ascii").strip()


@pytest.mark.parametrize("way", ["read", "write"])
def test_a_throttled_disk_bounds(tmp_path, way):
    if os.geteuid() or not shutil.which("unshare"):
        pytest.skip("a disk is throttled by root, with unshare (sudo make test; apt-get install util-linux)")
    disk = device(tmp_path)
    if disk is None:
        pytest.skip("the temporary directory is on no disk (TMPDIR=a directory on one)")
    words = ["unshare", "-m", "sh", "-c", THROTTLED, "sh", disk, way, RATE,
             BINARY, "disk", tmp_path, f"--{way}", "--sizes", "16MiB", "--against", "1Gbps", "--json", "--quiet"]  # fmt: skip
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=120, check=False)
    if done.returncode == 99:
        pytest.skip("the kernel throttles no disks here (CONFIG_BLK_DEV_THROTTLING, and blkio or io as a controller of this group)")
    assert done.returncode == 0, done.stderr
    budget = json.loads(done.stdout)["budget"]
    piped = budget["sending" if way == "read" else "receiving"]
    assert (budget["bound"], piped["predicted_bound"], piped["measured_bound"]) == (way, way, way), budget
    # It was throttled, and what was predicted held, roughly.
    assert piped["predicted_bits_per_second"] < 2.5 * RATE * 8, piped
