"""Workers and the control plane of a load balancer: the command's own, on loopback."""

import asyncio
import doctest
import os
import pathlib
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import typing

import numpy as np
import pytest

from skyhaul import ejfat
from skyhaul._native import TickBuilder
from skyhaul.ejfat import Balancer, Built, Empty, Event, Stopped, Worker, _balancer, _worker

# Long enough for a loaded machine; nothing waits so long when all is well.
SOON = 60.0


def wait_for(what, done):
    end = time.monotonic() + SOON
    while time.monotonic() < end:
        found = done()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"waited too long for {what}")


def segments(tick, data_id, payload, balanced=False, most=1000):
    """An event as packets."""
    label = struct.pack(">2sBBHHQ", b"LB", 2, 1, 0, data_id, tick) if balanced else b""
    return [
        label + struct.pack(">BxHIIQ", 0x10, data_id, at, len(payload), tick) + payload[at : at + most]
        for at in range(0, len(payload), most)
    ]


def send(to, packets):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        for packet in packets:
            out.sendto(packet, to)


def at(worker):
    return worker.session["address"], worker.session["port"]


class Service:
    """`skyhaul balance`."""

    def __init__(self, command, directory):
        self.command = command
        self.directory = directory
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.api = f"127.0.0.1:{free.getsockname()[1]}"
        self.data, self.sync = random.sample(range(17000, 32000), 2)
        self.start()

    def start(self):
        line = [self.command, "balance", "--listen", "127.0.0.1", "--api", self.api, "--data-port", str(self.data), "--sync-port", str(self.sync),
                "--instances", "1", "--token-file", self.directory / "token", "--state", self.directory / "state", "--in-process"]  # fmt: skip
        with open(self.directory / "said", "ab") as said:
            self.process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=said, env={**os.environ, "SKYHAUL_CONFIG": "/dev/null"})
        wait_for("the balancer", self.answers)

    def answers(self):
        assert self.process.poll() is None, (self.directory / "said").read_text()
        try:
            return self.admin().version() is not None
        except (OSError, FileNotFoundError):
            return False

    def admin(self):
        return Balancer(f"ejfat://{(self.directory / 'token').read_text().strip()}@{self.api}/")

    def kill(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    beside = shutil.which("skyhaul", path=str(pathlib.Path(sys.executable).parent))
    command = os.environ.get("SKYHAUL_BIN") or beside
    if command is None:
        pytest.skip("the command is not installed (make python)")
    shown = subprocess.run([command, "balance", "--help"], capture_output=True, check=False)
    if shown.returncode:
        pytest.skip("this build of the command has no `balance`")
    service = Service(command, tmp_path_factory.mktemp("balance"))
    yield service
    service.kill()


@pytest.fixture
def run(service):
    """A reservation."""
    run = service.admin().reserve("run", hours=1, senders=["127.0.0.1"])
    yield run
    run.free()


def test_a_reservation_is_made_looked_after_and_freed(service):
    admin = service.admin()
    run = admin.reserve("run 7", hours=2, senders=["127.0.0.1"])
    assert run.uri.startswith("ejfat://") and "/lb/" in run.uri and f"data=127.0.0.1:{service.data}" in run.uri
    status = run.status()
    assert status.workers == [] and "127.0.0.1" in "".join(status.senders)
    assert status.expires is not None and 1.9 < (status.expires - time.time()) / 3600 < 2.1
    run.add_senders("10.1.2.3")
    assert any("10.1.2.3" in sender for sender in run.status().senders)
    run.remove_senders("10.1.2.3")
    assert not any("10.1.2.3" in sender for sender in run.status().senders)
    assert (run.extend(3) or 0) > time.time() + 2.9 * 3600
    assert run.get().uri.split("?")[1] == run.uri.split("?")[1]
    assert len(admin.overview()) == 1
    token = run.create_token("a job", [("reservation", run.uri.split("/lb/")[1].split("?")[0], "register")])
    assert token not in repr(run)
    assert [one.name for one in run.tokens()] == ["a job"]
    run.revoke_token(token)
    assert run.tokens() == []
    run.free()
    with pytest.raises((LookupError, PermissionError), match="hint: "):
        run.status()


def test_errors_say_what_to_do_and_never_the_token(service):
    for wrong, error in (
        (f"ejfat://s3cret@{service.api}/lb/1", PermissionError),
        ("ejfat://s3cret@127.0.0.1:1/lb/1", ConnectionError),
        (f"ejfat://s3cret@{service.api}/", ValueError),
    ):
        with pytest.raises(error, match="hint: ") as caught:
            Balancer(wrong).status()
        assert "s3cret" not in str(caught.value)
        with pytest.raises(error, match="hint: ") as caught:
            Worker(wrong, quiet=True)
        assert "s3cret" not in str(caught.value)
    with pytest.raises(ValueError, match='no permission "all" on "run"; hint: '):
        Balancer(f"ejfat://t@{service.api}/").create_token("x", [("run", "1", "all")])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"ports": 3}, "3 ports"), ({"ports": 2}, "2 ports from 0"), ({"ring": 0}, "at least 1"), ({"address": "10.0.0.5:17750"}, "an IP address or the name of a host"),
        ({"listen": "tcp://127.0.0.1:1"}, "udp://"), ({"timeout": -1}, "0 or more"), ({"weight": 0.0}, "weight 0"), ({"sources": []}, "at least one"),
        ({"sources": [1, 1]}, "named twice"),
    ],
)  # fmt: skip
def test_what_makes_no_worker(options, told):
    with pytest.raises(ValueError, match=told):
        Worker("ejfat://t@127.0.0.1:1/lb/1?data=127.0.0.1", **options)


