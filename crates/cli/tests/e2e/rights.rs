//! What bearer tokens of issuers allow: each token with each request, and the code that must come.

pub(crate) mod signer;

use self::signer::{Signer, message, soon};
use crate::site::{Site, run, wait_for};
use crate::third_party::peer::{Act, Peer, object};
use crate::webdav::{Files, Reply};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const ISSUER: &str = "https://iam.example/";
const SCITOKENS: &str = "https://scitokens.example/exp";
const HERE: &str = "https://mh.example:8443";

/// A station that trusts two issuers below `/exp`, and has a token of its own.
struct Guarded {
    files: Files,
    wlcg: Signer,
    scitokens: Signer,
    own: String,
}

fn guarded() -> Guarded {
    let site = Site::new(1);
    let at = site.disks[0].parent().unwrap().to_owned();
    std::fs::create_dir(at.join("export")).unwrap();
    let (wlcg, scitokens) = (Signer::new(ISSUER), Signer::new(SCITOKENS));
    let file = |name: &str, signer: &Signer| {
        std::fs::write(at.join(name), signer.keys().to_string()).unwrap();
        at.join(name).display().to_string()
    };
    let issuer = |signer: &Signer, keys: String| {
        let url = &signer.url;
        format!(
            "[[http.issuer]]\nurl = '{url}'\naudiences = ['{HERE}', 'other']\nbase_path = '/exp'\nkeys = '{keys}'\n"
        )
    };
    let more = format!(
        "token_file = '{}'\n[[http.root]]\nname = 'export'\ndirectory = '{}'\nwrite = true\n{}{}",
        at.join("token").display(),
        at.join("export").display(),
        issuer(&wlcg, file("wlcg.json", &wlcg)),
        issuer(&scitokens, file("scitokens.json", &scitokens)),
    );
    let files = Files::of(site, &more);
    let own = std::fs::read_to_string(at.join("token")).unwrap().trim().to_owned();
    for directory in ["a", "ab", "b"] {
        std::fs::create_dir(files.root.join(directory)).unwrap();
    }
    std::fs::write(at.join("export/f"), "far").unwrap();
    Guarded { files, wlcg, scitokens, own }
}

impl Guarded {
    /// Puts all files where they are before a request.
    fn reset(&self) {
        let at = |name: &str| self.files.root.join(name);
        for name in ["a/f", "a/g", "a/é", "ab/f", "b/f"] {
            std::fs::write(at(name), name).unwrap();
        }
        for name in ["a/new", "b/new", "ab/new"] {
            let _ = std::fs::remove_file(at(name));
        }
        let _ = std::fs::remove_dir(at("a/dir"));
    }

    fn seen(&self) -> Vec<(PathBuf, Option<Vec<u8>>)> {
        let mut all = Vec::new();
        for directory in ["a", "ab", "b"] {
            for entry in std::fs::read_dir(self.files.root.join(directory)).unwrap() {
                let path = entry.unwrap().path();
                all.push((path.clone(), std::fs::read(path).ok()));
            }
        }
        all.sort();
        all
    }

    /// A request with a token, if that is not empty. A refusal changes nothing, and shows nothing of the token.
    #[track_caller]
    fn ask(&self, token: &str, request: &str) -> Reply {
        self.reset();
        let before = self.seen();
        let (line, to) = request.split_once(" > ").map_or((request, None), |(line, to)| (line, Some(to)));
        let (line, depth) = match line.strip_prefix("LIST") {
            Some(rest) => (format!("PROPFIND{rest}"), "1"),
            None => (line.to_owned(), "0"),
        };
        let mut headers = vec![format!("Authorization: Bearer {token}")];
        headers.truncate(usize::from(!token.is_empty()));
        headers.extend(line.starts_with("PROPFIND").then(|| format!("Depth: {depth}")));
        headers.extend(to.map(|to| format!("Destination: {to}")));
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        let body: &[u8] = if line.starts_with("PUT") { b"put" } else { b"" };
        let reply = self.files.ask(&line, &headers, body);
        if reply.status >= 400 {
            assert_eq!(before, self.seen(), "{request}: {}", reply.status);
            assert!(
                token.is_empty() || !(reply.head.contains(token) || reply.text().contains(token)),
                "{request}"
            );
        }
        reply
    }
}

