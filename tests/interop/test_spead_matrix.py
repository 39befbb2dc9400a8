"""spead2 and Skyhaul, each as sender and as receiver, over every transport and variant of SPEAD: values must arrive.

{Skyhaul, spead2}² × {UDP, UDP over IPv6, multicast, TCP, bytes} × addresses of {40, 48, 56} bits × bug compatibility
{0, 1, 2, 4, 7} × {plain, repeated pointers, packets out of order, heaps without a size}. Skyhaul is here `skyhaul.spead2`;
`skyhaul.spead` ("package") meets spead2 too, on fewer paths. spead2 to itself is a control of the test, in fewer cases.
"""

import functools
import itertools

import pytest
from spead_paths import Peer, has_ipv6, has_multicast, items, make_path, same, transfer

PATHS = ("udp", "udp6", "multicast", "tcp", "bytes")
WIDTHS = (40, 48, 56)
BUGS = (0, 1, 2, 4, 7)
VARIANTS = ("plain", "repeat pointers", "out of order", "unsized")
PAIRS = (*itertools.product(("skyhaul", "spead2"), repeat=2), ("package", "spead2"), ("spead2", "package"))


def cases():
    for pair, path, width, bug, variant in itertools.product(PAIRS, PATHS, WIDTHS, BUGS, VARIANTS):
        fewer = path in ("udp6", "multicast") or bug not in (0, 7)
        if not (pair == ("spead2", "spead2") and fewer or "package" in pair and path in ("udp6", "multicast")):
            name = f"{'_to_'.join(pair)}-{path}-{width}-bugs{bug}-{variant}"
            yield pytest.param(pair, path, (width, bug), variant, id=name)


@functools.cache
def peer(name):
    if name == "package":
        pytest.importorskip("skyhaul.spead", reason="no skyhaul.spead (make python)")
        from spead_native import Package

        return Package()
    package = {"skyhaul": "skyhaul.spead2", "spead2": "spead2"}[name]
    remedy = {"skyhaul": "make python", "spead2": "pip install -r tests/requirements.txt"}[name]
    modules = [pytest.importorskip(f"{package}{part}", reason=f"no {package} ({remedy})") for part in ("", ".recv", ".send")]
    return Peer(*modules)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("pair", "path", "flavour", "variant"), list(cases()))
def test_values_arrive(pair, path, flavour, variant):
    if path == "udp6" and not has_ipv6():
        pytest.skip("no IPv6 on loopback (sysctl net.ipv6.conf.lo.disable_ipv6=0)")
    if path == "multicast" and not has_multicast():
        pytest.skip("no multicast on loopback (ip link set lo multicast on)")
    sender, receiver = map(peer, pair)
    values = items(flavour[0])
    got = transfer(sender, receiver, make_path(path), flavour, variant, values)
    assert len(got) == 2
    for n, heap in enumerate(got):
        assert sorted(heap) == sorted(how["name"] for how, _, _ in values)
        for how, *sent in values:
            assert same(sent[n], heap[how["name"]]), how["name"]
