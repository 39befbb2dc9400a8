"""The wheel that was just built: what package indexes, shells and type checkers find in it, and an installation of it with
nothing else but NumPy."""

import base64
import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile

import pytest
from conftest import ROOT

CRATE = ROOT / "crates/python"
REFERENCE = ROOT / "docs/reference"
# Where installed, and what is checked in.
SHARED = {
    "share/bash-completion/completions/skyhaul": REFERENCE / "completions/skyhaul.bash",
    "share/zsh/site-functions/_skyhaul": REFERENCE / "completions/_skyhaul",
    "share/fish/vendor_completions.d/skyhaul.fish": REFERENCE / "completions/skyhaul.fish",
    **{f"share/man/man1/{page.name}": page for page in (REFERENCE / "man").glob("*.1")},
}


@pytest.fixture(scope="module")
def wheel():
    found = list((ROOT / "target/wheels").glob("skyhaul-*.whl"))
    if not found:
        pytest.skip("no wheel is built (make python)")
    assert len(found) == 1, found
    return found[0]


@pytest.fixture(scope="module")
def packed(wheel):
    """Its files by name; those beside the package as `data/…` and `info/…`."""
    front = "-".join(wheel.name.split("-")[:2])
    with zipfile.ZipFile(wheel) as file:
        short = {name.replace(f"{front}.data/", "data/").replace(f"{front}.dist-info/", "info/"): name for name in file.namelist()}
        return {name: file.read(long) for name, long in short.items()}


@pytest.fixture(scope="module")
def metadata(packed):
    metadata = pytest.importorskip("packaging.metadata", reason="packaging is not installed (make python)")
    return metadata.Metadata.from_email(packed["info/METADATA"], validate=True)


def test_nothing_needs_a_newer_glibc_than_the_wheel_says(wheel, packed):
    """Both the module and the command; package indexes look at the module only."""
    said = re.search(r"manylinux_(\d+)_(\d+)_", wheel.name)
    if said is None or (int(said[1]), int(said[2])) > (2, 28):
        pytest.skip("the wheel is for the glibc of this machine (pip install ziglang, then make python)")
    for name in ("skyhaul/_native.abi3.so", "data/scripts/skyhaul"):
        assert packed[name].startswith(b"\x7fELF")
        needed = {tuple(map(int, version)) for version in re.findall(rb"GLIBC_(\d+)\.(\d+)", packed[name])}
        assert needed and max(needed) <= (2, 28), (name, max(needed))


def test_metadata(metadata):
    versions = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
    assert (metadata.name, str(metadata.version)) == ("skyhaul", versions["version"])
    assert metadata.author == metadata.maintainer == "Skyhaul developers"
    assert metadata.license_expression == "Apache-2.0 OR MIT"
    assert str(metadata.requires_python) == ">=3.11"
    urls = metadata.project_urls
    assert set(urls) == {"Documentation", "Changelog", "Issues", "Source"}
    assert urls["Source"] == versions["repository"] and all(url.startswith(urls["Source"]) for url in urls.values())
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13, 14)} < set(metadata.classifiers)
    starts = ("Intended Audience ::", "Topic ::", "Operating System ::", "Typing :: Typed")
    assert all(any(one.startswith(start) for one in metadata.classifiers) for start in starts)
    assert not any(one.startswith("License ::") for one in metadata.classifiers), "the expression replaces them"


def test_extras(metadata):
    """Each brings what the package asks for with it."""
    wanted = {"xarray": {"xarray", "dask"}, "distributed": {"skyhaul", "distributed"}, "plot": {"matplotlib"}}
    assert set(metadata.provides_extra) == set(wanted)
    for extra, names in wanted.items():
        assert {one.name for one in metadata.requires_dist if one.marker and one.marker.evaluate({"extra": extra})} == names
    assert {one.name for one in metadata.requires_dist if not one.marker} == {"numpy"}