/// Each request, by the column in which its codes are.
const REQUESTS: [&str; 27] = [
    "GET /exp/a/f",
    "HEAD /exp/a/f",
    "PROPFIND /exp/a/f",
    "LIST /exp/a/f",
    "LIST /exp/a/",
    "GET /exp/a/",
    "PUT /exp/a/new",
    "PUT /exp/a/f",
    "MKCOL /exp/a/dir",
    "DELETE /exp/a/f",
    "MOVE /exp/a/f > /exp/a/new",
    "MOVE /exp/a/f > /exp/a/g",
    "COPY /exp/a/f > /exp/a/new",
    "COPY /exp/a/f > /exp/a/g",
    // A name that begins like the directory, and others.
    "GET /exp/ab/f",
    "PUT /exp/ab/new",
    "MOVE /exp/a/f > /exp/ab/new",
    "MOVE /exp/b/f > /exp/a/new",
    "GET /export/f",
    "GET /recordings/",
    // Above: whether it is there, and nothing else.
    "HEAD /exp",
    "GET /exp",
    // Paths that lead elsewhere.
    "GET /exp/a/../b/f",
    "GET /exp/a/%2e%2e/b/f",
    "GET /exp/a%2ff",
    // The same name, as its bytes.
    "GET /exp/a/%C3%A9",
    "GET /exp/%61/f",
];

/// Scopes, and the codes of all requests with them.
const CODES: [(&str, [u16; 27]); 12] = [
    //                    GET  HEAD PROP LIST LISD GETD PUTN PUTF MKCO DEL  MVN  MVG  CPN  CPG  ab   ab   >ab  b>   ext  rec  HEAD GET  ..   %2e  %2f  é    %61
    (
        "own",
        [
            200, 200, 207, 207, 207, 200, 201, 200, 201, 204, 201, 201, 201, 201, 200, 201, 201, 201, 200,
            200, 200, 200, 400, 400, 400, 200, 200,
        ],
    ),
    (
        "storage.read:/a",
        [
            200, 200, 207, 207, 207, 200, 403, 403, 403, 403, 403, 403, 403, 403, 403, 403, 403, 403, 403,
            403, 200, 403, 400, 400, 400, 200, 200,
        ],
    ),
    (
        "storage.stage:/a",
        [
            200, 200, 207, 207, 207, 200, 403, 403, 403, 403, 403, 403, 403, 403, 403, 403, 403, 403, 403,
            403, 200, 403, 400, 400, 400, 200, 200,
        ],
    ),
    (
        "storage.create:/a",
        [
            403, 200, 207, 207, 403, 403, 201, 403, 201, 403, 201, 403, 403, 403, 403, 403, 403, 403, 403,
            403, 200, 403, 400, 400, 400, 403, 403,
        ],
    ),
    (
        "storage.modify:/a",
        [
            403, 200, 207, 207, 403, 403, 201, 200, 201, 204, 201, 201, 403, 403, 403, 403, 403, 403, 403,
            403, 200, 403, 400, 400, 400, 403, 403,
        ],
    ),
    (
        "storage.read:/a storage.create:/a",
        [
            200, 200, 207, 207, 207, 200, 201, 403, 201, 403, 201, 403, 201, 403, 403, 403, 403, 403, 403,
            403, 200, 403, 400, 400, 400, 200, 200,
        ],
    ),
    (
        "storage.read:/a/",
        [
            200, 200, 207, 207, 207, 200, 403, 403, 403, 403, 403, 403, 403, 403, 403, 403, 403, 403, 403,
            403, 200, 403, 400, 400, 400, 200, 200,
        ],
    ),
    (
        "storage.read:/ storage.modify:/",
        [
            200, 200, 207, 207, 207, 200, 201, 200, 201, 204, 201, 201, 201, 201, 200, 201, 201, 201, 403,
            403, 200, 200, 400, 400, 400, 200, 200,
        ],
    ),
    (
        "storage.modify:/b storage.create:/a",
        [
            403, 200, 207, 207, 403, 403, 201, 403, 201, 403, 201, 403, 403, 403, 403, 403, 403, 201, 403,
            403, 200, 403, 400, 400, 400, 403, 403,
        ],
    ),
    (
        "compute.read storage.poll:/a read:/a write:/a",
        [
            403, 403, 403, 403, 403, 403, 403, 403, 403, 403, 403, 403, 403, 403, 403, 403, 403, 403, 403,
            403, 403, 403, 400, 400, 400, 403, 403,
        ],
    ),
    (
        "scitoken read:/a",
        [
            200, 200, 207, 207, 207, 200, 403, 403, 403, 403, 403, 403, 403, 403, 403, 403, 403, 403, 403,
            403, 200, 403, 400, 400, 400, 200, 200,
        ],
    ),
    (
        "scitoken write:/a",
        [
            403, 200, 207, 207, 403, 403, 201, 200, 201, 204, 201, 201, 403, 403, 403, 403, 403, 403, 403,
            403, 200, 403, 400, 400, 400, 403, 403,
        ],
    ),
];

