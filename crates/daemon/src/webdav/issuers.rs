//! Issuers whose tokens are accepted, and their keys: from a file, or asked from the issuer, kept on disk, and refreshed beside requests.
//!
//! ```text
//!   ISSUER/.well-known/openid-configuration ─▶ jwks_uri ─▶ keys ─▶ file, memory       each 6 h; a key that is not there: at once, but at most
//!                                                            └─ older than `keep` ─▶ none     once a minute
//! ```
//!
//! The issuer can be away for as long as its keys are kept. It is asked over TLS, except on this host; the address that its name, and that of
//! `jwks_uri`, resolves to is judged as for copies; a redirect is not followed: it could lead to keys of somebody else. A document has at most
//! [`MAX_KEYS_BYTES`], and 10 s to arrive.

use super::kept_keys;
use crate::remote::addresses::AddressBlock;
use crate::remote::authorities::Authorities;
use crate::remote::request_path::RequestPath;
use crate::remote::session::{Destinations, Purpose, RemoteAccess, RemoteSession};
use crate::remote::url::RemoteUrl;
use crate::tokens::{Holder, IssuerRules, MAX_KEYS_BYTES, SignedToken, TokenError, TokenKey, WebKeys};
use axum::http::{HeaderMap, StatusCode};
use serde::Deserialize;
use skyhaul::core::hint::Hint;
use skyhaul::io::file::read_small;
use skyhaul::io::lock::lock;
use skyhaul::io::say;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};

/// Age of keys from which the issuer is asked again.
const REFRESH_AGE: Duration = Duration::from_secs(6 * 3600);
/// Shortest time between two requests to an issuer, whatever tokens come.
const ASK_INTERVAL: Duration = Duration::from_secs(60);
/// How often the ages of keys are looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// Time for a document of an issuer to arrive.
const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(10);

/// An issuer whose tokens are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenIssuer {
    /// Its URL, exactly as its tokens have it.
    pub url: String,
    /// Names of this server in its tokens, such as `https://a.example:8443`, which also stands for `a.example`.
    pub audiences: Vec<String>,
    /// The path at which those of its scopes begin.
    pub base_path: String,
    /// A file with its keys; without one, the issuer is asked.
    pub keys: Option<PathBuf>,
    /// Addresses of the issuer beside public ones.
    pub allow: Vec<AddressBlock>,
    /// A file or directory with the authorities of its certificate; those of the system if there is none.
    pub authorities: Option<PathBuf>,
    /// How long keys are used after the issuer gave them.
    pub keep: Duration,
}

impl TokenIssuer {
    /// Checks what can be checked without asking.
    ///
    /// # Errors
    /// The URL or the path is none, or the URL is not encrypted and leads to another host.
    pub fn check(&self) -> Result<(), String> {
        if self.keys.is_none() {
            let url = RemoteUrl::parse(&self.url).map_err(|why| format!("url: {why}"))?;
            if !is_safe(&url) {
                return Err(format!("url: keys are asked for over TLS{}", Hint("begin it with https://")));
            }
        }
        RequestPath::parse(&self.base_path).map(drop).map_err(|why| format!("base_path: {why}"))
    }
}

/// Tokens that this server signs itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnTokens {
    /// The URL of this server, by which its tokens name it.
    pub issuer: String,
    /// The file with its key, made at first use.
    pub key: PathBuf,
}

/// Whether nobody on the way can change what is asked there: it is encrypted, or does not leave this host.
fn is_safe(url: &RemoteUrl) -> bool {
    url.is_encrypted || url.address().is_some_and(|ip| ip.to_canonical().is_loopback())
}

/// The issuers whose tokens are accepted.
pub(super) struct Issuers(Vec<Arc<Issuer>>);

struct Issuer {
    rules: IssuerRules,
    known: Mutex<KnownKeys>,
    asked: Option<AskedKeys>,
}