def test_no_balancer(monkeypatch):
    monkeypatch.delenv("EJFAT_URI", raising=False)
    with pytest.raises(ValueError, match="no balancer; hint: pass uri, or set EJFAT_URI"):
        Worker()


def test_whole_events_come_and_the_last_one_before_the_end(run, monkeypatch):
    monkeypatch.setenv("EJFAT_URI", run.uri)
    with Worker(name="w1") as worker:
        payloads = [os.urandom(1 + 997 * n) for n in range(50)]
        for n, payload in enumerate(payloads):
            packets = segments(100 + n, n % 3, payload)
            random.shuffle(packets)
            send(at(worker), packets)
            event = worker.get(SOON)
            assert (event.tick, event.data_id, event.data.tobytes()) == (100 + n, n % 3, payload)
            assert isinstance(event, Event) and event.data.dtype == np.uint8 and len(memoryview(event.data)) == len(payload)
        with pytest.raises(Empty):
            worker.get(0.0)
        assert set(worker.stats()) == set(typing.get_type_hints(ejfat.ReceiveStats))
        session, declared = worker.session, typing.get_type_hints(ejfat.Session)
        assert set(session) == set(declared)
        assert [name for name, kind in declared.items() if not isinstance(session[name], kind)] == []
        [status] = wait_for("a report", lambda: [w for w in run.status().workers if w.taken == 50])
        assert (status.name, status.port, status.events, status.complete) == ("w1", worker.session["port"], 50, 50)
        # What is not whole is counted, and what comes while it leaves is received.
        send(at(worker), segments(7, 1, bytes(5000))[1:])
        worker.leave()
        send(at(worker), segments(8, 1, b"the last"))
        assert [(event.tick, event.data.tobytes()) for event in worker] == [(8, b"the last")]
        with pytest.raises(Stopped):
            worker.get(SOON)
        assert worker.session["has_left"] and worker.stats()["incomplete_dropped"] == 1
        assert worker.stats()["missing_heaps"] is None, "other workers may have what did not come here"
    assert run.status().workers == []