#[test]
fn each_scope_allows_what_the_table_says() {
    let all = guarded();
    for (scope, codes) in CODES {
        let token = match scope.strip_prefix("scitoken ") {
            _ if scope == "own" => all.own.clone(),
            None => all.wlcg.sign(&all.wlcg.claims(scope)),
            Some(scope) => {
                let (iat, exp) = (soon(0), soon(600));
                all.scitokens
                    .sign_rsa(&json!({"iss": SCITOKENS, "sub": "o", "aud": ["ANY"], "ver": "scitoken:2.0",
                    "iat": iat, "exp": exp, "scope": scope}))
            }
        };
        for (request, code) in REQUESTS.iter().zip(codes) {
            let reply = all.ask(&token, request);
            assert_eq!(reply.status, code, "{scope}: {request}\n{}\n{}", reply.head, reply.text());
            let says_scope =
                reply.header("Www-Authenticate").is_some_and(|text| text.contains("insufficient_scope"));
            assert_eq!(says_scope, code == 403, "{scope}: {request}\n{}", reply.head);
        }
    }
    let said = all.files.serving.job.stderr();
    assert!(said.contains(&format!("tokens of {ISSUER} hold from /exp")), "{said}");
    assert!(said.contains(&format!("of observer ({ISSUER}): Permission denied")), "{said}");
    assert!(!said.contains("eyJ") && !said.contains(&all.own), "{said}");
}

