"""Man pages as Markdown. They use a dozen requests of roff, all of which the command's own generator writes."""

import re

ESCAPES = {"\\-": "-", "\\(aq": "'", "\\*(Aq": "'", "\\&": "", "\\\\": "\\"}
# What stands for a definition until its text comes.
ABSENT = "\0"
FONT = re.compile(r"\\f([BIRP])")


def text(line):
    """A line with fonts and escapes as Markdown: bold is what is typed, italics what it stands for."""
    out, font = [], "R"
    for n, part in enumerate(FONT.split(line)):
        if n % 2:
            font = "R" if part == "P" else part
            continue
        for escape, plain in ESCAPES.items():
            part = part.replace(escape, plain)
        if not part:
            continue
        if font == "B":
            out.append(f"`{part}`")
        elif font == "I":
            out.append("*" + marked(part) + "*")
        else:
            out.append(marked(part, keep="`"))
    return "".join(out)


def marked(part, keep=""):
    """With what Markdown would take as its own made plain; code in back quotes stays."""
    pieces = part.split("`") if keep else [part]
    for n in range(0, len(pieces), 2):
        pieces[n] = re.sub(r"([\\*_<>\[\]#|~$:])", r"\\\1", pieces[n])
    return "`".join(pieces)


def page(roff):
    """The whole page. An option is a term of a definition list, its values a list within the definition."""
    out, term, indent, bullet = [], False, "", ""
    for line in roff.splitlines():
        request, _, rest = line.partition(" ")
        if request == ".TH":
            out.append(f"# {rest.split()[0]}")
        elif request == ".SH":
            indent = ""
            out += ["", "## " + text(rest.strip(' "')).capitalize(), ""]
        elif request == ".TP":
            term, indent = True, ""
        elif request == ".IP":
            bullet = "- "
        elif request == ".br" or (request == ".PP" or not line):
            out.append("")
        elif request in (".RS", ".RE", ".ie", ".el"):
            out.append("")
        elif line.startswith("."):
            raise ValueError(f"{line}: a request that this converter does not know")
        elif term:
            # The definition follows; an option without one still gets its place.
            out += ["", text(line), ":   " + ABSENT]
            term, indent = False, "    "
        elif out and out[-1].endswith(ABSENT):
            out[-1] = out[-1].removesuffix(ABSENT) + text(line)
        else:
            out.append(indent + bullet + text(line))
            bullet = ""
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).replace(ABSENT, "&nbsp;") + "\n"


def name(roff):
    """What the page is about: its name and a line."""
    found = re.search(r"^\.SH NAME\n(.*)$", roff, re.MULTILINE)
    word, _, line = text(found.group(1)).partition(" - ")
    return word, line
