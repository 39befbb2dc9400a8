"""Replay worlds: `python -m worlds SEED…`, in tests/interop; `SKYHAUL_BIN` names the command."""

import argparse
import os
import pathlib
import shutil
import sys
import tempfile

from . import story, world
from .ran import Ran

ROOT = pathlib.Path(__file__).resolve().parents[3]


def main():
    parser = argparse.ArgumentParser(prog="python -m worlds", description=__doc__)
    parser.add_argument("seed", nargs="+", help="a seed, or a range like 0-99")
    parser.add_argument("--fault", choices=world.FAULTS, help="this fault, whatever the seed says")
    parser.add_argument("--form", choices=["vdif", "vtp", "mark5b", "fila10g", "lofar"])
    parser.add_argument("--story", choices=sorted(story.STORIES), help="the commands to run (default: by the seed)")
    parser.add_argument("--calm", action="store_true", help="no loss, no reordering beside the fault")
    parser.add_argument("--keep", type=pathlib.Path, help="leave the files of the last world in this directory")
    parser.add_argument("-q", "--quiet", action="store_true", help="a line for each kind of problem")
    args = parser.parse_args()
    binary = os.environ.get("SKYHAUL_BIN", ROOT / "target/release/skyhaul")
    seeds = [n for text in args.seed for n in range(int(text.split("-")[0]), int(text.split("-")[-1]) + 1)]
    kinds, failed = {}, 0
    for seed in seeds:
        directory = args.keep or pathlib.Path(tempfile.mkdtemp(prefix="world"))
        shutil.rmtree(directory, ignore_errors=True)
        drawn = world.draw(seed, fault=args.fault, form=args.form, calm=args.calm)
        ran = Ran(binary, directory)
        problems = story.run(drawn, ran, args.story)
        failed += bool(problems)
        for problem in problems:
            key = (problem.partition(":")[0], story.name_of(seed, args.story), drawn.form, drawn.fault)
            kinds.setdefault(key, []).append((seed, problem))
        if not args.quiet:
            print(drawn)
            for done in ran.all:
                print("   ", done)
            print("".join(f"  ✘ {problem}\n" for problem in problems) or "  ✔\n")
        if not args.keep:
            shutil.rmtree(directory, ignore_errors=True)
    if args.quiet:
        for key, found in sorted(kinds.items()):
            print(len(found), *key, "| seed", *found[0])
        print(f"{failed} of {len(seeds)} worlds failed")
    return int(bool(failed))


sys.exit(main())
