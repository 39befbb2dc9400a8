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
        self.equal("fill on disk", on_disk=filled, reported=report["frames_filled"])
        self.equal("lost", lost=lost, filled_and_left_out=report["frames_filled"] + report["frames_left_out"])
        if not fill:
            self.equal("no fill on disk", on_disk=filled, asked=0)
        ledger = report["recording"]["ledger"]
        self.equal("ledger: received", ledger=ledger["received"], placed=placed, top=report["ledger"]["received"])
        self.equal("ledger: recorded", ledger=ledger["recorded"], on_disk=real)
        self.equal("ledger: never received", ledger=ledger["never_received"], lost=lost,
                   parts=ledger["in_chunks"] + ledger["between_chunks"])
        must("unbalanced" not in report and "unbalanced" not in report["recording"], "unbalanced", str(report.get("unbalanced")))
        if not every:
            must(record.code == 1, "nothing recorded, and exit 0", f"{report['rejects']}")
        self.kept_once(every)
        left_out = sum(self.in_time(name, all_of, fill) or 0 for name, all_of in units.items())
        if fill and self.regular and not any("split" in option for option in world.options):
            self.equal("left out", reported=report["frames_left_out"], steps_in_the_files=left_out)
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
        if world.fault in ("jump", "pause"):
            # The second half of a frame has the time of its first one, which may be fill.
            taken = {unit.stamp for unit in (units[::2] if world.form == "fila10g" else units) if unit.sent}
            clash = sum(unit.fill and unit.stamp in taken for unit in units if unit.stamp)
            must(not clash, "fill at the time of a frame that came", f"{clash} in {name}")
        if world.fault not in ON_TIME:
            return
        if not fill or world.form == "fila10g":
            order = [one.slot for one in real]
            must(order == sorted(order) or world.fault == "restart", "order", f"{name}: frames are not in the order of their times")
            return
        left_out, wrong, groups = self.steps(units)
        if world.fault == "restart":
            # In a hole of the last blocks lies what has the same number after the restart.
            at = world.details["at slot"]
            last = max((n for n, unit in enumerate(units) if unit.sent and unit.sent.slot < at), default=0)
            wrong = wrong if sum(u.sent is not None and u.sent.slot >= at for u in units[:last]) < sum(wrong.values()) else {}
        must(sum(wrong.values()) <= self.doubtful, "times do not continue", f"{name}: steps {wrong} of {len(units)} frames")
        must(any(unit.sent for unit in units[:groups]) and any(unit.sent for unit in units[-groups:]), "fill at an end", name)
        return left_out

    @property
    def regular(self):
        """The schedule alone says which frames there are: times and numbers have no other gaps than the network's."""
        world = self.world
        # Without a rate nobody knows how many frames of a second are missing at its end.
        rated = world.by_number or world.format.fps is None or getattr(world.format, "edv", 0) in (1, 3) \
            or "--frame-rate" in world.options
        times = world.fault in ON_TIME - {"restart"} and world.details.get("numbers") != "not used"
        return rated and times and world.form != "fila10g" and not (world.by_number and world.fault == "late")

    @property
    def doubtful(self):
        """Frames of fill whose thread nobody can know: lost where numbers belong to a thread that has not been heard, or where a
        thread that takes no numbers comes or goes."""
        world = self.world
        if not world.by_number or world.fault not in ("late", "vanished", "returned"):
            return 0
        return 4 if world.details["numbers"] == "not used" else len(world.sent) if world.fault == "late" else 0

    def steps(self, units):
        """Frames left out between neighbours of one thread; steps that are none, by size; and the number of threads."""
        threads = {}
        for unit in units:
            if unit.stamp:
                threads.setdefault(unit.stamp.thread, []).append(unit)
        left_out, wrong = 0, collections.Counter()
        for all_of in threads.values():
            at = [self.linear(unit.stamp) for unit in all_of]
            for one, two in zip(at, at[1:]):
                left_out += max(0, two - one - 1)
                if two <= one:
                    wrong[two - one] += 1
        return left_out, dict(wrong), len(threads)

    def filled_up(self, cat, name=SCAN):
        """`cat --fill`: nothing is left out."""
        units = self.units(cat.out)
        bad = collections.Counter(unit.why for unit in units if unit.why)
        self.must(not bad, "cat --fill", str(dict(bad)))
        mine = collections.Counter(id(unit.sent) for unit in units if unit.sent)
        disk = collections.Counter(id(unit.sent) for unit in self.units(self.ran.stream(name)) if unit.sent)
        self.must(mine == disk, "cat --fill: frames", f"{sum(mine.values())} of {sum(disk.values())}")
        if self.regular:
            left_out, wrong, _ = self.steps(units)
            self.must(not left_out and not wrong, "cat --fill: times", f"{name}: {left_out} left out, steps {wrong}")

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
        # What the numbers of a report show is not silent either: frames that were refused, or are missing.
        refused = sum(report["rejects"].values()) - report["rejects"].get("truncated", 0)
        shown = {"again": refused, "back": refused, "frozen": refused, "stuck": refused, "pause": lost, "jump": lost,
                 "gap": True, "none": True}.get(world.fault)
        # EDV 1 is half the rate with some writers, which is said, and that frame numbers do not fit the rate.
        shown = shown or world.fault == "rate" and any("EDV 1" in quirk or "rate unknown" in quirk for quirk in quirks)
        self.heard = bool(events or shown or code)
        self.said = f"lost {lost}, exit {code}, rejects {report['rejects']}, quirks {quirks}"

    @property
    def visible(self):
        """Whether the fault shows in what was sent, and for long enough to tell it from a loss."""
        world, details = self.world, self.world.details
        fps, slots = world.format.fps or 12208, details["slots"]
        long = {"vanished": slots - details.get("at slot", 0), "late": details.get("at slot", 0),
                "returned": details.get("to slot", 0) - details.get("from slot", 0)}
        if world.fault in long:
            return long[world.fault] > 2 * fps
        if world.fault == "restart" and ("time" in world.options or "--split-threads" in world.options):
            return False  # numbers are not used
        if world.fault == "rate":
            return slots > 3 * max(fps, details["true rate"])
        if world.fault in ("frozen", "stuck"):
            return details["wrong times"] > 2 * len(world.threads)
        if world.fault == "clock":
            return slots > max(100, 1.5 * fps)
        # One thread that has another station from its first frame to its last is what that thread is.
        return world.fault not in ("none", "gap", "station")

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
            self.equal(f"check: fill of {name}", on_disk=sum(u.fill for u in here), filled=about["filled_frames"])
            self.equal(f"check: illegal of {name}", on_disk=sum(bool(u.why) for u in here), check=about["illegal_frames"])
            mine, theirs = about["ledger"], recorded[name]["ledger"]
            for count in ("received", "never_received", "recorded"):
                self.equal(f"check: {count} of {name}", check=mine[count], record=theirs[count])
        if not any(units.values()):
            must(check.code == 1, "check: an empty scan is complete", f"exit {check.code}, {report['verdict']}")
        elif self.world.fault in ("none", "gap", "clock"):
            must(check.code == 0, "check: a fault that is not there", f"{report['verdict']} {report['findings'][:2]}")
        irregular = report["verdict"] == "irregular"
        must(check.code == 1 or not irregular, "check: irregular, and exit 0")
        if self.visible and not self.heard and not irregular:
            must(False, "silent", f"{self.world.fault}: neither an event nor irregular for check ({self.said})")

    def counts(self, check, record, name):
        """The sums of a check of a damaged recording."""
        about = next(d for d in check["datastreams"] if d["name"] == name)
        there = next(d for d in record["recording"]["datastreams"] if d["name"] == name)
        for count in ("received", "never_received"):
            self.equal(f"gone: check: {count}", check=about["ledger"][count], record=there["ledger"][count])
        ledger = about["ledger"]
        self.equal("gone: check: in all", received=ledger["received"],
                   parts=sum(ledger[k] for k in ("recorded", "pending", "discarded", "damaged", "unverified")))

    def refilled(self, what, before, after, victims):
        """Fill of the same length and times stands where the chunks were."""
        if not self.must(len(before) == len(after), what, f"{len(after)} units, {len(before)} were recorded"):
            return
        bad = collections.Counter(unit.why for unit in after if unit.why) - collections.Counter(u.why for u in before if u.why)
        self.must(not bad, what, f"{dict(bad)}, chunks {victims}")
        wrong = [(old.stamp, new.stamp) for old, new in zip(before, after) if old.stamp and new.stamp and old.stamp != new.stamp]
        if self.regular:
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
            for count in ("received", "never_received", "recorded"):
                self.equal(f"ls: {count}", ls=scans[0]["ledger"][count], record=record.json["recording"]["ledger"][count])

    def read_back(self, cat, name=SCAN):
        data = self.ran.stream(name)
        self.must(cat.code == 0, "cat's exit code", str(cat))
        self.must(cat.out == data, "cat is not what lies on disk", f"{len(cat.out)} bytes, {len(data)} on disk")


def wire_near(world):
    return world.sent[0].stamp.second
