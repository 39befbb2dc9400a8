"""RDMA on the wire: a decoder written from docs/reference/rdma-wire.md alone, and tshark, read what the code writes.

An example program of the core prints our datagrams. Nothing is sent.
"""

import os
import random
import shutil
import struct
import subprocess

import pytest
from conftest import ROOT

MESSAGES = int(os.environ.get("SKYHAUL_RDMA_MESSAGES", "10000"))
OPCODES = ["write", "read_request", "read_response", "send", "send_invalidate", "send_solicited",
           "send_solicited_invalidate", "terminate", "immediate", "immediate_solicited"]


class Refused(Exception):
    pass


def crc32c(octets, table=[]):  # noqa: B006
    if not table:
        for value in range(256):
            for _ in range(8):
                value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
            table.append(value)
    crc = 0xFFFFFFFF
    for octet in octets:
        crc = crc >> 8 ^ table[(crc ^ octet) & 0xFF]
    return crc ^ 0xFFFFFFFF


def checked(octets):
    body, crc = octets[:-4], int.from_bytes(octets[-4:], "little")
    if crc32c(body) != crc:
        raise Refused("bad_checksum")
    return body


def segment(octets):
    """DDP header and payload, by the tables of the page."""
    control, ulp = octets[0], octets[1]
    read = {"tagged": control >> 7, "last": control >> 6 & 1, "opcode": OPCODES[ulp & 15]}
    if control & 3 != 1 or ulp >> 6 != 1:
        raise Refused("bad_version")
    if read["tagged"]:
        read["stag"], read["to"] = struct.unpack(">IQ", octets[2:14])
        read["payload"] = octets[14:]
    else:
        names = ("invalidate", "queue", "msn", "mo")
        read |= zip(names, struct.unpack(">IIII", octets[2:18]), strict=True)
        read["payload"] = octets[18:]
    return read


def decode(profile, octets):
    if profile == "bare":
        return segment(octets)
    if profile == "tcp":
        length = int.from_bytes(octets[:2], "big")
        body = checked(octets)
        assert len(body) % 4 == 0 and len(body) - 2 - length in range(4)
        assert not any(body[2 + length:])
        return segment(body[2:2 + length])
    word, conn_id, psn, msn, offset = struct.unpack(">HIIII", octets[:18])
    if word >> 12 != 1:
        raise Refused("bad_version")
    flag = {name: word >> bit & 1 for name, bit in
            [("first", 11), ("crc", 10), ("control", 9), ("repeated", 8), ("bound", 7)]}
    body = checked(octets) if flag["crc"] else octets
    assert not flag["control"]
    return segment(body[18:]) | flag | {"conn_id": conn_id, "psn": psn, "number": msn, "offset": offset}


def payload(start, length):
    return bytes(at % 251 for at in range(start, start + length))


