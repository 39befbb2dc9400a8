"""A notebook as a page: its text, its code, and the outputs that it was saved with."""

import base64
import json

SHOWN = ("image/svg+xml", "image/png", "text/html", "text/plain")


def page(source, place):
    """The page; pictures are written beside `place`."""
    book, out, pictures = json.loads(source.read_text()), [], 0
    for cell in book["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            out += [text, ""]
            continue
        out += ["```python", text, "```", ""]
        for output in cell["outputs"]:
            if output["output_type"] == "stream":
                out += ["```text", "".join(output["text"]).rstrip("\n"), "```", ""]
                continue
            kind = next(kind for kind in SHOWN if kind in output["data"])
            value = "".join(output["data"][kind])
            if kind.startswith("image/"):
                pictures += 1
                file = place.with_suffix("") / f"{pictures}.{'svg' if 'svg' in kind else 'png'}"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(value.encode() if file.suffix == ".svg" else base64.b64decode(value))
                out += [f"![what the cell above draws]({file.parent.name}/{file.name})", ""]
            elif kind == "text/html":
                out += ["```{raw} html", value, "```", ""]
            else:
                out += ["```text", value, "```", ""]
    return "\n".join(out) + "\n"
