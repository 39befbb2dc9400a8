"""What EJFAT's users met: an independent client and codec at our balancer, our workers and our receivers."""

import contextlib
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import urllib.error
import urllib.request

import pytest
from conftest import BINARY, ROOT

grpc = pytest.importorskip("grpc", reason="grpcio is not installed")
pytest.importorskip("grpc_tools", reason="grpcio-tools is not installed")

import ejfat_site as ejfat  # noqa: E402

PROTO = ROOT / "crates/daemon/proto/loadbalancer.proto"


@pytest.fixture
def site(skyhaul, tmp_path):
    made = ejfat.Site(tmp_path)
    yield made
    made.close()


@pytest.fixture
def sender():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 20)
        yield one


def reserve(balance, name, senders=("127.0.0.0/8",)):
    """A reservation and a client with its token."""
    reply = balance.operator("ReserveLoadBalancer", name=name, senderAddresses=senders)
    return reply, ejfat.Client(balance.api, reply.token)


def at(reply):
    return reply.dataIpv4Address, reply.dataMinPort


# ---- events: their lengths


@pytest.mark.parametrize("states", [1000, 2500, 1 << 20])
def test_a_first_packet_of_another_length(site, sender, tmp_path, states):
    """It has the first place of the event, and states less than there is, or more."""
    receive = site.receive("--list", tmp_path / "list", "--idle", "2s", "--output-file", tmp_path / "out")
    whole = ejfat.content(7, 3000)
    forged = ejfat.segment(7, b"x" * 1000, 0, states)
    ejfat.train(sender, ("127.0.0.1", receive.port), [forged, *ejfat.event(7, whole)])
    report = receive.end(how=None, expect=1)
    assert ejfat.rows(tmp_path / "list") == [["7", "0", "3000", "0"]]
    assert (tmp_path / "out").read_bytes() == whole
    assert report["rejects"] == {"wrong_size": 1}
    assert "wrong size" in receive.said() or report["objects"]["events"]["complete"] == 1


def test_an_event_of_one_packet(site, sender, tmp_path):
    """It is believed, if nothing contradicts it; another length of one packet does not take its place."""
    receive = site.receive("--list", tmp_path / "list", "--idle", "2s")
    packets = [ejfat.segment(tick, ejfat.content(tick, 1000), 0, 1000) for tick in range(50)]
    ejfat.train(sender, ("127.0.0.1", receive.port), [*packets, ejfat.segment(49, b"x" * 1000, 0, 5000)])
    receive.end(how=None, expect=1)
    assert sorted(map(int, (row[0] for row in ejfat.rows(tmp_path / "list")))) == list(range(50))


def test_forged_lengths_take_no_memory_of_honest_events(site, sender, tmp_path):
    receive = site.receive("--list", tmp_path / "list", "--idle", "3s", "--memory", "1GiB", "--output-file", tmp_path / "out")
    to = ("127.0.0.1", receive.port)
    for tick in range(300):
        if tick % 10 == 0:
            for n in range(12):
                claim = (1 << 28) + n
                forged = [ejfat.segment((1 << 40) + tick * 100 + n, b"x" * 1000, at, claim) for at in (0, 1000)]
                ejfat.train(sender, to, forged)
        ejfat.train(sender, to, ejfat.event(tick, ejfat.content(tick, 40_000)))
        if tick % 5 == 0:
            ejfat.time.sleep(0.005)
    receive.end(how=None, expect=None)
    honest = [row for row in ejfat.rows(tmp_path / "list") if int(row[0]) < 300 and row[3] == "0"]
    assert len(honest) == 300
    assert (tmp_path / "out").stat().st_size == 300 * 40_000


def test_a_large_event_needs_no_option(skyhaul, site, tmp_path):
    receive = site.receive("--list", tmp_path / "list", "--idle", "5s", "--verify")
    skyhaul.run("send", "--format", "ejfat", "--pattern", "--event", "300MiB", "--events", 1, "--tick", 1, "--mtu", 9000,
                "--rate", "2Gbps", "--to", f"udp://127.0.0.1:{receive.port}", timeout=120)  # fmt: skip
    report = receive.end(how=None, expect=None)
    if report["rejects"] or report["objects"]["events"]["missing_bytes"]:
        assert report["kernel_drops"] if "kernel_drops" in report else True, report
    assert "outside" not in report["rejects"] and "no_buffer" not in report["rejects"]
    assert ejfat.rows(tmp_path / "list")[0][0] == "1"


# ---- senders


