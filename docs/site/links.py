"""Whether links lead somewhere: in the Markdown of the tree, as a code-hosting site follows them, and in the built site.

Nothing is asked of the network: an address elsewhere only has to be one.
"""

import functools
import html.parser
import os
import pathlib
import re
import urllib.parse

from markdown_it import MarkdownIt

NOT_WORDS = re.compile(r"[^\w\- ]")
SCHEMES = ("http", "https", "mailto")


@functools.cache
def anchors(text):
    """The anchors of a page's headings, as GitHub and MyST make them."""
    found, tokens = set(), MarkdownIt("commonmark").enable("table").parse(text)
    for opened, inline in zip(tokens, tokens[1:], strict=False):
        if opened.type == "heading_open":
            words = "".join(one.content for one in inline.children if one.type in ("text", "code_inline"))
            slug = NOT_WORDS.sub("", words.lower()).replace(" ", "-")
            n = 0
            while (slug if not n else f"{slug}-{n}") in found:
                n += 1
            found.add(slug if not n else f"{slug}-{n}")
    return found


def links(text):
    """Targets of all links and images of a page."""
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        for one in token.children or []:
            if one.type in ("link_open", "image"):
                yield one.attrs.get("href") or one.attrs.get("src")


def wrong_elsewhere(target):
    """What is wrong with an address elsewhere, from its looks."""
    parts = urllib.parse.urlsplit(target)
    if parts.scheme not in SCHEMES:
        return f"{parts.scheme}: is no scheme for a link"
    if parts.scheme != "mailto" and (not parts.hostname or "." not in parts.hostname and parts.hostname != "localhost"):
        return "names no host"
    return "has a space" if " " in target else ""


def of_page(page, root):
    """What is wrong with the links of a page of the tree."""
    for target in links(page.read_text()):
        where = f"{page.relative_to(root)}: {target}"
        if urllib.parse.urlsplit(target).scheme:
            why = wrong_elsewhere(target)
            if why:
                yield f"{where}: {why}"
            continue
        path, _, anchor = urllib.parse.unquote(target).partition("#")
        there = page if not path else pathlib.Path(os.path.normpath(page.parent / path))
        if not there.exists() or not there.is_relative_to(root):
            yield f"{where}: there is no such file"
        elif anchor and (there.suffix != ".md" or anchor not in anchors(there.read_text())):
            yield f"{where}: there is no such heading"


class Html(html.parser.HTMLParser):
    """Ids and targets of a page."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.targets, self.loaded = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id" or (name == "name" and tag == "a"):
                self.ids.add(value)
            elif name in ("href", "src") and value:
                self.targets.append(value)
                if tag != "a" and dict(attrs).get("rel") not in ("canonical", "index", "search", "next", "prev"):
                    self.loaded.append(value)


def of_site(site):
    """What is wrong with the links of a built site, without those within rustdoc's pages, which rustdoc checks."""
    wrong, read = [], {}

    def found(path):
        if path not in read:
            read[path] = Html(path.read_text(errors="replace"))
        return read[path]

    for page in sorted(site.rglob("*.html")):
        name = page.relative_to(site)
        if name.parts[0] == "rust":
            continue
        for target in found(page).targets:
            if target.startswith("data:"):
                continue
            if urllib.parse.urlsplit(target).scheme:
                why = wrong_elsewhere(target)
                wrong += [f"{name}: {target}: {why}"] if why else []
                continue
            path, _, anchor = urllib.parse.unquote(target).partition("#")
            path = path.partition("?")[0]
            there = page if not path else pathlib.Path(os.path.normpath(page.parent / path))
            if not there.is_file() or not there.is_relative_to(site):
                wrong.append(f"{name}: {target}: there is no such page")
            elif anchor and there.suffix == ".html" and there.relative_to(site).parts[0] != "rust" and anchor not in found(there).ids:
                wrong.append(f"{name}: {target}: there is no such place on the page")
    return wrong
