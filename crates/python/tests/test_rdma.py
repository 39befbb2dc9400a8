"""RDMA over UDP, and TCP, on loopback: regions as arrays, losses by range, and the command as the other end."""

import asyncio
import doctest
import gc
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from skyhaul import rdma
from skyhaul.rdma import Empty, Lost, Stopped, Written, _client, _server

# Long enough for a loaded machine; nothing waits so long when all is well.
SOON = 60.0
# Bits per second, so few that they fit any socket however late the server is run.
SLOW = 200e6
# Payload of a datagram of 1472 bytes: less the shim (18) and the DDP header (14).
SEGMENT = 1472 - 18 - 14


def noise(nbytes, seed=1):
    return np.random.default_rng(seed).integers(0, 256, nbytes, np.uint8)


@pytest.fixture
def server():
    with rdma.Server("127.0.0.1:0", "vis:1MiB:read,write", "in:64KiB:write", "out:64KiB:read") as server:
        yield server


def ranges(numbers):
    """Of sorted numbers: [first, behind the last]."""
    found = []
    for number in numbers:
        if found and found[-1][1] == number:
            found[-1][1] = number + 1
        else:
            found.append([number, number + 1])
    return found


@pytest.mark.parametrize("module", [_server, _client])
def test_docstrings(module):
    assert doctest.testmod(module).failed == 0


def test_a_region_is_an_array_that_peers_write(server):
    region = server.regions["vis"]
    before = region.array
    values = np.linspace(0, 1, 5000, dtype="<f4").reshape(50, 100)
    with rdma.connect(server.address + "/vis") as remote:
        assert (remote.nbytes, remote.rights, remote.address) == (1 << 20, "read,write", server.address + "/vis")
        done = remote.write(values, 4096)
        message = server.get(SOON)
    assert (done.numbers, done.nbytes) == (range(1, 2), 20_000)
    assert isinstance(message, Written) and message.region is region
    assert message == (region, 1, 1, 4096, 20_000, True, [(4096, 24_096)], [], 1)
    assert message.valid[0].stop == 24_096
    assert message.mask().all() and message.mask(4).shape == (5000,)
    np.testing.assert_array_equal(message.data.view("<f4").reshape(50, 100), values)
    # It is the memory itself, which a program cannot write by mistake.
    assert np.shares_memory(message.data, before) and before[4096:24_096].tobytes() == values.tobytes()
    with pytest.raises(ValueError):
        message.data[0] = 1
    with pytest.raises(ValueError):
        message.data.flags.writeable = True
    with pytest.raises(ValueError, match="no whole number of items"):
        message.mask(7)


def test_arrays_outlive_their_server():
    with rdma.Server("127.0.0.1:0", "vis:64KiB:write") as server:
        with rdma.connect(server.address + "/vis") as remote:
            remote.write(b"kept", 8)
            server.get(SOON)
        kept = server.regions["vis"].array[8:12]
    del server, remote
    gc.collect()
    assert kept.tobytes() == b"kept"


def test_reading_gives_what_is_there(server):
    values = noise(50_000)
    server.regions["out"].place(values, 1000)
    with rdma.connect(server.address + "/out") as remote:
        assert remote.rights == "read"
        part = remote.read(1000, 51_000, deadline=SOON)
        assert part.complete and part.mask().all() and part.valid == [(1000, 51_000)] and part.requests >= 1
        np.testing.assert_array_equal(part.data, values)
        out = np.empty((100, 25), "<f8")
        into = remote.read(1000, deadline=SOON, out=out)
        assert np.shares_memory(into.data, out)
        assert out.tobytes() == values[:20_000].tobytes()
        whole = remote.read(deadline=SOON)
        assert len(whole.data) == 65_536 and not whole.data[:1000].any()
        report = remote.report()
    assert report["closed_by"] is None and report["read_bytes"] == 50_000 + 20_000 + 65_536
    assert remote.close()["closed_by"] == "here"


