"""Runs a program that was written for spead2 on Skyhaul's streams, unchanged.

    python -m skyhaul.spead2 program.py [argument …]
    python -m skyhaul.spead2 -m module [argument …]

`import spead2` and its submodules give those of `skyhaul.spead2`, whether spead2 is installed or not. Processes that the
program starts are not concerned.
"""

from __future__ import annotations

import os
import runpy
import sys

from ._stand_in import stand_in

_USAGE = "usage: python -m skyhaul.spead2 [-m] program.py|module [argument ...]"


def main(words: list[str]) -> int:
    """Run the program; returns the exit status if there is none to run."""
    is_module = words[:1] == ["-m"]
    words = words[is_module:]
    if not words or words[0].startswith("-"):
        asked = words[:1] in (["-h"], ["--help"])
        print(__doc__ if asked else _USAGE, file=sys.stdout if asked else sys.stderr)
        return 0 if asked else 2
    stand_in()
    sys.argv = words
    if is_module:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
        return 0
    if not os.path.exists(words[0]):
        print(f"{words[0]}: no such file; hint: {_USAGE}", file=sys.stderr)
        return 2
    sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
    runpy.run_path(words[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    # `python -m` puts the current directory first, where a script has its own.
    sys.path.pop(0)
    sys.exit(main(sys.argv[1:]))