def test_a_restarted_sender_loses_nothing(skyhaul, site, monkeypatch):
    balance = site.balance("--reserve", "run", "--uri-file", site.directory / "uri")
    uri = (site.directory / "uri").read_text().strip()
    workers = [site.worker(uri, "--work", work, name=f"w{work}") for work in ("0s", "2ms")]
    client = ejfat.Client(balance.api, uri.split("://")[1].split("@")[0])
    ejfat.until(lambda: any(worker.slotsAssigned for worker in client("LoadBalancerStatus", lbId="1").workers))
    monkeypatch.setenv("EJFAT_URI", uri)
    for _ in range(2):
        skyhaul.run("send", "--format", "ejfat", "--pattern", "--tick", 0, "--event", 2000, "--event-rate", 1000, "--events", 9000, timeout=120)
    for worker in workers:
        worker.end(expect=None)
    ticks = [int(row[0]) for worker in workers for row in ejfat.rows(worker.list) if row[3] == "0"]
    report = balance.end()["reservations"][0]
    # What no queue or socket had room for on a busy machine is counted there.
    assert report["refused"] == {}, report
    assert report["epochs"] > 1, "its calendars change"
    assert len(ticks) >= 17_500 and max(ticks.count(tick) for tick in range(0, 9000, 97)) <= 2


def test_a_sender_that_joins_is_admitted_and_learns_of_refusals(skyhaul, site, monkeypatch):
    balance = site.balance()
    reply, client = reserve(balance, "run", senders=[])
    uri = f"ejfat://{reply.token}@{balance.api}/lb/{reply.lbId}?data={reply.dataIpv4Address}:{reply.dataMinPort}"
    monkeypatch.setenv("EJFAT_URI", uri)
    words = ["send", "--format", "ejfat", "--pattern", "--event", 1000, "--events", 20, "--warm-up", "0s"]
    # Nobody told it: without --join nothing does.
    assert skyhaul.json(*words)["refused_by_balancer"] is None
    worker = site.worker(uri)
    ejfat.until(lambda: client("LoadBalancerStatus", lbId=reply.lbId).workers[0].slotsAssigned)
    report = skyhaul.json(*words, "--join")
    assert (report["refused_by_balancer"], report["notes"]) == (0, [])
    assert list(client("LoadBalancerStatus", lbId=reply.lbId).senderAddresses) == ["127.0.0.1"]
    worker.end()
    assert len(ejfat.rows(worker.list)) == 20
    # It is removed while it sends.
    job = site.job("send", *words[:-4], "--event-rate", 200, "--rate", "1Gbps", "--duration", "6s", "--join", "--json")
    job.wait_for("joined balancer")
    client("RemoveSenders", lbId=reply.lbId, senderAddresses=["127.0.0.1"])
    report = job.end(how=None, expect=1)
    assert report["refused_by_balancer"] > 0 and any("not among the senders" in note for note in report["notes"]), report


# ---- several reservations


def loopback(request):
    """Addresses of this host that no other test uses."""
    number = abs(hash(request.node.nodeid)) % 60_000 + 500
    return [f"127.{number >> 8}.{number & 255}.{last}" for last in (1, 2)]


def test_instances_with_addresses_of_their_own(skyhaul, site, sender, request):
    addresses = loopback(request)
    balance = site.balance(*(word for ip in addresses for word in ("--instance-address", ip)), ports=())
    both = [reserve(balance, name) for name in ("one", "two")]
    assert [at(reply) for reply, _ in both] == [(ip, 19522) for ip in addresses]
    assert all(f"data={reply.dataIpv4Address}:19522" in reply.ejfatUri for reply, _ in both)
    made = skyhaul.run("balancer", "--balancer", both[1][0].ejfatUri, "tokens", "create", "shift", "--allow", "register").decode()
    assert f"?data={addresses[1]}:19522&" in made
    workers = [site.worker(reply.ejfatUri, name=f"w{reply.lbId}") for reply, _ in both]
    for reply, client in both:
        ejfat.until(lambda reply=reply, client=client: client("LoadBalancerStatus", lbId=reply.lbId).workers[0].slotsAssigned)
    for number, (reply, _) in enumerate(both):
        for tick in range(number * 1000, number * 1000 + 50):
            # As a client that has only the address.
            sender.sendto(ejfat.labelled(tick, ejfat.segment(tick, b"12345", 0, 5)), (reply.dataIpv4Address, 19522))
    for number, worker in enumerate(workers):
        worker.end()
        assert sorted(int(row[0]) for row in ejfat.rows(worker.list)) == list(range(number * 1000, number * 1000 + 50))