#[derive(Default)]
struct KnownKeys {
    keys: Arc<WebKeys>,
    /// When the issuer gave them; those of a file of the configuration have no age.
    fetched: Option<SystemTime>,
    tried: Option<Instant>,
    /// Whether the last request failed, which is said once.
    is_failing: bool,
}

/// Where keys come from that are not in a file of the configuration.
struct AskedKeys {
    access: Arc<RemoteAccess>,
    file: PathBuf,
    keep: Duration,
    /// One request at a time.
    turn: tokio::sync::Mutex<()>,
}

impl Issuers {
    /// Reads the keys that are in files. Those that issuers gave earlier are kept in the directory `state`.
    pub(super) fn open(
        all: &[TokenIssuer],
        own: Option<&OwnTokens>,
        state: Option<&Path>,
    ) -> io::Result<Self> {
        let others = all.iter().map(|one| Issuer::open(one, state));
        others
            .chain(own.map(Issuer::own))
            .map(|issuer| issuer.map(Arc::new))
            .collect::<io::Result<_>>()
            .map(Self)
    }

    /// Judges a token by the keys that are known now.
    pub(super) fn judge_by_known_keys(&self, text: &str) -> Result<Holder, TokenError> {
        let token = SignedToken::parse(text)?;
        let issuer = self.0.iter().find(|one| one.rules.url == token.issuer()).ok_or(TokenError::Issuer)?;
        issuer.judge(&token)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Judges a token, for which its issuer may be asked for new keys.
    pub(super) async fn judge(&self, text: &str) -> Result<Holder, TokenError> {
        let token = SignedToken::parse(text)?;
        let issuer = self.0.iter().find(|one| one.rules.url == token.issuer()).ok_or(TokenError::Issuer)?;
        match issuer.judge(&token) {
            Err(TokenError::UnknownKey | TokenError::NoKeys) if issuer.ask_for_another().await => {
                issuer.judge(&token)
            }
            judged => judged,
        }
    }

    /// Asks issuers again when their keys are old. It does not end.
    pub(super) async fn keep_fresh(self: Arc<Self>) {
        // One that does not answer must not keep the others waiting.
        let mut tasks = JoinSet::new();
        for issuer in self.0.iter().filter(|one| one.asked.is_some()) {
            let issuer = Arc::clone(issuer);
            tasks.spawn(async move {
                loop {
                    if issuer.is_stale() {
                        issuer.ask_for_another().await;
                    }
                    sleep(LOOK_INTERVAL).await;
                }
            });
        }
        std::future::pending::<()>().await;
    }
}

impl Issuer {
    /// This server.
    fn own(of: &OwnTokens) -> io::Result<Self> {
        let keys = TokenKey::read_or_make(&of.key)?.public_keys().to_string();
        let keys = WebKeys::parse(keys.as_bytes()).map_err(io::Error::other)?;
        let known = KnownKeys { keys: Arc::new(keys), ..KnownKeys::default() };
        let rules = IssuerRules::new(&of.issuer, std::slice::from_ref(&of.issuer), RequestPath::default());
        Ok(Self { rules, known: Mutex::new(known), asked: None })
    }

    fn open(of: &TokenIssuer, state: Option<&Path>) -> io::Result<Self> {
        let invalid =
            |why: String| io::Error::new(io::ErrorKind::InvalidInput, format!("issuer {}: {why}", of.url));
        of.check().map_err(invalid)?;
        let base = RequestPath::parse(&of.base_path).unwrap_or_default();
        let rules = IssuerRules::new(&of.url, &of.audiences, base);
        let (mut known, mut asked) = (KnownKeys::default(), None);
        if let Some(path) = &of.keys {
            let keys = WebKeys::parse(&read_small(path, MAX_KEYS_BYTES)?);
            known.keys = Arc::new(keys.map_err(|why| invalid(format!("{}: {why}", path.display())))?);
        } else {
            let state = state.ok_or_else(|| invalid("its keys need a directory to be kept in".to_owned()))?;
            let file = kept_keys::path(state, &of.url);
            if let Some((keys, fetched)) = kept_keys::read(&file, &of.url) {
                (known.keys, known.fetched) = (Arc::new(keys), Some(fetched));
            }
            let access = Arc::new(RemoteAccess::new(
                Destinations::Public(of.allow.clone()),
                Authorities::InPlaceOfSystem(of.authorities.as_deref()),
                Purpose::Keys,
            )?);
            asked = Some(AskedKeys { access, file, keep: of.keep, turn: tokio::sync::Mutex::default() });
        }
        Ok(Self { rules, known: Mutex::new(known), asked })
    }

