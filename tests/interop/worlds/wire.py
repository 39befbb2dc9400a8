"""Frames written and read by the standards alone: VDIF, VTP, Mark 5B, FILA10G half frames, LOFAR RSP; and captures."""

import dataclasses
import datetime
import functools
import struct

FILL_WORD = bytes.fromhex("44332211")
SYNC_5B = 0xABADDEED
SYNC_EDV = 0xACABFEED
MJD_1970 = 40587
SLICES = 16


@dataclasses.dataclass(frozen=True)
class Stamp:
    """What a frame's header says of its place: UNIX second, frame in the second, thread or lane."""

    second: int
    frame: int
    thread: int


@functools.cache
def epoch(half_years):
    """The UNIX second at which a VDIF reference epoch begins."""
    month = 7 if half_years % 2 else 1
    return int(datetime.datetime(2000 + half_years // 2, month, 1, tzinfo=datetime.UTC).timestamp())


def half_year(second):
    when = datetime.datetime.fromtimestamp(second, datetime.UTC)
    return (when.year - 2000) * 2 + (when.month >= 7)


def bcd(number, digits):
    return int(str(number).zfill(digits)[-digits:], 16)


def crc16(data):
    """Polynomial 0x8005, initial value 0, most significant bit first."""
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x8005 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc


@dataclasses.dataclass(frozen=True)
class Vdif:
    """Frames of VDIF. `edv` None: legacy headers of 16 bytes."""

    payload: int
    fps: int
    edv: int | None = 0
    bits: int = 2
    log2_channels: int = 0
    station: bytes = b"Sk"
    name = "vdif"

    @property
    def header(self):
        return 16 if self.edv is None else 32

    @property
    def unit(self):
        return self.header + self.payload

    def rate_khz(self):
        """Complex samples of a channel in a second, as EDV 1 and 3 state it (half the real ones)."""
        samples = self.payload * 8 // self.bits >> self.log2_channels
        rate, rest = divmod(samples * self.fps, 2000)
        assert rest == 0, "this rate cannot be stated"
        return rate

    def write(self, stamp, payload, *, station=None, invalid=False):
        half = half_year(stamp.second)
        one, two = (station or self.station).ljust(2, b"\0")
        words = [
            invalid << 31 | (self.edv is None) << 30 | stamp.second - epoch(half),
            half << 24 | stamp.frame,
            1 << 29 | self.log2_channels << 24 | self.unit // 8,
            (self.bits - 1) << 26 | stamp.thread << 16 | one << 8 | two,
        ]
        if self.edv is not None:
            rate = self.rate_khz() if self.edv in (1, 3) else 0
            rest = {1: [SYNC_EDV, 0x594B5357, 0x5352444C], 3: [SYNC_EDV, 0, 0x10000]}.get(self.edv, [0, 0, 0])
            words += [self.edv << 24 | rate, *rest]
        return struct.pack(f"<{len(words)}I", *words) + payload

    def read(self, frame):
        """The stamp, whether it is marked invalid, and the payload; `None` if it is not a frame of this stream."""
        if len(frame) != self.unit:
            return None
        words = struct.unpack_from("<4I", frame)
        if (words[0] >> 30 & 1) != (self.edv is None) or (words[2] & 0xFFFFFF) * 8 != self.unit:
            return None
        second = epoch(words[1] >> 24 & 63) + (words[0] & 0x3FFFFFFF)
        stamp = Stamp(second, words[1] & 0xFFFFFF, words[3] >> 16 & 0x3FF)
        return stamp, bool(words[0] >> 31), frame[self.header:]

    def station_of(self, frame):
        return struct.unpack_from("<I", frame, 12)[0].to_bytes(4, "big")[2:]


@dataclasses.dataclass(frozen=True)
class Mark5b:
    """Frames of Mark 5B: one thread. `plain`: fraction and checksum are zero, as some formatters leave them."""

    fps: int
    plain: bool = False
    name = "mark5b"
    header = 16
    payload = 10000
    unit = 10016
    station = None

    def write(self, stamp, payload, **_):
        day, second = divmod(stamp.second, 86400)
        two = bcd((day + MJD_1970) % 1000, 3) << 20 | bcd(second, 5)
        three = 0
        if not self.plain:
            fraction = bcd(stamp.frame * 10000 // self.fps, 4)
            three = fraction << 16 | crc16(struct.pack(">IH", two, fraction))
        return struct.pack("<4I", SYNC_5B, stamp.frame, two, three) + payload

    def read(self, frame, near):
        """As for VDIF; fill is known by its payload."""
        if len(frame) != self.unit or frame[:4] != struct.pack("<I", SYNC_5B):
            return None
        _, one, two, _ = struct.unpack_from("<4I", frame)
        digits = f"{two:08x}"
        if not digits.isdecimal():
            return None
        day, today = int(digits[:3]), near // 86400 + MJD_1970
        mjd = today - (today - day + 500) % 1000 + 500
        stamp = Stamp((mjd - MJD_1970) * 86400 + int(digits[3:]), one & 0xFFFF, 0)
        return stamp, frame[16:] == FILL_WORD * 2500, frame[16:]


@dataclasses.dataclass(frozen=True)
class Rsp:
    """Packets of a LOFAR station: a slice is 1024 cycles of 200 or 160 MHz, a packet has sixteen."""

    beamlets: int
    clock: int = 1
    sample: int = 0
    station_number: int = 214
    name = "lofar"
    header = 16
    fps = None
    station = None

    @property
    def payload(self):
        return self.beamlets * (16 >> self.sample) * 4 // 8 * SLICES

    @property
    def unit(self):
        return self.header + self.payload

    @property
    def hertz(self):
        return 200_000_000 if self.clock else 160_000_000

    def begins(self, second):
        """Number of the first slice that begins in this second."""
        return (second * self.hertz + 512) // 1024

    def stamp(self, packet, lane):
        """Of the packet with this number since 1970. Its frame is a slice."""
        slices = packet * SLICES
        second = slices * 1024 // self.hertz
        # Even seconds begin with a slice, odd ones (at 200 MHz) half a slice later.
        while self.begins(second) > slices:
            second -= 1
        while self.begins(second + 1) <= slices:
            second += 1
        return Stamp(second, slices - self.begins(second), lane)

    def number(self, stamp):
        """The number of a packet since 1970 by its stamp: the reverse of `stamp`."""
        return (self.begins(stamp.second) + stamp.frame) // SLICES

    def write(self, stamp, payload, *, station=None, invalid=False):
        number = self.station_number if station is None else station
        return struct.pack("<BBBBHBBII", 3, self.clock << 7 | invalid << 6, self.sample, 0xAA,
                           number << 5 | stamp.thread, self.beamlets, SLICES, stamp.second, stamp.frame) + payload

    def read(self, frame):
        if len(frame) != self.unit:
            return None
        version, flags, sample, _, source, beamlets, slices, second, frame_number = struct.unpack_from("<BBBBHBBII", frame)
        if (version, sample, beamlets, slices) != (3, self.sample, self.beamlets, SLICES):
            return None
        return Stamp(second, frame_number, source & 31), bool(flags >> 6 & 1), frame[16:]


def halves(frame, counter):
    """The two datagrams of FILA10G that carry a Mark 5B frame."""
    return [struct.pack("<II", 0x55555555, (counter + n) % 2**32) + frame[n * 5008:(n + 1) * 5008] for n in (0, 1)]


def numbered(frame, number, order="little"):
    """A VTP packet."""
    return (number % 2**64).to_bytes(8, order) + frame


@functools.cache
def _ip(length):
    """An IPv4 header for UDP, with its checksum."""
    words = [0x4500, length, 0, 0, 0x4011, 0, 0x0A00, 0x0207, 0x0A00, 0x0205]
    total = sum(words)
    words[5] = ~(total + (total >> 16)) & 0xFFFF
    return struct.pack(">10H", *words)


def capture(path, packets):
    """Write `(time in nanoseconds, source port, payload)` as a capture of UDP over IPv4 (raw IP, nanoseconds)."""
    out = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 101)]
    for at, port, payload in packets:
        length = 28 + len(payload)
        ip = _ip(length)
        udp = struct.pack(">HHHH", port, 46227, 8 + len(payload), 0)
        out += [struct.pack("<IIII", *divmod(at, 10**9), length, length), ip, udp, payload]
    path.write_bytes(b"".join(out))