def test_the_port_of_clients_without_one_is_nobodys(site, sender, request):
    ip = loopback(request)[0]
    balance = site.balance("--listen", ip, "--instances", 3, ports=())
    both = [reserve(balance, name) for name in ("one", "two")]
    assert [at(reply) for reply, _ in both] == [(ip, 19523), (ip, 19524)]
    worker = site.worker(both[0][0].ejfatUri)
    ejfat.until(lambda: both[0][1]("LoadBalancerStatus", lbId="1").workers[0].slotsAssigned)
    for tick in range(30):
        sender.sendto(ejfat.labelled(tick, ejfat.segment(tick, b"12345", 0, 5)), (ip, 19522))
    page = lambda: urllib.request.urlopen(f"http://{balance.api}/metrics").read().decode()  # noqa: E731
    ejfat.until(lambda: "skyhaul_balance_wrong_instance_packets_total 30\n" in page())
    balance.wait_for("wrong_instance.*--instance-address")
    worker.end(expect=None)
    assert ejfat.rows(worker.list) == []
    assert balance.end()["wrong_instance"] == 30


def test_an_address_that_is_not_ours_fails_at_the_start(skyhaul, tmp_path):
    for option in ("--listen", "--instance-address"):
        words = [BINARY, "balance", "--api", "127.0.0.1:0", "--token-file", tmp_path / "t", option, "192.0.2.77"]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 2 and "listen on 192.0.2.77: " in done.stderr and "hint: " in done.stderr, done.stderr


# ---- workers


def test_a_worker_that_is_removed_stays_away(skyhaul, site):
    balance = site.balance("--reserve", "run", "--uri-file", site.directory / "uri")
    worker = site.worker((site.directory / "uri").read_text().strip())
    client = ejfat.Client(balance.api, balance.operator.token)
    session = client("LoadBalancerStatus", lbId="1").workers[0].sessionId
    status = ("balancer", "--balancer-file", site.directory / "uri", "status")
    # The data plane tells its counts once a second.
    ejfat.until(lambda: b"packets received" in skyhaul.run(*status))
    said = skyhaul.run(*status).decode()
    for words in ("packets received", "refused", "forwarded", "not sent", "synchronisation messages"):
        assert words in said, said
    assert "fillPercent" not in said and "forwardedPackets" not in said, said
    skyhaul.run("balancer", "--balancer-file", site.directory / "uri", "workers", "remove", session)
    report = worker.end(how=None)
    assert (report["ended"], report["worker"]["removed"], report["worker"]["registrations"]) == ("removed", True, 1)
    assert "ended by an operator" in worker.said()
    assert not client("LoadBalancerStatus", lbId="1").workers


def test_a_closed_terminal_lets_a_worker_leave(site):
    balance = site.balance("--reserve", "run", "--uri-file", site.directory / "uri")
    worker = site.worker((site.directory / "uri").read_text().strip())
    report = worker.end(signal.SIGHUP)
    assert report["worker"]["has_left"] and report["ended"] == "interrupted"
    assert not balance.operator("LoadBalancerStatus", lbId="1").workers


def test_it_is_idle_when_all_is_refused(site, sender):
    for more in ((), ("--from", "10.9.9.9")):
        receive = site.receive("--idle", "1s", "--wait", "2s", *more, name=f"r{len(more)}")
        if not more:
            sender.sendto(ejfat.segment(1, b"12345", 0, 5), ("127.0.0.1", receive.port))
        good = ejfat.segment(2, b"12345", 0, 5) if more else ejfat.segment(2, b"12345", 9, 5)
        end = ejfat.time.monotonic() + 60
        while receive.process.poll() is None and ejfat.time.monotonic() < end:
            # Its socket is never empty.
            for _ in range(200):
                sender.sendto(good, ("127.0.0.1", receive.port))
        report = receive.end(how=None, expect=1)
        assert report["ended"] == ("nothing" if more else "idle"), report


