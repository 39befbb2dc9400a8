#!/usr/bin/env python3
"""The documentation site, from the tree: `make docs`.

```text
  README, ARCHITECTURE, docs/**.md ─┐
  tutorials, with their plots ──────┤
  notebooks, with their outputs ────┼─▶ target/site-pages ─▶ Sphinx ─▶ target/site/index.html
  man pages, stubs and docstrings ──┘                    target/doc ─▶ target/site/rust
```

Pages are copied, and on the way links that only a code-hosting site can follow become links of the site: to folders, to
sources, to the README. Every warning of Sphinx is an error, and so is a link of the finished site that leads nowhere.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests/interop")]

import api  # noqa: E402
import links  # noqa: E402
import man  # noqa: E402
import notebook  # noqa: E402
import pages  # noqa: E402

SOURCES = "https://github.com/skyhaul/skyhaul"
PYTHON = ROOT / "crates/python/python"
# Pages of the tree that get another name on the site.
NAMED = {
    "README.md": "index.md", "ARCHITECTURE.md": "internals/architecture.md", "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md", "docs/README.md": "documentation.md",
    "docs/benchmarks.md": "project/benchmarks.md", "docs/reference/man": "reference/man/index.md",
    "docs/decisions": "internals/decisions.md", "docs/tutorials": "tutorials/index.md", "docs/guide": "guide/index.md",
    "docs/reference": "reference/index.md", "docs/internals": "internals/index.md",
    "docs/concepts": "concepts/index.md",
}  # fmt: skip
# What comes first in a section; the rest follows by name.
FIRST = ["record-a-scan", "spead", "python", "record-and-look", "look-at-a-scan", "configuration", "recording",
         "architecture", "decisions"]  # fmt: skip
SECTIONS = {
    "tutorials": ("Tutorials", "From a first scan to a tuned host. Every line has been typed, and every plot drawn, by the build of this page."),
    "guide": ("Guide", "What each part does, with examples that a test types."),
    "concepts": ("Concepts", "What the words mean."),
    "reference": ("Reference", "Files, options, and every name of the command and the two libraries."),
    "internals": ("Internals", "How Skyhaul works inside, and why it is that way."),
    "project": ("Project", "Changes, figures, and how to take part."),
}  # fmt: skip
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
FENCE = re.compile(r"^\s*(```+)(.*)$")
FIGURE = re.compile(r"^<!-- figure: (\S+) (.*) -->$", re.MULTILINE)


def tracked():
    """Pages of the tree, by their place on the site."""
    found = {}
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs/tutorials").glob("*.ipynb")]:
        name = path.relative_to(ROOT).as_posix()
        found[name] = NAMED.get(name, name.removeprefix("docs/").replace(".ipynb", ".md"))
    return found


class Site:
    """Pages on their way to the site."""

    def __init__(self, staged):
        self.staged, self.places = staged, tracked() | {
            f"docs/reference/man/{path.name}": f"reference/man/{path.stem}.md" for path in (ROOT / "docs/reference/man").glob("*.1")
        }  # fmt: skip
        for name, place in NAMED.items():
            self.places.setdefault(name, place)

    def write(self, place, text):
        path = self.staged / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def page(self, name, place, images):
        """Copy a page, its links and the language of its commands rewritten, its figures put in."""
        source = ROOT / name
        text = notebook.page(source, self.staged / place) if source.suffix == ".ipynb" else source.read_text()
        out, fence = [], ""
        for line in text.splitlines():
            found = FENCE.match(line)
            if found and (not fence or (found[1] == fence and not found[2])):
                if not fence and not found[2]:
                    line += "console" if "$ " in line else "sh"
                fence = "" if fence else found[1]
            elif not fence:
                figure = FIGURE.match(line)
                line = self.figure(figure, place, images) if figure else self.linked(line, source, place)
            out.append(line)
        self.write(place, "\n".join(out) + "\n")

    def figure(self, found, place, images):
        file, caption = found.groups()
        target = (self.staged / place).with_suffix("") / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(images / file, target)
        return f"```{{figure}} {target.parent.name}/{file}\n:alt: {caption}\n\n{caption}\n```"

    def linked(self, line, source, place):
        """A line with its links led to their places on the site. Code within the line stays."""
        parts = re.split(r"(`+[^`]*`+)", line)
        # Text in back quotes may be the text of a link, so only what is outside of them is looked at.
        parts[::2] = [LINK.sub(lambda found: found[1] + self.target(found[2], source, place) + found[3], part) for part in parts[::2]]
        return "".join(parts)

    def target(self, link, source, place):
        if "://" in link or link.startswith(("#", "mailto:")) or source.suffix == ".ipynb" and not link.endswith((".md", ".ipynb")):
            return link
        path, _, anchor = link.partition("#")
        name = os.path.relpath(source.parent / path, ROOT)
        full = ROOT / name
        if name in self.places:
            there = os.path.relpath(self.places[name], pathlib.Path(place).parent)
            return there + ("#" + anchor if anchor else "")
        if full.suffix in (".png", ".svg") and full.is_file():
            kept = pathlib.Path("images") / full.name
            (self.staged / "images").mkdir(exist_ok=True)
            shutil.copy(full, self.staged / kept)
            return os.path.relpath(kept, pathlib.Path(place).parent)
        return f"{SOURCES}/{'tree' if full.is_dir() else 'blob'}/main/{name}"

    def generated(self, rust):
        for path in sorted((ROOT / "docs/reference/man").glob("*.1")):
            self.write(f"reference/man/{path.stem}.md", man.page(path.read_text()))
        rows = [man.name(path.read_text()) for path in sorted((ROOT / "docs/reference/man").glob("*.1"))]
        table = "".join(f"| [`{word}`]({word}.md) | {line} |\n" for word, line in rows)
        self.write("reference/man/index.md", f"# Man pages\n\n| | |\n|---|---|\n{table}\n{toctree('', [word for word, _ in rows])}")
        for name, text in api.pages(PYTHON).items():
            self.write(f"reference/python/{name}.md", text)
        table = "".join(f"| [`{name}`]({name}.md) | {line} |\n" for name, line in api.summary(PYTHON).items())
        self.write("reference/python/index.md", "# Python API\n\nFrom the sources, stubs and docstrings of the package. The "
                   "[guide](../../guide/python.md) shows how it is used.\n\n"
                   f"| | |\n|---|---|\n{table}\n{toctree('', api.MODULES)}")  # fmt: skip
        self.write("reference/rust.md", rust_page(rust))

    def sections(self):
        """A page for each section, which lists what is in it; and the contents of all."""
        index = (self.staged / "index.md").read_text()
        for section, (title, says) in SECTIONS.items():
            names = [path.relative_to(self.staged / section).with_suffix("").as_posix()
                     for path in (self.staged / section).glob("*.md") if path.stem != "index"]  # fmt: skip
            if section == "reference":
                names += ["python/index", "man/index"]
            if section == "internals":
                self.decisions()
                names += ["decisions"]
            names.sort(key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))
            entries = "".join(f"- [{heading(self.staged / section / f'{name}.md')}]({name}.md)\n" for name in names)
            self.write(f"{section}/index.md", f"# {title}\n\n{says}\n\n{entries}\n{toctree('', names)}")
        names = [f"{section}/index" for section in SECTIONS] + ["documentation"]
        self.write("index.md", f"{index}\n{toctree('', names)}")

    def decisions(self):
        names = sorted(path.stem for path in (self.staged / "decisions").glob("*.md"))
        table = "".join(f"| [{name[:4]}](../decisions/{name}.md) | {heading(self.staged / f'decisions/{name}.md')[5:]} |\n" for name in names)
        self.write("internals/decisions.md", "# Decisions\n\nWhy the design is as it is, and what would change our mind.\n\n"
                   f"| | |\n|---|---|\n{table}\n{toctree('', [f'../decisions/{name}' for name in names])}")  # fmt: skip


def heading(page):
    return re.search(r"^# (.*)$", page.read_text(), re.MULTILINE)[1]


def toctree(caption, names):
    return "```{toctree}\n:hidden:\n" + (f":caption: {caption}\n" if caption else "") + "\n" + "\n".join(names) + "\n```\n"


def rust_page(rust):
    """Links to what rustdoc made of each crate that is for users."""
    lines = ["# Rust API", "", "Made by rustdoc from the sources.", "", "| | |", "|---|---|"]
    for crate, says in (("skyhaul", "the library people use: receive, record, read, send"),
                        ("skyhaul_core", "formats, assembly, rate control: everything that needs no machine"),
                        ("skyhaul_io", "sockets, disks, memory: every system call")):  # fmt: skip
        name = f"`{crate}`"
        if rust:
            name = f'<a href="../rust/{crate}/index.html"><code>{crate}</code></a>'
        lines.append(f"| {name} | {says} |")
    if not rust:
        lines += ["", "Not part of this build of the site: `cargo doc --no-deps --workspace` makes it in `target/doc`."]
    return "\n".join(lines) + "\n"


def version():
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def build(out, rust):
    """Build the site into `out`; what is wrong with it, as lines."""
    staged = ROOT / "target/site-pages"
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir(parents=True)
    site = Site(staged)
    for name, place in tracked().items():
        page = ROOT / name
        images = pages.images(page) if page.suffix == ".md" and FIGURE.search(page.read_text()) else None
        site.page(name, place, images)
    site.generated(rust)
    site.sections()
    # From nothing, so that no page stays that is no longer in the tree.
    fresh = out.with_name(out.name + ".new")
    for old in (fresh, fresh.with_name("site-doctrees")):
        shutil.rmtree(old, ignore_errors=True)
    # All that Sphinx makes stays until its end: collecting garbage is a quarter of its time.
    sphinx = "import gc, sys; gc.disable(); from sphinx.cmd.build import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", sphinx, "-b", "html", "-q", "-W", "--keep-going", "-c", str(HERE),
         "-d", str(fresh.with_name("site-doctrees")), str(staged), str(fresh)],
        env=os.environ | {"SKYHAUL_VERSION": version()}, stdin=subprocess.DEVNULL, check=False)  # fmt: skip
    if done.returncode:
        return ["Sphinx found the mistakes above"]
    if rust:
        shutil.copytree(rust, fresh / "rust", ignore=shutil.ignore_patterns(".lock"))
    wrong = links.of_site(fresh)
    if not wrong:
        shutil.rmtree(out, ignore_errors=True)
        fresh.rename(out)
    return wrong


def main():
    parser = argparse.ArgumentParser(description="Build the documentation site.")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "target/site")
    parser.add_argument("--rust", type=pathlib.Path, help="what rustdoc made (target/doc)")
    given = parser.parse_args()
    wrong = build(given.out.resolve(), given.rust)
    for line in wrong:
        print(line)
    if wrong:
        sys.exit(1)
    print(f"documentation: {given.out}/index.html")


if __name__ == "__main__":
    main()
