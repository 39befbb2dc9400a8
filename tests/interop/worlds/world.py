"""A world: one sender, its faults and the network's, from one seed; and the ledger of what was sent."""

import dataclasses
import random

from . import wire

SECOND = 10**9
BASE = 1_772_600_707  # 2026-03-04T05:05:07Z
POOL = random.Random(7).randbytes(1 << 20)

# The faults of a sender, and what an operator must be able to see of each: a word of an event or finding.
FAULTS = ["none", "gap", "pause", "jump", "back", "frozen", "stuck", "late", "vanished", "returned", "rate", "station",
          "restation", "again", "restart", "clock"]
THREADED = {"late", "vanished", "returned"}


@dataclasses.dataclass
class Sent:
    """One frame that the sender made."""

    slot: int  # its place in the sender's schedule, from 0, for each thread
    stamp: wire.Stamp
    frame: bytes
    number: int  # the sequence number of its packet (of its first half, for FILA10G)
    host: int  # when it was sent, in nanoseconds of the host's clock
    arrived: int = 0  # packets of it in the capture


@dataclasses.dataclass
class World:
    seed: int
    form: str  # vdif, vtp, mark5b, fila10g, lofar
    format: object
    order: str
    threads: list
    fault: str
    details: dict
    options: list
    sent: list = dataclasses.field(default_factory=list)
    packets: list = dataclasses.field(default_factory=list)
    beside: list = dataclasses.field(default_factory=list)
    alien: int = 0

    def __str__(self):
        about = ", ".join(f"{key} {value}" for key, value in self.details.items())
        return (f"seed {self.seed}: {self.form} {self.format}, threads {self.threads}, {self.fault} ({about}), "
                f"{len(self.sent)} frames sent, {len(self.packets)} packets arrive, options {' '.join(self.options)}")

    @property
    def by_number(self):
        return self.form in ("vtp", "fila10g")

    @property
    def unit(self):
        """Bytes of what a packet leaves on disk."""
        return 5008 if self.form == "fila10g" else self.format.unit

    @property
    def of_receiving(self):
        """The options that `receive` has too."""
        own = self.options[-2:-1] in (["--sync"], ["--disk-engine"])
        return self.options[:-2] if own else self.options

    def read(self, frame):
        if self.format.name == "mark5b":
            return self.format.read(frame, BASE)
        return self.format.read(frame)


def payload(number, length):
    """Bytes that name the frame: no two frames have the same ones."""
    at = number * 7919 % (len(POOL) - length - 8)
    return (number.to_bytes(8, "little") + POOL[at:at + length])[:length]


def draw(seed, *, fault=None, form=None, calm=False):
    """The world of a seed. `calm`: no loss, no reordering, no alien packets beside the fault."""
    chance = random.Random(seed)
    form = form or chance.choice(["vdif", "vdif", "vtp", "vtp", "vtp", "mark5b", "fila10g", "lofar"])
    fault = fault or chance.choice(FAULTS)
    world = _sender(chance, seed, form, fault)
    _schedule(chance, world)
    _network(chance, world, calm)
    if random.Random(seed << 9).random() < 0.15:
        _beside(world)
    return world


def _sender(chance, seed, form, fault):
    options, details = [], {}
    threads, order = [0], "little"
    if form in ("vdif", "vtp"):
        count = chance.choice([2, 2, 4, 8] if fault in THREADED else [1, 1, 2, 4, 8])
        threads = sorted(chance.sample([0, 1, 2, 3, 4, 5, 6, 7, 8, 500, 1023], count)) if chance.random() < 0.3 \
            else list(range(count))
        # Rates that EDV 1 and 3 can state.
        payload, fps = chance.choice([(256, 125), (1000, 50), (1000, 100), (1000, 25), (5000, 50), (8000, 100), (8192, 125)])
        edvs = [None, 0, 1] + [3] * (payload in (1000, 5000))
        edv = chance.choice([1, 3][:1 + (payload in (1000, 5000))] if fault == "rate" else edvs)
        made = wire.Vdif(payload, fps, edv)
        if edv in (None, 0) and chance.random() < 0.6:
            options += ["--frame-rate", str(fps)]
        order = chance.choice(["little", "little", "big"])
    elif form in ("mark5b", "fila10g"):
        made = wire.Mark5b(chance.choice([25, 50, 100, 200]), plain=chance.random() < 0.3)
        if chance.random() < 0.6 or fault == "rate":
            options += ["--frame-rate", str(made.fps)]
    else:
        threads = list(range(chance.choice([2, 4] if fault in THREADED else [1, 1, 2, 4])))
        made = wire.Rsp(chance.choice([4, 8, 16]), clock=chance.choice([0, 1, 1]))
    if fault in THREADED and len(threads) == 1:
        fault = "gap"
    if form == "lofar" and fault == "rate":
        fault = "none"
    if fault in ("station", "restation") and made.name == "mark5b" or fault == "restart" and form not in ("vtp", "fila10g"):
        fault = "none"
    options += _options(random.Random(seed << 8), form, fault)
    return World(seed, form, made, order, threads, fault, details, options)