/// Tokens that are refused whatever is asked, and the reason that is given.
fn refused(all: &Guarded) -> Vec<(&'static str, String, &'static str)> {
    let Guarded { wlcg, scitokens, .. } = all;
    let usual = wlcg.claims("storage.read:/ storage.modify:/");
    let valid = wlcg.sign(&usual);
    let (signed, signature) = valid.rsplit_once('.').unwrap();
    let es256 = |kid: &str| json!({"alg": "ES256", "kid": kid});
    let hs256 = json!({"alg": "HS256", "kid": "e"});
    let keys = wlcg.keys().to_string();
    let stranger = Signer::new(ISSUER);
    let foreign = Signer::new("https://iam.example");
    let other_claims = wlcg.claims("storage.modify:/b");
    vec![
        ("none", String::new(), ""),
        ("a word", "letmein-letmein-letmein".into(), "not a signed"),
        ("parts that are empty", "..".into(), "not a signed"),
        ("without its signature", format!("{signed}."), "signature"),
        ("expired", wlcg.changed("exp", json!(soon(-70))), "expired"),
        ("without an end", wlcg.changed("exp", Value::Null), "no time of expiry"),
        ("not yet valid", wlcg.changed("nbf", json!(soon(300))), "not valid yet"),
        ("issued later", wlcg.changed("iat", json!(soon(300))), "not valid yet"),
        ("another audience", wlcg.changed("aud", json!("https://other.example")), "another audience"),
        (
            "an audience that begins like ours",
            wlcg.changed("aud", json!("mh.example.org")),
            "another audience",
        ),
        ("our host at another port", wlcg.changed("aud", json!("https://mh.example:1")), "another audience"),
        ("audiences that are all others", wlcg.changed("aud", json!(["a", "b"])), "another audience"),
        ("any of another profile", wlcg.changed("aud", json!("ANY")), "another audience"),
        ("no audience", wlcg.changed("aud", Value::Null), "no audience"),
        ("another issuer", foreign.sign(&foreign.claims("storage.read:/")), "issuer is not trusted"),
        ("no issuer", wlcg.changed("iss", Value::Null), "issuer is not trusted"),
        ("of an issuer, signed by another", scitokens.sign(&usual), "signature"),
        ("of an issuer, signed by a stranger", stranger.sign(&usual), "signature"),
        ("alg none", message(&json!({"alg": "none"}), &usual) + ".", "RS256 or ES256"),
        (
            "alg none with a signature",
            wlcg.sign_as(&json!({"alg": "none", "kid": "e"}), &usual),
            "RS256 or ES256",
        ),
        ("alg NONE", message(&json!({"alg": "NONE", "kid": "e"}), &usual) + ".", "RS256 or ES256"),
        ("HS256 with the public point", wlcg.confused(&hs256, wlcg.point(), &usual), "RS256 or ES256"),
        ("HS256 with the public keys", wlcg.confused(&hs256, keys.as_bytes(), &usual), "RS256 or ES256"),
        ("an HMAC for ES256", wlcg.confused(&es256("e"), wlcg.point(), &usual), "signature"),
        ("RS256 of the other key", wlcg.sign_as(&json!({"alg": "RS256", "kid": "e"}), &usual), "signature"),
        ("a key of another type", wlcg.sign_as(&es256("r"), &usual), "signature"),
        ("an unknown key", wlcg.sign_as(&es256("x"), &usual), "no such key"),
        ("other claims", format!("{}.{signature}", message(&es256("e"), &other_claims)), "signature"),
        (
            "another head",
            format!("{}.{signature}", message(&json!({"kid": "e", "alg": "ES256"}), &usual)),
            "signature",
        ),
        (
            "what must be understood",
            wlcg.sign_as(&json!({"alg": "ES256", "kid": "e", "crit": ["x"]}), &usual),
            "not a signed",
        ),
        ("no version", wlcg.changed("wlcg.ver", Value::Null), "wlcg.ver"),
        ("another version", wlcg.changed("wlcg.ver", json!("2.0")), "wlcg.ver"),
        ("nobody", wlcg.changed("sub", Value::Null), "no subject"),
        (
            "a scope without a path",
            wlcg.changed("scope", json!("storage.read storage.modify:/")),
            "no valid path",
        ),
        ("a scope with dots", wlcg.changed("scope", json!("storage.read:/a/../..")), "no valid path"),
        ("a scope with hidden dots", wlcg.changed("scope", json!("storage.read:/a/%2e%2e")), "no valid path"),
    ]
}

#[test]
fn tokens_that_do_not_hold_are_refused_for_everything() {
    let all = guarded();
    for (what, token, why) in refused(&all) {
        for request in
            ["GET /exp/a/f", "PUT /exp/a/new", "DELETE /exp/a/f", "OPTIONS /exp/", "GET /exp/a/../b/f"]
        {
            let reply = all.ask(&token, request);
            assert_eq!(reply.status, 401, "{what}: {request}\n{}\n{}", reply.head, reply.text());
            let challenge = reply.header("Www-Authenticate").unwrap_or_default();
            let is_right = match token.is_empty() {
                true => challenge == "Bearer",
                false => challenge.starts_with("Bearer error=\"invalid_token\"") && challenge.contains(why),
            };
            assert!(is_right, "{what}: {challenge}");
        }
    }
    let said = all.files.serving.job.stderr();
    assert!(said.contains("refused GET /exp/a/f from 127.0.0.1: the token: it is not a signed"), "{said}");
    assert!(!said.contains("eyJ") && !said.contains("letmein"), "{said}");
}