@pytest.mark.parametrize(("loss", "seed"), [(0.05, 1), (0.5, 2), (0.9, 3)])
def test_masks_are_exact(loss, seed):
    """From the numbers of the segments that were withheld: each message has one for each part, and one for its immediate data."""
    nbytes, count = 10 * SEGMENT + 100, 30
    with rdma.Server("127.0.0.1:0", "vis:1MiB:write", connections=1) as server:
        values = noise(nbytes * count, seed)
        with rdma.connect(server.address + "/vis", faults=f"loss={loss},seed={seed}", packet=1472) as remote:
            remote.write(values, 7, message=nbytes, rate=SLOW)
        sent = remote.report()
        messages = list(server)
    report = server.report()
    assert report["datagrams"]["kernel_drops"] == 0, "this host was too late"
    withheld = {n for first, stop in sent["datagrams"]["lost_on_purpose_ranges"] for n in range(first, stop)}
    assert report["datagrams_lost"] == len(withheld) > 0
    found = {}
    for message in messages:
        for number in message.numbers if isinstance(message, Lost) else [message.number]:
            assert number not in found
            found[number] = message
    assert sorted(found) == list(range(1, count + 1))
    for number, message in found.items():
        first, base = (number - 1) * 12, 7 + (number - 1) * nbytes
        there = [first + n not in withheld for n in range(11)]
        immediate = first + 11 not in withheld
        assert message.immediate == (number if immediate else None)
        if not any(there):
            assert isinstance(message, Lost) and message.length == (nbytes if immediate else 0)
            continue
        assert isinstance(message, Written) and message.complete == (all(there) and immediate)
        # Without its last part and the immediate data, the end is not known.
        end = nbytes if immediate or there[10] else (max(n for n in range(11) if there[n]) + 1) * SEGMENT
        assert (message.offset, message.length) == (base, end)
        expected = np.repeat(there, SEGMENT)[:end]
        np.testing.assert_array_equal(message.mask(), expected)
        valid = ranges(np.flatnonzero(expected) + base)
        assert [list(span) for span in message.valid] == valid
        np.testing.assert_array_equal(message.data[expected], values[base - 7 :][:end][expected])
        gone = ranges(np.flatnonzero(~expected) + base)
        assert [list(span) for span in message.missing] == gone
    assert report["complete"] == sum(isinstance(one, Written) and one.complete for one in messages)
    assert report["not_queued"] == 0


def test_items_that_lost_a_byte_are_not_valid():
    mask = _server.mask_of([(100, 107), (109, 124)], 100, 24, 4)
    assert mask.tolist() == [True, False, False, True, True, True]
    assert _server.mask_of([], 5, 8, 8).tolist() == [False]


def test_a_lossy_read_is_asked_for_again_or_says_what_is_missing(server):
    values = noise(64 << 10)
    server.regions["out"].place(values)
    with rdma.connect(server.address + "/out", arrival_faults="loss=0.15,seed=5", packet=1472) as remote:
        # It is asked for every two seconds: the peer is not taken for gone because its answers are lost.
        part = remote.read(deadline=16.0)
        assert part.complete and part.requests > 1
        np.testing.assert_array_equal(part.data, values)
    with rdma.connect(server.address + "/out", arrival_faults="loss=0.6,seed=6", packet=1472) as remote:
        out = np.full(64 << 10, 7, np.uint8)
        part = remote.read(deadline=0.001, out=out)
        mask = part.mask()
        assert not part.complete and not mask.all()
        np.testing.assert_array_equal(out, np.where(mask, values, 0))
        assert sum(span.stop - span.start for span in part.missing) == (~mask).sum()
        # What comes too late is for no memory of ours.
        time.sleep(0.05)
        remote.read(0, 1, deadline=8.0)
        np.testing.assert_array_equal(out, np.where(mask, values, 0))


