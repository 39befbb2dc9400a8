"""A collector of fireflies that shares no code with the server: it reads datagrams as syslog (RFC 5424) with JSON and holds them to the schema of scitags.org,
and to what curl says of the connections."""

import collections
import datetime
import ipaddress
import json
import re
import socket
import time

import pytest
from test_webdav import INSIDE, Site, call, program

#: RFC 5424, 6: PRI VERSION TIMESTAMP HOSTNAME APP-NAME PROCID MSGID STRUCTURED-DATA, and the message.
SYSLOG = re.compile(
    rb"<(?P<pri>\d{1,3})>(?P<version>[1-9]\d{0,2}) (?P<time>\S+) (?P<host>[!-~]{1,255}) (?P<app>[!-~]{1,48}) (?P<process>[!-~]{1,128}) "
    rb"(?P<id>[!-~]{1,32}) (?P<data>-|\[.*?\]) (?P<message>.*)",
    re.DOTALL,
)
NUMBER, TEXT = (int, float), (str,)
#: The objects of the schema: for each name its types, and whether it must be there.
SCHEMA = {
    "": {"version": ((int,), True), "flow-lifecycle": ((dict,), True), "usage": ((dict,), False), "netlink": ((dict,), False), "context": ((dict,), True),
         "flow-id": ((dict,), True)},
    "flow-lifecycle": {"state": (TEXT, True), "current-time": (TEXT, True), "start-time": (TEXT, True), "end-time": (TEXT, False)},
    "usage": {"received": ((int,), True), "sent": ((int,), True)},
    "netlink": {"rtt": (NUMBER, True)},
    "context": {"experiment-id": ((int,), True), "activity-id": ((int,), True), "application": (TEXT, False)},
    "flow-id": {"afi": (TEXT, True), "src-ip": (TEXT, True), "dst-ip": (TEXT, True), "protocol": (TEXT, True), "src-port": ((int,), True),
                "dst-port": ((int,), True)},
}  # fmt: skip
LIMIT = 60


def checked(datagram):
    """The JSON of a datagram that is a firefly."""
    head = SYSLOG.fullmatch(datagram)
    assert head, datagram
    # Facility local0, informational.
    assert (head["pri"], head["version"], head["id"]) == (b"134", b"1", b"firefly-json"), datagram
    assert len(datagram) <= 1472, "it would not fit into one frame of Ethernet"
    firefly = json.loads(head["message"])
    for name, fields in SCHEMA.items():
        part = firefly if name == "" else firefly.get(name)
        if part is None:
            continue
        assert set(part) <= set(fields), (name, part)
        for field, (types, is_required) in fields.items():
            assert field in part or not is_required, (name, field)
            assert field not in part or (type(part[field]) in types), (name, field, part)
    times = firefly["flow-lifecycle"]
    assert times["state"] in ("start", "ongoing", "end") and ("end-time" in times) == (times["state"] == "end"), times
    read = {name: datetime.datetime.fromisoformat(times[name]) for name in times if name != "state"}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00", times[name]) for name in read), times
    assert read["start-time"] <= read["current-time"] <= read.get("end-time", read["current-time"]), times
    flow = firefly["flow-id"]
    for end in ("src", "dst"):
        assert f"ipv{ipaddress.ip_address(flow[f'{end}-ip']).version}" == flow["afi"] and 0 < flow[f"{end}-port"] < 65536, flow
    assert firefly["version"] == 1 and flow["protocol"] in ("tcp", "udp"), firefly
    return firefly


FIREFLY = {
    "version": 1,
    "flow-lifecycle": {"state": "end", "current-time": "2026-11-26T01:02:04.000000+00:00", "start-time": "2026-11-26T01:02:03.000000+00:00",
                       "end-time": "2026-11-26T01:02:04.000000+00:00"},
    "usage": {"received": 1, "sent": 2},
    "netlink": {"rtt": 0.5},
    "context": {"experiment-id": 7, "activity-id": 1, "application": "http-put"},
    "flow-id": {"afi": "ipv6", "src-ip": "2001:db8::1", "dst-ip": "2001:db8::2", "protocol": "tcp", "src-port": 1, "dst-port": 2},
}  # fmt: skip


def datagram(firefly, head="<134>1 - mh skyhaul - firefly-json - "):
    return (head + json.dumps(firefly)).encode()


