"""Rucio's server as its authors publish it (PyPI `rucio`, Apache-2.0), on SQLite. Run by `test_rucio.py` in an environment of its own:

    RUCIO_HOME=DIRECTORY python rucio_site.py serve PORT
    RUCIO_HOME=DIRECTORY python rucio_site.py ask FUNCTION JSON

Server, client and daemons are the code of the package, unchanged. `serve` makes the database and answers on loopback; `ask` calls a function of the
client or of the storage protocol, as programs of a site do, and prints what it gave as a line of JSON.
"""

import json
import sys


def serve(port):
    from rucio.db.sqla.util import build_database, create_base_vo, create_root_account
    build_database()
    create_base_vo()
    create_root_account()
    from rucio.web.rest.flaskapi.v1.main import application
    application.run(host="127.0.0.1", port=int(port), threaded=True)


def storage(name, token=None):
    """The protocol of a storage element, connected with a token or a certificate."""
    from rucio.rse import rsemanager
    settings = rsemanager.get_rse_info(name)
    protocol = rsemanager.create_protocol(settings, "read", domain="wan", auth_token=token)
    protocol.connect()
    return protocol


def space(name, token):
    # Rucio 41.5 asks for it without its certificate.
    total, free = storage(name, token).get_space_usage()
    return {"total": int(total), "free": int(free)}


def stat(name, pfn):
    return storage(name).stat(pfn)


def exists(name, pfn):
    return storage(name).exists(pfn)


def replicas(scope, name):
    from rucio.client import Client
    return list(Client().list_replicas([{"scope": scope, "name": name}], all_states=True))


def rules(scope, name):
    from rucio.client import Client
    return [{"id": rule["id"], "state": rule["state"], "error": rule["error"]} for rule in Client().list_did_rules(scope, name)]


def delete_rules(scope, name):
    """So that the file may be removed at once."""
    from rucio.client import Client
    client = Client()
    for rule in client.list_did_rules(scope, name):
        client.delete_replication_rule(rule["id"], purge_replicas=True)
        # The daemon looks at what expired before now.
        client.update_replication_rule(rule["id"], {"lifetime": -10})


def main():
    what, *words = sys.argv[1:]
    if what == "serve":
        return serve(*words)
    functions = {f.__name__: f for f in (space, stat, exists, replicas, rules, delete_rules)}
    print(json.dumps(functions[words[0]](*json.loads(words[1])), default=str))


if __name__ == "__main__":
    main()