def test_long_description_is_whole_outside_the_repository(metadata):
    markdown = pytest.importorskip("markdown_it", reason="markdown-it-py is not installed (make python)")
    assert metadata.description_content_type.startswith("text/markdown")
    assert metadata.description.strip() == (CRATE / "README.md").read_text().strip()
    tokens = markdown.MarkdownIt("commonmark").enable("table").parse(metadata.description)
    assert [token.tag for token in tokens if token.type == "heading_open"][0] == "h1"
    inner = [one for token in tokens for one in token.children or ()]
    addresses = [one.attrGet("href") or one.attrGet("src") for one in inner if one.type in ("link_open", "image")]
    assert addresses and all(address.startswith("https://") for address in addresses), addresses


def test_files(packed, metadata):
    for name in ("LICENSE-APACHE", "LICENSE-MIT"):
        assert packed[f"info/licenses/{name}"] == (ROOT / name).read_bytes()
    assert set(map(str, metadata.license_files)) == {"LICENSE-APACHE", "LICENSE-MIT"}
    assert packed["skyhaul/py.typed"] == b""
    assert packed["skyhaul/_native.pyi"] == (CRATE / "python/skyhaul/_native.pyi").read_bytes()
    sources = {path.relative_to(CRATE / "python").as_posix() for path in (CRATE / "python").rglob("*.py")}
    assert {name for name in packed if name.endswith(".py")} == sources
    assert "share/man/man1/skyhaul.1" in SHARED and "share/man/man1/skyhaul-record.1" in SHARED
    for name, kept in SHARED.items():
        assert packed[f"data/data/{name}"] == kept.read_bytes(), name
    assert {name for name in packed if name.startswith("data/data/")} == {f"data/data/{name}" for name in SHARED}


def test_nothing_tells_where_it_was_built(packed):
    """Neither the bill of materials nor the sources; and the record has what is there now."""
    boms = {name: json.loads(data) for name, data in packed.items() if name.startswith("info/sboms/")}
    assert boms and any(one["name"] == "skyhaul-core" for bom in boms.values() for one in bom["components"])
    for name, data in packed.items():
        # A compiled file may name the sources of a panic: the wheel for others is built elsewhere.
        if not name.endswith(".so") and name != "data/scripts/skyhaul":
            assert str(ROOT).encode() not in data and b"file:///" not in data, name
    kept = {name.split("/", 1)[1]: data for name, data in packed.items() if name.startswith("info/")}
    record = {line.split(",")[0].split("/", 1)[1]: line.split(",")[1] for line in kept["RECORD"].decode().splitlines() if ".dist-info/" in line}
    for name, data in kept.items():
        if name != "RECORD":
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert record[name] == f"sha256={digest}", name


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A new environment with the wheel, and of what there is here only NumPy."""
    root = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", "--without-pip", root)
    python = root / "bin/python"
    [inside] = root.glob("lib/python3*/site-packages")
    for part in pathlib.Path(sysconfig.get_path("platlib")).glob("numpy*"):
        (inside / part.name).symlink_to(part)
    quiet = ("--quiet", "--disable-pip-version-check")
    run(sys.executable, "-m", "pip", *quiet, "--python", python, "install", "--no-index", "--no-deps", wheel)
    yield root
    shutil.rmtree(root, ignore_errors=True)


def run(*words, **how):
    done = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100,
                          check=False, **how)  # fmt: skip
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_installed_command_and_what_belongs_to_it(installed, metadata):
    said = run(installed / "bin/skyhaul", "--version", env={"PATH": ""})
    assert said.split() == ["skyhaul", str(metadata.version)]
    for name, kept in SHARED.items():
        assert (installed / name).read_bytes() == kept.read_bytes(), name


@pytest.mark.parametrize("module", ["skyhaul", "skyhaul.spead", "skyhaul.recording", "skyhaul.spead2", "skyhaul.spead2.recv.asyncio"])
def test_installed_package(installed, metadata, module):
    program = f"import {module}, skyhaul; print(skyhaul.__version__, skyhaul.__file__)"
    version, path = run(installed / "bin/python", "-I", "-W", "error", "-c", program).split()
    assert version == str(metadata.version) and pathlib.Path(path).is_relative_to(installed)
