"""Every example of the README, the guides and the tutorials does what the page says, as it is typed (`pages.py` says how), and
every link of the documents leads somewhere."""

import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

import pages
import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "docs/site"))

FOLDERS = ("docs/guide", "docs/tutorials", "docs/reference")
PAGES = [ROOT / "README.md", *(page for folder in FOLDERS for page in sorted((ROOT / folder).glob("*.md")))]
TREE = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "crates").rglob("*.md")]
# Languages of blocks, and what is done with them. What is marked `text` in a page without Python is only shown.
# Pages whose commands take what their Python sends or writes.
WITH_PYTHON = {"python.md", "python-snippets.md", "samples.md", "ejfat-workers.md", "rdma-python.md"}
LANGUAGES = {"": "typed", "python": "run", "text": "compared", "c": "compiled", "toml": "given to the command",
             "rust": "lines of a program that runs: crates/skyhaul/tests/tutorial.rs"}  # fmt: skip


@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", [one for one in PAGES if pages.has(one, "") or pages.has(one, "python")], ids=lambda page: page.stem)
def test_pages(skyhaul, tmp_path, page):
    del skyhaul  # it is there
    package = importlib.util.find_spec("skyhaul") is not None
    if pages.has(page, "python") and not package and (page.name in WITH_PYTHON or not pages.has(page, "")):
        pytest.skip("the package is not installed (make python)")
    if page.name == "mount-scans.md" and not pathlib.Path("/dev/fuse").exists():
        pytest.skip("there is no /dev/fuse (modprobe fuse)")
    if page == ROOT / "docs/guide/fleet.md" and shutil.which("etcd") is None:
        pytest.skip("etcd is not installed (apt-get install etcd-server)")
    wrong = pages.type_page(page, tmp_path, python=package)
    shutil.rmtree(tmp_path, ignore_errors=True)
    assert not wrong, wrong
    if pages.has(page, "python") and not package:
        pytest.skip("commands were typed, but no Python: the package is not installed (make python)")


def test_what_is_shortened_is_there():
    text = "".join(page.read_text() for page in PAGES)
    assert all(long in text for long in pages.SHORTER)


def test_every_block_has_a_language_that_is_dealt_with():
    others = {f"{page.name}: {language}" for page in PAGES for language, _ in pages.blocks(page) if language not in LANGUAGES}
    assert not others


# Indented blocks are only shown. Why each cannot run here; what can is in a block with a fence.
BUILT = "builds the package: `make python` has run before these tests"
TUNED = "changes the host: test_tuning.py types it in namespaces, except for what needs hardware"
SHOWN_ONLY = {
    "campaign.md": {"skyhaul probe campaign talk": "takes three minutes and makes namespaces: the e2e tests in campaign.rs make some of it"},
    "copy-with-etransfer.md": {"etc '/data/out": "another program: test_etransfer.py runs it if it is here"},
    "copy.md": {"skyhaul copy /data/d1/exp_st_no0001": "two hosts with two disks each: the e2e tests in copied.rs do it on one",
                "skyhaul copy https://data.example/exp/n26c3.vdif": "serve-files-over-http.md does it with a server on this host",
                "skyhaul copy 'https://s3.example": "a bucket and its signature: the e2e tests in signed.rs have one",
                "skyhaul copy --third-party https://station.example": "a bucket and its signature: the e2e tests in signed.rs and test_s3.py have one",
                "skyhaul copy --via fts=https://fts.example:8446 https://a.example": "test_fts.py does it, if FTS's REST service is here",
                "skyhaul copy /data/n26c3.vdif https://data.example": "serve-files-over-http.md does it with a server on this host"},
    "lab.md": {
        "skyhaul lab run 'rate": "makes namespaces and needs iperf3: the e2e tests in lab.rs run it with programs that are there",
        "skyhaul lab run 'delay": "makes namespaces and needs iperf3: the tests in lab.rs ask the kernels of the ends what was set",
    },
    "measure-a-path.md": {"skyhaul probe receive": "is for the other host: the e2e tests in probe.rs run the pair"},
    "measure-disks.md": {"fio --name=x": "writes 8 GiB twice"},
    "mount-scans.md": {
        "etc '/mnt/scans": "another program, and a correlator",
        "sudo apt-get install fuse3": "changes the host",
    },
    "python.md": {
        "make python                  # from a checkout:": BUILT,
        "printf 'implementation=CPython": "builds for a Python that is seldom there",
    },
    "rust.md": {"cargo run -p skyhaul --example": "builds: crates/skyhaul/tests/tutorial.rs runs all of them"},
    "samples.md": {"make python  ": BUILT},
    "serve-files-over-http.md": {"rucio rse add STATION": "test_rucio.py does it, where Rucio is wanted"},
    "tune-a-host.md": {
        "skyhaul host": "writes settings of the host: the tests in tests/host/applied.rs do it on made hosts",
        "hint: receive buffer:": "is what a command says: test_tuning.py compares it",
        "sysctl -w": TUNED,
        "ip link set": TUNED,
        "ethtool -G": TUNED,
        "setcap": TUNED,
    },
}