    fn judge(&self, token: &SignedToken<'_>) -> Result<Holder, TokenError> {
        let now = SystemTime::now();
        let keys = {
            let known = lock(&self.known);
            if self.asked.as_ref().is_some_and(|asked| known.age(now).is_none_or(|age| age > asked.keep)) {
                return Err(TokenError::NoKeys);
            }
            Arc::clone(&known.keys)
        };
        self.rules.judge(token, &keys, now)
    }

    fn is_stale(&self) -> bool {
        self.asked.is_some() && lock(&self.known).age(SystemTime::now()).is_none_or(|age| age >= REFRESH_AGE)
    }

    /// Asks the issuer for its keys, or waits for another request that does; `false` if there are no new ones.
    async fn ask_for_another(&self) -> bool {
        let Some(asked) = &self.asked else { return false };
        let before = Arc::clone(&lock(&self.known).keys);
        let _turn = asked.turn.lock().await;
        {
            let mut known = lock(&self.known);
            if !Arc::ptr_eq(&known.keys, &before) {
                return true;
            }
            if known.tried.is_some_and(|tried| tried.elapsed() < ASK_INTERVAL) {
                return false;
            }
            known.tried = Some(Instant::now());
        }
        match asked.ask(&self.rules.url).await {
            Ok((keys, text)) => {
                let fetched = SystemTime::now();
                let mut known = lock(&self.known);
                (known.keys, known.fetched, known.is_failing) = (Arc::new(keys), Some(fetched), false);
                drop(known);
                let (file, url) = (asked.file.clone(), self.rules.url.clone());
                spawn_blocking(move || {
                    if let Err(error) = kept_keys::write(&file, &url, &text, fetched) {
                        say!("{error}");
                    }
                });
                true
            }
            Err(why) => {
                let mut known = lock(&self.known);
                let was_failing = std::mem::replace(&mut known.is_failing, true);
                let hours = known.age(SystemTime::now()).map(|age| age.as_secs() / 3600);
                drop(known);
                let used = hours.map(|hours| format!("; those of {hours} h ago are used"));
                if !was_failing {
                    say!("the keys of {} cannot be had: {why}{}", self.rules.url, used.unwrap_or_default());
                }
                false
            }
        }
    }
}

impl KnownKeys {
    fn age(&self, now: SystemTime) -> Option<Duration> {
        self.fetched.map(|fetched| now.duration_since(fetched).unwrap_or_default())
    }
}

#[derive(Deserialize)]
struct Metadata {
    issuer: String,
    jwks_uri: String,
}

impl AskedKeys {
    /// The keys of an issuer, and their text.
    async fn ask(&self, issuer: &str) -> Result<(WebKeys, Vec<u8>), String> {
        let (first, second) = metadata_urls(issuer);
        let text = match self.document(&first).await {
            Ok(text) => text,
            Err(why) => {
                let Some(second) = second else { return Err(why) };
                self.document(&second).await.map_err(|_| why)?
            }
        };
        let metadata: Metadata =
            serde_json::from_slice(&text).map_err(|_| format!("{first} has no issuer or no jwks_uri"))?;
        if metadata.issuer != issuer {
            return Err(format!("{first} is that of another issuer"));
        }
        let text = self.document(&metadata.jwks_uri).await?;
        let keys = WebKeys::parse(&text).map_err(|why| format!("jwks_uri: {why}"))?;
        Ok((keys, text))
    }