@pytest.fixture(scope="module")
def ask():
    """Asks the example for the datagrams of one message."""
    if not shutil.which("cargo"):
        pytest.skip("cargo is not installed (https://rustup.rs)")
    # Of the whole workspace, and so of what the tests are built of.
    built = subprocess.run(["cargo", "build", "--quiet", "--locked", "--workspace", "--example", "rdma_bytes",
                            "--message-format", "json"], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True,
                           text=True, timeout=600, check=False)
    assert built.returncode == 0, built.stderr
    program = next(line.split('"executable":"')[1].split('"')[0] for line in built.stdout.splitlines()
                   if '"name":"rdma_bytes"' in line and '"executable":"' in line)
    process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def one(*words):
        process.stdin.write(" ".join(map(str, words)) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline().strip()
        assert answer and not answer.startswith("error"), f"{words}: {answer}"
        return [bytes.fromhex(part) for part in answer.split(",")]

    yield one
    process.stdin.close()
    assert process.wait(timeout=20) == 0


class Message:
    """A message drawn by chance: the line that asks for it, and the segments it must have."""

    def __init__(self, chance, profile=None):
        self.profile = profile or chance.choice(["bare", "uc", "tcp"])
        self.datagram = chance.choice([128, 200, 1472, 8972])
        self.crc = int(self.profile == "uc" and chance.random() < 0.5)
        self.length = chance.choice([0, 1, 8, 92, 500, chance.randrange(6000)])
        self.stag, self.to = chance.randrange(1 << 32), chance.randrange(1 << 63)
        self.operation = chance.choice(["write", "write", "send", "immediate", "read"])
        self.value = chance.choice([None, chance.randrange(1 << 64)])
        self.invalidate = chance.choice([None, chance.randrange(1, 1 << 32)])
        self.solicited = chance.randrange(2)
        if self.operation == "read":
            self.length = max(self.length, 1)

    def words(self):
        def maybe(value):
            return "-" if value is None else value

        rest = {"write": (self.stag, self.to, self.length, maybe(self.value)),
                "send": (self.length, maybe(self.invalidate), self.solicited),
                "immediate": (self.value or 0, self.solicited),
                "read": (self.stag, self.to, self.length)}[self.operation]
        return self.profile, self.datagram, self.crc, self.operation, *rest

    def room(self, header):
        around = {"bare": 0, "uc": 18 + 4 * self.crc, "tcp": 9}[self.profile]
        return self.datagram - header - around

    def segments(self):
        """What the page says that they must be: dicts of some fields."""
        bound = self.profile == "uc" and self.operation == "write" and self.value is not None
        out = []
        if self.operation in ("write", "send"):
            header = 14 if self.operation == "write" else 18
            room = self.room(header)
            starts = range(0, self.length, room) if self.length else ([] if bound else [0])
            for at in starts:
                size = min(room, self.length - at)
                part = {"last": int(at + size == self.length), "payload": payload(at, size)}
                if self.operation == "write":
                    part |= {"tagged": 1, "opcode": "write", "stag": self.stag, "to": self.to + at}
                else:
                    name = "send" + "_solicited" * self.solicited + "_invalidate" * (self.invalidate is not None)
                    part |= {"tagged": 0, "opcode": name, "invalidate": self.invalidate or 0, "queue": 0, "msn": 1,
                             "mo": at}
                if self.profile == "uc":
                    part |= {"first": int(at == 0), "offset": at, "number": 1, "bound": int(bound)}
                out.append(part)
        short = {"tagged": 0, "last": 1, "msn": 1, "mo": 0, "invalidate": 0}
        if self.operation == "immediate" or self.operation == "write" and self.value is not None:
            name = "immediate_solicited" if self.operation == "immediate" and self.solicited else "immediate"
            out.append(short | {"opcode": name, "queue": 0, "payload": struct.pack(">Q", self.value or 0)})
        if self.operation == "read":
            out.append(short | {"opcode": "read_request", "queue": 1})
        if self.profile == "uc":
            at = self.length if bound else 0
            if bound or self.operation not in ("write", "send"):
                out[-1] |= {"first": int(at == 0), "offset": at, "number": 1, "bound": int(bound)}
            for number, part in enumerate(out):
                part |= {"psn": number + 1, "control": 0, "repeated": 0, "crc": self.crc}
        return out


def test_a_decoder_from_the_page_reads_what_the_code_writes(ask):
    chance, kinds = random.Random(1), set()
    for _ in range(MESSAGES):
        message = Message(chance)
        read = [decode(message.profile, octets) for octets in ask(*message.words())]
        expected = message.segments()
        assert len(read) == len(expected), message.words()
        for is_, should in zip(read, expected, strict=True):
            assert {name: is_[name] for name in should} == should, message.words()
            kinds.add(is_["opcode"])
            if is_["opcode"] == "read_request":
                sink, sink_to, size, source, source_to = struct.unpack(">IQIIQ", is_["payload"])
                assert (sink_to, size, source, source_to) == (0, message.length, message.stag, message.to)
                assert sink >> 8 != 0
    assert len(kinds) == 8, kinds


def test_a_flipped_bit_is_found(ask):
    chance = random.Random(2)
    for _ in range(300):
        message = Message(chance, "tcp")
        octets = bytearray(chance.choice(ask(*message.words())))
        octets[chance.randrange(2, len(octets))] ^= 1 << chance.randrange(8)
        with pytest.raises(Refused):
            decode("tcp", bytes(octets))


def test_inspect_shows_what_the_decoder_reads(ask, skyhaul, tmp_path):
    chance, path = random.Random(5), tmp_path / "datagram"
    for profile in ("bare", "uc", "tcp") * 3:
        octets = ask(*Message(chance, profile).words())[0]
        path.write_bytes(octets)
        [shown] = skyhaul.json("inspect", path, "--rdma", profile)
        read, fields = decode(profile, octets), {field["name"]: field for field in shown["fields"]}
        assert (shown["format"], shown["problem"]) == (f"rdma {profile}", None)
        assert fields["opcode"]["meaning"] == read["opcode"]
        named = {"stag": "stag", "tagged_offset": "to", "queue": "queue", "message": "msn", "psn": "psn"}
        for name, own in named.items():
            assert name not in fields or fields[name]["value"] == read[own], (name, octets.hex())
        if profile != "bare":
            path.write_bytes(bytes([octets[0] ^ 0x40]) + octets[1:])
            assert skyhaul.json("inspect", path, "--rdma", profile, expect=1)[0]["problem"]


def flags(octets):
    """What tshark shows of a segment: its own name, and the value that the page gives the field."""
    read = segment(octets)
    shown = {"iwarp_ddp.tagged_flag": read["tagged"], "iwarp_ddp.last_flag": read["last"], "iwarp_ddp.dv": 1,
             "iwarp_rdma.version": 1, "iwarp_rdma.opcode": OPCODES.index(read["opcode"])}
    if read["tagged"]:
        return shown | {"iwarp_ddp.stag": read["stag"], "iwarp_ddp.tagged_offset": read["to"]}
    shown |= {"iwarp_ddp.qn": read["queue"], "iwarp_ddp.msn": read["msn"], "iwarp_ddp.mo": read["mo"]}
    if read["opcode"] == "read_request":
        names = ("iwarp_rdma.sinkstag", "iwarp_rdma.sinkto", "iwarp_rdma.rdmardsz", "iwarp_rdma.srcstag",
                 "iwarp_rdma.srcto")
        shown |= zip(names, struct.unpack(">IQIIQ", read["payload"][:28]), strict=True)
    if read["opcode"].endswith("invalidate"):
        shown["iwarp_rdma.inval_stag"] = read["invalidate"]
    return shown


FIELDS = ["iwarp_ddp.tagged_flag", "iwarp_ddp.last_flag", "iwarp_ddp.dv", "iwarp_rdma.version", "iwarp_rdma.opcode",
          "iwarp_ddp.stag", "iwarp_ddp.tagged_offset", "iwarp_ddp.qn", "iwarp_ddp.msn", "iwarp_ddp.mo",
          "iwarp_rdma.sinkstag", "iwarp_rdma.sinkto", "iwarp_rdma.rdmardsz", "iwarp_rdma.srcstag", "iwarp_rdma.srcto",
          "iwarp_rdma.inval_stag", "iwarp_rdma.term_layer", "iwarp_rdma.term_etype_ddp",
          "iwarp_rdma.term_errcode_ddp_tagged", "iwarp_rdma.term_hdrct_m", "iwarp_rdma.hdrct_d", "iwarp_rdma.hdrct_r",
          "iwarp_mpa.marker_flag", "iwarp_mpa.crc_flag", "iwarp_mpa.rej_flag", "iwarp_mpa.rev", "iwarp_mpa.pdlength",
          "iwarp_mpa.ulpdulength", "iwarp_mpa.crc_check"]


def dissected(path, linktype, packets, *options):
    """What tshark reads of each packet: its fields as numbers, those that are there."""
    if not shutil.which("tshark"):
        pytest.skip("tshark is not installed (apt install tshark)")
    with path.open("wb") as file:
        file.write(struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, linktype))
        for packet in packets:
            file.write(struct.pack("<IIII", 1, 0, len(packet), len(packet)) + packet)
    words = [word for field in FIELDS for word in ("-e", field)]
    # What our payloads mean is not for tshark to guess.
    guesses = ["--disable-protocol", "rpcordma", "--disable-protocol", "smb_direct"]
    read = subprocess.run(["tshark", *options, *guesses, "-r", path, "-T", "fields", "-E", "occurrence=f",
                           "-e", "_ws.malformed", *words],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=True)
    lines = [line.split("\t") for line in read.stdout.splitlines()]
    assert [line[0] for line in lines] == [""] * len(packets), "malformed"
    return [{name: int(value, 0) for name, value in zip(FIELDS, line[1:], strict=True) if value} for line in lines]


