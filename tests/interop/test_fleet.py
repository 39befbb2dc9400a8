"""A fleet as its operators see it: `fleet status --watch` in a terminal, and the view of the dashboard in a browser."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import time

import pytest
from chromium import page as browser_page
from conftest import BINARY
from test_dashboard import HOSTILE, LIVE, has, running
from test_terminal import Watched


class Etcd:
    """A store of one member."""

    def __init__(self, directory):
        with socket.socket() as one, socket.socket() as two:
            for each in (one, two):
                each.bind(("127.0.0.1", 0))
            self.url, peer = (f"http://127.0.0.1:{each.getsockname()[1]}" for each in (one, two))
        self.words = ["etcd", "--data-dir", directory / "store", "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
                      "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"]  # fmt: skip
        self.process = None
        self.start()

    def start(self):
        null = subprocess.DEVNULL
        self.process = subprocess.Popen(self.words, stdin=null, stdout=null, stderr=null)
        for _ in range(600):
            if self.fleet("status", check=False).returncode == 0:
                return
            time.sleep(0.1)
        pytest.fail("etcd does not start")

    def fleet(self, *words, check=True):
        line = [BINARY, "fleet", *words, "--fleet", "evn", "--endpoint", self.url]
        return subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=check, timeout=60)

    def kill(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def etcd(skyhaul, tmp_path):
    del skyhaul  # it is there
    if shutil.which("etcd") is None:
        pytest.skip("etcd is not installed (apt-get install etcd-server)")
    etcd = Etcd(tmp_path)
    yield etcd
    etcd.kill()


def test_a_fleet_is_watched_in_a_terminal(etcd, tmp_path):
    schedule = tmp_path / "t26c1.toml"
    schedule.write_text('experiment = "T26C1"\n[[scan]]\nname = "no0001"\nstart = 2100-01-01T00:00:00Z\nduration = "4s"\n')
    # For terminals only.
    refused = etcd.fleet("status", "--watch", check=False)
    assert refused.returncode == 2 and "omit --watch" in refused.stderr, refused
    watched = Watched("fleet", "status", "--watch", "--fleet", "evn", "--endpoint", etcd.url, keyboard=True)
    watched.until("fleet evn: 0 stations, 0 online")
    # What changes is seen; without the store, that is seen; and it continues.
    etcd.fleet("load", schedule, "--station", "On")
    watched.until("fleet evn: 1 station, 0 online")
    watched.until(r"On +- +ABSENT")
    etcd.kill()
    watched.until("NOT REACHED: ")
    watched.text = ""
    etcd.start()
    watched.until("fleet evn: 1 station, 0 online")
    os.write(watched.master, b"q")
    assert watched.process.wait(30) == 0
    watched.read()
    os.close(watched.master)
    # The screen is as it was before.
    assert watched.text.rstrip().endswith("\x1b[?1049l"), watched.text[-200:]


@contextlib.contextmanager
def member(etcd, directory, name):
    directory.mkdir()
    more = f'[fleet]\nname = "evn"\nstation = "{name}"\nrecorder = "rec1"\nlease = "10s"\nendpoints = ["{etcd.url}"]'
    with running(directory, more=more) as station:
        yield station


def test_the_dashboard_shows_the_fleet(etcd, tmp_path):
    with browser_page() as page, member(etcd, tmp_path / "on", "On") as on, member(etcd, tmp_path / "mh", "Mh") as mh:
        page.size(1400, 900)
        page.open(on.url + "/#fleet")
        page.until(LIVE)
        page.until(f"{has('fleet', 'On')} && {has('fleet', 'Mh')} && {has('fleet-name', '2 of 2 stations online')}")
        page.until(f"{has('fleet-store', etcd.url)} && {has('fleet-store', 'leader')}")
        # The scans under way at both stations.
        etcd.fleet("start", "T26C1", "test1")
        page.until(f"{has('fleet', 't26c1_on_test1')} && {has('fleet', 't26c1_mh_test1')}")
        for width, height, phone in ((1400, 900, False), (390, 844, True)):
            page.size(width, height, phone=phone)
            wide = page.js("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide <= 0, f"{wide} pixels too wide at {width}"
        # A station that ends is offline, and a store that is away says so here.
        mh.end(how=15)
        page.until(f"{has('fleet', 'offline')} && {has('fleet-name', '1 of 2 stations online')}")
        etcd.kill()
        page.until(has("fleet-problem", "the fleet's store"))
        page.until(has("fleet-store", "no answer"))
        assert page.js("document.images.length") == 0, HOSTILE
        wrong = [text for text in page.said if re.search(r"exception|Content.Security|Refused to", text)]
        assert not wrong, wrong


def test_a_station_without_a_fleet_has_no_view_of_it(skyhaul, tmp_path):
    del skyhaul  # it is there
    with browser_page() as page, running(tmp_path) as station:
        page.open(station.url + "/#fleet")
        page.until(LIVE)
        offered = page.js("[...document.querySelectorAll('nav a')].map(link => link.hash.slice(1))")
        assert "fleet" not in offered, offered
        page.until("!document.getElementById('view-overview').hidden")
