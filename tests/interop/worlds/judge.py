"""What must hold of a recorded world: every count against the ledger and against every other, every frame at its time."""

import collections
import dataclasses

import numpy

from . import wire
from .ran import SCAN

# Faults that leave the times of all frames as the schedule has them.
ON_TIME = {"none", "gap", "late", "vanished", "returned", "clock", "restart", "station", "restation"}
QUIET_EVENTS = {"same_device"}


@dataclasses.dataclass
class Unit:
    """A unit on disk: one that was sent, or fill, or neither."""

    sent: object = None
    stamp: wire.Stamp = None
    fill: bool = False
    why: str = ""


class Judge:
    def __init__(self, world, ran):
        self.world, self.ran, self.problems = world, ran, []
        self.sent = {}
        for one in world.sent + world.beside:
            parts = [one.frame[:5008], one.frame[5008:]] if world.form == "fila10g" else [one.frame]
            for part in parts:
                self.sent[part] = one

    def must(self, holds, what, text=""):
        if not holds:
            self.problems.append(f"{what}: {text}")
        return holds

    def equal(self, what, **values):
        """All of these are the same number."""
        self.must(len(set(values.values())) == 1, what, ", ".join(f"{name} {value}" for name, value in values.items()))

    # What is on disk.

    def units(self, data):
        size = self.world.unit
        self.must(len(data) % size == 0, "torn", f"{len(data)} bytes are not whole units of {size}")
        return [self.unit(data[at:at + size]) for at in range(0, len(data) - size + 1, size)]

    def unit(self, data):
        if one := self.sent.get(data):
            return Unit(one, one.stamp)
        if self.world.form == "fila10g":
            return self.half(data)
        read = self.world.read(data)
        if read is None:
            if not any(data):
                return Unit(why="zeros")
            return Unit(why="fill without a header" if data == wire.FILL_WORD * (len(data) // 4) else "not a frame")
        stamp, invalid, payload = read
        if payload != wire.FILL_WORD * (len(payload) // 4):
            return Unit(stamp=stamp, why="a frame that nobody sent")
        return Unit(stamp=stamp, fill=True, why="" if invalid else "fill that is not marked invalid")

    def half(self, data):
        if data == wire.FILL_WORD * 1252:
            return Unit(fill=True)
        if data[:4] == wire.SYNC_5B.to_bytes(4, "little"):
            if data[16:] != wire.FILL_WORD * 1248:
                return Unit(why="a half frame that nobody sent")
            read = self.world.format.read(data + wire.FILL_WORD * 1252, wire_near(self.world))
            return Unit(stamp=read and read[0], fill=True, why="" if read else "fill with an unreadable header")
        return Unit(why="zeros" if not any(data) else "a half frame that nobody sent")

    # A recording.

    def recorded(self, record, *, fill=True):
        """The report of `record` and the files: returns the units of all datastreams."""
        world, must = self.world, self.must
        if not must(record.code in (0, 1) and record.out, "record's exit code", str(record)):
            return {}
        report = record.json
        self.fed(report)
        placed = sum(stream["placed"] for stream in report["streams"])
        lost = sum(stream["lost"] for stream in report["streams"])
        units = {name: self.units(self.ran.stream(name)) for name in self.ran.names()}
        every = [unit for all_of in units.values() for unit in all_of]
        for why, count in collections.Counter(unit.why for unit in every if unit.why).items():
            must(False, why, f"{count} of {len(every)} units on disk")
        real = sum(unit.sent is not None for unit in every)
        filled = sum(unit.fill for unit in every)
        self.equal("units on disk", on_disk=real, placed=placed)
        if fill:
            self.equal("fill on disk", on_disk=filled, lost=lost,
                       missing_units=sum(d["missing_units"] for d in report["recording"]["datastreams"]))
        else:
            self.equal("no fill on disk", on_disk=filled, asked=0)
        self.kept_once(every)
        for name, all_of in units.items():
            self.in_time(name, all_of, fill)
        self.seen(report, record.code)
        return units

    def fed(self, report):
        """Every packet of the capture is in a count, and the counts add up; returns the rejects."""
        fed = len(self.world.packets)
        self.equal("packets", capture=fed, report=report["packets"], source=sum(s["packets"] for s in report["sources"]))
        rejects = collections.Counter()
        for stream in report["streams"]:
            self.equal(f"packets of stream {stream['id']}", packets=stream["packets"],
                       placed_and_rejected=stream["placed"] + sum(stream["rejects"].values()))
            rejects.update(stream["rejects"])
        rejects.update(report["stranger_rejects"])
        rejects.update(report["other_streams"]["rejects"])
        self.must(+rejects == collections.Counter(report["rejects"]), "rejects", f"{dict(rejects)} {report['rejects']}")
        placed = sum(stream["placed"] for stream in report["streams"])
        self.equal("packets in all", capture=fed, placed_and_rejected=placed + sum(rejects.values()))
        return dict(rejects)

    def kept_once(self, every):
        copies = collections.Counter(id(unit.sent) for unit in every if unit.sent)
        share = 2 if self.world.form == "fila10g" else 1
        arrived = {id(one): one.arrived for one in self.world.sent + self.world.beside}
        more = sum(count > max(share, 1) and count > arrived[one] for one, count in copies.items())
        self.must(not more, "recorded more often than it came", f"{more} frames")

    def in_time(self, name, units, fill):
        """Each unit is where its time says, and fill takes nobody's place."""
        world, must = self.world, self.must
        real = [unit.sent for unit in units if unit.sent]
        if not real:
            return
        if world.fault not in ON_TIME:
            taken = {unit.stamp for unit in units if unit.sent}
            clash = sum(unit.fill and unit.stamp in taken for unit in units if unit.stamp)
            must(not clash, "fill at the time of a frame that came", f"{clash} in {name}")
            return
        if not fill or world.form == "fila10g":
            order = [one.slot for one in real]
            must(order == sorted(order), "order", f"{name}: frames are not in the order of their times")
            return
        threads = {}
        for unit in units:
            if unit.stamp:
                threads.setdefault(unit.stamp.thread, []).append(unit)
        for thread, all_of in threads.items():
            at = [self.linear(unit.stamp) for unit in all_of]
            steps = collections.Counter(b - a for a, b in zip(at, at[1:]))
            bad = {step: count for step, count in steps.items() if step != 1}
            must(not bad, "times do not continue", f"{name}, thread {thread}: steps {bad} of {len(at)} frames")
        group = len(threads)
        must(any(unit.sent for unit in units[:group]) and any(unit.sent for unit in units[-group:]), "fill at an end", name)

    def linear(self, stamp):
        if self.world.form == "lofar":
            return self.world.format.number(stamp)
        return stamp.second * self.world.format.fps + stamp.frame

    def seen(self, report, code):
        """A fault is reported, and nothing is reported where there is none."""
        world = self.world
        events = [e for e in report["events"] + report["recording"]["events"] if e["kind"] not in QUIET_EVENTS]
        self.events = events
        quirks = [quirk for stream in report["streams"] for quirk in stream["quirks"]]
        lost = sum(stream["lost"] for stream in report["streams"])
        if world.fault == "none" and not any(world.details[k] for k in ("loss", "reordering", "alien")):
            self.must(not events and not lost, "a fault that is not there", f"lost {lost}, {events}")
        heard = events or sum(report["rejects"].values()) if world.fault == "again" else events or world.fault in ("none", "gap")
        # A pause is a loss where time is all that numbers frames.
        heard = heard or world.fault == "pause" and lost
        if not heard:
            self.must(False, "silent", f"{world.fault}: no event (lost {lost}, exit {code}, rejects {report['rejects']}, "
                                        f"quirks {quirks})")

    def checked(self, check, record, units):
        """`check --json`."""
        must = self.must
        if not must(check.code in (0, 1) and check.out, "check's exit code", str(check)):
            return
        report, recorded = check.json, {d["name"]: d for d in record.json["recording"]["datastreams"]}
        for about in report["datastreams"]:
            name = about["name"]
            here = units.get(name, [])
            self.equal(f"check: frames of {name}", on_disk=len(here), frames_seen=about["frames_seen"])
            self.equal(f"check: fill of {name}", on_disk=sum(unit.fill for unit in here), filled=about["filled_frames"])
            self.equal(f"check: missing of {name}", record=recorded[name]["missing_units"], check=about["missing_units"])
            self.equal(f"check: illegal of {name}", on_disk=sum(bool(u.why) for u in here), check=about["illegal_frames"])
        if not any(units.values()):
            must(check.code == 1, "check: an empty scan is complete", f"exit {check.code}, {report['verdict']}")

    def counts(self, check, record, name, gone):
        """The sums of a check of a damaged recording."""
        about = next(d for d in check["datastreams"] if d["name"] == name)
        there = next(d for d in record["recording"]["datastreams"] if d["name"] == name)
        self.must(about["chunks"] == there["acknowledged"] - len(about["damaged"]) - sum(b - a for a, b in about["gaps"]),
                  "gone: check: chunks", f"{about}")

    def refilled(self, what, before, after, victims):
        """Fill of the same length and times stands where the chunks were."""
        if not self.must(len(before) == len(after), what, f"{len(after)} units, {len(before)} were recorded"):
            return
        bad = collections.Counter(unit.why for unit in after if unit.why) - collections.Counter(u.why for u in before if u.why)
        self.must(not bad, what, f"{dict(bad)}, chunks {victims}")
        wrong = [(old.stamp, new.stamp) for old, new in zip(before, after) if old.stamp and new.stamp and old.stamp != new.stamp]
        if self.world.fault in ON_TIME | {"pause", "jump"}:
            self.must(not wrong, what, f"{len(wrong)} of {len(after)} units have another time or thread, such as {wrong[:1]}")

    def exported(self, done, array, units, rows):
        """An exported array against the frames on disk."""
        report, must = done.json, self.must
        here = {}
        for unit in units:
            if unit.sent:
                here.setdefault((self.linear(unit.stamp), unit.stamp.thread), []).append(unit.sent)
        real = sum(map(len, here.values()))
        shown = report["frames"] - report["missing"]
        if done.code == 0:
            must(shown == real, "export: frames", f"{shown} of {real} on disk, and exit 0: {report}")
        first = min(at for at, _ in here)
        threads = sorted({thread for _, thread in here})
        if not must(array.shape[1] == len(threads), "export: threads", f"{array.shape} {threads}"):
            return
        wrong = 0
        for (at, thread), those in here.items():
            piece = array[(at - first) * rows:(at - first + 1) * rows, threads.index(thread), 0]
            if len(piece) == rows:
                codes = numpy.frombuffer(those[0].frame[self.world.format.header:], "u1")
                codes = numpy.stack([codes >> shift & 3 for shift in (0, 2, 4, 6)], axis=1).ravel().astype("i2") - 2
                wrong += len(those) == 1 and not numpy.array_equal(piece, codes)
        must(not wrong or done.code, "export: samples", f"{wrong} of {real} frames are not where their headers say")

    def discarded(self, report, check, units):
        """Of a recording whose disks were full: placed is what is on disk and what was discarded."""
        placed = sum(stream["placed"] for stream in report["streams"])
        real = sum(unit.sent is not None for unit in units)
        ledgers = [report["recording"].get("ledger"), check.get("ledger")]
        for name, ledger in zip(("record", "check"), ledgers):
            if not self.must(ledger, f"full: {name} has no ledger"):
                continue
            self.equal(f"full: {name}: received", placed=placed, received=ledger["received"])
            self.equal(f"full: {name}: recorded", on_disk=real, recorded=ledger["recorded"])
            self.equal(f"full: {name}: in all", received=ledger["received"],
                       parts=sum(ledger[k] for k in ("recorded", "pending", "discarded", "damaged", "unverified")))
            self.equal(f"full: {name}: discarded", discarded=ledger["discarded"], by=sum(ledger["discarded_by"].values()))

    def listed(self, ls, record):
        """`ls --json`."""
        if not self.must(ls.code in (0, 1) and ls.out, "ls's exit code", str(ls)):
            return
        streams = record.json["recording"]["datastreams"] if record.out else []
        scans = [scan for scan in ls.json if scan["scan"] == SCAN]
        if self.must(len(scans) == 1, "ls does not list the scan", str(ls.json)[:500]):
            self.equal("ls: bytes", ls=scans[0]["bytes"], record=sum(d["acknowledged_bytes"] for d in streams),
                       on_disk=sum(len(self.ran.stream(d["name"])) for d in streams))
            self.equal("ls: chunks", ls=scans[0]["chunks"], record=sum(d["acknowledged"] for d in streams))

    def read_back(self, cat, name=SCAN):
        data = self.ran.stream(name)
        self.must(cat.code == 0, "cat's exit code", str(cat))
        self.must(cat.out == data, "cat is not what lies on disk", f"{len(cat.out)} bytes, {len(data)} on disk")


def wire_near(world):
    return world.sent[0].stamp.second
