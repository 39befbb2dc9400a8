"""The documentation site: it builds without a warning, and every link in it leads somewhere."""

import subprocess
import sys

import pytest
from conftest import ROOT

SITE = ROOT / "docs/site"
# Of `make docs`, and of `make test`.
RUST = (ROOT / "target/doc", ROOT / "target/suite/doc")
sys.path.insert(0, str(SITE))


@pytest.fixture(scope="module")
def rust():
    """The pages of rustdoc that the site was made with: they may be built while these tests run."""
    return next((made for made in RUST if (made / "skyhaul/index.html").is_file()), None)


@pytest.fixture(scope="module")
def site(tmp_path_factory, rust):
    for module in ("sphinx", "myst_parser", "griffe", "skyhaul"):
        pytest.importorskip(module, reason=f"{module} is not installed (make python)")
    out = tmp_path_factory.mktemp("site") / "site"
    pages = ["--rust", rust] if rust else []
    done = subprocess.run([sys.executable, SITE / "build.py", "--out", out, *pages], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=400, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.mark.timeout(420)
def test_it_has_all_that_was_promised(site):
    for name in ("index.html", "guide/spead.html", "tutorials/record-and-look.html", "tutorials/look-at-a-scan.html",
                 "reference/man/skyhaul-record.html", "reference/python/skyhaul.recording.html", "reference/rust.html",
                 "internals/architecture.html", "decisions/0001-chunk-is-block-is-acknowledgement.html"):  # fmt: skip
        assert (site / name).is_file(), name
    book = (site / "tutorials/look-at-a-scan.html").read_text()
    assert "xarray.DataArray" in book and book.count('alt="what the cell above draws"') == 2
    # The tree of all pages beside each: ways from where the page is, what is above it open, and the page itself marked.
    tree = (site / "decisions/0002-objects-retire-in-order.html").read_text().partition('<div class="sidebar-tree">')[2].partition("</div>")[0]
    assert '<li class="toctree-l2"><a class="reference internal" href="../guide/spead.html">' in tree
    assert '<li class="toctree-l3"><a class="reference internal" href="0001-chunk-is-block-is-acknowledgement.html">' in tree
    assert '<li class="toctree-l3 current current-page"><a class="current reference internal" href="#">0002 ' in tree
    assert tree.count("current-page") == 1 and tree.count(' checked=""') == 2 and tree.count('<ul class="current">') == 3
    assert "§" not in tree
    text = (site / "reference/python/skyhaul.spead.recv.html").read_text()
    # From the stubs of the compiled part, with its signature and what it says.
    assert 'id="skyhaul.spead.recv.Stream.add_udp"' in text and "join a multicast group" in text
    # Settings are arguments of the stream.
    assert "reuse_port" in text and "heap_timeout" in text


def test_rust_pages_are_in_it(site, rust):
    if not rust:
        pytest.skip("rustdoc's pages are not built (cargo doc --no-deps --workspace)")
    assert (site / "rust/skyhaul/index.html").is_file()
    assert "../rust/skyhaul/index.html" in (site / "reference/rust.html").read_text()


def test_nothing_is_loaded_from_elsewhere(site):
    """A site read from a disk, without a network, is whole."""
    import links

    for page in site.rglob("*.html"):
        if page.relative_to(site).parts[0] != "rust":
            loaded = links.Html(page.read_text()).loaded
            assert not [one for one in loaded if "://" in one or one.startswith("//")], page.name


def test_broken_links_are_found(tmp_path):
    """The checks of this file can fail."""
    links = pytest.importorskip("links", reason="markdown-it-py is not installed (make python)")
    (tmp_path / "one.md").write_text("# A `b`, c!\n\n[a](two.md) [b](one.md#a-b-c) [c](#no) [d](ftp://x.y/z) [e](https://x.org) [f](three.md)\n")
    (tmp_path / "two.md").write_text("no heading")
    found = [line.split(": ")[1] for line in links.of_page(tmp_path / "one.md", tmp_path)]
    assert found == ["#no", "ftp://x.y/z", "three.md"]
    (tmp_path / "one.html").write_text('<a id="x"></a><a href="#x">a</a><a href="#y">b</a><a href="two.html">c</a><img src="d.png">')
    assert [line.split(": ")[1] for line in links.of_site(tmp_path)] == ["#y", "two.html", "d.png"]
