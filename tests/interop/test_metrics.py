"""The metrics of a monitor, judged by Prometheus' own tool."""

import contextlib
import json
import re
import shutil
import signal
import subprocess
import time
import urllib.request

import pytest
from conftest import BINARY

HOW = ["--every", "300ms", "--time", "30ms", "--rate", "1Mbps", "--both"]


def line_with(process, errors, begins):
    """What a line of standard error says behind `begins`, once it is there."""
    for _ in range(1200):
        for line in errors.read_text().splitlines():
            if line.startswith(begins):
                return line.removeprefix(begins)
        assert process.poll() is None, errors.read_text()
        time.sleep(0.05)
    raise AssertionError(errors.read_text())


@contextlib.contextmanager
def running(errors, *words):
    """A command that runs meanwhile; Ctrl-C ends it."""
    with errors.open("w") as said:
        process = subprocess.Popen([str(word) for word in (BINARY, *words)], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=said)  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def judged(text):
    """What `promtool check metrics` says of it."""
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("promtool is not installed (apt-get install prometheus)")
    return subprocess.run([tool, "check", "metrics"], input=text, capture_output=True, text=True, timeout=60, check=False)


def test_promtool_finds_faults():
    """It can fail: a name that is no good, a value that is no number."""
    assert judged("# HELP a_total A.\n# TYPE a_total gauge\na_total 1\n").returncode != 0
    assert judged("a b c\n").returncode != 0


NAMES = {"udp": ("udp_loss_ratio", "udp_jitter_seconds"),
         "tcp": ("tcp_congestion_window_bytes", "tcp_round_trip_seconds", "segments_retransmitted_total")}  # fmt: skip


def up(text):
    """The kinds of which a last test was done."""
    return set(re.findall(r'skyhaul_monitor_peer_up{.*kind="(udp|tcp)"} 1', text))


def test_prometheus_takes_the_metrics_of_a_monitor(skyhaul, tmp_path):
    token, lines, file = tmp_path / "token", tmp_path / "m.jsonl", tmp_path / "m.prom"
    plan = tmp_path / "plan.toml"
    plan.write_text('[[test]]\nname = "away \\"and\\" strange \\\\ \\n"\ntcp = "127.0.0.1:1"\n')
    serve = ("probe", "serve", "--listen", "127.0.0.1", "--port", "0", "--token-file", token)
    with running(tmp_path / "serve.err", *serve) as server:
        at = line_with(server, tmp_path / "serve.err", "serving on ")
        monitor = ("probe", "monitor", f"udp:{at}", f"tcp:{at}", "--plan", plan, "--token-file", token, *HOW,
                   "--lines", lines, "--metrics", file, "--http", "127.0.0.1:0", "--json")  # fmt: skip
        with running(tmp_path / "monitor.err", *monitor) as process:
            url = line_with(process, tmp_path / "monitor.err", "metrics at ")
            for _ in range(1200):
                done = [json.loads(line) for line in lines.read_text().splitlines()]
                if {line["kind"] for line in done if line["outcome"] == "done"} == {"udp", "tcp"} and len(done) > 5:
                    break
                assert process.poll() is None
                time.sleep(0.05)
            # On a busy host the last test of a kind may have failed, which has no results.
            for _ in range(600):
                with urllib.request.urlopen(url, timeout=60) as answer:
                    assert answer.headers["Content-Type"].startswith("text/plain")
                    served = answer.read().decode()
                if up(served) == {"udp", "tcp"}:
                    break
                time.sleep(0.1)
            assert up(served) == {"udp", "tcp"}, served
            process.send_signal(signal.SIGINT)
            report = json.loads(process.stdout.read())
            assert process.wait(60) == 0
    written = file.read_text()
    for text in (served, written):
        said = judged(text)
        assert said.returncode == 0 and not said.stdout + said.stderr, said.stdout + said.stderr + text
        for name in [name for kind in up(text) for name in NAMES[kind]]:
            assert f"\nskyhaul_monitor_{name}{{" in text, name
    counted = sum(n for test in report["tests"] for n in test["runs"].values())
    assert counted == report["lines"]["written"] == len(lines.read_text().splitlines())