#[test]
fn tokens_that_hold_may_be_written_in_several_ways() {
    let all = guarded();
    let wlcg = &all.wlcg;
    let usual = wlcg.claims("storage.read:/");
    let without_key = wlcg.sign_as(&json!({"alg": "ES256"}), &usual);
    for (what, token) in [
        ("by RSA", wlcg.sign_rsa(&usual)),
        ("without the name of the key", without_key),
        ("for this host", wlcg.changed("aud", json!("mh.example"))),
        ("for this server", wlcg.changed("aud", json!(HERE))),
        ("for several", wlcg.changed("aud", json!(["https://x", "other"]))),
        ("as Rucio asks for several", wlcg.changed("aud", json!("x.example mh.example"))),
        ("just expired: clocks differ", wlcg.changed("exp", json!(soon(-20)))),
        ("from a clock that is ahead", wlcg.changed("nbf", json!(soon(30)))),
        ("with a fraction of a second", wlcg.changed("exp", json!(soon(60) as f64 + 0.5))),
        ("of a later version", wlcg.changed("wlcg.ver", json!("1.3"))),
        ("with groups", wlcg.changed("wlcg.groups", json!(["/x"]))),
    ] {
        assert_eq!(all.ask(&token, "GET /exp/a/f").expect(200).text(), "a/f", "{what}");
    }
    // A browser of this host has no right of its own here.
    let reply = all.ask("", "GET /exp/a/f").expect(401);
    assert!(reply.text().contains("the token is missing or wrong"), "{}", reply.text());
}