def agree(read, expected):
    for packet, (is_, should) in enumerate(zip(read, expected, strict=True)):
        assert {name: is_.get(name) for name in should} == should, packet


@pytest.mark.parametrize("profile", ["bare", "uc"])
def test_tshark_reads_each_field_of_a_datagram(ask, tmp_path, profile):
    chance, packets = random.Random(3), []
    while len(packets) < 600:
        packets += [octets[18 if profile == "uc" else 0:] for octets in ask(*Message(chance, profile).words())]
    dlt = 'uat:user_dlts:"User 0 (DLT=147)","iwarp_ddp_rdmap","0","","0",""'
    agree(dissected(tmp_path / "ddp.pcap", 147, packets, "-o", dlt), [flags(octets) for octets in packets])


def tcp(here, number, acknowledged, control, payload):
    """An IPv4 packet of a TCP connection between two ports; `here` is whether the client sends it."""
    ports, addresses = (47000, 47001), (b"\x7f\0\0\1", b"\x7f\0\0\2")
    source, sink = (ports, addresses) if here else (ports[::-1], addresses[::-1])
    head = struct.pack(">HHIIBBHHH", *source, number, acknowledged, 5 << 4, control, 65535, 0, 0)
    length = 20 + len(head) + len(payload)
    return struct.pack(">BBHHHBBH4s4s", 0x45, 0, length, 0, 0, 64, 6, 0, *sink) + head + payload


