//! Macaroons: clients of the grid ask for one by default, also those that show a certificate.
//!
//! ```text
//!   POST PATH, application/macaroon-request    {"caveats": ["activity:DOWNLOAD,LIST"], "validity": "PT60M"}
//!     certificate with rights, own tokens ─▶ 200 {"macaroon": a token of this server for PATH, "expires_in": seconds}
//!     otherwise ─▶ 405, with what to use instead
//! ```
//!
//! gfal2 and davix, when they have no token for an `https` server, send `POST` with `application/macaroon-request`; dCache, StoRM and XRootD answer with
//! a macaroon, which the client passes on unread as a bearer token. Here it is a token of [`tokens`](crate::tokens), which the holder of a certificate
//! gives to a server that copies for it: it allows what was asked for, as far as the certificate does, at one path and for a limited time. A quick 405
//! makes others continue without; its text tells their user what to use instead.
//!
//! Limits: caveats are `activity` and `path`, below the path of the request; any other is 400, because a token cannot keep it.

use super::access::Access;
use super::issuers::OwnTokens;
use super::request_body::read_whole;
use crate::remote::failure::{Failure, scope_failure};
use crate::remote::request_path::RequestPath;
use crate::tokens::{Grants, TokenClaims, TokenKey, Use};
use axum::body::Body;
use axum::http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;
use skyhaul::core::hint::Hint;
use std::io;
use std::time::{Duration, SystemTime};
use tokio::time::timeout;

const MACAROON_REQUEST: &str = "application/macaroon-request";
/// Longest body, and how long it may take to arrive.
const MAX_BODY_BYTES: usize = 4 << 10;
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a token holds that asks for no time, and the longest; a certificate that is revoked does not end it, but it ends with the certificate.
const USUAL_LIFETIME: Duration = Duration::from_secs(3600);
const MAX_LIFETIME: Duration = Duration::from_secs(12 * 3600);

/// What a client asks for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    #[serde(default)]
    caveats: Vec<String>,
    validity: Option<String>,
}

/// What the caveats of a request say.
#[derive(Debug, Default, PartialEq, Eq)]
struct Caveats {
    /// All of these, if any are named.
    activities: Option<Vec<String>>,
    /// Below the path of the request.
    path: RequestPath,
}

/// What signs tokens for holders of certificates.
#[derive(Debug)]
pub(super) struct Macaroons {
    issuer: String,
    key: TokenKey,
}

/// Whether a request asks for a macaroon.
pub(super) fn is_asked(method: &Method, headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    method == Method::POST && kind.eq_ignore_ascii_case(MACAROON_REQUEST)
}

/// What those are answered who get none.
pub(super) fn refusal(methods: &str) -> Failure {
    let hint = Hint(
        "use a bearer token (BEARER_TOKEN): of an issuer that this server trusts, or one that its operator makes with `skyhaul token create`",
    );
    Failure::new(405, format_args!("macaroons are not issued here{hint}")).with(ALLOW, methods)
}

impl Macaroons {
    /// With the key of tokens of this server.
    pub(super) fn open(of: &OwnTokens) -> io::Result<Self> {
        Ok(Self { issuer: of.issuer.clone(), key: TokenKey::read_or_make(&of.key)? })
    }

    /// The reply to a holder of a certificate; others get none.
    pub(super) async fn reply(
        &self,
        access: &Access,
        path: &str,
        body: &mut Body,
        methods: &str,
    ) -> Result<Response, Failure> {
        let Access::Certified(subject, grants, until) = access else { return Err(refusal(methods)) };
        let left = until.duration_since(SystemTime::now()).unwrap_or_default();
        let body = timeout(BODY_TIMEOUT, read_whole(body, MAX_BODY_BYTES))
            .await
            .map_err(|_| Failure::new(408, "the body did not arrive in time"))??;
        let path = RequestPath::parse(path).map_err(Failure::bad)?;
        let (token, lifetime) = self.token((subject.as_str(), grants.as_ref(), left), &path, &body)?;
        let reply = json!({"macaroon": token, "expires_in": lifetime.as_secs()}).to_string();
        let head = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
        Ok((StatusCode::OK, head, reply).into_response())
    }