@pytest.mark.parametrize(("part", "change"), [
    ("flow-id", {"afi": "ipv4"}), ("flow-id", {"src-port": 0}), ("flow-id", {"dst-port": "2"}), ("flow-id", {"protocol": "sctp"}),
    ("context", {"experiment-id": "7"}), ("context", {"activity": 1}), ("usage", {"sent": None}), ("flow-lifecycle", {"state": "stop"}),
    ("flow-lifecycle", {"state": "start"}), ("flow-lifecycle", {"start-time": "2026-11-26T01:02:05.000000+00:00"}),
    ("flow-lifecycle", {"end-time": "2026-11-26T01:02:04.000000Z"}),
])  # fmt: skip
def test_the_collector_refuses_what_is_no_firefly(part, change):
    assert checked(datagram(FIREFLY)) == FIREFLY
    with pytest.raises((AssertionError, ValueError)):
        checked(datagram(FIREFLY | {part: FIREFLY[part] | change}))
    with pytest.raises((AssertionError, ValueError)):
        checked(datagram(FIREFLY, "<134>1 mh skyhaul - firefly-json - "))


class Collector:
    """It listens, and keeps fireflies by their flow."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(LIMIT)
        self.flows = collections.defaultdict(list)

    def section(self):
        return f'scitags = {{ collectors = ["127.0.0.1:{self.socket.getsockname()[1]}"], interval = "1s" }}'

    def until(self, flows):
        """Listens until so many flows are over, and gives them."""
        end = time.monotonic() + LIMIT
        while sum(flow[-1]["flow-lifecycle"]["state"] == "end" for flow in self.flows.values()) < flows:
            assert time.monotonic() < end, self.flows
            firefly = checked(self.socket.recv(65536))
            self.flows[tuple(firefly["flow-id"].values())].append(firefly)
        heard, self.flows = list(self.flows.values()), collections.defaultdict(list)
        for flow in heard:
            states = [one["flow-lifecycle"]["state"] for one in flow]
            assert states == ["start", *["ongoing"] * (len(states) - 2), "end"], states
            assert len({one["flow-lifecycle"]["start-time"] for one in flow}) == 1
            counts = [(one["usage"]["received"], one["usage"]["sent"]) for one in flow if "usage" in one]
            assert counts == sorted(counts) and len(counts) == len(flow) - 1, flow
        return heard

    def end(self):
        self.socket.close()


@pytest.fixture
def collector():
    collector = Collector()
    yield collector
    collector.end()


def ends(flow):
    return flow[-1]["flow-id"]["src-port"], flow[-1]["flow-id"]["dst-port"]


def tag(flow):
    context = flow[-1]["context"]
    return context["experiment-id"], context["activity-id"], context["application"]


def test_a_collector_reads_what_is_said_of_uploads_and_downloads(skyhaul, collector, tmp_path):
    del skyhaul  # it is there
    program("curl", "curl")
    data = tmp_path / "data"
    data.write_bytes(bytes(20_000_003))
    site = Site(tmp_path, collector.section())
    curl = ("curl", "--fail", "--silent", "--show-error", "--write-out", "%{local_port}", "--header", "SciTag: 449")
    try:
        port = int(site.server.rsplit(":", 1)[1])
        mine = int(call(*curl, "--upload-file", data, f"{site.url}/f"))
        (flow,) = collector.until(1)
        # Data go from the client, whichever opened the connection.
        assert ends(flow) == (mine, port) and tag(flow) == (7, 1, "http-put"), flow
        assert 20_000_003 <= flow[-1]["usage"]["received"] < 20_100_000, flow
        # For two seconds and more: what lasts is said again.
        mine = int(call(*curl, "--limit-rate", "8M", "--output", tmp_path / "got", f"{site.url}/f"))
        (flow,) = collector.until(1)
        assert ends(flow) == (port, mine) and tag(flow) == (7, 1, "http-get"), flow
        assert 20_000_003 <= flow[-1]["usage"]["sent"] < 20_100_000, flow
        assert flow[-1]["netlink"]["rtt"] < 1000 and (tmp_path / "got").read_bytes() == data.read_bytes()
    finally:
        site.end()


def test_a_collector_reads_what_is_said_of_a_copy_between_two_stations(skyhaul, collector, tmp_path):
    del skyhaul  # it is there
    program("curl", "curl")
    sites = []
    try:
        for name in "ab":
            (tmp_path / name).mkdir()
            sites.append(Site(tmp_path / name, f"{INSIDE}\n{collector.section()}" if name == "b" else ""))
        a, b = sites
        (a.root / "f").write_bytes(bytes(20_000_003))
        source = int(a.server.rsplit(":", 1)[1])
        said = call("curl", "--silent", "--show-error", "--request", "COPY", "--header", f"Source: {a.url}/f", "--header", "SciTag: 65535", f"{b.url}/g")
        assert "success" in said, said
        # A request for size and digest may be a connection of its own.
        heard = collector.until(1)
        while sum(flow[-1]["usage"]["received"] for flow in heard) < 20_000_003:
            heard += collector.until(1)
        assert all(ends(flow)[0] == source and tag(flow) == (1023, 63, "http-get") for flow in heard), heard
        assert (b.root / "g").read_bytes() == (a.root / "f").read_bytes()
    finally:
        for site in sites:
            site.end()