def test_rights_and_bounds_hold(server):
    with rdma.connect(server.address + "/out") as remote, pytest.raises(PermissionError, match="may not be written"):
        remote.write(b"x")
    with rdma.connect(server.address + "/in") as remote:
        with pytest.raises(PermissionError, match="may not be read"):
            remote.read(0, 1)
        for wrong in (lambda: remote.write(bytes(65), 65_536 - 64), lambda: remote.write(b"x", -1), lambda: remote.write(b"x", 2**64 - 1),
                      lambda: remote.write(b"x", rate=-1), lambda: remote.write(b"x", message=0)):  # fmt: skip
            with pytest.raises(ValueError):
                wrong()
        remote.write(bytes(64), 65_536 - 64)
    with rdma.connect(server.address + "/vis") as remote:
        for start, stop in ((-1, 5), (5, 5), (6, 5), (0, (1 << 20) + 1)):
            with pytest.raises(ValueError):
                remote.read(start, stop)
        with pytest.raises(ValueError, match="leave out stop"):
            remote.read(0, 5, out=np.empty(6, np.uint8))
        with pytest.raises(BufferError):
            remote.read(out=np.frombuffer(b"read-only", np.uint8))
    with pytest.raises(ConnectionRefusedError, match="rejected"):
        rdma.connect(server.address + "/nothing")
    with pytest.raises(ValueError):
        server.regions["vis"].place(bytes(2), (1 << 20) - 1)
    assert server.report()["rejected"] == 1


@pytest.mark.parametrize("region", ["vis", "vis:1MiB", "vis:0:read", "vis:1MiB:execute", "a/b:1KiB:read", "vis:-1:read"])
def test_nonsense_is_a_value_error(region):
    with pytest.raises(ValueError):
        rdma.Server("127.0.0.1:0", region)


def test_wrong_servers_are_refused(server):
    for arguments in ([], ["a:1KiB:read", "a:1KiB:read"]):
        with pytest.raises(ValueError):
            rdma.Server("127.0.0.1:0", *arguments)
    for keywords in ({"queue": 0}, {"faults": "loss=2"}, {"duration": -1.0}, {"connections": -1}):
        with pytest.raises(ValueError):
            rdma.Server("127.0.0.1:0", "a:1KiB:read", **keywords)
    with pytest.raises(OSError) as taken:
        rdma.Server(server.address, "a:1KiB:read")
    assert taken.value.errno is not None
    for address in ("127.0.0.1:7000", "udp://127.0.0.1:7000/a", "127.0.0.1/a"):
        with pytest.raises(ValueError):
            rdma.connect(address)


def test_get_has_a_timeout_and_an_end(server):
    with pytest.raises(Empty):
        server.get(0.01)
    with pytest.raises(Empty):
        server.get_nowait()
    with rdma.connect(server.address + "/in") as remote:
        remote.write(b"last")
        server.get(SOON)
        remote.write(b"last")
    # Those that are queued can still be taken.
    report = server.stop()
    assert report["complete"] == 2
    assert [message.number for message in server] == [2]
    with pytest.raises(Stopped):
        server.get()
    assert server.stop()["complete"] == 2


def test_nobody_is_a_timeout_error():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        with pytest.raises(TimeoutError, match="no answer within"):
            rdma.connect(f"rdma+udp://127.0.0.1:{silent.getsockname()[1]}/vis")


def test_messages_beyond_the_queue_are_counted():
    with rdma.Server("127.0.0.1:0", "vis:64KiB:write", queue=4, connections=1) as server:
        with rdma.connect(server.address + "/vis") as remote:
            remote.write(bytes(10_000), message=1000, rate=SLOW)
        report = server.report()
        while not report["connections"]:
            time.sleep(0.01)
            report = server.report()
        assert (report["complete"], report["not_queued"]) == (10, 6)
        assert [message.number for message in server] == [1, 2, 3, 4]


def command():
    beside = shutil.which("skyhaul", path=str(pathlib.Path(sys.executable).parent))
    found = os.environ.get("SKYHAUL_BIN") or beside
    if found is None:
        # The package can be tested without the command, which is built for itself.
        pytest.skip("the command is not installed (make python)")
    return found


ENVIRONMENT = {**os.environ, "SKYHAUL_CONFIG": "/dev/null"}


