"""The tree of all pages that stands beside each page, made once for the site.

Sphinx and the theme make it anew for each page, which is most of the time of a build. Only the ways to the pages differ, and what is marked as
the current page; so the tree is made with holes, and each page fills them in.
"""

import re

from bs4 import BeautifulSoup
from furo.navigation import get_navigation_tree
from sphinx.environment.adapters.toctree import TocTree

# What a hole is for, and the number of its entry. Two kinds are whole attributes.
HOLE = re.compile(r"( (?:class|checked)=\")?§(\w+) (\d+)§(?(1)\")")


class Tree:
    """The tree, without its addresses and without what depends on the page it is on."""

    def __init__(self, app):
        how = {"collapse": False, "titles_only": True, "maxdepth": -1, "includehidden": True}
        found = TocTree(app.env).get_toctree_for(app.config.root_doc, app.builder, **how)
        soup = BeautifulSoup(get_navigation_tree(app.builder.render_partial(found)["fragment"]), "html.parser")
        names = {app.builder.get_target_uri(name): name for name in app.env.found_docs}
        self.builder, self.names, self.above = app.builder, [], []
        entries = soup.find_all("li")
        for at, entry in enumerate(entries):
            above = entry.find_parent("li")
            self.above.append(next((at for at, other in enumerate(entries) if other is above), None))
            link = entry.find("a")
            self.names.append(names[link["href"]])
            first, *others = entry["class"]
            entry["class"] = " ".join([f"{first}§current {at}§", *others]) + f"§last {at}§"
            link["class"], link["href"] = [f"§page {at}§reference", "internal"], f"§to {at}§"
            below = entry.find("ul", recursive=False)
            if below:
                below["class"] = f"§list {at}§"
                entry.find("input", recursive=False)["checked"] = f"§open {at}§"
        soup.find("ul")["class"] = f"§list {len(entries)}§"
        self.parts = HOLE.split(str(soup))

    def of(self, page):
        """The tree beside a page."""
        is_page = page in self.names
        current, at = set(), self.names.index(page) if is_page else None
        while at is not None:
            current.add(at)
            at = self.above[at]
        if is_page:
            current.add(len(self.names))

        def filled(attribute, kind, at):
            own = at < len(self.names) and self.names[at] == page
            if kind == "to":
                return "#" if own else self.builder.get_relative_uri(page, self.names[at])
            if kind == "list":
                return f'{attribute}current"' if at in current and not own else ""
            if kind == "open":
                return f'{attribute}"' if at in current else ""
            words = {"current": " current" if at in current else "", "last": " current-page" if own else "", "page": "current " if own else ""}
            return words[kind]

        holes = zip(self.parts[1::4], self.parts[2::4], self.parts[3::4], self.parts[4::4], strict=True)
        return self.parts[0] + "".join(filled(attribute, kind, int(at)) + text for attribute, kind, at, text in holes)


def setup(app):
    made = []

    def before(_app, _page, _template, context, _doctree):
        context["toctree"] = lambda **_: ""

    def after(app, page, _template, context, _doctree):
        if not made:
            made.append(Tree(app))
        context["furo_navigation_tree"] = made[0].of(page)

    # The theme's own comes between these.
    app.connect("html-page-context", before, priority=400)
    app.connect("html-page-context", after, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
