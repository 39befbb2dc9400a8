"""What `skyhaul serve` and `skyhaul copy` say of digests, beside hashlib; and scans that programs of the field upload, which become recordings."""

import base64
import hashlib
import http.server
import json
import random
import re
import struct
import threading
import zlib

import pytest
from conftest import BINARY
from test_webdav import Site, call, program

FPS, PAYLOAD = 100, 8000


def scan(seconds, seed=34):
    """Frames of one VDIF thread (VDIF 1.1.1, section 4): 32 bytes of header, of 2026-01-01 and later, 2 bits, 1 channel."""
    noise = random.Random(seed).randbytes(PAYLOAD + 4096)
    frames = []
    for number in range(seconds * FPS):
        second, frame = divmod(number, FPS)
        epoch = 52 << 24  # the first half of 2026
        words = (second, epoch | frame, (32 + PAYLOAD) // 8, (1 << 26) | 0x577A, 0, 0, 0, 0)
        at = number * 7 % 4096
        frames.append(struct.pack("<8I", *words) + noise[at : at + PAYLOAD])
    return b"".join(frames)


def digest(whole, algorithm):
    return base64.b64encode(hashlib.new(algorithm, whole).digest()).decode()


@pytest.fixture
def recorder(skyhaul, tmp_path):
    del skyhaul  # it is there
    site = Site(tmp_path, "record_uploads = true")
    yield site
    site.end()


@pytest.mark.parametrize("put", ["curl", "davix"])
def test_an_uploaded_scan_is_a_recording(recorder, tmp_path, put):
    whole = scan(50)  # two chunks
    path, url = tmp_path / "scan", f"{recorder.server}/recordings/back_{put}"
    path.write_bytes(whole)
    if put == "davix":
        call(program("davix-put", "davix"), path, url)
    else:
        call(program("curl", "curl"), "--fail", "--silent", "--show-error", "--upload-file", path, url)
    curl = (program("curl", "curl"), "--fail", "--silent", "--show-error")
    for algorithm in ("sha256", "md5"):
        name = {"sha256": "sha-256"}.get(algorithm, algorithm)
        head = call(*curl, "--head", "--header", f"Want-Repr-Digest: {name}=5", url)
        assert f"Repr-Digest: {name}=:{digest(whole, algorithm)}:" in head, head
        head = call(*curl, "--head", "--header", f"Want-Digest: {name}", "--header", f"Want-Repr-Digest: {name}=5", url)
        assert f"\nDigest: {name}={digest(whole, algorithm)}" in head and "Repr-Digest" not in head, head
    head = call(*curl, "--head", "--header", "Want-Digest: adler32", url)
    assert f"Digest: adler32={zlib.adler32(whole):08x}" in head and f"Content-Length: {len(whole)}" in head, head
    disk = tmp_path / "disk"
    call(BINARY, "cat", f"back_{put}", "--disk", disk, "--output-file", tmp_path / "cat")
    assert (tmp_path / "cat").read_bytes() == whole
    report = json.loads(call(BINARY, "check", f"back_{put}", "--disk", disk, "--json"))
    assert (report["ledger"]["received"], report["ledger"]["never_received"], report["findings_total"]) == (50 * FPS, 0, 0), report
    assert report["datastreams"][0]["chunks"] == 2, report
    # One that lacks a second has lost it, and nothing else.
    missing = whole[: 20 * FPS * 8032] + whole[21 * FPS * 8032 :]
    path.write_bytes(missing)
    call(*curl, "--upload-file", path, f"{recorder.server}/recordings/less_{put}")
    report = json.loads(call(BINARY, "check", f"less_{put}", "--disk", disk, "--json"))
    assert (report["ledger"]["received"], report["ledger"]["never_received"]) == (49 * FPS, FPS), report
    call(BINARY, "cat", f"less_{put}", "--disk", disk, "--output-file", tmp_path / "cat", expect=(0, 1))
    assert (tmp_path / "cat").read_bytes() == missing


def report_of(said):
    """The report in front of what was said to people."""
    return json.JSONDecoder().raw_decode(said)[0]


class Bare:
    """A server that gives one digest of its file, and ranges."""

    def __init__(self, whole, head, has_ranges):
        class Says(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self):
                self.reply(False)

            def do_GET(self):
                self.reply(True)

            def reply(self, has_body):
                asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", "")) if has_ranges else None
                part = whole[int(asked[1]) : int(asked[2]) + 1] if asked else whole
                self.send_response(206 if asked else 200)
                if asked:
                    self.send_header("Content-Range", f"bytes {asked[1]}-{asked[2]}/{len(whole)}")
                if has_ranges:
                    self.send_header("Accept-Ranges", "bytes")
                self.send_header("Content-Length", str(len(part)))
                self.send_header("ETag", '"1"')
                self.send_header(*head)
                self.end_headers()
                if has_body:
                    self.wfile.write(part)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Says)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/f"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def heads(whole):
    """The forms in which servers give MD5 and SHA-256."""
    return [
        ("Content-MD5", digest(whole, "md5")),
        ("Digest", f"MD5={digest(whole, 'md5')}"),
        ("Digest", f"SHA-256={digest(whole, 'sha256')}"),
        ("Repr-Digest", f"sha-256=:{digest(whole, 'sha256')}:"),
    ]


