"""The source distribution of spead2, for its tests: fetched once, checked by digest, kept outside the tree.

spead2 is LGPL and its tests are too, so nothing of it lies in this repository: pip fetches the archive from whatever
index this machine uses, and it is unpacked below `target/`. Its package metadata cannot be asked from its own build
system, which wants a C++ library; pip asks a stand-in instead (`as_spead2/`), that knows the name and the version.
"""

import hashlib
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

VERSION = "4.5.1"
SHA256 = "699f18f749f71875733b759038984628af8f6088042da77f34203f8d28046b1f"
HERE = pathlib.Path(__file__).resolve().parent
CACHE = HERE.parents[1] / "target/spead2-suite"
ARCHIVE = CACHE / f"spead2-{VERSION}.tar.gz"


class Unreachable(Exception):
    """The archive is neither here nor to be had."""


def unpacked():
    """The directory of the unpacked distribution."""
    if not (ARCHIVE.is_file() and _digest(ARCHIVE) == SHA256):
        _download()
    source = CACHE / f"spead2-{VERSION}"
    if not (source / "tests").is_dir():
        with tarfile.open(ARCHIVE) as archive:
            # Before Python 3.11.4 there is no filter; the digest says whose archive it is.
            safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            archive.extractall(CACHE, **safely)
    return source


def _download():
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        wanted = pathlib.Path(scratch) / "wanted.txt"
        wanted.write_text(f"spead2=={VERSION} --hash=sha256:{SHA256}\n", encoding="ascii")
        words = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                 "--no-binary", ":all:", "--no-build-isolation", "--require-hashes", "-r", wanted, "-d", scratch]
        environment = dict(os.environ, PYTHONPATH=str(HERE / "as_spead2"))
        done = subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=300,
                              check=False)
        arrived = pathlib.Path(scratch) / ARCHIVE.name
        if done.returncode != 0 or not arrived.is_file():
            last = (done.stderr.decode(errors="replace").strip().splitlines() or ["no answer"])[-1]
            raise Unreachable(f"spead2 {VERSION} is not to be had from the package index: {last}")
        arrived.replace(ARCHIVE)


def _digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()
