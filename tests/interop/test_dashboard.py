"""The station's dashboard in a browser, its `top` in a terminal, and the files for Grafana against what it exports.

`SKYHAUL_SCREENSHOTS=1` also makes the pictures of the README and the guide, in docs/images; this takes minutes.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request

import pytest
from chromium import page as browser_page
from conftest import BINARY, ROOT, free_port
from test_terminal import Watched

FILES = ROOT / "docs/guide/grafana"
IMAGES = ROOT / "docs/images"
PICTURES = bool(os.environ.get("SKYHAUL_SCREENSHOTS"))
HOSTILE = "<img src=x onerror=alert(1)>"
SCAN = "n26c3_mh_no0001"


class Station:
    """A station of two inputs and two disks, one with a name that is markup."""

    def __init__(self, directory, *, disks=("d0", HOSTILE), more=""):
        self.directory, self.port = directory, None
        self.disks = [directory / name for name in disks]
        for disk in self.disks:
            disk.mkdir()
        self.inputs = [free_port(), free_port()]
        self.process, self.senders = None, []
        self.start(more)

    def start(self, more=""):
        """Starts it, on the port that it had before."""
        text = f'[station]\nlisten = "127.0.0.1:{self.port or 0}"\nmemory = "192MiB"\n{more}\n'
        text += "".join(f'[[station.disk]]\npath = "{disk}"\nrate = "1.6Gbps"\n' for disk in self.disks)
        for name, port in zip(("mh1", "mh2"), self.inputs, strict=True):
            text += f'[[station.input]]\nname = "{name}"\nlisten = ["udp://127.0.0.1:{port}"]\nmemory = "96MiB"\n'
        config, said = self.directory / "station.toml", self.directory / "serve.err"
        config.write_text(text)
        with said.open("w") as errors:
            self.process = subprocess.Popen([BINARY, "serve", "--config", config], stdin=subprocess.DEVNULL, stderr=errors)
        for _ in range(400):
            if found := re.search(r"http://127\.0\.0\.1:(\d+)", said.read_text()):
                self.port = int(found[1])
                return
            assert self.process.poll() is None, said.read_text()
            time.sleep(0.05)
        pytest.fail("the station does not serve")

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def get(self, path, **headers):
        request = urllib.request.Request(f"{self.url}{path}", headers=headers)
        with urllib.request.urlopen(request, timeout=20) as reply:
            return reply.read().decode()

    def post(self, path, body, **headers):
        """The status of a call."""
        request = urllib.request.Request(f"{self.url}{path}", json.dumps(body).encode(), headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=20) as reply:
                return reply.status
        except urllib.error.HTTPError as error:
            return error.code

    def send(self, n, rate="40Mbps", loss="0.01"):
        """A stream with losses to an input."""
        words = [BINARY, "send", "--pattern", "--payload", "8000", "--rate", rate, "--duration", "600s", "--quiet",
                 "--faults", f"loss={loss},seed=3", "--to", f"udp://127.0.0.1:{self.inputs[n]}"]  # fmt: skip
        self.senders.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def stop_sending(self):
        for sender in self.senders:
            sender.kill()
            sender.wait()
        self.senders.clear()

    def end(self, how=signal.SIGKILL):
        self.process.send_signal(how)
        return self.process.wait(timeout=60)


@contextlib.contextmanager
def running(directory, **how):
    station = Station(directory, **how)
    try:
        yield station
    finally:
        station.stop_sending()
        station.end()


TEXT = "document.getElementById('{}').innerText"
LIVE = "document.getElementById('link').innerText.trim() === 'Live' && !document.body.classList.contains('stale')"


def has(where, text):
    return f"{TEXT.format(where)}.includes({json.dumps(text)})"


def test_the_dashboard_shows_records_and_stops(skyhaul, tmp_path):
    token = tmp_path / "correlator-token"
    token.write_text("a-token-of-16-or-more\n")
    more = f'[[station.destination]]\nname = "correlator"\nhost = "127.0.0.1"\nport = 1\ntoken_file = "{token}"'
    with browser_page() as page, running(tmp_path, more=more) as station:
        # A scan of other software whose name is markup.
        foreign = station.disks[0] / HOSTILE
        foreign.mkdir()
        (foreign / f"{HOSTILE}.00000000").write_bytes(b"x" * 8032)
        station.send(0)
        page.size(1400, 900)
        page.open(station.url + "/")
        page.until(LIVE)
        start_and_stop(page, station)
        deliveries(page, station)
        every_view(page)
        alarms(page, station)
        # The page loads nothing from elsewhere, and breaks none of its own rules.
        assert not [url for url in page.requests if not url.startswith((station.url, "data:", "about:"))]
        wrong = [text for text in page.said if re.search(r"exception|Content.Security|Refused to", text)]
        assert not wrong, wrong
        foreign_pages(page, station)
        lost_and_found(page, station)
        assert page.js("document.images.length") == 0, "a name became markup"


def start_and_stop(page, station):
    """By keyboard alone."""
    page.key("n")
    page.until("document.activeElement.id === 'start-name'")
    page.write("../" + SCAN)
    page.key("Enter")
    page.until(has("start-reply", "cannot name a scan"))
    page.js("document.getElementById('start-name').value = ''")
    page.write(SCAN)
    page.key("Enter")
    page.until(f"{has('start-reply', SCAN)} && {has('recordings', SCAN)}")
    page.until("/[1-9][0-9.]* Mb\\/s/.test(document.getElementById('recordings').innerText)")
    # What is shown is what the station says: the numbers of a moment.
    page.until(has("tiles", "Never arrived") + " && !/Never arrived\\s+0 \\/s/.test(document.getElementById('tiles').innerText)")
    page.until(has("alarms", "frames never arrived"))
    page.until(f"[...document.querySelectorAll('#disks td.name')].some(td => td.textContent.endsWith({json.dumps(HOSTILE)}))")
    page.until("document.querySelectorAll('#chart-rate path').length === 3")
    # A row is redrawn each second; the focus stays.
    page.js("document.querySelector('[data-stop]').focus()")
    time.sleep(1.2)
    assert page.js("document.activeElement.dataset.stop") == SCAN
    page.key("Enter")
    page.until("document.getElementById('stop-dialog').open")
    page.js("document.getElementById('stop-confirm').focus()")
    page.key("Enter")
    page.until(f"!document.querySelector('[data-stop]') && {has('recordings', 'idle')}")
    ended = json.loads(station.get(f"/api/v1/recordings/{SCAN}"))
    assert ended["outcome"] == "gaps" and ended["received_bytes"] > 0, ended


def deliveries(page, station):
    """What a schedule delivers, and why a scan of it is not delivered."""
    text = 'experiment = "n30c1"\nstation = "Mh"\n'
    for name, year in (("no1", 2020), ("no2", 2100)):
        text += f'[[scan]]\nname = "{name}"\nstart = {year}-01-01T00:00:00Z\nduration = "10s"\n'
    text += '[[delivery]]\nto = ["correlator:d1", "correlator:d2"]\nfrom = "22:00"\nuntil = "06:00"\npriority = -3\n'
    assert station.post("/api/v1/schedules", {"text": text}, **{"Content-Type": "application/json"}) == 201
    page.js("location.hash = 'schedule'")
    for words in ("correlator:d1, correlator:d2", "22:00–06:00", "-3", "1 not recorded: it was never begun"):
        page.until(has("deliveries", words))
    page.until(has("schedule", "correlator: not recorded, it was never begun"))
    page.until(has("schedule", "correlator: waiting"))


def every_view(page):
    offered = page.js("[...document.querySelectorAll('nav a')].map(link => link.hash.slice(1))")
    assert {"overview", "scans", "events"} <= set(offered)
    for width, height, phone in ((1400, 900, False), (390, 844, True)):
        page.size(width, height, phone=phone)
        for n, view in enumerate(offered):
            page.key(str(n + 1))
            page.until(f"document.querySelector('nav a[aria-current]').hash === '#{view}' && !document.getElementById('view-{view}').hidden")
            wide = page.js("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide <= 0, f"{view} at {width} pixels is {wide} pixels too wide"
    page.size(1400, 900)
    page.key("2")
    page.until(f"{has('ended', SCAN)} && {has('ended', 'gaps')} && {has('scans', SCAN)}")
    page.until(has("scans", HOSTILE))
    page.key(str(len(offered)))
    page.until(has("events", "recording from mh1"))
    page.key("1")


def alarms(page, station):
    """A disk that is taken out, and comes back."""
    away = station.directory / "away"
    station.disks[1].rename(away)
    page.until(f"[...document.querySelectorAll('.alarm.error .subject')].some(one => one.textContent.endsWith({json.dumps(HOSTILE)}))")
    assert page.js("document.title").startswith("(")
    away.rename(station.disks[1])
    page.until("!document.querySelector('.alarm.error')")


def foreign_pages(page, station):
    """A page of another origin can neither start a recording nor frame the dashboard; nor can a name that leads here."""
    call = json.dumps(station.url + "/api/v1/recordings")
    for origin in ("about:blank", f"http://localhost:{station.port}/"):
        page.open(origin)
        page.until(f"location.href === {json.dumps(origin)} && document.readyState === 'complete'")
        page.js(f"fetch({call}, {{method: 'POST', mode: 'no-cors', body: '{{\"name\": \"evil\"}}'}}).then(() => 1, () => 1)")
    assert "evil" not in station.get("/api/v1/status")
    for headers in ({"Content-Type": "text/plain"}, {"Content-Type": "application/json", "Host": "rebound.example.org"},
                    {"Content-Type": "application/json", "Sec-Fetch-Site": "same-site"},
                    {"Content-Type": "application/json", "Origin": "http://localhost:1"}):  # fmt: skip
        assert station.post("/api/v1/recordings", {"name": "evil"}, **headers) == 403, headers
    with urllib.request.urlopen(station.url + "/", timeout=20) as reply:
        policy = reply.headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in policy and "unsafe" not in policy
    page.open(station.url + "/")
    page.until(LIVE)


def lost_and_found(page, station):
    """A station that hangs, and one that starts again and wants a token."""
    station.process.send_signal(signal.SIGSTOP)
    page.until("/^Not connected since \\d\\d:\\d\\d:\\d\\d UTC$/.test(document.getElementById('link').innerText.trim())")
    assert page.js("document.body.classList.contains('stale') && document.querySelector('#start button').disabled")
    assert page.js("document.title").startswith("Not connected")
    station.process.send_signal(signal.SIGCONT)
    page.until(LIVE)
    assert station.end(signal.SIGTERM) == 0
    page.until("document.body.classList.contains('stale')")
    token = station.directory / "token"
    station.start(f'token_file = "{token}"')
    page.until("document.getElementById('token-dialog').open")
    with pytest.raises(urllib.error.HTTPError):
        station.get("/api/v1/status")
    page.js("document.getElementById('token').focus()")
    page.write(token.read_text().strip())
    page.key("Enter")
    page.until(LIVE)
    assert page.js("localStorage.length === 0 && document.cookie === '' && sessionStorage.length") == 1


def test_top_shows_a_station_in_a_terminal(skyhaul, tmp_path):
    with running(tmp_path, disks=("d0", "d1")) as station:
        station.send(0)
        skyhaul.run("station", "start", SCAN, "--station", station.url)
        for _ in range(200):
            both = skyhaul.json("top", "--station", station.url)
            if both["figures"]["received_bits"] > 0:
                break
            time.sleep(0.05)
        assert both["status"]["recordings"][0]["name"] == SCAN
        once = skyhaul.run("top", "--station", station.url, "--once").decode()
        assert SCAN in once and "\x1b" not in once and str(station.disks[0]) in once
        no_terminal = subprocess.run([BINARY, "top", "--station", station.url], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
        assert (no_terminal.returncode, b"--once" in no_terminal.stderr) == (2, True)
        watched = Watched("top", "--station", station.url, columns=120, keyboard=True)
        try:
            watched.until(f"{SCAN} .*recording")
            os.write(watched.master, b"q")
            assert watched.process.wait(timeout=20) == 0
            watched.read()
        finally:
            watched.end()
        # The terminal is as it was before.
        assert watched.text.startswith("\x1b[?1049h") and watched.text.rstrip().endswith("\x1b[?1049l")
        watched = Watched("top", "--station", station.url, columns=120, keyboard=True)
        try:
            watched.until("live")
            station.end(signal.SIGKILL)
            watched.until(r"NOT CONNECTED since \d\d:\d\d:\d\d UTC")
        finally:
            text = watched.end()
        assert watched.process.returncode == 0 and text.rstrip().endswith("\x1b[?1049l")
        gone = subprocess.run([BINARY, "top", "--once", "--station", station.url], capture_output=True, timeout=60, check=False)
        assert (gone.returncode, b"is `skyhaul serve` running there?" in gone.stderr) == (2, True), gone.stderr


def expressions():
    """All expressions of the dashboard and of the alert rules."""
    dashboard = json.loads((FILES / "station-dashboard.json").read_text())
    of_panels = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    of_lists = [variable["query"] for variable in dashboard["templating"]["list"] if variable["type"] == "query"]
    of_alerts = re.findall(r"^        expr: (.+)$", (FILES / "station-alerts.yml").read_text(), re.MULTILINE)
    assert of_panels and of_lists and len(of_alerts) >= 10
    return of_panels + of_lists + of_alerts


def test_grafana_files_name_what_the_station_exports(skyhaul, tmp_path):
    files = f'[http]\nlisten = "127.0.0.1:0"\nrecordings = true\n[http.log]\nfile = "{tmp_path}/access.jsonl"'
    with running(tmp_path, disks=("d0", "d1"), more=files) as station:
        while not (served := re.search(r"files on (http://\S+)\n", (tmp_path / "serve.err").read_text())):
            assert station.process.poll() is None
            time.sleep(0.05)
        with urllib.request.urlopen(f"{served[1]}/recordings/", timeout=20):
            pass
        station.send(0)
        skyhaul.run("station", "start", SCAN, "--station", station.url)
        # Until it has a rate, an alarm, and something on each disk.
        for _ in range(400):
            text = station.get("/metrics")
            if all(f"skyhaul_station_{name}{{" in text for name in ("alarm", "receive_bits_per_second", "disk_latency_p99_seconds")):
                break
            time.sleep(0.05)
    exported = {name: set() for name in re.findall(r"^# TYPE (\S+) \w+$", text, re.MULTILINE)}
    # A histogram has lines of three names.
    for name in re.findall(r"^# TYPE (\S+) histogram$", text, re.MULTILINE):
        exported |= {f"{name}_{end}": set() for end in ("bucket", "sum", "count")}
    for name, labels in re.findall(r"^(\w+)\{(.*)\} \S+$", text, re.MULTILINE):
        exported[name].update(re.findall(r'(\w+)="', labels))
    # `instance` and `job` come from Prometheus.
    labels = set().union(*exported.values()) | {"instance", "job"}
    source = (ROOT / "crates/daemon/src/station/dashboard/alarms.rs").read_text()
    for expression in expressions():
        names = set(re.findall(r"\bskyhaul_\w+", expression))
        assert names and names <= exported.keys(), expression
        for listed in re.findall(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)", expression):
            assert set(filter(None, re.split(r"[,\s]+", listed))) <= labels | {"input", "scan", "disk"}, expression
        for alarm in re.findall(r'alarm="(\w+)"', expression):
            assert f'"{alarm}"' in source, expression
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("promtool is not installed (apt-get install prometheus)")
    done = subprocess.run([tool, "check", "rules", FILES / "station-alerts.yml"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    done = subprocess.run([tool, "check", "metrics"], input=text, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (0, 3), done.stdout + done.stderr


@pytest.mark.skipif(not PICTURES, reason="makes pictures, which takes minutes (SKYHAUL_SCREENSHOTS=1)")
def test_pictures_for_the_readme_and_the_guide(skyhaul, tmp_path):
    with browser_page() as page, running(tmp_path, disks=("d0", "d1")) as station:
        for n, (name, rate, loss) in enumerate(((SCAN, "256Mbps", "0"), ("n26c3_mh_aux", "128Mbps", "0.0004"))):
            skyhaul.run("station", "start", f"{name}_before", "--input", f"mh{n + 1}", "--station", station.url)
            station.send(n, rate, loss)
            time.sleep(4)
            skyhaul.run("station", "stop", f"{name}_before", "--station", station.url)
            skyhaul.run("station", "start", name, "--input", f"mh{n + 1}", "--station", station.url)
        time.sleep(int(os.environ["SKYHAUL_SCREENSHOTS"]) if os.environ["SKYHAUL_SCREENSHOTS"] != "1" else 100)
        page.open(station.url + "/")
        for name, scheme, width, height, phone, view in (
            ("dashboard.png", "light", 1400, 880, False, "overview"), ("dashboard-dark.png", "dark", 1400, 880, False, "overview"),
            ("dashboard-phone.png", "dark", 390, 844, True, "overview"), ("dashboard-scans.png", "light", 1400, 620, False, "scans"),
        ):  # fmt: skip
            page.size(width, height, 2 if phone else 1.5, phone=phone)
            page.scheme(scheme)
            page.js(f"location.hash = '{view}'")
            page.until(LIVE)
            time.sleep(1.5)
            page.picture(IMAGES / name)
            assert (IMAGES / name).stat().st_size < 200 << 10, name
        skyhaul.run("demo", "--duration", "4s", "--rate", "1Gbps", "--directory", tmp_path / "demo", timeout=300)
        page.size(1160, 1400, 1)
        page.scheme("light")
        page.open((tmp_path / "demo/report.html").as_uri())
        page.until("document.readyState === 'complete'")
        page.picture(IMAGES / "demo-report.png")
        assert (IMAGES / "demo-report.png").stat().st_size < 200 << 10