@pytest.mark.parametrize("has_ranges", [True, False])
def test_downloads_are_compared_with_md5_and_sha256(skyhaul, tmp_path, has_ranges):
    del skyhaul
    whole = random.Random(9530).randbytes(20_000_017)
    other = bytes([whole[0] ^ 1]) + whole[1:]
    to = tmp_path / "got"
    copy = (BINARY, "copy", "--json", "--streams", "4", "--range", "1MiB")
    for head, wrong in zip(heads(whole), heads(other), strict=True):
        with Bare(whole, head, has_ranges) as server:
            to.unlink(missing_ok=True)
            report = report_of(call(*copy, server.url, to))
            assert to.read_bytes() == whole and not report.get("unchecked"), report
            # What is there is compared, and not fetched.
            report = report_of(call(*copy, server.url, to))
            assert (report["kept_files"], report["moved_bytes"]) == (1, 0), report
            call(*copy, "--verify", server.url, to)
            to.write_bytes(other)
            assert "differs: " in call(*copy, "--verify", server.url, to, expect=(1,))
            call(*copy, "--exists", "replace", server.url, to)
            assert to.read_bytes() == whole
        with Bare(whole, wrong, has_ranges) as server:
            to.unlink()
            said = call(*copy, server.url, to, expect=(1,))
            assert "CHECKSUM MISMATCH: " in said and not to.exists(), said
            assert [path.name for path in tmp_path.iterdir()] == [], list(tmp_path.iterdir())


def test_a_download_that_goes_on_is_compared_as_a_whole(skyhaul, tmp_path):
    """The part of an earlier attempt is in the digest, too: one of its bytes is changed where no range shows it."""
    del skyhaul
    whole = random.Random(1).randbytes(20_000_017)
    to = tmp_path / "got"
    copy = (BINARY, "copy", "--json", "--streams", "3", "--range", "1MiB")
    for is_right in (True, False):
        stated = whole if is_right else whole[:-1] + bytes([whole[-1] ^ 1])
        stop = threading.Event()

        class Half(Bare):
            pass

        with Half(whole, ("Digest", f"SHA-256={digest(stated, 'sha256')}"), True) as server:
            handler = server.server.RequestHandlerClass
            reply = handler.reply

            def broken(self, has_body, reply=reply, stop=stop):
                asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
                if has_body and asked and int(asked[1]) >= 10 << 20 and not stop.is_set():
                    self.send_error(404)
                else:
                    reply(self, has_body)

            handler.reply = broken
            call(*copy, server.url, to, expect=(1,))
            assert not to.exists()
            stop.set()
            said = call(*copy, server.url, to, expect=(0,) if is_right else (1,))
            assert to.exists() == is_right, said
            if is_right:
                report = report_of(said)
                assert to.read_bytes() == whole and report["moved_bytes"] < len(whole) and not report.get("unchecked"), report
                to.unlink()
            else:
                assert "CHECKSUM MISMATCH: " in said, said
