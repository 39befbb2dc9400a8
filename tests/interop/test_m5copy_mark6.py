"""m5copy copies from and to Mark 6 disks (`mk6://`): between two stations, and between a station and jive5ab.

What it needs is in test_m5copy.py. What m5copy sends is replayed without it in crates/core/src/vsi/tests/m5copy-mk6.txt.
"""

import os
import struct
import subprocess

import pytest
from conftest import BINARY
from test_m5copy import (
    JIVE5AB,
    _is_jive5ab_here,  # noqa: F401 (a fixture)
    _m5copy,  # noqa: F401 (a fixture)
    _three,  # noqa: F401 (a fixture)
    _two,  # noqa: F401 (a fixture)
    ask,
    data_port,
    end_all,
    run_m5copy,
    scan,
    slow_frames,
    wait_for,
    wait_for_port,
)

LABEL, FRAME = "n26c3_on_no0001", 8032


def blocks(disks, label):
    """The packets of a scan in blocks, read without Skyhaul; how many blocks each disk has."""
    found, counts = {}, []
    for disk in disks:
        path = disk / "data" / label
        content = path.read_bytes() if path.exists() else b""
        if not content:
            counts.append(0)
            continue
        sync, version, size, form, packet = struct.unpack("<5I", content[:20])
        assert (sync, version, form, packet) == (0xFEED6666, 2, 0, FRAME)
        at, count = 20, 0
        while at < len(content):
            number, whole = struct.unpack("<2I", content[at:at + 8])
            assert whole <= size and number not in found and (whole - 8) % FRAME == 0
            found[number] = content[at + 8:at + whole]
            at, count = at + whole, count + 1
        assert at == len(content)
        counts.append(count)
    assert sorted(found) == list(range(len(found)))
    return b"".join(found[number] for number in sorted(found)), counts


def copied(source, sink, *options):
    done = run_m5copy(source, sink, *options)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_scans_go_to_and_from_mark_6_disks_of_stations(two):
    (one, disks, here), (other, disks_two, here_two) = two
    host, names = "127.0.0.1", ",".join(map(str, disks_two))
    # 5.4 blocks of 1245 frames.
    whole = b"".join(slow_frames(6725))
    (here / "files" / "a.vdif").write_bytes(whole)
    copied(f"file://{host}:{one}{here}/files/a.vdif", f"mk6://{host}:{other}/{names}/{LABEL}")
    assert blocks(disks_two, LABEL) == (whole, [3, 3])
    checked = subprocess.run([BINARY, "check", LABEL, *(word for disk in disks_two for word in ("--disk", disk))],
                             stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)  # fmt: skip
    # Blocks have no digest: all of it is there, and nothing verifies its samples.
    assert "0 of 6 chunks verified, 6 725 frames, 0 never received, 0 invalid, 0 missing" in checked.stdout, checked.stdout
    wait_for("the list of scans", lambda: ask(other, f"scan_set={LABEL}").startswith("!scan_set = 0"))
    # One disk alone; and back, as a file, a range of it, and a scan of either kind.
    copied(f"mk6://{host}:{other}/{names}/{LABEL}", f"mk6://{host}:{one}/{disks[1]}/n26c3_on_no0002")
    assert blocks(disks, "n26c3_on_no0002") == (whole, [0, 6])
    copied(f"mk6://{host}:{other}/{names}/{LABEL}", f"file://{host}:{one}{here}/files/")
    assert (here / "files" / f"{LABEL}.m5a").read_bytes() == whole
    copied(f"mk6://{host}:{other}/{names}/{LABEL}:80320:1686720", f"file://{host}:{other}{here_two}/files/range.vdif")
    assert (here_two / "files" / "range.vdif").read_bytes() == whole[80320:80320 + 1606400]
    copied(f"mk6://{host}:{other}/{names}/{LABEL}", f"vbs://{host}:{one}/n26c3_on_no0003")
    wait_for("the recording", lambda: scan(disks, "n26c3_on_no0003") == whole)
    # A file that ends within a frame leaves nothing, and m5copy does not say that it was copied.
    (here / "files" / "b.vdif").write_bytes(whole[:-100])
    cut = run_m5copy(f"file://{host}:{one}{here}/files/b.vdif", f"mk6://{host}:{other}/{names}/n26c3_on_no0004", "-mode", "VDIF_8000-16-16-1")
    assert "ended within a frame" in ask(other, "error?"), f"{cut.stdout}\n{cut.stderr}"
    assert not any((disk / "data" / "n26c3_on_no0004").exists() for disk in disks_two)


@pytest.mark.skipif(os.geteuid() != 0, reason="the disks of jive5ab are file systems, which only root can mount")
def test_scans_go_between_mark_6_disks_of_a_station_and_jive5ab(two, _jive5ab, tmp_path):
    (one, disks, here), _ = two
    host, names = "127.0.0.1", ",".join(map(str, disks))
    jive, there = data_port(), tmp_path / "jive"
    mounted = [there / f"disk{n}" for n in (0, 1)]
    for path in (*mounted, there / "files"):
        path.mkdir(parents=True)
    mounts = " && ".join(f"mount -t tmpfs -o size=200M {path.name} {path}" for path in mounted)
    with (there / "log").open("wb") as said:
        words = ["unshare", "-m", "sh", "-c", f"{mounts} && exec {JIVE5AB} -m 2 -6 -p {jive}"]
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd=there)
    try:
        wait_for_port(jive, process, there / "log")
        whole = b"".join(slow_frames(6725))
        (there / "files" / "a.vdif").write_bytes(whole)
        of_jive = f"mk6://{host}:{jive}/{','.join(map(str, mounted))}"
        # A file of jive5ab, recorded here; and what is recorded here, by jive5ab.
        copied(f"file://{host}:{jive}{there}/files/a.vdif", f"mk6://{host}:{one}/{names}/{LABEL}", "-mode", "VDIF_8000-16-16-1")
        assert blocks(disks, LABEL)[0] == whole
        wait_for("the list of scans", lambda: ask(one, f"scan_set={LABEL}").startswith("!scan_set = 0"))
        copied(f"mk6://{host}:{one}/{names}/{LABEL}", f"{of_jive}/n26c3_on_no0002", "-mode", "VDIF_8000-16-16-1")
        # What jive5ab recorded, here as a scan of a Mark 6 and as a file.
        copied(f"{of_jive}/n26c3_on_no0002", f"mk6://{host}:{one}/{names}/n26c3_on_no0003", "-mode", "VDIF_8000-16-16-1")
        assert blocks(disks, "n26c3_on_no0003")[0] == whole
        copied(f"{of_jive}/n26c3_on_no0002", f"file://{host}:{one}{here}/files/")
        assert (here / "files" / "n26c3_on_no0002.m5a").read_bytes() == whole
    finally:
        end_all([process])
