"""Three stations send a common sky with the delays and rates of a model, and the correlator of the tutorial finds them again:
without loss, with loss, with a recorder that is killed and started again, with a disk that fills, and with scans that are copied before
they are read, by `copy` or from station to station over HTTP."""

import contextlib
import dataclasses
import math
import random
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pages
import pytest
from conftest import BINARY, ROOT, free_port

np = pytest.importorskip("numpy", reason="NumPy is not installed (make python)")
pytest.importorskip("skyhaul", reason="the package is not installed (make python)")

FPS, FRAMES, PER_FRAME = 500, 500, 32_000
RATE = FPS * PER_FRAME
EPOCH = 1_795_402_800
SCAN = "exp_sk_no0001"
# Bits per second at which data are sent, and more slowly for a recorder that is killed and started again within the scan.
PACE = FPS * 8040 * 8
SLOW = PACE // 8


@dataclasses.dataclass
class Drawn:
    """What is put in; drawn anew for each run."""

    station: str
    delay: float
    rate: float
    correlation: float

    def model(self):
        return self.delay, self.rate

    def send(self, sky, f, port, *faults, pace=PACE):
        words = f"station={self.station},seed={sky},correlation={self.correlation},delay={self.delay}s,rate={self.rate},epoch={EPOCH},frequency={f}Hz"
        return subprocess.Popen([BINARY, "send", "--sky", words, "--start", str(EPOCH), "--frame-rate", str(FPS), "--packets", str(FRAMES),
                                 "--rate", f"{pace}bps", "--to", f"udp://127.0.0.1:{port}", "--quiet", *faults],
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)  # fmt: skip


@pytest.fixture(scope="module")
def correlator():
    """The functions of the tutorial, as they are in the page."""
    names = {"__name__": "fringe"}
    for language, text in pages.blocks(ROOT / "docs/tutorials/fringe.md"):
        if language == "python" and "\ndef " in text:
            exec(compile(text, "fringe.md", "exec"), names)
    return names


def draw():
    chance = random.SystemRandom()
    stations = [Drawn(name, chance.uniform(-3e-6, 3e-6), chance.uniform(-1e-9, 1e-9), round(chance.uniform(0.08, 0.2), 3)) for name in ("Ef", "On", "Wz")]
    return stations, chance.getrandbits(32), float(chance.randrange(1_000_000_000, 15_000_000_000))


def as_put_in(correlator, drawn, stations, f):
    """Compare all baselines with what was put in; the wrong ones, by name of the baseline."""
    wrong = []
    # At first without a model.
    _, blind = correlator["correlate"](stations, [(0, 0)] * 3, f)
    for (i, j), (cross, pairs) in blind.items():
        seen = correlator["fringe"](cross, pairs, RATE, f)
        middle = len(cross) * correlator["POINTS"] * correlator["SEGMENTS"] / RATE / 2
        delay, rate = (a - b for a, b in zip(drawn[i].model(), drawn[j].model(), strict=True))
        far = (seen.delay - delay - rate * middle) * RATE
        if abs(far) > 0.03:
            wrong.append(f"{i}-{j}: the delay is {far:.3f} samples away")
        # The error of a slope: √12 of that of a phase, over the length of the scan.
        error = math.sqrt(12) / (2 * math.pi * f * 2 * middle * seen.snr)
        if abs(seen.rate - rate) > 6 * error:
            wrong.append(f"{i}-{j}: the rate is {(seen.rate - rate) / error:.1f} errors away")
    # Then with that which was put in: nothing is left, not even a phase.
    wrong += [f"{i}-{j}: {why}" for i, j, why in still(correlator, drawn, stations, f)]
    return wrong


def still(correlator, drawn, stations, f, sign=1):
    begin, stopped = correlator["correlate"](stations, [(sign * one.delay, sign * one.rate) for one in drawn], f)
    assert begin == np.datetime64(EPOCH, "s")
    for (i, j), (cross, pairs) in stopped.items():
        seen = correlator["fringe"](cross, pairs, RATE, f)
        expected = 0.8825 * math.sqrt(drawn[i].correlation * drawn[j].correlation * seen.pairs)
        # Noise of 1, and a hundredth for what the filter of the sky and the theory for weak signals leave out.
        if abs(seen.snr - expected) > 4 + expected / 100:
            yield i, j, f"the signal-to-noise ratio is {seen.snr:.1f}, not {expected:.1f}"
        if abs(seen.delay) * RATE > 0.03:
            yield i, j, f"{seen.delay * RATE:.3f} samples are left of the delay"
        if abs(seen.phase) > 6 / (2 * math.pi * expected):
            yield i, j, f"{seen.phase:.4f} cycles are left of the phase"


