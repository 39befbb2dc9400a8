"""Stories: which commands a world goes through, and how each is judged."""

from .judge import Judge
from .ran import SCAN


def record(world, ran, judge, *options, fill=True):
    """Record, check, list, write out."""
    recorded = ran.record(world, *options)
    units = judge.recorded(recorded, fill=fill)
    judge.checked(ran.run("check", *ran.on_disks, SCAN, "-q", "--json"), recorded, units)
    judge.listed(ran.run("ls", *ran.on_disks, "--json"), recorded)
    if units.get(SCAN):
        judge.read_back(ran.run("cat", *ran.on_disks, SCAN))
    return recorded, units


def without_fill(world, ran, judge):
    record(world, ran, judge, "--no-fill", fill=False)


STORIES = {"record": record, "no-fill": without_fill}
TURNS = ["record", "record", "record", "record", "no-fill"]


def name_of(seed, name=None):
    return name or TURNS[seed % len(TURNS)]


def run(world, ran, name=None):
    """The problems found."""
    judge = Judge(world, ran)
    STORIES[name_of(world.seed, name)](world, ran, judge)
    return judge.problems
