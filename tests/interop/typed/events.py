"""skyhaul.ejfat, as a program with types uses it."""

from typing import assert_type

from skyhaul import ejfat


def receive(uri: str) -> int:
    with ejfat.Worker(uri, address="node7") as worker:
        assert_type(worker, ejfat.Worker[ejfat.Event])
        for event in worker:
            assert_type(event, ejfat.Event)
        assert_type(worker.session, ejfat.Session)
        assert_type(worker.stats(), ejfat.ReceiveStats)
        return worker.stats()["incomplete_dropped"] + worker.session["registrations"]


def build(uri: str) -> float:
    with ejfat.Worker(uri, sources=[1, 2]) as worker:
        assert_type(worker.get(), ejfat.Built)
        assert_type(worker.stats(), ejfat.BuildStats)
        counts = worker.stats()["building"]
        assert_type(counts, ejfat.BuildCounts)
        return counts["whole"] / (counts["whole"] + counts["partial"] + counts["live"])


def transmit(uri: str) -> int:
    with ejfat.Sender(uri, first_tick=0) as sender:
        assert_type(sender.stats(), ejfat.SendStats)
        return sender.stats()["syncs"]