    async fn document(&self, url: &str) -> Result<Vec<u8>, String> {
        let url = RemoteUrl::parse(url).map_err(|why| format!("the URL of keys cannot be used: {why}"))?;
        if !is_safe(&url) {
            return Err(format!("{url} is not encrypted"));
        }
        let mut session =
            RemoteSession::new(&self.access, "issuer", (&url, &HeaderMap::new()), &Arc::default());
        let document = async {
            let mut reply = session.get().await.map_err(|failure| failure.text().to_owned())?;
            if reply.status != StatusCode::OK {
                return Err(format!("{url} answered {}", reply.status));
            }
            let text = reply.beginning(MAX_KEYS_BYTES + 1).await;
            let is_whole = text.len() <= MAX_KEYS_BYTES;
            if is_whole { Ok(text) } else { Err(format!("{url} is longer than {MAX_KEYS_BYTES} bytes")) }
        };
        timeout(DOCUMENT_TIMEOUT, document)
            .await
            .unwrap_or_else(|_| Err(format!("{url} did not answer in time")))
    }
}

/// Where an issuer describes itself: OpenID Connect Discovery 1.0, 4; and RFC 8414, 3, if its URL has a path.
fn metadata_urls(issuer: &str) -> (String, Option<String>) {
    const NAME: &str = "/.well-known/openid-configuration";
    let issuer = issuer.trim_end_matches('/');
    let begin = issuer.find("://").map_or(0, |at| at + 3);
    let second = issuer[begin..].find('/').map(|at| {
        let (server, path) = issuer.split_at(begin + at);
        format!("{server}{NAME}{path}")
    });
    (format!("{issuer}{NAME}"), second)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issuer(url: &str, base: &str) -> TokenIssuer {
        TokenIssuer {
            url: url.to_owned(),
            audiences: Vec::new(),
            base_path: base.to_owned(),
            keys: None,
            allow: Vec::new(),
            authorities: None,
            keep: Duration::from_secs(1),
        }
    }

    #[test]
    fn an_issuer_is_asked_over_tls_or_on_this_host() {
        for url in ["https://a.example/", "https://a.example/x", "http://127.0.0.1:80", "http://[::1]/"] {
            assert_eq!(issuer(url, "/a").check(), Ok(()), "{url}");
        }
        for url in ["http://a.example", "http://10.0.0.1", "http://localhost", "a.example", "ftp://a.example"]
        {
            assert!(issuer(url, "/").check().is_err_and(|why| why.starts_with("url: ")), "{url}");
        }
        assert!(issuer("https://a", "a/b").check().is_err_and(|why| why.starts_with("base_path: ")));
    }

    #[test]
    fn an_issuer_describes_itself_in_one_of_two_places() {
        let name = "/.well-known/openid-configuration";
        assert_eq!(metadata_urls("https://a.example/"), (format!("https://a.example{name}"), None));
        let (first, second) = metadata_urls("https://a.example/x/y");
        assert_eq!(first, format!("https://a.example/x/y{name}"));
        assert_eq!(second, Some(format!("https://a.example{name}/x/y")));
    }

    #[test]
    fn kept_keys_are_those_of_their_issuer_and_never_from_the_future() {
        let state = tempfile::tempdir().unwrap();
        let jwks = br#"{"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}"#;
        let path = kept_keys::path(state.path(), "https://a");
        let late = SystemTime::now() + Duration::from_secs(1000);
        kept_keys::write(&path, "https://a", jwks, late).unwrap();
        let (keys, fetched) = kept_keys::read(&path, "https://a").unwrap();
        assert_eq!(Ok(keys), WebKeys::parse(jwks));
        assert!(fetched <= SystemTime::now());
        assert!(kept_keys::read(&path, "https://b").is_none());
        std::fs::write(&path, "{").unwrap();
        assert!(kept_keys::read(&path, "https://a").is_none());
        assert_ne!(path, kept_keys::path(state.path(), "https://b"));
    }
}