def records(record, count=3):
    return [record("--frame-rate", FPS, "--chunk", "512KiB", scan=SCAN) for _ in range(count)]


def wait(sending):
    for process in sending:
        assert process.wait(60) == 0


@pytest.mark.timeout(120)
def test_delays_rates_and_ratios_come_out_as_put_in(record, correlator):
    drawn, sky, f = draw()
    recorders = records(record)
    wait([one.send(sky, f, recorder.port) for one, recorder in zip(drawn, recorders, strict=True)])
    for recorder in recorders:
        recorder.finish()
    stations = [correlator["read"]([(recorder.disks, SCAN)]) for recorder in recorders]
    assert [station.there.sum() for station in stations] == [recorder.check()["datastreams"][0]["ledger"]["received"] * PER_FRAME for recorder in recorders]
    wrong = as_put_in(correlator, drawn, stations, f)
    assert not wrong, (wrong, drawn, sky, f)
    # The test sees a model with the wrong sign.
    assert len({(i, j) for i, j, _ in still(correlator, drawn, stations, f, sign=-1)}) == 3, (drawn, sky, f)


@pytest.mark.timeout(120)
def test_loss_a_killed_recorder_and_a_copy_change_no_delay(skyhaul, record, correlator, tmp_path):
    drawn, sky, f = draw()
    recorders = records(record)
    loss = [("--faults", f"loss=0.01,seed={sky + number}") for number in range(3)]
    sending = [one.send(sky, f, recorder.port, *faults, pace=SLOW) for one, recorder, faults in zip(drawn, recorders, loss, strict=True)]
    killed = recorders[1]
    end = time.monotonic() + 30
    while len(killed.chunks()) < 2 and time.monotonic() < end:
        time.sleep(0.02)
    killed.process.kill()
    killed.process.wait()
    killed.process.stdout.close()
    time.sleep(0.3)
    killed.start()
    wait(sending)
    for recorder in recorders:
        recorder.finish()

    of_copy = copied(skyhaul, recorders[2], tmp_path)
    parts = [[(recorders[0].disks, SCAN)], [(killed.disks, SCAN), (killed.disks, f"{SCAN}a")], [(of_copy, SCAN)]]
    stations = [correlator["read"](recordings) for recordings in parts]
    shares = [station.there.mean() for station in stations]
    assert 0.9 < shares[0] < 1 and 0.9 < shares[2] < 1 and 0.2 < shares[1] < 0.95, shares
    wrong = as_put_in(correlator, drawn, stations, f)
    assert not wrong, (wrong, drawn, sky, f)
    # The test sees lost samples that count as zeros.
    full = [dataclasses.replace(station, there=np.ones_like(station.there)) for station in stations]
    unlike = {(i, j) for i, j, why in still(correlator, drawn, full, f) if "ratio" in why}
    assert unlike >= {(0, 1), (1, 2)}, (unlike, shares, drawn, sky, f)