def test_hosts_are_given_by_name(service):
    addresses = {found[4][0] for found in socket.getaddrinfo("localhost", 0)}
    run = service.admin().reserve("named", hours=1, senders=["localhost", "127.0.0.1", "10.1.0.0/16"])
    senders = run.status().senders
    assert addresses <= set(senders) and len(senders) == len(addresses | {"127.0.0.1", "10.1.0.0/16"})
    run.remove_senders("localhost")
    assert run.status().senders == ["10.1.0.0/16"]
    run.add_senders("localhost")
    assert addresses <= set(run.status().senders)
    with Worker(run.uri, listen="127.0.0.1:0", address="localhost") as worker:
        assert worker.session["address"] == "127.0.0.1"
        assert [w.address for w in run.status().workers] == ["127.0.0.1"]
    for call in (lambda: run.add_senders("no-such-host.invalid"), lambda: Worker(run.uri, address="no-such-host.invalid")):
        with pytest.raises(socket.gaierror, match="resolve no-such-host.invalid"):
            call()
    run.free()


def test_leaving_the_block_leaves_the_balancer(run):
    with Worker(run.uri, listen="127.0.0.1:0") as worker:
        assert [w.session for w in run.status().workers] == [int(worker.session["session"])]
        assert "session" in repr(worker)
    assert run.status().workers == []
    worker.set_ready(True)
    worker.leave()
    dropped = Worker(run.uri)
    del dropped
    wait_for("it to leave", lambda: run.status().workers == [])


def test_events_through_the_balancer_reach_one_worker_each(run):
    sent, got = {}, {}
    with Worker(run.uri, name="a") as a, Worker(run.uri, name="b") as b:
        wait_for("both to have a share", lambda: len([w for w in run.status().workers if w.slots]) == 2)

        def take(worker):
            for tick, data_id, data in worker:
                got.setdefault(tick, []).append((worker, data_id, data.tobytes()))

        threads = [threading.Thread(target=take, args=(worker,)) for worker in (a, b)]
        for thread in threads:
            thread.start()
        host, port = run.uri.split("data=")[1].split("&")[0].split("-")[0].split(":")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            # Until both have got some: what each is given changes at a tick that is still to come.
            while len({worker for places in list(got.values()) for worker, _, _ in list(places)}) < 2 or len(sent) < 200:
                assert len(sent) < 20_000, f"{len(got)} of {len(sent)} arrived: {run.status()}"
                tick, payload = time.time_ns() // 1000, os.urandom(3000)
                sent[tick] = payload
                for packet in segments(tick, 5, payload, balanced=True):
                    out.sendto(packet, (host, int(port)))
                time.sleep(0.002)
        for worker in (a, b):
            worker.leave()
        for thread in threads:
            thread.join()
        dropped = a.stats()["kernel_drops"] + b.stats()["kernel_drops"]
    assert all(len(places) == 1 for places in got.values()), "no event reaches two"
    assert all((data_id, data) == (5, sent[tick]) for tick, [(_, data_id, data)] in got.items())
    if dropped == 0:
        # The first ones may have come before the balancer's first calendar.
        assert len(got) > len(sent) // 2


def test_ticks_are_built_of_several_sources(run):
    with Worker(run.uri, sources=[1, 2], build_timeout=0.3) as worker:
        to = at(worker)
        send(to, segments(10, 1, b"one") + segments(11, 1, b"uno") + segments(10, 7, b"stranger") + segments(10, 2, b"two"))
        built = worker.get(SOON)
        assert isinstance(built, Built) and built.tick == 10
        assert {data_id: data.tobytes() for data_id, data in built.parts.items()} == {1: b"one", 2: b"two"}
        with pytest.raises(Empty):
            worker.get(1.0)
        send(to, segments(11, 2, b"due") + segments(12, 2, b"dos") + segments(12, 1, b"uno"))
        assert next(worker).tick == 12
        assert worker.stats()["building"] == {
            "whole": 2, "partial": 1, "crowded": 0, "late": 1, "doubled": 0, "other_sources": 1, "live": 0}  # fmt: skip
        # At the end, no tick is uncounted.
        send(to, segments(13, 1, b"tres"))
        worker.leave()
        assert list(worker) == []
        building = worker.stats()["building"]
        assert (building["whole"], building["partial"] + building["live"]) == (2, 2)
        wait_for("its time", lambda: worker.stats()["building"]["partial"] == 2)
        assert worker.stats()["building"]["live"] == 0
        declared = typing.get_type_hints(ejfat.BuildStats)
        assert set(worker.stats()) == set(declared) and set(building) == set(ejfat.BuildCounts.__annotations__)