def _options(chance, form, fault):
    """What a user may ask for besides."""
    return chance.choice([
        *[[]] * 12,
        ["--keep-partial-sets"],
        ["--place", "time"] if form == "vtp" else [],
        ["--split-threads"] if form in ("vdif", "vtp") else [],
        ["--window", "4"],
        ["--start", str(BASE + 1)] if fault in ("none", "gap", "vanished") else [],
        ["--stop", str(BASE + 1)] if fault in ("none", "gap", "late") else [],
        ["--sync", "none"],
        ["--disk-engine", "plain"],
    ])


def _schedule(chance, world, first_payload=0):
    """What the sender sends, in order, and when."""
    many = {"vdif": 900, "vtp": 900, "lofar": 700, "mark5b": 160, "fila10g": 120}[world.form]
    slots = max(40, chance.randrange(many // 3, many) // len(world.threads))
    fps = world.format.fps or world.format.hertz / 1024 / wire.SLICES
    fault, details = world.fault, world.details
    first = chance.randrange(1, int(fps)) if world.form != "lofar" else None
    if world.form == "lofar":
        packet0 = world.format.begins(BASE + 1) // wire.SLICES - chance.randrange(10, slots - 10)
        begin = packet0 * wire.SLICES * 1024 / world.format.hertz - BASE
    at = chance.randrange(slots // 4, slots // 2)
    until = chance.randrange(at + 3, slots - 3)
    thread = chance.choice(world.threads)
    seconds = chance.choice([1, 1, 2, 3, 10, 60, 3600])
    drift = chance.choice([25 * 3600, -25 * 3600, 37, -18, 86400 * 365]) if fault == "clock" else 0
    if fault in ("jump", "back", "pause"):
        details |= {"at slot": at, "seconds": seconds}
    elif fault in ("gap", "frozen", "stuck", "returned"):
        details |= {"from slot": at, "to slot": until}
    elif fault in ("late", "vanished", "restart", "restation"):
        details["at slot"] = at
    elif fault == "clock":
        details["host ahead by s"] = drift
    if fault in THREADED or fault == "station":
        details["thread"] = thread
    true_fps = fps
    if fault == "rate":
        true_fps = chance.choice([fps * 2, fps // 2, fps * 5 // 4])
        details["true rate"] = true_fps
    psn = chance.choice([0, 0, 1, chance.randrange(1 << 20), chance.randrange(1 << 31)])
    if world.form == "fila10g":
        psn %= 1 << 31
    held = chance.random() < 0.5  # a thread that is not there still has its sequence numbers: the network lost it
    if fault in THREADED:
        details["numbers"] = "kept" if held else "not used"
    shuffled = chance.random() < 0.15 and not world.by_number
    sent, number = [], psn
    twice = 2 if fault == "again" else 1
    renumber = chance.random() < 0.5
    if fault == "again":
        details["numbers"] = "the same" if renumber else "continued"
    host0 = (BASE + drift) * SECOND
    for play in range(twice):
        if play and renumber:
            number = psn
        for slot in range(slots):
            if fault == "restart" and slot == at:
                number = 0
            threads = world.threads[:]
            if shuffled:
                chance.shuffle(threads)
            for t in threads:
                moved = seconds if slot >= at and fault in ("jump", "pause") else 0
                moved -= seconds if slot >= at and fault == "back" else 0
                stamp = _stamp(world, fault, slot, t, first, true_fps, moved, at, until,
                               packet0 if world.form == "lofar" else 0)
                gone = fault in THREADED and t == thread and (
                    fault == "late" and slot < at or fault == "vanished" and slot >= at
                    or fault == "returned" and at <= slot < until)
                if gone and not held:
                    continue
                changed = fault == "station" and t == thread or fault == "restation" and slot >= at
                station = (301 if world.form == "lofar" else b"Xx") if changed else None
                count = first_payload + len(sent)
                frame = world.format.write(stamp, payload(count, world.format.payload), station=station)
                pause = seconds * SECOND if fault == "pause" and slot >= at else 0
                taken = (first + slot) / true_fps if first is not None else begin + slot / true_fps
                host = host0 + int(taken * SECOND) + pause + 5_000_000 + t * 1000 + play * int((slots / true_fps + 5) * SECOND)
                one = Sent(slot, stamp, frame, number, int(host))
                number += 2 if world.form == "fila10g" else 1
                if not gone:
                    sent.append(one)
    world.sent = sent
    world.details["slots"] = slots
    if fault in ("frozen", "stuck"):
        right = [_stamp(world, "none", one.slot, one.stamp.thread, first, true_fps, 0, at, until,
                        packet0 if world.form == "lofar" else 0) for one in sent]
        details["wrong times"] = sum(one.stamp != stamp for one, stamp in zip(sent, right))


def _stamp(world, fault, slot, thread, first, fps, moved, at, until, packet0):
    held = at if fault in ("frozen", "stuck") and at <= slot < until else slot
    if world.form == "lofar":
        stamp = world.format.stamp(packet0 + slot, thread)
        if held != slot:
            old = world.format.stamp(packet0 + held, thread)
            stamp = old if fault == "stuck" else dataclasses.replace(stamp, second=old.second)
        return dataclasses.replace(stamp, second=stamp.second + moved)
    fps = int(fps)
    second, frame = divmod(first + slot, fps)
    if held != slot:
        second = (first + held) // fps
        frame = (first + held) % fps if fault == "stuck" else frame
    return wire.Stamp(BASE + second + moved, frame, thread)


def _beside(world):
    """Another sender, without faults, that sends at the same time and at the same pace."""
    own = dataclasses.replace(world, fault="none", details={}, sent=[], packets=[])
    _schedule(random.Random(world.seed), own, first_payload=1 << 40)
    _network(random.Random(world.seed), own, calm=True)
    world.beside = own.sent
    world.packets = sorted([*world.packets, *((at, 46228, packet) for at, _, packet in own.packets)], key=lambda p: p[0])
    world.details["beside"] = f"{len(own.packets)} packets of another sender"


def _network(chance, world, calm):
    """From frames to packets: lost, swapped, doubled, damaged, and packets of others among them."""
    fault, details = world.fault, world.details
    pieces = []
    for one in world.sent:
        if world.form == "fila10g":
            pieces += [(one, half) for half in wire.halves(one.frame, one.number)]
        elif world.form == "vtp":
            pieces.append((one, wire.numbered(one.frame, one.number, world.order)))
        else:
            pieces.append((one, one.frame))
    lossy = 0 if calm else chance.choice([0, 0, 0.01, 0.05])
    double = 0 if calm else chance.choice([0, 0, 0.02])
    swap = 0 if calm else chance.choice([0, 0, 3, 12])
    alien = 0 if calm else chance.choice([0, 0, 0, 5])
    details |= {"loss": lossy, "duplicates": double, "reordering": swap, "alien": alien}
    kept = []
    for place, (one, packet) in enumerate(pieces):
        if fault == "gap" and details["from slot"] <= one.slot < details["to slot"]:
            continue
        if chance.random() < lossy:
            continue
        key = place + (chance.random() * swap if swap else 0)
        kept.append((key, one, packet))
        if chance.random() < double:
            kept.append((key + 0.5 + chance.random() * 4, one, packet))
    kept.sort(key=lambda item: item[0])
    last = 0
    for _, one, packet in kept:
        one.arrived += 1
        last = max(last + 1000, one.host)
        world.packets.append((last, 46227, packet))
    for _ in range(alien):
        where = chance.randrange(len(world.packets) * 2 // 3, len(world.packets))
        at, port, packet = world.packets[where]
        world.packets.insert(where, (at, port, packet[:chance.randrange(8, len(packet))]))
        world.alien += 1