    /// A token for what a body asks for, for no longer than is left of the certificate.
    fn token(
        &self,
        (subject, grants, left): (&str, &Grants, Duration),
        path: &RequestPath,
        body: &[u8],
    ) -> Result<(String, Duration), Failure> {
        let asked: Asked = serde_json::from_slice(body).map_err(|_| {
            Failure::bad("the body is not JSON with `caveats` and `validity`, and nothing else")
        })?;
        let caveats = Caveats::read(&asked.caveats)?;
        let lifetime = match &asked.validity {
            None => USUAL_LIFETIME,
            Some(text) => duration(text).ok_or_else(|| {
                Failure::bad("validity: expected a duration of ISO 8601 in days, hours, minutes and seconds, such as PT60M")
            })?,
        };
        let lifetime = Duration::from_secs(lifetime.min(MAX_LIFETIME).min(left).as_secs());
        if lifetime.is_zero() {
            return Err(Failure::new(403, "Permission denied: the certificate has expired"));
        }
        let path = caveats.path_below(path)?;
        let scopes = scopes(&caveats, grants, &path);
        if scopes.is_empty() {
            return Err(scope_failure("ask for these activities at this path"));
        }
        let claims =
            TokenClaims { issuer: self.issuer.clone(), subject: subject.to_owned(), scopes, lifetime };
        Ok((self.key.sign(&claims).map_err(|error| Failure::of(&error))?, lifetime))
    }
}

impl Caveats {
    /// Several of a kind narrow each other.
    fn read(all: &[String]) -> Result<Self, Failure> {
        let mut caveats = Self::default();
        for one in all {
            let (name, value) = one.split_once(':').unwrap_or((one, ""));
            match name.trim() {
                "activity" => {
                    let named: Vec<String> =
                        value.split(',').map(|name| name.trim().to_ascii_uppercase()).collect();
                    let before = caveats.activities.take();
                    let both = |name: &String| before.as_ref().is_none_or(|before| before.contains(name));
                    caveats.activities = Some(named.into_iter().filter(both).collect());
                }
                "path" => {
                    let below = format!("/{}", value.trim().trim_start_matches('/'));
                    let below = RequestPath::parse(&below).map_err(Failure::bad)?;
                    caveats.path = caveats.path.join(&below);
                }
                _ => {
                    let text =
                        "caveats: expected activity:NAME,… or path:PATH; others cannot be kept by a token";
                    return Err(Failure::bad(text));
                }
            }
        }
        Ok(caveats)
    }

    /// The path that they leave of the path of the request.
    fn path_below(&self, path: &RequestPath) -> Result<RequestPath, Failure> {
        // Together they may be longer than a path is.
        RequestPath::parse(&path.join(&self.path).href(false)).map_err(Failure::bad)
    }

    fn has(&self, activity: &str) -> bool {
        self.activities.as_ref().is_none_or(|all| all.iter().any(|one| one == activity))
    }
}

/// The scopes of activities at a path, as far as all of what is below it is granted. Reading and listing are one scope, and so are putting and
/// making directories: one activity of each is enough.
fn scopes(caveats: &Caveats, grants: &Grants, path: &RequestPath) -> Vec<String> {
    let scope = |name: &str, how: Use| {
        // Where only what is below a directory is granted, the token says so, too.
        let href = path.href(!grants.allow(how, path));
        grants.allow_below(how, path).then(|| format!("{name}:{href}"))
    };
    let reads = caveats.has("DOWNLOAD") || caveats.has("LIST");
    let modifies = caveats.has("DELETE").then(|| scope("storage.modify", Use::Modify)).flatten();
    let creates = caveats.has("UPLOAD") || caveats.has("MANAGE");
    let puts = modifies.or_else(|| creates.then(|| scope("storage.create", Use::Create)).flatten());
    reads.then(|| scope("storage.read", Use::Read)).flatten().into_iter().chain(puts).collect()
}

