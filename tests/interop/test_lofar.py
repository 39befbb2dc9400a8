"""LOFAR packets as they lie on disks, read by nothing but the format's own definition."""

import struct
from fractions import Fraction

HEADER = struct.Struct("<BBBBHBBII")
PACKET = 16 + 61 * 16 * 8
SLICE = Fraction(1024, 200_000_000)


def test_packets_go_on_in_time_over_the_ends_of_seconds(skyhaul, record):
    recorder = record(form="lofar")
    skyhaul.run("send", "--format", "lofar", "--pattern", "--threads", "2", "--packets", "60000", "--rate", "1Gbps",
                "--faults", "loss=0.001,reorder=8,seed=2", "--to", f"udp://127.0.0.1:{recorder.port}")
    report = recorder.finish()
    data = recorder.cat()
    assert len(data) % PACKET == 0 and len(data) >= 59_000 * PACKET
    before, seconds, marked = {}, set(), 0
    for at in range(0, len(data), PACKET):
        version, flags, sample, _, station_lane, beamlets, slices, second, number = HEADER.unpack_from(data, at)
        assert (version, flags & 0xA0, sample, beamlets, slices) == (3, 0x80, 0, 61, 16)
        lane = station_lane & 31
        assert lane == at // PACKET % 2, "lanes in turn"
        # The middle of the half slice that a second may begin with is not known: to within one.
        time = second + number * SLICE
        if lane in before:
            assert abs(time - before[lane] - 16 * SLICE) < SLICE, f"packet at byte {at}"
        before[lane] = time
        seconds.add(second)
        marked += flags >> 6 & 1
    assert len(seconds) >= 3
    assert marked == sum(stream["lost"] for stream in report["streams"])
