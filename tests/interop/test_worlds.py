"""Streams with every fault × every format × every command: sums of all reports equal, times the sender's, baseband agrees.

A seed is a world (`worlds/`). Without more, seeds 0 to 149 are played, in about half a minute; `SKYHAUL_WORLDS=1000` plays as
many, and `SKYHAUL_WORLDS=200-299` those. What fails is shown with every command that ran, and replayed by

    cd tests/interop && SKYHAUL_BIN=… python -m worlds SEED
"""

import os

import pytest
from conftest import BINARY
from worlds import story, world
from worlds.ran import Ran, may_mount

ASKED = os.environ.get("SKYHAUL_WORLDS", "150")
FIRST, _, LAST = ASKED.partition("-") if "-" in ASKED else ("0", "", str(int(ASKED) - 1))
# A test is a group of worlds: a process of pytest for each would cost more than the worlds.
GROUP = 25
GROUPS = range(int(FIRST), int(LAST) + 1, GROUP)


def played(seed, directory, name=None, **how):
    """The problems of one world, as text."""
    drawn = world.draw(seed, **how)
    ran = Ran(BINARY, directory)
    problems = story.run(drawn, ran, name)
    if not problems:
        return ""
    again = "".join(f" --{key} {value}" for key, value in {**how, "story": name}.items() if value).replace("--calm True", "--calm")
    said = "".join(f"    {done}\n" for done in ran.all).replace(f"{directory}/", "")
    return f"{drawn}\n{said}" + "".join(f"  ✘ {problem}\n" for problem in problems) + \
        f"  replay: cd tests/interop && SKYHAUL_BIN={BINARY.name} python -m worlds {seed}{again}\n"


@pytest.mark.parametrize("first", GROUPS)
def test_worlds(skyhaul, tmp_path, first):
    seeds = [seed for seed in range(first, min(first + GROUP, int(LAST) + 1))
             if story.name_of(seed) != "full" or may_mount()]
    failed = [text for seed in seeds if (text := played(seed, tmp_path / str(seed)))]
    assert not failed, f"{len(failed)} of {len(seeds)} worlds\n" + "\n".join(failed)


@pytest.mark.parametrize("form", ["vdif", "vtp", "mark5b", "fila10g", "lofar"])
@pytest.mark.parametrize("fault", world.FAULTS)
def test_every_fault_in_every_format(skyhaul, tmp_path, form, fault):
    """Each at least once, whatever the seeds draw."""
    text = played(1 + world.FAULTS.index(fault), tmp_path, "record", fault=fault, form=form, calm=True)
    assert not text, text


@pytest.mark.parametrize("seed", [5052, 5062])
def test_lofar_without_an_index_that_failed(skyhaul, tmp_path, seed):
    """Two lanes that lost a packet each at one time: the trace of the file gave a packet that was not there."""
    text = played(seed, tmp_path, "bare-no-fill", form="lofar")
    assert not text, text


@pytest.mark.parametrize("seed", [795, 5162])
def test_worlds_that_failed(skyhaul, tmp_path, seed):
    """Once, and beyond the seeds that are played by default: 795, a FILA10G that restarts in the other half-frame phase; 5162, Mark 5B
    without an index in files of six frames, from which the rate was not learned."""
    text = played(seed, tmp_path)
    assert not text, text


def test_disks_that_fill_up(skyhaul, tmp_path):
    if not may_mount():
        pytest.skip("mount namespaces are not permitted here (run as root, or allow unprivileged user namespaces)")
    failed = [text for seed in range(8) if (text := played(seed, tmp_path / str(seed), "full"))]
    assert not failed, "\n".join(failed)
