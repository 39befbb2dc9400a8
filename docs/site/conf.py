"""Sphinx settings of the site. `build.py` runs it on a copy of the pages, in which links and generated pages are in place."""

import os
import pathlib
import sys

from sphinx.domains.python import PythonDomain

sys.path.insert(0, str(pathlib.Path(__file__).parent))

project = "Skyhaul"
version = release = os.environ.get("SKYHAUL_VERSION", "")
copyright = "The Skyhaul authors"
language = "en"

extensions = ["myst_parser", "navigation"]
source_suffix = {".md": "markdown"}
root_doc = "index"

myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 4
# `…` in code that shows what is left out, and command lines, are no language that a lexer knows.
suppress_warnings = ["misc.highlighting_failure"]
highlight_language = "none"
python_maximum_signature_line_length = 100
add_module_names = False
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"Skyhaul {release}".strip()
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "source_repository": "https://github.com/skyhaul/skyhaul",
    "top_of_page_buttons": [],
}


class Exact(PythonDomain):
    """Types link by their full name, which `api.py` writes; a `bytes` is not somebody's attribute of that name."""

    def find_obj(self, env, modname, classname, name, type, searchmode=0):
        full = next((full for full in (name, f"{modname}.{name}") if full in self.objects), None)
        return [(full, self.objects[full])] if full else []


def setup(app):
    app.add_domain(Exact, override=True)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