def test_tshark_reads_each_field_of_a_stream(ask, tmp_path):
    chance = random.Random(4)
    [request], [reply] = ask("mpa", "request", "hello", "-", "-"), ask("mpa", "accept", "-", "-", "-")
    frames = [frame for _ in range(150) for frame in ask(*Message(chance, "tcp").words())]
    [ended] = ask("terminate", 13)
    packets = [tcp(True, 1000, 0, 2, b""), tcp(False, 2000, 1001, 0x12, b""), tcp(True, 1001, 2001, 0x10, b""),
               tcp(True, 1001, 2001, 0x18, request), tcp(False, 2001, 1001 + len(request), 0x18, reply)]
    opened, sent, heard = len(packets), 1001 + len(request), 2001 + len(reply)
    for frame in [*frames, ended]:
        packets.append(tcp(True, sent, heard, 0x18, frame))
        sent += len(frame)
    read = dissected(tmp_path / "mpa.pcap", 101, packets, "-o", "tcp.try_heuristic_first:TRUE")
    connect = {"iwarp_mpa.marker_flag": 0, "iwarp_mpa.crc_flag": 1, "iwarp_mpa.rej_flag": 0, "iwarp_mpa.rev": 1}
    agree(read[3:5], [connect | {"iwarp_mpa.pdlength": 5}, connect | {"iwarp_mpa.pdlength": 0}])
    mpa = [{"iwarp_mpa.ulpdulength": int.from_bytes(frame[:2], "big"),
            "iwarp_mpa.crc_check": int.from_bytes(frame[-4:], "big")} for frame in frames]
    inside = [flags(frame[2:2 + int.from_bytes(frame[:2], "big")]) for frame in frames]
    agree(read[opened:-1], [own | fields for own, fields in zip(mpa, inside, strict=True)])
    # Refusal 13 is `out_of_bounds`, of a tagged segment: DDP, tagged buffer, base or bounds, with length and header.
    agree(read[-1:], [{"iwarp_rdma.opcode": 7, "iwarp_ddp.qn": 2, "iwarp_rdma.term_layer": 1,
                       "iwarp_rdma.term_etype_ddp": 1, "iwarp_rdma.term_errcode_ddp_tagged": 1,
                       "iwarp_rdma.term_hdrct_m": 1, "iwarp_rdma.hdrct_d": 1, "iwarp_rdma.hdrct_r": 0}])
