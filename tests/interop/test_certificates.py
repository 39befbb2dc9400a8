"""A user with a certificate and no token copies between two stations with gfal2, which asks both for a macaroon and gets tokens."""

import json
import random
import subprocess

import pytest
from test_rucio import certificate
from test_webdav import Site, program, python_with_gfal2

#: FTS turns the fallback off, too.
COPY = """
import gfal2, sys
context = gfal2.creat_context()
context.set_opt_boolean("HTTP PLUGIN", "INSECURE", True)
context.set_opt_boolean("HTTP PLUGIN", "ENABLE_FALLBACK_TPC_COPY", False)
parameters = context.transfer_parameters()
parameters.overwrite, parameters.timeout = True, 60
context.filecopy(parameters, *sys.argv[1:])
"""


@pytest.mark.parametrize("signs", [True, False])
def test_gfal2_copies_between_stations_with_a_certificate_alone(skyhaul, tmp_path, signs):
    del skyhaul  # it is there
    program("openssl", "openssl")
    python = python_with_gfal2()
    ca = certificate(tmp_path, "ca", "/O=Grid/CN=CA")
    host = certificate(tmp_path, "host", "/CN=127.0.0.1", "subjectAltName=IP:127.0.0.1", by=ca)
    ann = certificate(tmp_path, "ann", "/O=Grid/CN=Ann", "extendedKeyUsage=clientAuth", by=ca)
    sites = []
    try:
        for name in ("source", "destination"):
            own = tmp_path / name
            own.mkdir()
            scopes = '["storage.read:/exp/a", "storage.modify:/exp/a"]'
            tokens = f'own_tokens = {{issuer = "https://{name}.example", key = "{own}/key"}}' if signs else ""
            site = Site(own, f"""certificate = "{host}"
key = "{host}"
tls = {{client_authorities = "{ca}", client = [{{subject = "/O=Grid/CN=Ann", scopes = {scopes}}}]}}
log = {{file = "{own}/access.jsonl"}}
copy = {{allow = ["127.0.0.1"], authorities = "{ca}"}}
{tokens}""")
            sites.append(site)
            (site.root / "a").mkdir()
        whole = random.Random(34).randbytes(3_000_017)
        (sites[0].root / "a/f").write_bytes(whole)
        urls = [f"{site.url.replace('https', 'davs')}/a/{name}?copy_mode=pull" for site, name in zip(sites, "fg", strict=True)]
        environment = {"X509_USER_CERT": str(ann), "X509_USER_KEY": str(ann), "X509_USER_PROXY": str(ann)}
        done = subprocess.run([python, "-c", COPY, *urls], env=environment, capture_output=True, text=True, timeout=120, check=False)
    finally:
        for site in sites:
            site.end()
    requests = [json.loads(line) for line in (tmp_path / "destination/access.jsonl").read_text().splitlines()]
    copies = [request for request in requests if request["method"] == "COPY"]
    asked = {request["status"] for request in requests if request["method"] == "POST"}
    target = sites[1].root / "a/g"
    if signs:
        assert done.returncode == 0 and target.read_bytes() == whole, done.stderr
        assert asked == {200} and [copy["copy"]["result"] for copy in copies] == ["done"], requests
        assert copies[0]["issuer"] == "https://destination.example" and "CN=Ann" in copies[0]["subject"].replace(" ", ""), requests
    else:
        # It has nothing to give to the station that copies.
        assert done.returncode != 0 and not target.exists() and asked <= {405}, (done.stderr, requests)