def test_the_command_writes_into_an_array():
    with rdma.Server("127.0.0.1:0", "vis:1MiB:read,write", connections=1) as server:
        line = [command(), "rdma", "write", server.address + "/vis", "--pattern", "--message", "48KiB", "--messages", "20", "--imm",
                "--rate", "200Mbps", "--faults", "loss=0.05,seed=3", "--json"]  # fmt: skip
        done = subprocess.run(line, capture_output=True, env=ENVIRONMENT, timeout=SOON, check=True)
        messages = list(server)
    wrote, report = json.loads(done.stdout), server.report()
    assert report["datagrams"]["kernel_drops"] == 0, "this host was too late"
    assert wrote["messages"] == 20 and report["datagrams_lost"] == wrote["datagrams"]["lost_on_purpose"] > 0
    assert sum(message.mask().sum() for message in messages if isinstance(message, Written)) == report["written_bytes"]
    assert [loss["messages"][0] for loss in report["losses"]] == [
        one.number if isinstance(one, Written) else one.numbers[0] for one in messages if not (isinstance(one, Written) and one.complete)
    ]


def test_an_array_is_written_to_the_command_and_read_back(tmp_path):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        address = f"rdma+udp://127.0.0.1:{free.getsockname()[1]}"
    line = [command(), "rdma", "serve", "--listen", address, "--region", "vis:1MiB:read,write", "--connections", "1", "--json"]
    values = noise(300_001)
    with open(tmp_path / "said", "wb") as said:
        serve = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=said, env=ENVIRONMENT)
    try:
        with rdma.connect(address + "/vis") as remote:
            remote.write(values, 500, message=64 << 10, rate=SLOW)
            np.testing.assert_array_equal(remote.read(500, 300_501, deadline=SOON).data, values)
        served = json.loads(serve.communicate(timeout=SOON)[0])
    finally:
        serve.kill()
        serve.wait()
    assert (served["complete"], served["written_bytes"], served["incomplete"]) == (5, 300_001, 0)
    # The types of the report are those of its own.
    own = {"not_queued"}
    assert set(rdma.ServerReport.__annotations__) - own == set(served) - {"verify"}
    assert set(rdma.DatagramReport.__annotations__) == set(served["datagrams"])
    assert set(rdma.ConnectionReport.__annotations__) == set(served["connections"][0])
    assert set(rdma.ClientReport.__annotations__) == set(remote.report())


def test_a_server_that_is_killed_ends_reads_by_their_deadline_and_then_the_connection(tmp_path):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        address = f"rdma+udp://127.0.0.1:{free.getsockname()[1]}"
    line = [command(), "rdma", "serve", "--listen", address, "--region", "vis:1MiB:read,write"]
    with open(tmp_path / "said", "wb") as said:
        serve = subprocess.Popen(line, stdout=said, stderr=said, env=ENVIRONMENT)
    try:
        with rdma.connect(address + "/vis") as remote:
            assert remote.read(0, 1000, deadline=SOON).complete
            serve.kill()
            serve.wait()
            part = remote.read(0, 1000, deadline=0.2)
            assert part.missing == [(0, 1000)] and not part.mask().any()
            with pytest.raises(ConnectionResetError, match="silence"):
                end = time.monotonic() + SOON
                while time.monotonic() < end:
                    remote.read(0, 1000, deadline=0.2)
        assert remote.report()["closed_by"] == "silence"
    finally:
        serve.kill()
        serve.wait()


def test_a_writer_that_is_killed_is_given_up():
    with rdma.Server("127.0.0.1:0", "vis:1MiB:write", connections=1) as server:
        line = [command(), "rdma", "write", server.address + "/vis", "--pattern", "--message", "10KiB", "--rate", "1Mbps", "--duration", "60s"]
        write = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
        try:
            assert isinstance(server.get(SOON), Written)
        finally:
            write.kill()
            write.wait()
        # The iteration ends with the connection.
        for _ in server:
            pass
    assert [one["closed_by"] for one in server.report()["connections"]] == ["silence"]