def test_what_is_only_shown_is_listed():
    """A block that no test runs has its reason above, and no other has."""
    markdown = pytest.importorskip("markdown_it", reason="markdown-it-py is not installed (make python)")
    parser = markdown.MarkdownIt("commonmark").enable("table")
    for page in PAGES:
        tokens = parser.parse(page.read_text())
        shown = [token.content.splitlines()[0] for token in tokens if token.type == "code_block"]
        reasons = dict(SHOWN_ONLY.get(page.name, {}))
        for line in shown:
            [start] = [start for start in reasons if line.startswith(start)] or [None]
            assert reasons.pop(start, None), f"{page.name}: why does no test run the block that begins with {line!r}?"
        assert not reasons, f"{page.name}: these blocks are gone: {reasons}"
        # What `pages.py` does not find, because it is in a list or has another fence, is not run either.
        fences = sum(token.type == "fence" for token in tokens)
        assert fences == len(pages.blocks(page)), f"{page.name}: {fences} blocks, and {len(pages.blocks(page))} are found"


def sections(text):
    """The sections of a TOML text, each with its header."""
    return [section for section in re.split(r"^(?=\[)", text, flags=re.MULTILINE) if section.startswith("[")]


def station_with(text):
    """The station of the guide, with the sections of a block in place of its own."""
    new = sections(text)
    replaced = {section.splitlines()[0].split("#")[0].strip() for section in new}
    kept = [section for section in sections((ROOT / "docs/guide/station.toml").read_text()) if section.splitlines()[0] not in replaced]
    return "".join([*new, *kept])


@pytest.mark.parametrize("page", [page for page in PAGES if pages.has(page, "toml")], ids=lambda page: page.stem)
def test_settings(skyhaul, tmp_path, page):
    """The command takes the settings of a block: every section is a verb, every key an option of it; or all are the station's."""
    for language, text in pages.blocks(page):
        if language == "toml":
            (tmp_path / "page.toml").write_text(text)
            settings = tomllib.loads(text)
            assert settings
            if settings.keys() <= {"station", "http", "etransfer", "fleet", "peers"}:
                (tmp_path / "page.toml").write_text(station_with(text))
                assert b"valid" in skyhaul.run("serve", "--check", "--config", tmp_path / "page.toml")
                continue
            for verb, more in (("record", ["--scan", "exp_st_no0001"]), ("receive", []), ("send", ["--pattern", "--to", "udp://127.0.0.1:9"])):
                shown = skyhaul.run(verb, *more, "--config", tmp_path / "page.toml", "--show-config").decode()
                assert f"{tmp_path / 'page.toml'}:" in shown, verb


@pytest.mark.parametrize("page", [page for page in PAGES if pages.has(page, "c")], ids=lambda page: page.stem)
def test_declarations(page):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("cc is not installed (apt-get install gcc)")
    program = "#include <stddef.h>\n#include <stdint.h>\n" + "".join(text for language, text in pages.blocks(page) if language == "c")
    done = subprocess.run([compiler, "-xc", "-fsyntax-only", "-Wall", "-Werror", "-"], input=program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", TREE, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links(page):
    links = pytest.importorskip("links", reason="markdown-it-py is not installed (.venv/bin/pip install -r tests/requirements.txt)")
    assert list(links.of_page(page, ROOT)) == []


def test_the_readme_names_every_verb(skyhaul):
    listed = skyhaul.run("--help").decode().split("\nCommands:\n")[1].split("\n\n")[0]
    verbs = set(re.findall(r"^  ([a-z]+) ", listed, re.MULTILINE)) - {"help"}
    table = (ROOT / "README.md").read_text().split("## Verbs")[1].split("\n\n")[1]
    named = {word for row in table.splitlines() for word in re.findall(r"`(?:skyhaul )?([a-z]+)[a-z ]*`", row.split(" | ")[0])}
    assert verbs and verbs == named & verbs, verbs - named
    assert named <= verbs, named - verbs
