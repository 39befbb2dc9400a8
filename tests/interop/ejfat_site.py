"""A client of the control plane and a codec of the packets that share nothing with the command: gRPC of the public definition,
and packets packed by hand from the document.

    balancer         'L' 'B' | version | 1 | reserved or slot, 2 | entropy or port, 2 | tick, 8
    reassembly       version, 4 bits; 0, 12 | data id, 2 | offset, 4 | event length, 4 | tick, 8
    synchronisation  'L' 'C' | 2 | 0 | source, 4 | tick, 8 | ticks per second, 4 | Unix time in ns, 8

`SKYHAUL_EJFAT_PROTO` names another copy of the definition, such as udplbd's own.
"""

import contextlib
import functools
import importlib
import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

from conftest import BINARY, ROOT

BALANCER = struct.Struct(">2sBBHHQ")
REASSEMBLY = struct.Struct(">BBHIIQ")
SYNC = struct.Struct(">2sBBIQIQ")
UDP_SEGMENT = 103


@functools.cache
def protocol():
    """The messages and the client, made of the definition."""
    from grpc_tools import protoc

    definition = pathlib.Path(os.environ.get("SKYHAUL_EJFAT_PROTO", ROOT / "crates/daemon/proto/loadbalancer.proto"))
    made = tempfile.mkdtemp()
    include = pathlib.Path(importlib.import_module("grpc_tools").__file__).parent / "_proto"
    done = protoc.main(["", f"-I{definition.parent}", f"-I{include}", f"--python_out={made}", f"--grpc_python_out={made}", definition.name])
    assert done == 0, f"{definition} cannot be compiled"
    sys.path.insert(0, made)
    return importlib.import_module(f"{definition.stem}_pb2"), importlib.import_module(f"{definition.stem}_pb2_grpc")


def compiled(definition):
    """A definition and all that it imports as data, a `FileDescriptorSet`; with the comments of its own."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from grpc_tools import protoc

    include = pathlib.Path(importlib.import_module("grpc_tools").__file__).parent / "_proto"
    with tempfile.NamedTemporaryFile() as made:
        done = protoc.main(["", f"-I{definition.parent}", f"-I{include}", "--include_imports", "--include_source_info",
                            f"--descriptor_set_out={made.name}", definition.name])  # fmt: skip
        assert done == 0, f"{definition} cannot be compiled"
        files = FileDescriptorSet.FromString(pathlib.Path(made.name).read_bytes())
    for file in files.file:
        if file.name != definition.name:
            file.ClearField("source_code_info")
    return files


class Client:
    """Calls with one token."""

    def __init__(self, at, token):
        import grpc

        _, stubs = protocol()
        self.stub = stubs.LoadBalancerStub(grpc.insecure_channel(at))
        self.token = token

    def __call__(self, method, **fields):
        messages, _ = protocol()
        request = getattr(messages, f"{method}Request")(**fields)
        return getattr(self.stub, method)(request, metadata=[("authorization", f"Bearer {self.token}")], timeout=20)

    def refused(self, method, **fields):
        """The code with which a call is refused."""
        import grpc

        try:
            self(method, **fields)
        except grpc.RpcError as error:
            return error.code().name
        return None


def segment(tick, payload, offset, length, data_id=0, version=1):
    return REASSEMBLY.pack(version << 4, 0, data_id, offset, length, tick) + payload


def event(tick, content, each=1000, data_id=0):
    """The packets of an event for a receiver."""
    return [segment(tick, content[at : at + each], at, len(content), data_id) for at in range(0, len(content), each)]


def labelled(tick, packet, version=2, slot=0, entropy=0):
    return BALANCER.pack(b"LB", version, 1, slot, entropy, tick) + packet


def sync(source, tick, rate):
    return SYNC.pack(b"LC", 2, 0, source, tick, rate, time.time_ns())


def train(sender, to, packets):
    """Packets of one length in one system call, so that nothing comes between them."""
    assert len({len(packet) for packet in packets}) == 1
    sender.sendmsg([b"".join(packets)], [(socket.IPPROTO_UDP, UDP_SEGMENT, struct.pack("=H", len(packets[0])))], 0, to)


def content(tick, length):
    """Bytes that show of which event, and from where in it, they are."""
    return b"".join(struct.pack(">QI", tick, at) for at in range(-(-length // 12)))[:length]


class Job:
    """A command that runs until it is told to end."""

    def __init__(self, directory, name, *words, env=None):
        self.errors = directory / f"{name}.err"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen([BINARY, *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
                                            env={**os.environ, **(env or {})})  # fmt: skip

    def said(self):
        return self.errors.read_text(errors="replace")

    def wait_for(self, pattern, seconds=60):
        until = time.monotonic() + seconds
        while not (found := re.search(pattern, self.said())):
            assert self.process.poll() is None, f"it ended:\n{self.said()}"
            assert time.monotonic() < until, f"no {pattern}:\n{self.said()}"
            time.sleep(0.02)
        return found

    def end(self, how=signal.SIGINT, expect=0, timeout=120):
        """Its report."""
        if how is not None:
            self.process.send_signal(how)
        output, _ = self.process.communicate(timeout=timeout)
        assert expect is None or self.process.returncode == expect, f"exit {self.process.returncode}\n{self.said()}\n{output.decode()}"
        return json.loads(output) if output.strip().startswith(b"{") else output.decode()

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Site:
    """Balancers, workers and receivers of a test; all end with it."""

    def __init__(self, directory):
        self.directory, self.jobs = directory, []

    def job(self, name, *words, env=None):
        job = Job(self.directory, name, *words, env=env)
        self.jobs.append(job)
        return job

    def balance(self, *more, name="balance", ports=("--data-port", 0, "--sync-port", 0), api="127.0.0.1:0"):
        token = self.directory / f"{name}.token"
        job = self.job(name, "balance", "--api", api, *ports, "--threads", 1, "--token-file", token, "--json", *more)
        job.api = job.wait_for(r"control plane on https?://(\S+)")[1]
        job.operator = Client(job.api, token.read_text().strip())
        return job

    def receive(self, *more, name="receive"):
        job = self.job(name, "receive", "--format", "ejfat", "--listen", "udp://127.0.0.1:0", "--json", *more)
        job.port = int(job.wait_for(r"receiving from udp://127\.0\.0\.1:(\d+)")[1])
        return job

    def worker(self, uri, *more, name="worker"):
        listed = self.directory / f"{name}.list"
        job = self.job(name, "receive", "--format", "ejfat", "--listen", "udp://127.0.0.1:0", "--join", "--list", listed, "--json", *more,
                       env={"EJFAT_URI": uri})  # fmt: skip
        job.list = listed
        job.wait_for(r"joined balancer")
        job.port = int(job.wait_for(r"receiving from udp://127\.0\.0\.1:(\d+)")[1])
        return job

    def close(self):
        for job in self.jobs:
            job.kill()


def rows(path):
    """The lines of a list, without the first."""
    return [line.split(",") for line in path.read_text().splitlines()[1:]]


def until(what, seconds=60):
    """What is true in the end."""
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.05)
    return found
