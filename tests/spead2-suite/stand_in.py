"""A pytest plugin: `import spead2` gives `skyhaul.spead2`, and known exceptions are marked from `expected.toml`.

    [[exception]]
    tests = ["test_recv.py::TestDecode::test_x", "test_recv.py::TestY"]     a test, a class, or a case in brackets
    reason = "why it does not pass, and why that is right or bearable"

A listed test is expected to fail, strictly: when it passes, that is a failure too, and its entry is to be taken out.
An entry that matches no test is told. At the end stands how many of the tests that the project counts on
(`COUNTED`) pass; a whole run fails below `WANTED` of them.
"""

import importlib
import pathlib
import sys
import tomllib

import pytest

MODULES = ("", ".recv", ".send", ".recv.asyncio", ".send.asyncio", ".recv.stream_stat_indices")
OPTIONAL = (".numba", ".recv.numba")  # need numba
COUNTED = ("test_passthrough.py", "test_recv.py", "test_send.py", "test_recv_asyncio.py")
WANTED = 0.95
#: Tests that a whole run has at least.
ENOUGH = 300

for name in MODULES:
    sys.modules[f"spead2{name}"] = importlib.import_module(f"skyhaul.spead2{name}")
for name in OPTIONAL:
    try:
        sys.modules[f"spead2{name}"] = importlib.import_module(f"skyhaul.spead2{name}")
    except ImportError:
        pass


def exceptions():
    text = pathlib.Path(__file__).with_name("expected.toml").read_text(encoding="utf-8")
    return [(test, entry["reason"]) for entry in tomllib.loads(text).get("exception", []) for test in entry["tests"]]


def pytest_configure(config):
    config.skyhaul_unmatched = []


def pytest_collection_modifyitems(config, items):
    for test, reason in exceptions():
        matched = [item for item in items if covers(test, item.nodeid.removeprefix("tests/"))]
        for item in matched:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
        if not matched and any(item.nodeid.startswith(f"tests/{test.split('::')[0]}") for item in items):
            config.skyhaul_unmatched.append(test)


def covers(test, node):
    """Whether an entry names this test: the test itself, all its cases, or the class or file it stands in."""
    return node == test or node.startswith((f"{test}[", f"{test}::"))


def dropped():
    """Datagrams that the kernel has dropped so far: before the sockets, and at them."""
    lines = pathlib.Path("/proc/net/softnet_stat").read_text(encoding="ascii").splitlines()
    backlog = sum(int(line.split()[1], 16) for line in lines)
    names, values = (line.split()[1:] for line in pathlib.Path("/proc/net/snmp").read_text(encoding="ascii").splitlines()
                     if line.startswith("Udp:"))
    return {"backlog": backlog} | {name: int(value) for name, value in zip(names, values) if "Errors" in name}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """A test that fails says whether the kernel dropped datagrams meanwhile, of whatever program: most use UDP."""
    before = dropped()
    try:
        return (yield)
    except BaseException:
        more = {name: count - before[name] for name, count in dropped().items() if count != before[name]}
        item.add_report_section("call", "kernel", f"datagrams dropped during the test: {more or 'none'}")
        raise


def counted(reporter):
    """(passed, failed, listed) of the files that count."""
    sums = {"passed": 0, "failed": 0, "error": 0, "xfailed": 0}
    for outcome, reports in reporter.stats.items():
        if outcome in sums:
            names = [getattr(report, "nodeid", "").partition("::")[0] for report in reports]
            sums[outcome] += sum(name.endswith(COUNTED) for name in names)
    return sums["passed"], sums["failed"] + sums["error"], sums["xfailed"]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    passed, failed, listed = counted(session.config.pluginmanager.getplugin("terminalreporter"))
    ran = passed + failed + listed
    # With words on the command line it may be a few tests only, and a share of them says nothing.
    if ran >= ENOUGH and passed < WANTED * ran and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter):
    passed, failed, listed = counted(terminalreporter)
    ran = passed + failed + listed
    terminalreporter.write_line(f"spead2's own tests: {passed} of {ran} pass, {listed} exceptions listed ({', '.join(COUNTED)})")
    if ran >= ENOUGH and passed < WANTED * ran:
        terminalreporter.write_line(f"FAILED tests/spead2-suite: {passed} of {ran} is less than {WANTED:.0%}")
    for test in terminalreporter.config.skyhaul_unmatched:
        terminalreporter.write_line(f"expected.toml names {test}, which is no test")