def copied(skyhaul, recorder, tmp_path):
    """The disks of the scan at another place; the first are gone."""
    there, token = tmp_path / "there", tmp_path / "token"
    there.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen([BINARY, "copy", "serve", "--root", there, "--token-file", token, "--listen", f"127.0.0.1:{port}"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        for _ in range(400):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        sources = [disk / SCAN for disk in recorder.disks]
        disks = [there / disk.name for disk in recorder.disks]
        for disk in disks:
            disk.mkdir()
        skyhaul.run("copy", *sources, *(f"127.0.0.1:{disk.name}" for disk in disks), "--token-file", token, "--port", port)
    finally:
        server.terminate()
        server.wait(30)
    for disk in recorder.disks:
        shutil.rmtree(disk)
    return disks


@pytest.mark.timeout(120)
def test_a_disk_that_fills_and_a_third_party_copy_change_no_delay(skyhaul, record, correlator, tmp_path):
    drawn, sky, f = draw()
    with small_disk(tmp_path / "recorder0/disk0", 3 << 20) as (under, seen):
        full = record("--frame-rate", FPS, "--chunk", "512KiB", "--reserve", "0B", scan=SCAN, under=under, disks=1)
        recorders = [full, *records(record, 2)]
        wait([one.send(sky, f, recorder.port) for one, recorder in zip(drawn, recorders, strict=True)])
        reports = [recorder.finish() for recorder in recorders]
        of_copy = by_third_party(recorders[2], tmp_path)
        stations = [correlator["read"](recordings) for recordings in ([(seen, SCAN)], [(recorders[1].disks, SCAN)], [(of_copy, SCAN)])]
    # The first has what its disk could hold, and says so.
    [stream] = reports[0]["recording"]["datastreams"]
    ledger = stream["ledger"]
    frames = [station.there.sum() / PER_FRAME for station in stations]
    assert frames == [ledger["recorded"], FRAMES, FRAMES] and ledger["recorded"] + ledger["discarded"] == FRAMES, (frames, ledger)
    assert 0.3 < frames[0] / FRAMES < 0.8, ledger
    wrong = as_put_in(correlator, drawn, stations, f)
    assert not wrong, (wrong, drawn, sky, f)


@contextlib.contextmanager
def small_disk(place, size):
    """A disk of so many bytes that only what runs under the words sees at `place`, and where everybody else finds it."""
    holder = subprocess.Popen(["unshare", "--mount", "sh", "-c", f"mkdir -p {place} && mount -t tmpfs -o size={size} none {place} && echo ready && exec sleep 300"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
    try:
        if holder.stdout.readline() != "ready\n":
            pytest.skip(f"no mount of its own: {holder.stderr.read().strip()} (run as root)")
        yield ["nsenter", "--target", str(holder.pid), "--mount"], [Path(f"/proc/{holder.pid}/root{place}")]
    finally:
        holder.kill()
        holder.communicate()


def by_third_party(recorder, tmp_path):
    """The disk of another station, to which the recorder's own has copied the scan over HTTP; the first disks are gone."""
    stations = []
    there = tmp_path / "there"
    there.mkdir()
    try:
        for name, disks in (("from", recorder.disks), ("to", [there])):
            config, said = tmp_path / f"{name}.toml", tmp_path / f"{name}.err"
            text = '[station]\nlisten = "127.0.0.1:0"\nmemory = "64MiB"\n' + "".join(f'[[station.disk]]\npath = "{disk}"\n' for disk in disks)
            text += f'[[station.input]]\nname = "a"\nlisten = ["udp://127.0.0.1:{free_port()}"]\nmemory = "64MiB"\n'
            text += '[http]\nlisten = "127.0.0.1:0"\nrecordings = true\nrecord_uploads = true\ncopy = { allow = ["127.0.0.1"] }\n'
            config.write_text(text)
            with said.open("wb") as errors:
                process = subprocess.Popen([BINARY, "serve", "--config", config], stdin=subprocess.DEVNULL, stderr=errors)
            stations.append([process, said, None])
        for station in stations:
            for _ in range(400):
                if found := re.search(r"files on (http://\S+)", station[1].read_text()):
                    station[2] = found[1]
                    break
                assert station[0].poll() is None, station[1].read_text()
                time.sleep(0.05)
        source, target = (f"{station[2]}/recordings/{SCAN}" for station in stations)
        subprocess.run([BINARY, "copy", "--quiet", "--third-party", source, target], check=True, timeout=60, stdin=subprocess.DEVNULL)
    finally:
        for process, _, _ in stations:
            process.send_signal(signal.SIGINT)
            process.wait(30)
    for disk in recorder.disks:
        shutil.rmtree(disk)
    return [there]


@pytest.mark.timeout(120)
def test_stations_are_correlated_by_dask(record, correlator):
    dask = pytest.importorskip("dask", reason="Dask is not installed (make python)")
    drawn, sky, f = draw()
    recorders = records(record, 2)
    wait([one.send(sky, f, recorder.port) for one, recorder in zip(drawn, recorders, strict=False)])
    for recorder in recorders:
        recorder.finish()
    models = [one.model() for one in drawn[:2]]
    lazy = [dask.delayed(correlator["read"])([(recorder.disks, SCAN)]) for recorder in recorders]
    task = dask.delayed(lambda a, b: correlator["correlate"]([a, b], models, f)[1][0, 1])(*lazy)
    [(cross, pairs)] = dask.compute(task, scheduler="threads")
    seen = correlator["fringe"](cross, pairs, RATE, f)
    expected = 0.8825 * math.sqrt(drawn[0].correlation * drawn[1].correlation * seen.pairs)
    assert abs(seen.snr - expected) < 4 + expected / 100, (seen, expected, drawn, sky, f)
