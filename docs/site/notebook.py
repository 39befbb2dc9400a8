"""A notebook as a page: its text, its code, and the outputs that it was saved with.

`python docs/site/notebook.py docs/tutorials/look-at-a-scan.ipynb` runs a notebook and saves it with its outputs. A test runs
each, and compares what is printed with what was saved.
"""

import base64
import json
import os
import pathlib
import sys
import tempfile

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


def run(source, directory):
    """The notebook, run in `directory` from its first cell to its last; raises if one does."""
    import nbclient
    import nbformat

    book = nbformat.read(source, as_version=4)
    # As in Jupyter, where figures are shown.
    environment = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}
    client = nbclient.NotebookClient(book, timeout=120, kernel_name="python3", record_timing=False,
                                     resources={"metadata": {"path": str(directory)}})  # fmt: skip
    return client.execute(env=environment)


def printed(book):
    """What each cell prints or shows as text."""
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            lines = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell["outputs"]]
            yield "".join("".join(line) for line in lines)


def main(source):
    import nbformat

    with tempfile.TemporaryDirectory() as directory:
        book = run(source, directory)
    book.metadata = {"kernelspec": book.metadata.kernelspec}
    nbformat.write(book, source)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
