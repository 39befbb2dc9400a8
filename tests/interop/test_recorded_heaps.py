"""Heaps that spead2 sends are recorded; spead2, and skyhaul in Python, read them back from the disks."""

import numpy as np
import pytest

spead2 = pytest.importorskip("spead2", reason="spead2 (pip install spead2)")
import spead2.recv  # noqa: E402
import spead2.send  # noqa: E402

HEAPS = 40
SHAPE = (30, 1000)


def value(number):
    return np.random.default_rng(number).integers(0, 1 << 16, SHAPE, dtype=np.uint16)


def send(port):
    """Heaps of two items, with descriptors in the first, and a stop heap."""
    config = spead2.send.StreamConfig(rate=50e6, max_packet_size=1472)
    stream = spead2.send.UdpStream(spead2.ThreadPool(), [("127.0.0.1", port)], config)
    group = spead2.send.ItemGroup(flavour=spead2.Flavour(4, 64, 48, 0))
    group.add_item(0x1000, "counts", "what was counted", SHAPE, np.uint16)
    group.add_item(0x1001, "number", "which one", (), format=[("u", 48)])
    for number in range(HEAPS):
        group["counts"].value, group["number"].value = value(number), number
        stream.send_heap(group.get_heap(data="all"))
    stream.send_heap(group.get_end())


@pytest.fixture(params=["", "loss=0.002,reorder=20,duplicate=0.01,seed=11"], ids=["whole", "lossy"])
def recorded(request, record):
    options = ["--stop-items", "never", "--chunk", "1MiB", *(["--faults", request.param] if request.param else [])]
    recorder = record(*options, form="spead", scan="heaps")
    send(recorder.port)
    report = recorder.finish()
    assert sum(source["socket_drops"] for source in report["sources"]) == 0, report["sources"]
    recorder.report, recorder.lossy = report, bool(request.param)
    return recorder


def values(heaps, group):
    """What each whole heap of data says, by its number."""
    found = {}
    for heap in heaps:
        updated = group.update(heap)
        if "counts" in updated:
            found[int(updated["number"].value)] = updated["counts"].value.copy()
    return found


def read_by_spead2(data):
    stream = spead2.recv.Stream(spead2.ThreadPool(), spead2.recv.StreamConfig(max_heaps=4, stop_on_stop_item=False),
                                spead2.recv.RingStreamConfig(heaps=HEAPS + 4))
    stream.add_buffer_reader(data)
    return values(stream, spead2.ItemGroup())


def test_spead2_reads_what_was_recorded(recorded):
    found = read_by_spead2(recorded.cat())
    assert (len(found) == HEAPS) != recorded.lossy
    assert all(np.array_equal(counts, value(number)) for number, counts in found.items())
    # By name, without skyhaul: the chunk files in the order of their numbers.
    assert found.keys() == read_by_spead2(b"".join(path.read_bytes() for path in recorded.chunks())).keys()


def test_python_reads_what_was_recorded(recorded):
    spead, recording = pytest.importorskip("skyhaul.spead"), pytest.importorskip("skyhaul.recording")
    scan = recording.open(recorded.disks, "heaps")
    stream = scan.streams[0]
    assert stream.format == "spead"
    heaps = list(stream.heaps())
    whole = [heap for heap in heaps if heap.complete]
    found = values(whole, spead.ItemGroup())
    assert found.keys() == read_by_spead2(recorded.cat()).keys()
    assert all(np.array_equal(counts, value(number)) for number, counts in found.items())
    assert len(heaps) - len(whole) == recorded.report["objects"]["heaps"]["incomplete"]
    missing = sum(end - start for heap in heaps for start, end in heap.missing)
    assert missing == recorded.report["objects"]["heaps"]["missing_bytes"]


def test_a_damaged_chunk_is_an_error_or_a_gap(recorded):
    recording = pytest.importorskip("skyhaul.recording")
    chunk = recorded.chunks()[1]
    data = bytearray(chunk.read_bytes())
    data[2000] ^= 1
    chunk.write_bytes(data)
    stream = recording.open(recorded.disks, "heaps").streams[0]
    with pytest.raises(recording.Damaged, match="chunk 1"):
        list(stream.heaps())
    heaps = stream.heaps(missing="skip")
    assert 0 < len(list(heaps)) and [gap.first for gap in heaps.gaps] == [1]
    assert b"DAMAGED" in recorded.skyhaul.run("check", *recorded.on_disks(), "heaps", expect=1)


def test_only_heaps_are_given_as_heaps(skyhaul, record):
    recording = pytest.importorskip("skyhaul.recording")
    recorder = record()
    skyhaul.run("send", "--pattern", "--packets", "1000", "--rate", "100Mbps", "--to", f"udp://127.0.0.1:{recorder.port}")
    recorder.finish()
    with pytest.raises(ValueError, match="hint: use chunks"):
        recording.open(recorder.disks, recorder.scan).streams[0].heaps()