/// What an issuer says of itself; the first name of the path decides how it lies.
fn issuer_says(head: &str, keys: &str) -> Act {
    let path = head.split(' ').nth(1).unwrap_or_default();
    let host = head.lines().find_map(|line| line.strip_prefix("Host: ")).unwrap_or_default();
    let name = path.split('/').nth(1).unwrap_or_default();
    let ok = |body: &str| {
        Act::Say(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into())
    };
    let of = |issuer: &str, jwks: &str| ok(&json!({"issuer": issuer, "jwks_uri": jwks}).to_string());
    let own = format!("http://{host}/{name}");
    if path.ends_with("/jwks") {
        return match name {
            "huge" => ok(&format!("{{\"keys\":[{}]}}", " ".repeat(300 << 10))),
            "empty" => ok("{\"keys\":[]}"),
            _ => ok(keys),
        };
    }
    match (name, path.ends_with("/.well-known/openid-configuration")) {
        ("second", true) | ("gone", _) => {
            Act::End(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".into())
        }
        (".well-known", _) if path.ends_with("/second") => {
            of(&format!("http://{host}/second"), &format!("http://{host}/second/jwks"))
        }
        (".well-known", _) => Act::End(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".into()),
        ("other", _) => of("http://127.0.0.1/other", &format!("{own}/jwks")),
        ("plain", _) => of(&own, "http://192.0.2.1/jwks"),
        ("inside", _) => of(&own, "https://169.254.169.254/jwks"),
        ("away", _) => {
            let to = format!("Location: http://{host}/good/.well-known/openid-configuration");
            Act::End(format!("HTTP/1.1 302 Found\r\n{to}\r\nContent-Length: 0\r\n\r\n").into())
        }
        _ => of(&own, &format!("{own}/jwks")),
    }
}

#[test]
fn keys_are_asked_from_the_issuer_kept_and_outlive_it() {
    let signer = std::sync::Arc::new(Signer::new(""));
    let keys = signer.keys().to_string();
    let peer = Peer::start(move |head| issuer_says(head, &keys));
    let site = Site::new(1);
    let at = site.disks[0].parent().unwrap().to_owned();
    let state = at.join("state");
    let url = |name: &str| format!("http://{}/{name}", peer.address);
    let names = ["good", "second", "huge", "empty", "gone", "other", "plain", "inside", "away"];
    let mut more = format!("state = '{}'\n", state.display());
    for name in names {
        more +=
            &format!("[[http.issuer]]\nurl = '{}'\naudiences = ['a']\nallow = ['127.0.0.1']\n", url(name));
    }
    // An address that the operator has not named.
    let own = format!("http://127.0.0.2:{}/good", peer.address.port());
    more += &format!("[[http.issuer]]\nurl = '{own}'\naudiences = ['a']\n");
    let mut files = Files::of(site, &more);
    std::fs::write(files.root.join("f"), "kept").unwrap();
    let token = |issuer: &str, kid: &str| {
        let mut claims = signer.claims("storage.read:/exp");
        claims["iss"] = json!(issuer);
        signer.sign_as(&json!({"alg": "ES256", "kid": kid}), &claims)
    };
    let ask = |files: &Files, token: &str| {
        files.ask("GET /exp/f", &[&format!("Authorization: Bearer {token}")], b"")
    };
    for name in ["good", "second"] {
        assert_eq!(ask(&files, &token(&url(name), "e")).expect(200).text(), "kept", "{name}");
    }
    for (name, why) in [
        ("huge", "jwks is longer than 262144 bytes"),
        ("empty", "no RSA or P-256 key"),
        ("gone", "answered 404"),
        ("other", "is that of another issuer"),
        ("plain", "http://192.0.2.1/jwks is not encrypted"),
        ("inside", "169.254.169.254 is a link-local address, to which no requests for keys are allowed"),
        ("away", "answered 302"),
    ] {
        let reply = ask(&files, &token(&url(name), "e")).expect(503);
        assert!(
            reply.header("Retry-After").is_some()
                && reply.text().contains("keys of its issuer are not known")
        );
        let note = format!("the keys of {} cannot be had: ", url(name));
        wait_for("the reason", || {
            let said = files.serving.job.stderr();
            let line = said.lines().find(|line| line.starts_with(&note))?.to_owned();
            assert!(line.contains(why), "{name}: {line}");
            Some(())
        });
    }
    ask(&files, &token(&own, "e")).expect(503);
    // Tokens with made-up keys do not make the server ask again and again.
    let asked = |name: &str| {
        peer.heads().iter().filter(|head| head.starts_with(&format!("GET /{name}/jwks"))).count()
    };
    for n in 0..50 {
        ask(&files, &token(&url("good"), &format!("k{n}"))).expect(401);
    }
    assert_eq!(asked("good"), 1);
    // Killed, and started again without the issuer: the keys are on the disk.
    wait_for("the keys to be on the disk", || {
        let names = std::fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().path());
        (names.filter(|path| is_json(path)).count() == 2).then_some(())
    });
    let config = files.serving.site.disks[0].parent().unwrap().join("station.toml");
    let text = std::fs::read_to_string(&config).unwrap().replace("allow = ['127.0.0.1']", "allow = []");
    std::fs::write(&config, text).unwrap();
    files.serving.kill_and_restart();
    files.address = crate::webdav::address(&files.serving);
    ask(&files, &token(&url("good"), "e")).expect(200);
    assert_eq!(asked("good"), 1);
    ask(&files, &token(&url("gone"), "e")).expect(503);
}

fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "json")
        && serde_json::from_slice::<Value>(&std::fs::read(path).unwrap_or_default()).is_ok()
}

#[test]
fn copies_are_counted_by_issuer_and_subject() {
    let site = Site::new(1);
    let at = site.disks[0].parent().unwrap().to_owned();
    let signer = Signer::new(ISSUER);
    std::fs::write(at.join("keys"), signer.keys().to_string()).unwrap();
    let keys = at.join("keys").display().to_string();
    let files = Files::of(
        site,
        &format!(
            "[http.copy]\nallow = ['127.0.0.1']\nper_user = 1\n[[http.issuer]]\nurl = '{ISSUER}'\naudiences = ['a']\nkeys = '{keys}'"
        ),
    );
    let holding = Peer::start(|head| match head.starts_with("GET") {
        true => Act::Hold(object(head, "Content-Length: 9000\r\n", b"x")),
        false => Act::Say(object(head, "Content-Length: 9000\r\n", b"")),
    });
    let small = Peer::start(|head| Act::Say(object(head, "Content-Length: 3\r\n", b"new")));
    let token = |subject: &str, id: &str| {
        let mut claims = signer.claims("storage.create:/exp");
        (claims["sub"], claims["jti"]) = (json!(subject), json!(id));
        format!("Authorization: Bearer {}", signer.sign(&claims))
    };
    let pull = |peer: &Peer, name: &str, token: &str| {
        files.ask(&format!("COPY /exp/{name}"), &[&format!("Source: {}", peer.url()), token], b"")
    };
    std::thread::scope(|scope| {
        let (holding, pull, token) = (&holding, &pull, &token);
        let held = scope.spawn(move || pull(holding, "held", &token("ann", "1")));
        wait_for("the copy to run", || (holding.count("GET") == 1).then_some(()));
        // Another token of the same person, another person, and the same name with the station's eyes.
        let refused = pull(&small, "x", &token("ann", "2")).expect(429);
        assert!(refused.text().contains("1 of one user run"), "{}", refused.text());
        pull(&small, "y", &token("bob", "1")).expect(202);
        files.serving.job.signal(rustix::process::Signal::INT);
        held.join().unwrap();
    });
}

