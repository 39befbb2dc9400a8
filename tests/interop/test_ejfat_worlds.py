"""Two tenants at one balancer, whose senders, workers, data planes and control plane are killed at random moments.

A seed is a world. Without more, two are played, in one of which a worker is killed shortly before the end;
`SKYHAUL_EJFAT_WORLDS=20` plays as many, and `SKYHAUL_EJFAT_WORLDS=7-9` those. A thousand are played without processes, in which each
packet is accounted for: `skyhaul-sim site --worlds 1000`.
"""

import collections
import contextlib
import os
import pathlib
import random
import signal
import time

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed")
pytest.importorskip("grpc_tools", reason="grpcio-tools is not installed")

import ejfat_site as ejfat  # noqa: E402

ASKED = os.environ.get("SKYHAUL_EJFAT_WORLDS")
FIRST, _, LAST = (ASKED or "0").partition("-")
WORLDS = range(int(FIRST), int(LAST) + 1) if LAST else range(int(FIRST)) if ASKED else (0, 1992)
RATE, SECONDS = 300, 10
# Of an event.
BYTES, PACKETS = 3000, 3


class Tenant:
    """A reservation, its workers, and the starts of its sender: each has a data id of its own, so its ticks are told apart."""

    def __init__(self, world, number, reply):
        self.world, self.number, self.uri = world, number, reply.ejfatUri
        self.workers, self.killed, self.senders, self.sent = [], [], [], collections.Counter()
        for _ in range(2):
            self.start_worker()

    def start_worker(self):
        name = f"t{self.number}w{len(self.workers) + len(self.killed)}"
        self.workers.append(self.world.site.worker(self.uri, "--verify", name=name))

    def start_sender(self):
        data_id = 100 * self.number + len(self.senders)
        words = ("--tick", 0, "--event", BYTES, "--event-rate", RATE, "--rate", "1Gbps", "--data-id", data_id, "--json")
        self.senders.append(self.world.site.job(f"t{self.number}s{len(self.senders)}", "send", "--format", "ejfat", "--pattern", *words,
                                                env={"EJFAT_URI": self.uri}))  # fmt: skip

    def stop_sender(self):
        self.sent[100 * self.number + len(self.senders) - 1] = self.senders[-1].end(expect=None)["events"]

    def kill_worker(self, rng):
        gone = self.workers.pop(rng.randrange(len(self.workers)))
        gone.kill()
        self.killed.append(gone)
        self.start_worker()


class World:
    def __init__(self, site, seed):
        self.site, self.rng = site, random.Random(seed)
        self.state = site.directory / "state.db"
        number = 30_000 + seed % 20_000
        addresses = [f"127.{number >> 8}.{number & 255}.{last}" for last in (1, 2)]
        self.words = [*(word for ip in addresses for word in ("--instance-address", ip)), "--state", self.state]
        self.starts, self.balance = 0, None
        self.start()
        replies = [self.balance.operator("ReserveLoadBalancer", name=f"t{n}", senderAddresses=["127.0.0.0/8"]) for n in range(2)]
        # Started again, it is found where it was.
        self.api = self.balance.api
        self.tenants = [Tenant(self, number, reply) for number, reply in enumerate(replies)]

    def start(self):
        self.starts += 1
        api = self.api if self.balance else "127.0.0.1:0"
        self.balance = self.site.balance(*self.words, name="balance", ports=(), api=api)

    def planes(self):
        """The processes that forward: children of a balancer, or left behind by one."""
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = path.read_bytes().split(b"\0")
                if b"data-plane" in words and any(word.startswith(bytes(self.state)) for word in words):
                    yield int(path.parent.name)

    def kill_plane(self):
        if planes := list(self.planes()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.rng.choice(planes), signal.SIGKILL)

    def kill_control(self):
        self.balance.kill()
        time.sleep(self.rng.uniform(0.1, 1.5))
        self.start()

    def play(self):
        for tenant in self.tenants:
            tenant.start_sender()
        deeds = []
        for tenant in self.tenants:
            if self.rng.random() < 0.8:
                deeds.append(lambda tenant=tenant: (tenant.stop_sender(), tenant.start_sender()))
            if self.rng.random() < 0.6:
                deeds.append(lambda tenant=tenant: tenant.kill_worker(self.rng))
        deeds += [deed for deed in (self.kill_plane, self.kill_control) if self.rng.random() < 0.6]
        self.rng.shuffle(deeds)
        begun = time.monotonic()
        for moment, deed in zip(sorted(self.rng.uniform(2, SECONDS) for _ in deeds), deeds, strict=True):
            time.sleep(max(0, begun + moment - time.monotonic()))
            deed()
        time.sleep(max(2, begun + SECONDS + 2 - time.monotonic()))
        for tenant in self.tenants:
            tenant.stop_sender()

    def judge(self):
        for tenant in self.tenants:
            found = {}
            reports = [worker.end(expect=None) for worker in tenant.workers]
            assert all(report["objects"].get("events", {"wrong": 0})["wrong"] == 0 for report in reports), reports
            for worker in (*tenant.workers, *tenant.killed):
                for tick, data_id, received, missing in (map(int, row) for row in ejfat.rows(worker.list)):
                    assert data_id // 100 == tenant.number, f"data id {data_id} at tenant {tenant.number}"
                    assert (tick, data_id) not in found, f"tick {tick} of {data_id} is at two workers"
                    assert tick < tenant.sent[data_id] and received + missing == BYTES
                    found[tick, data_id] = missing == 0
            sent, whole = sum(tenant.sent.values()), sum(found.values())
            assert whole >= sent // 3, f"{whole} of {sent} are whole"
        report = self.balance.end(expect=None)
        if self.starts == 1 and all(reservation["plane_restarts"] == 0 for reservation in report["reservations"]):
            self.account(report)

    def account(self, report):
        """Nothing that counts was killed: what is not whole is counted with its reason."""
        for tenant, reservation in zip(self.tenants, report["reservations"], strict=True):
            counted = sum(reservation["refused"].values()) + sum(reservation["unsent"].values())
            counted += sum(source["socket_drops"] for source in reservation["sources"])
            # What went to a worker that was killed, whether the balancer has missed it yet or not.
            alive = {f"127.0.0.1:{worker.port}" for worker in tenant.workers}
            gone = sum(worker["packets"] for worker in reservation["workers"] if worker["address"] not in alive)
            drops = PACKETS * sum(tenant.sent.values()) - reservation["packets"]
            whole = sum(row[3] == "0" for worker in tenant.workers for row in ejfat.rows(worker.list))
            assert sum(tenant.sent.values()) - whole <= counted + -(-gone // PACKETS) + max(drops, 0), reservation

    def close(self):
        self.site.close()
        for pid in self.planes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("seed", WORLDS)
def test_every_event_is_whole_at_the_right_worker_or_counted(skyhaul, tmp_path, seed):
    world = World(ejfat.Site(tmp_path), seed)
    try:
        world.play()
        world.judge()
    finally:
        world.close()
