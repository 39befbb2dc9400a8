"""`skyhaul plot` and `skyhaul export` on recordings and on files, as a user types them."""

import json
import signal
import subprocess
import time
import xml.etree.ElementTree

import baseband.data
import h5py
import matplotlib.image
import numpy as np
import pytest
import zarr
from conftest import BINARY
from skyhaul import recording

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def recorded(skyhaul, record):
    """A VLBA scan with loss: eight threads."""
    recorder = record("--frame-rate", 1600, "--chunk", "1MiB", form="vdif")
    skyhaul.run("send", "--format", "vdif", "--input", baseband.data.SAMPLE_VDIF, "--loop", 40, "--to",
                f"udp://127.0.0.1:{recorder.port}", "--rate", "1Gbps", "--frame-rate", 1600,
                "--faults", "loss=0.02,seed=5")
    recorder.finish()
    return recorder


def test_a_recording(skyhaul, recorded, tmp_path):
    where = [*recorded.on_disks(), recorded.scan]
    svg, png = tmp_path / "x.svg", tmp_path / "x.png"
    sketch = skyhaul.run("plot", *where, "-o", svg, "-o", png).decode()
    assert "thread 7 channel 0" in sketch and "█" in sketch and "░" in sketch
    drawn = xml.etree.ElementTree.parse(svg).getroot()
    assert drawn.tag == SVG + "svg" and len(drawn.findall(SVG + "path")) == 16
    pixels = matplotlib.image.imread(png)
    assert pixels.shape[1] == 2080 and len(np.unique(pixels[..., :3].reshape(-1, 3), axis=0)) > 20
    survey = skyhaul.json("plot", *where)
    scan = recording.open(recorded.disks, recorded.scan)
    ours = scan.survey()
    assert [column["codes"] for column in survey["columns"]] == ours.counts[:, 0].tolist()
    assert survey["missing"] == ours.missing > 0

    for name, read in (("x.npy", np.load), ("x.h5", lambda path: h5py.File(path)["samples"][...]),
                       ("x.zarr", lambda path: zarr.open_group(path, mode="r")["samples"][...])):
        said = skyhaul.json("export", *where, "-o", tmp_path / name, "--start", "10ms", "--duration", "10ms")
        x = scan.samples(0.01, 0.01)
        assert said["shape"] == list(x.shape) == [320_000, 8, 1]
        assert np.array_equal(read(tmp_path / name), x, equal_nan=True)
    chosen = tmp_path / "two.npy"
    skyhaul.run("export", *where, "-o", chosen, "--threads", "5,1", "--duration", "5ms", "--integers")
    two = recording.open(recorded.disks, recorded.scan, threads=[5, 1]).samples(duration=0.005, raw=True)
    assert np.array_equal(np.load(chosen), two)


def test_a_damaged_chunk_is_said_and_missing(skyhaul, recorded, tmp_path):
    chunk = sorted(recorded.disks[0].glob("*/*.0*"))[0]
    data = bytearray(chunk.read_bytes())
    data[5000] ^= 1
    chunk.write_bytes(data)
    words = [BINARY, "export", *recorded.on_disks(), recorded.scan, "-o", str(tmp_path / "x.npy")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "gap: " in done.stderr and "CRC-32C" in done.stderr, done.stderr
    assert np.isnan(np.load(tmp_path / "x.npy")).any()
    plotted = subprocess.run([BINARY, "plot", *words[2:-2]], capture_output=True, text=True, timeout=60)
    assert plotted.returncode == 1 and "gap: " in plotted.stderr and "missing frames by time" in plotted.stdout


def test_mark5b_in_a_file(skyhaul, tmp_path):
    given = [baseband.data.SAMPLE_MARK5B, "--channels", 8, "--sample-rate", "32MHz", "--near", "2014-06-01T00:00:00"]
    assert b"thread 0 channel 7" in skyhaul.run("plot", *given)
    skyhaul.run("export", *given, "-o", tmp_path / "x.f32")
    scan = recording.open(baseband.data.SAMPLE_MARK5B, channels=8, sample_rate=32_000_000, ref_time="2014-06-01T00:00:00")
    x = scan.samples()
    assert np.array_equal(np.fromfile(tmp_path / "x.f32", "<f4").reshape(x.shape), x, equal_nan=True)
    note = json.loads((tmp_path / "x.f32.json").read_text())
    assert note["start"].startswith("2014-06-13T05:30:01") and note["shape"] == list(x.shape)


@pytest.mark.parametrize("words, said", [
    (["plot", "nothing.vdif"], "No such file"),
    (["plot", "{}"], "no frames of a known format"),
    (["plot", "{}", "-o", "x.pdf"], "plots are written as .svg or .png"),
    (["plot", "/"], "is a directory\nhint: "),
    (["plot", baseband.data.SAMPLE_VDIF, "--block", "1"], "hint: "),
    (["plot", baseband.data.SAMPLE_VDIF, "--start", "1h"], "not in the data: they are from 2014-06-16T05:56:07Z to"),
    (["plot", baseband.data.SAMPLE_MARK5B], "hint: give channels"),
    (["export", baseband.data.SAMPLE_VDIF, "-o", "x.dat"], "hint: end it with .npy"),
    (["export", baseband.data.SAMPLE_VDIF, "-o", "/proc/x.npy"], "/proc/x.npy"),
    (["export", baseband.data.SAMPLE_VDIF, "-o", "x.npy", "--sample-rate", "1000001"], "no whole number of frames"),
    (["export", "exp", "--disk", "{dir}", "-o", "x.npy"], "exp"),
])
def test_wrong_use(skyhaul, tmp_path, words, said):
    garbage = tmp_path / "garbage"
    garbage.write_bytes(bytes(range(256)) * 100)
    words = [word.format(garbage, dir=tmp_path) for word in map(str, words)]
    done = subprocess.run([BINARY, *words], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 2 and said in done.stderr, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["garbage"]


def test_ctrl_c_ends_an_export_and_leaves_nothing(tmp_path):
    path = tmp_path / "long.vdif"
    with recording.create(path, sample_rate=64_000_000, start="2026-11-21T00:00:00", bits=1) as file:
        block = np.random.default_rng(1).normal(0, 1, (file.frame_samples * 100, 1, 1))
        for _ in range(8):
            file.write(block)
    words = [BINARY, "export", path, "--sample-rate", "64MHz", "-o", tmp_path / "x.h5"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    for _ in range(1000):
        if (tmp_path / "x.h5.part").exists():
            break
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=30)[1]
    # It may have been done by then.
    ended = process.returncode == 1 and "interrupted: nothing was written" in said
    assert ended or (process.returncode == 0 and (tmp_path / "x.h5").exists()), said
    assert not (tmp_path / "x.h5.part").exists() and (not ended or not (tmp_path / "x.h5").exists())