def test_ticks_under_construction_are_bounded():
    builder = TickBuilder([1, 2], 60.0, 4)
    for tick in range(100):
        builder.add(tick, 1, "first")
        builder.add(tick, 1, "again")
        assert builder.poll() is None
    assert builder.counts == {
        "whole": 0, "partial": 96, "crowded": 96, "late": 0, "doubled": 100, "other_sources": 0, "live": 4}  # fmt: skip
    builder.add(99, 2, "second")
    assert builder.poll() == (99, [(1, "first"), (2, "second")]), "the first one counts"
    for sources, window in (([], 4), ([1, 1], 4), ([1], 0), ([70_000], 4)):
        with pytest.raises(ValueError, match="hint: "):
            TickBuilder(sources, 1.0, window)


async def test_asyncio(run):
    with Worker(run.uri) as worker:
        to = at(worker)
        first = asyncio.create_task(worker.aget(SOON))
        await asyncio.sleep(0.01)
        send(to, segments(1, 2, b"a"))
        assert (await first).tick == 1
        with pytest.raises(Empty):
            await worker.aget(0.05)
        worker.leave()
        send(to, segments(2, 2, b"b"))
        assert [event.tick async for event in worker] == [2]
    with Worker(run.uri, sources=[1, 2]) as builder:
        send(at(builder), segments(3, 1, b"a") + segments(3, 2, b"b"))
        assert (await builder.aget(SOON)).tick == 3


def test_a_signal_ends_the_iteration(run):
    before = signal.getsignal(signal.SIGUSR1)
    try:
        with Worker(run.uri) as worker:
            worker.leave_on(signal.SIGUSR1)
            send(at(worker), segments(5, 1, b"x"))
            ticks = []
            for tick, _, _ in worker:
                ticks.append(tick)
                os.kill(os.getpid(), signal.SIGUSR1)
            assert ticks == [5] and worker.session["has_left"]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_it_goes_on_while_the_control_plane_is_away(service, capfd):
    run = service.admin().reserve("away", hours=1)
    with Worker(run.uri) as worker:
        service.kill()
        wait_for("it to notice", lambda: worker.session["times_away"] == 1)
        send(at(worker), segments(1, 1, b"meanwhile"))
        assert worker.get(SOON).data.tobytes() == b"meanwhile"
        service.start()
        wait_for("it to be back", lambda: worker.session["seconds_away"] > 0)
        wait_for("its report", lambda: [w for w in run.status().workers if w.taken == 1])
    said = capfd.readouterr().err
    assert "receiving continues" in said and "back after" in said
    assert run.uri.split("//")[1].split("@")[0] not in said
    run.free()


def job(uri, most):
    """What a job of Dask or Slurm does."""
    with Worker(uri) as worker:
        done = 0
        for tick, data_id, data in worker:
            done += len(data)
            if done >= most:
                break
        return done


def test_dask_workers_join(run):
    distributed = pytest.importorskip("distributed", reason="distributed is not installed (pip install distributed)")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster, distributed.Client(cluster) as client:
        futures = [client.submit(job, run.uri, 3000, pure=False) for _ in range(2)]
        workers = wait_for("two workers", lambda: (w := run.status().workers) and len(w) == 2 and w)
        for n, worker in enumerate(workers):
            send((worker.address, worker.port), segments(n, 1, bytes(3000)))
        assert client.gather(futures) == [3000, 3000]
    assert run.status().workers == []


@pytest.mark.parametrize("module", [_worker, _balancer])
def test_docstrings(module):
    failed, tried = doctest.testmod(module)
    assert tried > 0 and failed == 0


def test_names():
    assert all(hasattr(ejfat, name) for name in ejfat.__all__)
