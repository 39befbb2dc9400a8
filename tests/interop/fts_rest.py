"""The REST service of FTS 3 as its authors publish it (fts-rest-flask, Apache-2.0), on SQLite, with what runs beside it at a site: an issuer of
tokens, and a daemon that carries jobs out. Started by `test_fts.py` in an environment of its own, as it needs the versions of 2022:

    python fts_rest.py CHECKOUT DIRECTORY

The REST service is the code of the checkout, unchanged: routes, JobBuilder, model, tokens verified by the keys of the issuer. Stood in for are MySQL
(SQLite has neither `from_unixtime` nor its text of duplicate keys), M2Crypto (certificates are not used here), the exchange of tokens, and the server of transfers, which is C++:
the thread here makes the same requests of storage in the same order (UrlCopyProcess.cpp): HEAD, COPY by the destination, HEAD, checksums compared.
"""

import http.server
import json
import os
import sqlite3
import ssl
import sys
import threading
import time
import types
import urllib.request
from datetime import datetime, timedelta, timezone
from pathlib import Path

CHECKOUT, HERE = Path(sys.argv[1]), Path(sys.argv[2])

CONFIG = """[fts3]
DbType=mysql
DbUserName=
DbPassword=
DbConnectString=
AuthorizedVO=*
AuthorizedAudiences=https://fts.example
OAuth2=True
NonManagedTokens=True
ValidateAccessTokenOffline=True
JWKCacheSeconds=86400
[sqlalchemy]
url=sqlite:///{here}/fts.db
[roles]
Public = vo:transfer
[providers]
iam = {issuer}
iam_ClientId = c
iam_ClientSecret = s
iam_VO = vlbi
[loggers]
keys = root
[handlers]
keys = log
[formatters]
keys = plain
[logger_root]
level = INFO
handlers = log
[handler_log]
class = FileHandler
args = ('{here}/rest.log',)
level = NOTSET
formatter = plain
[formatter_plain]
format = %(asctime)s %(levelname)s [%(module)s] %(message)s
"""


def stand_in():
    """Modules that the service imports and does not use here."""
    for name, of in {"MySQLdb": [], "MySQLdb.connections": ["Connection"], "M2Crypto": ["X509", "RSA", "EVP", "BIO", "ASN1"],
                     "M2Crypto.threading": [], "M2Crypto.ASN1": ["UTC"]}.items():
        module = types.ModuleType(name)
        for one in of:
            setattr(module, one, type(one, (), {}))
        sys.modules[name] = module
    sys.modules["M2Crypto"].threading = sys.modules["M2Crypto.threading"]
    sys.modules["M2Crypto.threading"].init = lambda: None