/// `PnDTnHnMnS`, of whole numbers; at least a second.
fn duration(text: &str) -> Option<Duration> {
    let text = text.trim().strip_prefix('P')?;
    let (days, times) = text.split_once('T').unwrap_or((text, ""));
    let mut seconds = 0u64;
    for (part, units) in [(days, &[('D', 86_400)][..]), (times, &[('H', 3600), ('M', 60), ('S', 1)][..])] {
        let (mut rest, mut units) = (part, units.iter());
        while let Some(at) = rest.find(|letter: char| !letter.is_ascii_digit()) {
            let letter = rest[at..].chars().next()?;
            let (_, unit) = units.by_ref().find(|(name, _)| *name == letter)?;
            seconds = seconds.checked_add(rest[..at].parse::<u64>().ok()?.checked_mul(*unit)?)?;
            rest = &rest[at + letter.len_utf8()..];
        }
        rest.is_empty().then_some(())?;
    }
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

/// Any bytes as a request for a macaroon: its scopes lie within what its client may do.
#[doc(hidden)]
pub fn fuzz_macaroons(input: &[u8]) {
    let Ok(asked) = serde_json::from_slice::<Asked>(input) else { return };
    if let Some(lifetime) = asked.validity.as_deref().and_then(duration) {
        assert!(lifetime >= Duration::from_secs(1), "{lifetime:?}");
    }
    let given = ["storage.read:/a/b", "storage.create:/a", "storage.modify:/a/b/c/"].map(str::to_owned);
    let (Ok(caveats), Ok(grants)) = (Caveats::read(&asked.caveats), Grants::of_scopes(&given)) else {
        return;
    };
    for path in ["/", "/a", "/a/b", "/a/b/c"] {
        let Ok(path) = caveats.path_below(&RequestPath::parse(path).unwrap_or_default()) else { return };
        let scopes = scopes(&caveats, &grants, &path);
        let Ok(new) = Grants::of_scopes(&scopes) else { panic!("{scopes:?}") };
        let child = path.child("x");
        for (how, at) in
            [Use::Read, Use::Create, Use::Modify].into_iter().flat_map(|how| [(how, &path), (how, &child)])
        {
            assert!(!new.allow(how, at) || grants.allow(how, at), "{scopes:?} {how:?} {at:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_for_macaroons_are_answered_so() {
        let of = |method: Method, kind: &str| {
            is_asked(&method, &[(CONTENT_TYPE, kind.parse().unwrap())].into_iter().collect())
        };
        assert!(of(Method::POST, "application/macaroon-request"));
        assert!(of(Method::POST, "Application/Macaroon-Request; charset=utf-8"));
        assert!(!of(Method::PUT, "application/macaroon-request") && !of(Method::POST, "text/plain"));
        assert!(!is_asked(&Method::POST, &HeaderMap::new()));
        let text = refusal("GET").text().to_owned();
        assert!(
            text.starts_with("macaroons are not issued here") && text.contains("skyhaul token create"),
            "{text}"
        );
    }

    #[test]
    fn durations_are_those_of_iso_8601() {
        for (text, seconds) in [
            ("PT60M", Some(3600)),
            ("PT1H30M5S", Some(5405)),
            ("P1DT1S", Some(86_401)),
            ("P2D", Some(172_800)),
            ("PT0S", None),
            ("P", None),
            ("PT", None),
            ("60M", None),
            ("PT5", None),
            ("PT-5M", None),
            ("PTM", None),
            ("P1H", None),
            ("PT5M5H", None),
            ("P1Y", None),
            ("PT99999999999999999999S", None),
            ("PT99999999999999999H", None),
        ] {
            assert_eq!(duration(text), seconds.map(Duration::from_secs), "{text}");
        }
    }

    #[test]
    fn a_token_ends_with_the_certificate_and_an_unknown_word_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let key = TokenKey::read_or_make(&directory.path().join("key")).unwrap();
        let macaroons = Macaroons { issuer: "https://a.example".into(), key };
        let grants = Grants::of_scopes(&["storage.read:/exp".to_owned()]).unwrap();
        let path = RequestPath::parse("/exp/f").unwrap();
        let of = |left: u64, body: &str| {
            let holder = ("/CN=a", &grants, Duration::from_secs(left));
            macaroons.token(holder, &path, body.as_bytes()).map(|(_, lifetime)| lifetime.as_secs())
        };
        assert_eq!(of(1 << 20, "{}").ok(), Some(3600));
        assert_eq!(of(300, r#"{"validity": "PT12H"}"#).ok(), Some(300));
        assert!(of(0, "{}").unwrap_err().text().contains("has expired"));
        for body in [r#"{"caveat": ["activity:DOWNLOAD"]}"#, "[]", ""] {
            assert!(of(300, body).unwrap_err().is_bad(), "{body}");
        }
    }

    #[test]
    fn a_token_allows_what_was_asked_for_and_is_granted() {
        let of = |given: &[&str], asked: &[&str], path: &str| {
            let given: Vec<String> = given.iter().map(|scope| (*scope).to_owned()).collect();
            let asked: Vec<String> = asked.iter().map(|caveat| (*caveat).to_owned()).collect();
            let (grants, caveats) = (Grants::of_scopes(&given).unwrap(), Caveats::read(&asked).ok().unwrap());
            scopes(&caveats, &grants, &RequestPath::parse(path).unwrap().join(&caveats.path)).join(" ")
        };
        let all = ["storage.read:/exp", "storage.modify:/exp/out"];
        // What FTS asks of source and destination.
        assert_eq!(of(&all, &["activity:DOWNLOAD,LIST"], "/exp/f"), "storage.read:/exp/f");
        let destination = "activity:MANAGE,UPLOAD,DELETE,LIST";
        assert_eq!(
            of(&all, &[destination], "/exp/out/f"),
            "storage.read:/exp/out/f storage.modify:/exp/out/f"
        );
        for (given, asked, path, expected) in [
            (&all[..], &["activity:UPLOAD"][..], "/exp/out/f", "storage.create:/exp/out/f"),
            // More than is granted, or elsewhere.
            (&all, &["activity:UPLOAD"], "/exp/f", ""),
            (&all, &["activity:DOWNLOAD"], "/", ""),
            (&all, &["activity:DOWNLOAD"], "/expo", ""),
            (&["storage.create:/exp"], &[destination], "/exp/f", "storage.create:/exp/f"),
            (&all, &[], "/exp/f", "storage.read:/exp/f"),
            (&all, &["activity:READ_METADATA"], "/exp/f", ""),
            // Caveats narrow each other.
            (&all, &["activity:DOWNLOAD,DELETE", "activity:DOWNLOAD"], "/exp/out", "storage.read:/exp/out"),
            (&all, &["activity:DOWNLOAD", "activity:UPLOAD"], "/exp/out", ""),
            (&all, &["activity:LIST", "path:/a", "path:b c"], "/exp", "storage.read:/exp/a/b%20c"),
            // A scope for what is below a directory does not become one for a file of its name.
            (&["storage.read:/exp/d/"], &["activity:DOWNLOAD"], "/exp/d", "storage.read:/exp/d/"),
        ] {
            assert_eq!(of(given, asked, path), expected, "{asked:?} {path}");
        }
        for refused in ["before:2030-01-01T00:00:00Z", "ip:10.0.0.0/8", "path:../x", ""] {
            assert!(Caveats::read(&[refused.to_owned()]).is_err(), "{refused}");
        }
    }
}