async def test_async_for_takes_messages_while_others_run(server):
    taken = []

    async def take():
        async for message in server:
            taken.append(message.number)

    task = asyncio.create_task(take())
    async with rdma.connect(server.address + "/in") as remote:
        for _ in range(3):
            done = await remote.awrite(bytes(5000), message=1000, rate=SLOW)
        assert done.numbers == range(11, 16)
        part = asyncio.create_task(remote.awrite(bytes(1000)))
        await part
    await server.astop()
    await asyncio.wait_for(task, SOON)
    assert taken == list(range(1, 17))
    with pytest.raises(Stopped):
        await server.aget()


async def test_reads_are_cancelled():
    # Far longer than the test waits: no machine reads a gigabyte a second through packets of this size.
    length = 256 << 20
    with rdma.Server("127.0.0.1:0", f"vis:{length}:read") as server:
        async with rdma.connect(server.address + "/vis", arrival_faults="loss=0.2,seed=1", packet=1472) as remote:
            await cancelled_read(remote, np.empty(length, np.uint8))


async def cancelled_read(remote, out):
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(remote.aread(deadline=3600.0, out=out), 0.1)
    # The connection is still usable.
    assert len((await remote.aread(0, 10, deadline=8.0)).data) == 10


async def test_a_write_that_is_cancelled_ends_soon():
    with rdma.Server("127.0.0.1:0", "vis:4MiB:write") as server:
        async with rdma.connect(server.address + "/vis") as remote:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(remote.awrite(bytes(4 << 20), message=1 << 15, rate=1e6), 0.2)
            # Of 128 messages, 32 are under way.
            assert 0 < remote.report()["messages"] <= 64


def test_threads_go_on_while_one_waits(server):
    ticks = []
    with pytest.raises(Empty):
        ticker = threading.Thread(target=lambda: [ticks.append(time.sleep(0.001)) for _ in range(50)])
        ticker.start()
        server.get(0.3)
    ticker.join()
    assert len(ticks) == 50


INTERRUPTED = """
import os, signal, threading, time
from skyhaul import rdma
server = rdma.Server("127.0.0.1:0", "vis:256MiB:read,write")
# Short datagrams: the Read takes seconds.
remote = rdma.connect(server.address + "/vis", arrival_faults="loss=0.2,seed=1", packet=256)
for work in (lambda: server.get(), lambda: remote.read(deadline=3600.0), lambda: remote.write(bytes(1000000), message=1000, rate=1e5)):
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        work()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
assert remote.read(0, 5, deadline=8.0).complete
"""


def test_ctrl_c_ends_every_wait():
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "interrupted\n" * 3


LEFT_OPEN = """
from skyhaul import rdma
server = rdma.Server("127.0.0.1:0", "vis:64KiB:read,write")
remote = rdma.connect(server.address + "/vis")
remote.write(b"x")
"""


def test_a_program_may_end_without_closing():
    done = subprocess.run([sys.executable, "-c", LEFT_OPEN], capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_forked_process_is_told(server):
    with rdma.connect(server.address + "/vis") as remote:
        child = os.fork()
        if not child:
            code = 1
            try:
                for use in (server.report, remote.report, lambda: server.get(0.0)):
                    try:
                        use()
                    except RuntimeError:
                        continue
                    os._exit(2)
                # The memory is its own copy.
                code = 0 if server.regions["vis"].array[0] == 0 else 3
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_over_tcp_all_arrives_and_immediate_data_follow_their_write():
    with rdma.Server("rdma+tcp://127.0.0.1:0", "vis:1MiB:read,write", connections=1) as server:
        assert server.address.startswith("rdma+tcp://127.0.0.1:")
        values = noise(300_001)
        with rdma.connect(server.address + "/vis") as remote:
            remote.write(values, 77)
            written, behind = server.get(SOON), server.get(SOON)
        assert isinstance(written, Written) and written.complete and written.immediate is None
        assert (written.number, written.offset, written.length, written.missing) == (1, 77, len(values), [])
        assert np.array_equal(written.data, values)
        assert isinstance(behind, Written) and (behind.number, behind.length, behind.immediate) == (0, 0, 1)
    with pytest.raises(ValueError, match="--faults"):
        rdma.Server("rdma+tcp://127.0.0.1:0", "vis:1MiB:write", faults="loss=0.1,seed=1")
