"""Recordings of SPEAD as lazy datasets: against what was sent, and against the heaps read one after another."""

import os
import pickle
import random
import subprocess
import sys
import textwrap
import warnings

import dask
import numpy as np
import pytest
from skyhaul import recording, spead
from skyhaul.spead import send

HEAPS = 60
FORMATS = {
    "counts": {"shape": (30, 100), "dtype": "<u2"},
    "power": {"shape": (50, 3), "dtype": ">f4"},
    "vis": {"shape": (7,), "dtype": "<c8"},
    "packed": {"shape": (11,), "format": [("u", 12)]},
    "flags": {"shape": (5,), "format": [("b", 1), ("u", 7)]},
    "fortran": {"shape": (4, 3), "dtype": "<i4", "order": "F"},
    "number": {"shape": (), "format": [("u", 48)]},
    "gain": {"shape": (8,), "dtype": "<f8"},
    "name": {"shape": (6,), "format": [("c", 8)]},
    "spread": {"shape": (None,), "format": [("u", 16)]},
}


def value(name, number):
    chance = np.random.default_rng([number, len(name)])
    match name:
        case "counts":
            return chance.integers(0, 1 << 16, (30, 100), np.uint16)
        case "power":
            return chance.normal(0, 1, (50, 3)).astype(np.float32)
        case "vis":
            return (chance.normal(0, 1, 7) + 1j * chance.normal(0, 1, 7)).astype(np.complex64)
        case "packed":
            return chance.integers(0, 1 << 12, 11, np.uint16)
        case "flags":
            return np.array([(bool(n & 1), n) for n in chance.integers(0, 1 << 7, 5)], [("f0", "?"), ("f1", "u1")])
        case "fortran":
            return chance.integers(-(1 << 31), 1 << 31, (4, 3), np.int32)
        case "number":
            return number
        case "gain":
            return np.full(8, number // 20, np.float64)
        case "name":
            return f"ant{number % 1000:03d}"
    return np.arange(number % 5 + 1, dtype=np.uint16)


def in_heap(name, number):
    """`gain` changes every twenty heaps, and is sent only then."""
    return name != "gain" or number % 20 == 0


def send_all(port, heaps=HEAPS, size=1472):
    group = spead.ItemGroup()
    for name, form in FORMATS.items():
        group.add_item(name=name, description=f"the {name}", **form)
    generator = spead.HeapGenerator(group)
    with send.UdpStream(f"127.0.0.1:{port}", rate=60e6, packet=size) as stream:
        for number in range(heaps):
            for name in FORMATS:
                if in_heap(name, number):
                    group[name].value = value(name, number)
            stream.send(generator.heap())
        stream.flush()


@pytest.fixture(params=["", "loss=0.003,reorder=20,duplicate=0.01,seed=11"], ids=["whole", "lossy"])
def recorded(request, record):
    options = ["--stop-items", "never", "--chunk", "64KiB", *(["--faults", request.param] if request.param else [])]
    recorder = record(*options, form="spead", scan="heaps")
    send_all(recorder.port)
    recorder.finish()
    recorder.lossy = bool(request.param)
    return recorder


def dataset(recorder, *given, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return recording.open(recorder.disks, recorder.scan).to_dataset(*given, **options)


def one_after_another(recorder):
    """By number of the heap: the group's values, and which the heap brought, as a receiver has them."""
    group, rows = spead.ItemGroup(), []
    for heap in recording.open(recorder.disks, recorder.scan).streams[0].heaps():
        group.update(heap)
        rows.append((heap.counter, heap.complete, {item[0] for item in heap.items()}))
    return rows


def test_every_item_is_what_was_sent(recorded):
    data = dataset(recorded)
    assert data.attrs["left_out"] == ["spread: its shape is variable"]
    assert set(data) == set(FORMATS) - {"spread"}
    rows = one_after_another(recorded)
    assert data["counter"].values.tolist() == [row[0] for row in rows]
    assert data["complete"].values.tolist() == [row[1] for row in rows]
    assert data["complete"].values.all() != recorded.lossy
    valid = {name: data["valid"].values[:, n] for n, name in enumerate(data["item"].values)}
    # A heap's number is its counter: from 1 on.
    numbers = data["counter"].values - 1
    seen = 0
    for name in data:
        computed, form = data[name].values, FORMATS[name]
        assert computed.shape == (len(rows), *form["shape"])
        last = None
        for row, number in enumerate(numbers):
            if valid[name][row]:
                brought = number if in_heap(name, number) else last
                wanted = value(name, brought)
                if name == "name":
                    wanted = np.frombuffer(wanted.encode(), "S1")
                assert np.array_equal(computed[row], wanted), (name, row)
                seen += 1
                last = brought
            else:
                assert recorded.lossy
                # What is missing is said to be so.
                if np.issubdtype(computed.dtype, np.inexact):
                    assert np.isnan(computed[row]).any()
                elif not rows[row][1] and not computed[row].any():
                    continue
    assert (seen == len(rows) * len(data)) != recorded.lossy


def test_ranges_items_and_values_that_are_not_held(recorded):
    data, all_of_it = dataset(recorded, 10, 30, items=["gain", "number"], hold=False), dataset(recorded)
    assert set(data) == {"gain", "number"} and data.sizes["heap"] == 20
    assert np.array_equal(data["number"], all_of_it["number"][10:30])
    numbers = data["counter"].values - 1
    there = data["valid"].values[:, list(data["item"].values).index("gain")]
    assert all(number % 20 == 0 for number in numbers[there])
    assert np.isnan(data["gain"].values[~there]).all()
    # Blocks of any size are the same, and a value held from before the range is there.
    held = dataset(recorded, 25, 35, items=["gain"], block_bytes=1)
    assert held["gain"].data.npartitions == 10
    assert np.array_equal(held["gain"].values, all_of_it["gain"][25:35].values, equal_nan=True)
    with pytest.raises(ValueError, match="no column 'nothing'"):
        dataset(recorded, items=["nothing"])
    with pytest.raises(ValueError, match="no column 'spread': its shape is variable"):
        dataset(recorded, items=["spread"])
    with pytest.raises(ValueError, match="heaps 0 to 1000000"):
        dataset(recorded, 0, 1_000_000)


def test_an_item_tells_the_time(recorded):
    clock = recording.Clock("number", per_second=1000, epoch="2026-01-01")
    data = dataset(recorded, time=clock)
    number = data["valid"].values[:, list(data["item"].values).index("number")]
    wanted = np.datetime64("2026-01-01", "ns") + (data["number"].values * 10**6).astype("m8[ns]")
    assert np.array_equal(data["time"].values[number], wanted[number])
    with pytest.raises(ValueError, match="tells the time"):
        dataset(recorded, time="counts")


def test_rows_in_order_of_time_are_selected_and_resampled(recorded):
    clock = recording.Clock("number", per_second=1000, epoch="2026-01-01")
    arrival = dataset(recorded, time=clock, order="arrival").load()
    assert "time" not in arrival.xindexes
    data = dataset(recorded, time=clock)
    times = data["time"].values
    assert (np.diff(times) >= np.timedelta64(0)).all() and not np.isnat(times).any()
    known = ~np.isnat(arrival["time"].values)
    assert sorted(arrival["counter"].values[known]) == sorted(data["counter"].values)
    assert data.attrs["without_time"] == int((~known).sum())
    # Each row is the same heap as before, whatever its place.
    rows = {counter: row for row, counter in enumerate(arrival["counter"].values)}
    for name in ("counts", "gain", "fortran"):
        assert np.array_equal(data[name].values, arrival[name].values[[rows[n] for n in data["counter"].values]], equal_nan=name == "gain")
    # A heap's number is its time in milliseconds.
    begin, end = (np.datetime64("2026-01-01", "ns") + np.timedelta64(ms, "ms") for ms in (10, 19))
    part = data.sel(time=slice(begin, end))
    assert part["number"].values.tolist() == [n for n in sorted(arrival["number"].values[known].tolist()) if 10 <= n <= 19]
    mean = data[["gain"]].where(data["complete"]).resample(time="10ms").mean()
    assert mean.sizes["time"] == HEAPS // 10 and mean["gain"].values[0].tolist() == [0] * 8
    by_counter = dataset(recorded, order="counter")
    assert by_counter.sel(counter=by_counter["counter"].values[7])["number"].values == by_counter["number"].values[7]
    assert (np.diff(by_counter["counter"].values) > 0).all()
    with pytest.raises(ValueError, match='order="time" without a time'):
        dataset(recorded, order="time")


def test_heaps_whose_time_is_not_known_are_said(record):
    recorder = record("--stop-items", "never", form="spead", scan="heaps")
    group = spead.ItemGroup()
    group.add_item(name="x", shape=(4,), dtype="<u2")
    group.add_item(name="ms", shape=(), dtype=">u4")
    generator = spead.HeapGenerator(group)
    with send.UdpStream(f"127.0.0.1:{recorder.port}", rate=60e6) as stream:
        for number in (5, 3, None, 4):
            group["x"].value = np.full(4, number or 0, np.uint16)
            if number is not None:
                group["ms"].value = number
            stream.send(generator.heap())
        stream.flush()
    recorder.finish()
    scan = recording.open(recorder.disks, recorder.scan)
    with pytest.warns(UserWarning, match=r'heaps: left out 1 of 4 heaps, whose time is not known; hint: order="arrival"'):
        data = scan.to_dataset(time=recording.Clock("ms", per_second=1000))
    assert data["ms"].values.tolist() == [3, 4, 5] and data.attrs["without_time"] == 1
    kept = scan.to_dataset(time=recording.Clock("ms", per_second=1000), order="arrival")
    assert np.isnat(kept["time"].values).tolist() == [False, False, True, False]


def test_items_may_be_called_as_coordinates(record):
    recorder = record("--stop-items", "never", form="spead", scan="heaps")
    names = ("time", "counter", "valid", "item", "complete")
    group = spead.ItemGroup()
    for name in names:
        group.add_item(name=name, shape=(), dtype=">u4")
    generator = spead.HeapGenerator(group)
    with send.UdpStream(f"127.0.0.1:{recorder.port}", rate=60e6) as stream:
        for second in range(3):
            for place, name in enumerate(names):
                group[name].value = 10 * place + second
            stream.send(generator.heap())
        stream.flush()
    recorder.finish()
    scan = recording.open(recorder.disks, recorder.scan)
    for data in (scan.to_dataset(), scan.to_dataset(time="time")):
        assert [data[f"{name}_"].values.tolist() for name in names] == [[10 * n, 10 * n + 1, 10 * n + 2] for n in range(5)]
        assert data["counter"].values.tolist() == [1, 2, 3] and data["complete"].values.all()
    assert data["time"].values.tolist() == [0, 10**9, 2 * 10**9]


@pytest.fixture(scope="module")
def cluster():
    """Two other processes, which take five seconds of a processor each to start."""
    from dask.distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        yield cluster


def test_blocks_are_small_to_send_and_computed_by_other_processes(recorded, cluster):
    from dask.distributed import Client

    data = dataset(recorded, block_bytes=1 << 16)
    for task in dict(data["counts"].data.__dask_graph__()).values():
        assert len(pickle.dumps(task)) < 1500
    here = data["counts"].values
    with Client(cluster):
        assert np.array_equal(data["counts"].mean("heap").values, here.mean(0))


def test_damaged_and_missing_chunks_are_rows_that_are_not_valid(recorded):
    whole = dataset(recorded).load()
    chunks = recorded.chunks()
    damaged = bytearray(chunks[1].read_bytes())
    damaged[5000] ^= 1
    chunks[1].write_bytes(damaged)
    os.remove(chunks[2])
    scan = recording.open(recorded.disks, recorded.scan)
    data = dataset(recorded).load()
    gone = ~data["complete"].values & whole["complete"].values
    assert gone.any() and not gone.all() and data.sizes == whole.sizes
    valid = data["valid"].values
    assert not valid[gone].any()
    assert np.array_equal(data["counts"].values[valid[:, 0]], whole["counts"].values[valid[:, 0]])
    list(scan.streams[0].heaps(missing="skip"))
    assert {gap.lack for gap in scan.streams[0].gaps} <= {"damaged", "missing"}


@pytest.mark.parametrize("seed", range(8))
def test_hostile_chunks_give_no_wrong_value(recorded, seed):
    """Without verification: every value said to be valid has been sent, or was changed where nothing can notice."""
    chance = random.Random(seed + 100 * recorded.lossy)
    for chunk in recorded.chunks():
        data = bytearray(chunk.read_bytes())
        for _ in range(chance.randrange(1, 40)):
            at = chance.randrange(len(data))
            data[at : at + 8] = chance.randbytes(8)
        chunk.write_bytes(data[: chance.randrange(len(data) // 2, len(data) + 1)])
    try:
        data = dataset(recorded)
        # Verified, nothing is left.
        assert not data["complete"].values.any() and not data.get("valid", np.zeros(1)).any()
    except ValueError as error:
        # No chunk has the format of the index.
        assert "not a recording of SPEAD" in str(error)
    loose = recording.open(recorded.disks, recorded.scan, verify=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            loose.to_dataset().load()
        except ValueError as error:
            # A descriptor that was hit, or all heads.
            assert any(text in str(error) for text in ("changes", "no column", "not a recording of SPEAD"))


def test_a_descriptor_that_changes_is_said(record):
    recorder = record("--stop-items", "never", form="spead", scan="heaps")
    with send.UdpStream(f"127.0.0.1:{recorder.port}", rate=60e6) as stream:
        for size in (4, 5):
            group = spead.ItemGroup()
            group.add_item(name="x", shape=(size,), dtype="<u2", value=np.arange(size))
            group.add_item(name="y", shape=(), dtype=">u4", value=size)
            generator = spead.HeapGenerator(group)
            for number in range(5):
                group["x"].changed(), group["y"].changed()
                heap = generator.heap()
                stream.send(heap, counter=size * 100 + number)
        stream.flush()
    recorder.finish()
    data = dataset(recorder)
    assert data["y"].values.tolist() == [4] * 5 + [5] * 5
    with pytest.raises(ValueError, match=r"descriptor of .x. changes with heap 500 \(row 5\)"):
        data["x"].compute()
    assert dataset(recorder, 0, 5)["x"].values.shape == (5, 4)
    assert dataset(recorder, 5, 10)["x"].values.tolist() == [[0, 1, 2, 3, 4]] * 5


def test_a_dataset_larger_than_memory(record):
    """200 MiB of heaps in a process that may have 150 MiB more than it begins with."""
    recorder = record("--stop-items", "never", "--chunk", "8MiB", form="spead", scan="heaps", memory="256MiB")
    group = spead.ItemGroup()
    group.add_item(name="x", shape=(1 << 20,), dtype="<u2")
    generator = spead.HeapGenerator(group)
    with send.UdpStream(f"127.0.0.1:{recorder.port}", rate=1.5e9, packet=8972) as stream:
        for number in range(100):
            group["x"].value = np.full(1 << 20, number, np.uint16)
            stream.send(generator.heap())
            stream.flush()
    recorder.finish()
    program = f"""
        import resource, warnings, numpy as np, dask
        from skyhaul import recording
        data = recording.open({[str(disk) for disk in recorder.disks]!r}, "heaps").to_dataset(block_bytes=8 << 20)
        import dask.array
        dask.config.set(scheduler="sync")
        data["x"][:1].sum().compute()
        before = int(open("/proc/self/statm").read().split()[0]) * 4096
        resource.setrlimit(resource.RLIMIT_AS, (before + (150 << 20),) * 2)
        print(data.sizes["heap"], int(data["x"].astype("u8").sum()), int(data["complete"].sum()))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    heaps, total, complete = map(int, done.stdout.split())
    assert heaps == 100 and (total == sum(range(100)) << 20 or complete < 100), done.stdout


def test_only_spead_has_heaps(skyhaul, record):
    recorder = record()
    skyhaul.run("send", "--pattern", "--packets", "1000", "--rate", "100Mbps", "--to", f"udp://127.0.0.1:{recorder.port}")
    recorder.finish()
    with pytest.raises(ValueError, match="not a recording of SPEAD"):
        dataset(recorder)


dask.config.set(scheduler="sync")