#[test]
fn the_station_signs_tokens_that_it_accepts() {
    let site = Site::new(1);
    let at = site.disks[0].parent().unwrap().to_owned();
    let (key, url) = (at.join("token.key"), "https://mh.example:8443");
    let more = format!("[http.own_tokens]\nissuer = '{url}'\nkey = '{}'", key.display());
    let files = Files::of(site, &more);
    std::fs::write(files.root.join("f"), "own").unwrap();
    let config = format!("--config {}", at.join("station.toml").display());
    let create = |more: &str| run(&format!("{config} token create {more}"));
    let made = create("--scope storage.read:/exp --lifetime 1h --subject ann").expect(0);
    let token = made.told().trim().to_owned();
    assert_eq!((token.split('.').count(), made.stderr.as_str()), (3, ""));
    let bearer = format!("Authorization: Bearer {token}");
    assert_eq!(files.ask("GET /exp/f", &[&bearer], b"").expect(200).text(), "own");
    files.ask("PUT /exp/f", &[&bearer], b"x").expect(403);
    files.ask("GET /exp/f", &[], b"").expect(401);
    // What it says, and whether it holds.
    let file = at.join("token");
    let show = |config: &str, token: &str| {
        std::fs::write(&file, token).unwrap();
        run(&format!("{config} token show {}", file.display()))
    };
    let shown = show(&config, &token).expect(0).told();
    for part in [
        "alg: ES256\n",
        "sub: ann\n",
        "scope: storage.read:/exp\n",
        "accepted now: yes\n",
        "iss: https://mh.example:8443\n",
    ] {
        assert!(shown.contains(part), "{shown}");
    }
    let refused = show(&config, &format!("{token}A")).expect(1).told();
    assert!(refused.contains("accepted now: no, "), "{refused}");
    let stranger = Signer::new(url);
    let refused = show(&config, &stranger.sign(&stranger.claims("storage.read:/"))).expect(1).told();
    assert!(refused.contains("accepted now: no, its issuer has no such key"), "{refused}");
    let unknown = show("", &token).expect(1).told();
    assert!(unknown.contains("accepted now: unknown"), "{unknown}");
    let none = show(&config, "no token").expect(2);
    assert!(none.stderr.contains("it is not a signed JSON Web Token"), "{}", none.stderr);
    for (more, why) in [
        ("--scope storage.read", "is not a scope with a path"),
        ("--scope read:/exp", "is not a scope with a path"),
        ("--scope storage.read:/ --lifetime 31d", "a token holds from 1s to 30d"),
    ] {
        let refused = create(more).expect(2);
        assert!(refused.stderr.contains(why) && refused.stdout.is_empty(), "{}", refused.stderr);
    }
    let without = run("token create --scope storage.read:/").expect(2);
    assert!(without.stderr.contains("no section [http.own_tokens]"), "{}", without.stderr);
    assert!(!files.serving.job.stderr().contains("eyJ"));
    // A new key ends all tokens of the old one.
    std::fs::remove_file(&key).unwrap();
    create("--scope storage.read:/").expect(0);
    show(&config, &token).expect(1);
}