def certificates():
    """An authority, and a certificate of this host."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    import ipaddress

    now = datetime.now(timezone.utc)

    def make(name, key, issuer, signer, *extensions):
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer or subject).public_key(key.public_key())
        made = made.serial_number(x509.random_serial_number()).not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=30))
        for extension, critical in extensions:
            made = made.add_extension(extension, critical)
        return made.sign(signer, hashes.SHA256())

    own, host = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca = make("CA of the FTS server", own, None, own, (x509.BasicConstraints(True, None), True))
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    signed = make("fts", host, ca.subject, own, (here, False))
    pem = serialization.Encoding.PEM
    (HERE / "ca.pem").write_bytes(ca.public_bytes(pem))
    key = host.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (HERE / "host.pem").write_bytes(signed.public_bytes(pem) + key)


def issuer():
    """An issuer of tokens, with discovery and keys; tokens for the test are in files."""
    import jwt
    from cryptography.hazmat.primitives.asymmetric import ec
    from jwcrypto.jwk import JWK

    key = ec.generate_private_key(ec.SECP256R1())
    jwk = JWK.from_pyca(key.public_key()).export_public(as_dict=True) | {"kid": "k1", "alg": "ES256", "use": "sig"}
    keys = {"keys": [jwk]}
    replies = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = json.dumps(replies.get(self.path, {})).encode()
            self.send_response(200 if self.path in replies else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    url = f"http://127.0.0.1:{server.server_port}/"
    replies["/.well-known/openid-configuration"] = {
        "issuer": url, "jwks_uri": f"{url}jwks", "authorization_endpoint": f"{url}auth", "token_endpoint": f"{url}token",
        "response_types_supported": ["code"], "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["ES256"]}
    replies["/jwks"] = keys
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (HERE / "issuer").write_text(url)
    (HERE / "keys.json").write_text(json.dumps(keys))
    now = int(time.time())

    def token(name, audience, scope, seconds=3600, signer=key):
        claims = {"iss": url, "sub": "astronomer", "aud": audience, "scope": scope, "iat": now, "nbf": now - 60, "exp": now + seconds,
                  "jti": name, "wlcg.ver": "1.0"}
        path = HERE / f"{name}.token"
        path.write_text(jwt.encode(claims, signer, algorithm="ES256", headers={"kid": "k1"}) + "\n")
        path.chmod(0o600)

    token("fts", "https://fts.example", "fts")
    token("source", "https://a.example", "storage.read:/exp")
    token("destination", "https://b.example", "storage.modify:/exp storage.read:/exp offline_access")
    token("expired", "https://fts.example", "fts", seconds=-30)
    token("other", "https://elsewhere.example", "fts")
    token("forged", "https://fts.example", "fts", signer=ec.generate_private_key(ec.SECP256R1()))
    return url


def service(url):
    """The application, with its tables."""
    sys.path.insert(0, str(CHECKOUT / "src/fts3rest"))
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    @event.listens_for(Engine, "connect")
    def functions(connection, _):
        if isinstance(connection, sqlite3.Connection):
            connection.create_function("from_unixtime", 1, lambda seconds: datetime.fromtimestamp(seconds, timezone.utc).isoformat())
            connection.execute("PRAGMA busy_timeout = 20000")

    config = HERE / "fts3restconfig"
    config.write_text(CONFIG.format(here=HERE, issuer=url))
    os.environ["FTS3CONFIG"] = str(config)
    from fts3rest.config import middleware

    # They write into tables of the server of transfers, and exchange tokens for others.
    middleware.Heartbeat = middleware.IAMTokenRefresher = lambda *_: types.SimpleNamespace(start=lambda: None)
    app = middleware.create_app()
    from fts3rest.lib.openidconnect import oidc_manager
    from fts3rest.model import Base
    from fts3rest.model.meta import Session

    engine = Session().get_bind()
    with engine.begin() as connection:
        connection.exec_driver_sql("PRAGMA journal_mode = WAL")
        connection.exec_driver_sql(
            "CREATE TABLE t_token (token_id TEXT PRIMARY KEY ON CONFLICT REPLACE, access_token TEXT, refresh_token TEXT, issuer TEXT, scope TEXT,"
            " audience TEXT, access_token_not_before TEXT, access_token_expiry TEXT, access_token_refresh_after TEXT, retired INTEGER DEFAULT 0)")
    Base.metadata.create_all(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO t_token_provider (name, issuer, client_id, client_secret) VALUES ('iam', ?, 'c', 's')", (url,))
    assert url in oidc_manager.clients, "the issuer is not known"
    return app


class Daemon:
    """Carries jobs out, and writes their states as FTS does."""

    def __init__(self):
        self.database = sqlite3.connect(HERE / "fts.db", isolation_level=None, timeout=20)
        self.database.row_factory = sqlite3.Row

    def set(self, file, **columns):
        # A file that was cancelled meanwhile stays so.
        names = ", ".join(f"{name} = ?" for name in columns)
        self.database.execute(f"UPDATE t_file SET {names} WHERE file_id = ? AND file_state != 'CANCELED'", (*columns.values(), file["file_id"]))

    def settle(self, job):
        states = [row[0] for row in self.database.execute("SELECT file_state FROM t_file WHERE job_id = ?", (job,))]
        if all(state in ("FINISHED", "FAILED") for state in states):
            state = "FINISHED" if "FAILED" not in states else "FAILED" if "FINISHED" not in states else "FINISHEDDIRTY"
            reason = None if state == "FINISHED" else "One or more files failed. Please have a look at the details for more information"
            self.database.execute("UPDATE t_job SET job_state = ?, reason = ?, job_finished = ? WHERE job_id = ? AND job_state != 'CANCELED'",
                                  (state, reason, time.strftime("%Y-%m-%d %H:%M:%S.000000", time.gmtime()), job))

    def token(self, number):
        return self.database.execute("SELECT access_token FROM t_token WHERE token_id = ?", (number,)).fetchone()[0]

    def step(self):
        held = (HERE / "hold").read_text() if (HERE / "hold").exists() else "none"
        if held == "all":
            return
        # Refresh tokens are got from the issuer first.
        self.database.execute("UPDATE t_file SET file_state = file_state_initial WHERE file_state = 'TOKEN_PREP'")
        if held == "files":
            return
        file = self.database.execute("SELECT * FROM t_file WHERE file_state = 'SUBMITTED' ORDER BY priority DESC, file_id LIMIT 1").fetchone()
        if file is None:
            return
        job = self.database.execute("SELECT * FROM t_job WHERE job_id = ?", (file["job_id"],)).fetchone()
        self.database.execute("UPDATE t_job SET job_state = 'ACTIVE' WHERE job_id = ? AND job_state = 'SUBMITTED'", (job["job_id"],))
        now = lambda: time.strftime("%Y-%m-%d %H:%M:%S.000000", time.gmtime())
        self.set(file, file_state="ACTIVE", start_time=now())
        begun = time.monotonic()
        try:
            size = self.transfer(file, job)
            self.set(file, file_state="FINISHED", filesize=size, tx_duration=time.monotonic() - begun, finish_time=now(), dest_surl_uuid=None)
        except Exception as error:  # whatever it is, it is the reason of the file
            self.set(file, file_state="FAILED", reason=str(error)[:2048], finish_time=now(), dest_surl_uuid=None)
        self.settle(job["job_id"])

    @staticmethod
    def ask(method, url, token, **more):
        headers = {"Authorization": f"Bearer {token}"} | {name.replace("_", "-"): value for name, value in more.items()}
        request = urllib.request.Request(url.replace("davs://", "https://").replace("dav://", "http://"), method=method, headers=headers)
        try:
            return urllib.request.urlopen(request, timeout=60)
        except urllib.error.HTTPError as error:
            return error

    def transfer(self, file, job):
        source, destination = file["source_surl"], file["dest_surl"]
        own, other = self.token(file["dst_token_id"]), self.token(file["src_token_id"])
        algorithm = file["checksum"].split(":")[0].lower()

        def has(url, token, side):
            reply = self.ask("HEAD", url, token, Want_Digest=algorithm)
            if reply.status == 404:
                return None
            if reply.status != 200:
                raise RuntimeError(f"{side} [13] HTTP {reply.status} : Permission denied")
            return int(reply.headers["Content-Length"]), (reply.headers["Digest"] or "").split("=", 1)[-1]

        there = has(source, other, "SOURCE")
        if there is None:
            raise RuntimeError("SOURCE [2] HTTP 404 : No such file or directory")
        if has(destination, own, "DESTINATION") and job["overwrite_flag"] != "Y":
            raise RuntimeError("DESTINATION [17] Destination file exists and overwrite is not enabled")
        more = {"Source": source, "Credential": "none", "TransferHeaderAuthorization": f"Bearer {other}",
                "RequireChecksumVerification": "false", "X_No_Delegate": "true", "ClientInfo": f"job-id={job['job_id']};file-id={file['file_id']};retry=0"}
        for part in (job["internal_job_params"] or "").split(","):
            if part.startswith("nostreams:"):
                more["X_Number_Of_Streams"] = part.split(":")[1]
        if file["scitag"]:
            more["SciTag"] = str(file["scitag"])
        reply = self.ask("COPY", destination, own, **more)
        said = reply.read().decode(errors="replace")
        if reply.status not in (201, 202) or "success:" not in said:
            raise RuntimeError(f"TRANSFER [5] {said.strip().splitlines()[-1]}")
        now = has(destination, own, "DESTINATION")
        if now is None or now[0] != there[0]:
            raise RuntimeError("DESTINATION [5] Source and destination file size mismatch")
        if job["checksum_method"] == "b" and (now[1] != there[1] or not now[1]):
            raise RuntimeError("TRANSFER [5] Source and destination checksums do not match")
        given = file["checksum"].partition(":")[2]
        if job["checksum_method"] == "t" and given.lower() != now[1].lower():
            raise RuntimeError("DESTINATION [5] USER_DEFINE and DST checksum are different")
        return now[0]

    def run(self):
        while True:
            self.step()
            time.sleep(0.05)


def main():
    stand_in()
    certificates()
    app = service(issuer())
    threading.Thread(target=lambda: Daemon().run(), daemon=True).start()
    from werkzeug.serving import make_server

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(HERE / "host.pem")
    server = make_server("127.0.0.1", 0, app, threaded=True, ssl_context=context)
    (HERE / "url.new").write_text(f"https://127.0.0.1:{server.server_port}")
    (HERE / "url.new").rename(HERE / "url")
    server.serve_forever()


if __name__ == "__main__":
    main()
