"""Every example of the guide, run in order, its output compared with what the guide prints."""

import pathlib
import re
import subprocess
import sys

GUIDE = pathlib.Path(__file__).resolve().parents[3] / "docs/guide/python.md"
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_example_does_what_the_guide_says():
    blocks = [match.groups() for match in BLOCK.finditer(GUIDE.read_text())]
    program = "\n".join(text for kind, text in blocks if kind == "python")
    wanted = "".join(text for kind, text in blocks if kind == "text")
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=100,
                          check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == wanted