def test_built_ticks_can_be_cut_apart(site, sender, tmp_path):
    receive = site.receive("--build", "1,2", "--list", tmp_path / "list", "--output-file", tmp_path / "out", "--idle", "2s")
    sizes = {(tick, source): 100 + 37 * tick + 1000 * source for tick in range(5) for source in (1, 2)}
    for (tick, source), size in sizes.items():
        for packet in ejfat.event(tick, ejfat.content(tick * 10 + source, size), data_id=source):
            sender.sendto(packet, ("127.0.0.1", receive.port))
    receive.end(how=None)
    out, found = (tmp_path / "out").read_bytes(), {}
    for tick, sources, _, lacking, each in ejfat.rows(tmp_path / "list"):
        assert lacking == "0"
        for source, size in zip(sources.split("+"), each.split("+"), strict=True):
            found[int(tick), int(source)], out = out[: int(size)], out[int(size) :]
    assert not out and found == {(t, s): ejfat.content(t * 10 + s, size) for (t, s), size in sizes.items()}


# ---- the control plane


@pytest.mark.parametrize("definition", [PROTO, PROTO.with_name("etcd.proto")], ids=lambda path: path.stem)
def test_the_definition_as_data_is_current(definition):
    """The command converts messages to JSON by the first, and the Rust code is made of both (crates/daemon/tests/proto.rs)."""
    made, kept = ejfat.compiled(definition), definition.with_suffix(".bin")
    if "SKYHAUL_WRITE_PROTO" in os.environ:
        kept.write_bytes(made.SerializeToString(deterministic=True))
    assert type(made).FromString(kept.read_bytes()) == made, "cargo xtask proto"


def test_token_zero_is_the_callers(site):
    balance = site.balance()
    reply, client = reserve(balance, "run")
    messages, _ = ejfat.protocol()
    own = client("ListTokenPermissions", target=messages.TokenSelector(id=0)).token
    assert own.id > 1 and own == client("ListTokenPermissions").token
    client("RevokeToken", target=messages.TokenSelector(id=0))
    assert client.refused("GetLoadBalancer", lbId=reply.lbId) == "UNAUTHENTICATED"


def test_rest_as_udplbd_has_it(site):
    balance = site.balance()

    def call(method, path, body=None, token=balance.operator.token):
        request = urllib.request.Request(f"http://{balance.api}/api/v1{path}", method=method, data=body and json.dumps(body).encode(),
                                         headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"})  # fmt: skip
        try:
            with urllib.request.urlopen(request) as reply:
                text = reply.read()
                return reply.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    status, made = call("POST", "/lb", {"name": "run", "sender_addresses": ["127.0.0.1"], "ip_family": "ipv4"})
    assert status == 200 and {"lb_id", "data_min_port", "sync_udp_port", "fpga_lb_id", "ejfat_uri"} <= set(made)
    assert call("GET", "/lb/1/status")[1]["sender_addresses"] == ["127.0.0.1"]
    assert call("GET", "/overview", token="wrong")[0] == 403
    assert call("GET", "/lb/77")[0] == 404
    assert call("DELETE", "/lb/1") == (204, None)


needs_openssl = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")


def with_tls(site, directory):
    """A balancer with an ordinary certificate of its own, and what to say to reach it."""
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=lab", "-keyout", directory / "key", "-out", directory / "cert"]
    subprocess.run(list(map(str, words)), check=True, capture_output=True, timeout=60)
    balance = site.balance("--tls-cert", directory / "cert", "--tls-key", directory / "key")
    return balance, ("balancer", "--balancer", f"ejfats://{balance.api}/", "--token-file", site.directory / "balance.token")


@needs_openssl
def test_an_ordinary_self_signed_certificate(skyhaul, site, tmp_path):
    _, at = with_tls(site, tmp_path)
    assert b"protocol" in skyhaul.run(*at, "--certificate", tmp_path / "cert", "version")
    done = subprocess.run([BINARY, *map(str, at), "version"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "not signed by a trusted authority" in done.stderr and "OtherError" not in done.stderr, done.stderr


@needs_openssl
def test_handshakes_and_heads_that_never_end_lock_nobody_out_of_tls(skyhaul, site, tmp_path):
    balance, at = with_tls(site, tmp_path)
    host, port = balance.api.rsplit(":", 1)
    strange = ssl.create_default_context()
    strange.check_hostname, strange.verify_mode = False, ssl.CERT_NONE
    with contextlib.ExitStack() as held:
        for number in range(400):
            one = held.enter_context(socket.create_connection((host, int(port)), timeout=20))
            if number % 2:
                # The head of a record that says more than comes.
                one.sendall(b"\x16\x03\x01\x02\x00\x01")
            else:
                held.enter_context(strange.wrap_socket(one)).sendall(b"POST /lb HTTP/1.1\r\nHost: x\r\nAuthor")
        assert b"protocol" in skyhaul.run(*at, "--certificate", tmp_path / "cert", "version", timeout=20)
