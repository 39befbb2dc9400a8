//! Copies by an FTS 3 server: the command hands it a job, and the server has the storage at both ends carry it out
//! (`skyhaul copy --via fts=URL`).
//!
//! ```text
//!   GET /whoami ─▶ POST /jobs ─▶ number ─▶ GET /jobs/NUMBER, again after 1 s … 30 s ─▶ FINISHED │ FAILED …       DELETE /jobs/NUMBER
//! ```
//!
//! A job outlives the command that submitted it. The server makes its number from a text that is chosen here, so that a submission whose reply
//! was lost can be sent again: it is either taken once more or known to be there, and never made twice.
//!
//! Limits: [`MAX_JOB_FILES`] files in a job; replies of [`MAX_REPLY_BYTES`], in [`REPLY_TIMEOUT`] each.

mod job;
mod poll;
mod status;

pub use job::{FtsChecksumMode, FtsOptions, MAX_JOB_FILES};
pub use status::{FtsFile, FtsJob, FtsJobId};

use super::{WebAccess, WebClient, begin_error, fetch_error, pause};
use crate::remote::reply::RemoteReply;
use crate::remote::session::RemoteSession;
use crate::remote::url::RemoteUrl;
use axum::http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use axum::http::{HeaderMap, Method};
use job::{FtsPair, StorageTokens};
use poll::{Answer, Poll};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::Value;
use skyhaul::core::hint::Hint;
use skyhaul::io::lock::lock;
use skyhaul::stop::StopFlag;
use skyhaul_transfer::copy::FetchError;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest reply of the server, bytes.
pub const MAX_REPLY_BYTES: usize = 64 << 20;
/// Time for a reply, with its body.
pub const REPLY_TIMEOUT: Duration = Duration::from_secs(60);
/// What a refusal may say, in characters.
const MAX_REFUSAL: usize = 1024;
/// Longest silence of a storage server that lists a directory.
const PATIENCE: Duration = Duration::from_secs(60);
/// What is asked of each file: while the job runs, and at its end.
const SHORT_FIELDS: &str = "file_index,file_state";
const ALL_FIELDS: &str = "file_index,file_state,source_surl,dest_surl,reason,filesize,tx_duration";
/// Shortest text that is taken to be a secret, and not a word.
const SECRET_BYTES: usize = 8;

/// How an FTS server is reached, and what it shows to storage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FtsAccess {
    /// Its URL, such as `https://fts.example:8446`.
    pub server: String,
    /// The token is that for the server.
    pub web: WebAccess,
    /// The bearer token for the sources; `None`: that for the server.
    pub source_token: Option<String>,
    /// The bearer token for the destination; `None`: that for the server.
    pub destination_token: Option<String>,
}

/// What is to be copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FtsOrder {
    /// URLs of files, and of directories, with `/` at their end: those are listed first.
    pub sources: Vec<String>,
    /// The URL of a directory, with `/` at its end, or of a file.
    pub destination: String,
    /// How the files are transferred.
    pub options: FtsOptions,
}

/// A job that is ready to be submitted.
#[derive(Debug)]
pub struct FtsDraft {
    files: Vec<FtsPair>,
    options: FtsOptions,
}

/// How a job that was followed is, when it is followed no more.
#[derive(Clone, Debug)]
pub struct FtsFollowed {
    /// What was last known of it.
    pub job: Option<FtsJob>,
    /// Why it is followed no more, though it has not ended.
    pub stopped: Option<String>,
}

/// A request that was not answered as it should be.
enum Trouble {
    /// The command is to end.
    Over,
    /// The server says no, and will say so again.
    Refused(u16, String),
    /// It says so for now, or did not answer.
    Failed(FetchError),
    /// The reply is something else.
    Unreadable(String),
}

impl From<Trouble> for FetchError {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Over => Self::Over,
            Trouble::Refused(_, text) | Trouble::Unreadable(text) => Self::Final(text),
            Trouble::Failed(error) => error,
        }
    }
}

/// A client of one FTS server.
pub struct FtsClient {
    web: WebClient,
    access: FtsAccess,
    server: RemoteUrl,
    /// Its URL without a `/` at its end.
    base: String,
}

impl FtsClient {
    /// A client for a server.
    ///
    /// # Errors
    /// The URL cannot be used, or a token would be sent in plain text; authorities cannot be read; threads cannot be started.
    pub fn new(access: &FtsAccess) -> io::Result<Self> {
        let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
        let server = RemoteUrl::parse(&access.server)
            .map_err(|why| invalid(format!("the URL of the FTS server cannot be used: {why}")))?;
        if server.query().is_some() {
            return Err(invalid("the URL of the FTS server has a query".to_owned()));
        }
        let web = WebClient::new(&access.web, PATIENCE)?;
        if [&access.web.token, &access.source_token, &access.destination_token]
            .iter()
            .any(|token| token.is_some())
        {
            access.web.check_secret(&server)?;
        }
        let base = server.text().trim_end_matches('/').to_owned();
        Ok(Self { web, access: access.clone(), server, base })
    }

    /// Makes a job of what is to be copied: directories are listed by their servers.
    ///
    /// # Errors
    /// A URL cannot be used; a directory cannot be listed; the files do not make a job.
    pub fn draft(&self, order: &FtsOrder, stop: &StopFlag) -> io::Result<FtsDraft> {
        let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
        let mut files = Vec::new();
        for source in &order.sources {
            let pair = |source: &str, below: Option<&str>| {
                job::pair(source, below, &order.destination).map_err(invalid)
            };
            if !job::is_directory(source) || !job::is_web(source) {
                files.push(pair(source, None)?);
                continue;
            }
            let scheme = source.split("://").next().unwrap_or_default();
            for (url, below) in self.listed(source, stop)? {
                // With the scheme that was given: the server tells storage by it.
                let url = format!("{scheme}{}", &url[url.find("://").unwrap_or(0)..]);
                files.push(pair(&url, Some(&below))?);
            }
        }
        job::check(&files, &order.options).map_err(invalid)?;
        Ok(FtsDraft { files, options: order.options.clone() })
    }

    /// The files below a URL, and where each goes below the destination, as in a URL.
    fn listed(&self, source: &str, stop: &StopFlag) -> io::Result<Vec<(String, String)>> {
        let access = WebAccess { token: self.source_token().cloned(), ..self.access.web.clone() };
        let client = WebClient::new(&access, PATIENCE)?;
        let urls = client.urls(&[source.to_owned()], &Method::GET)?;
        let listing = client.list(&urls, None, &|| stop.is_set()).map_err(begin_error)?;
        let Some(first) = urls.first() else { return Ok(Vec::new()) };
        let below = |path: &Path| {
            let none = first.at(&Default::default(), true);
            let names = none.names().unwrap_or_default();
            let names = path.iter().fold(names, |names, name| names.child(&name.to_string_lossy()));
            first.at(&names, false).target().trim_start_matches('/').to_owned()
        };
        Ok(listing.files.iter().map(|(url, path)| (url.text(), below(path))).collect())
    }

    fn source_token(&self) -> Option<&String> {
        self.access.source_token.as_ref().or(self.access.web.token.as_ref())
    }

    /// The tokens for storage, where they are not all that for the server: an FTS server uses its own then.
    fn storage_tokens(&self) -> Option<StorageTokens> {
        let own = self.access.web.token.as_ref();
        let destination = self.access.destination_token.as_ref().or(own)?;
        let source = self.source_token()?;
        let (source, destination) = (source.clone(), destination.clone());
        (own != Some(&source) || own != Some(&destination)).then_some(StorageTokens { source, destination })
    }

    /// Hands a job to the server, and returns its number. Ctrl-C does not end this: it is short, and the job would be there.
    ///
    /// # Errors
    /// The server does not answer, or takes no such job from this user.
    pub fn submit(&self, draft: &FtsDraft, stop: &StopFlag) -> io::Result<FtsJobId> {
        if stop.is_set() {
            return Err(begin_error(FetchError::Over));
        }
        let known = self.known_number().map_err(begin_error)?;
        let sid = known.as_ref().map(|(sid, _)| sid.as_str());
        let tokens = self.storage_tokens();
        let body = job::document(&draft.files, &draft.options, tokens.as_ref(), sid).to_string();
        let (never, mut tries) = (|| false, 0);
        let submitted = self.web.retried(&never, &mut || {
            tries += 1;
            let done = self.ask(Method::POST, "/jobs", Some(&body), &never);
            match (done, &known) {
                // A second attempt: the first one was taken, and its reply lost.
                (Err(Trouble::Refused(409, _)), Some((_, number))) if tries > 1 && self.has(number) => {
                    Ok(number.clone())
                }
                // Without a number of ours it could become a second job.
                (Err(Trouble::Failed(FetchError::Broken(text))), None) => {
                    let hint = Hint("look for it at the server before you submit it again");
                    Err(FetchError::Final(format!(
                        "{text}; whether the job was submitted is not known{hint}"
                    )))
                }
                (Err(trouble), _) => Err(trouble.into()),
                (Ok(reply), _) => reply["job_id"].as_str().and_then(|id| id.parse().ok()).ok_or_else(|| {
                    FetchError::Final(format!("{} took the job, and did not say its number", self.name()))
                }),
            }
        });
        submitted.map_err(begin_error)
    }

    /// The document of a job, without tokens.
    #[must_use]
    pub fn document(draft: &FtsDraft) -> Value {
        job::document(&draft.files, &draft.options, None, None)
    }

    /// A text from which the server makes the number of a job, and that number; `None`: the server does not say how it does that.
    fn known_number(&self) -> Result<Option<(String, FtsJobId)>, FetchError> {
        let never = || false;
        let user =
            self.web.retried(&never, &mut || match self.ask(Method::GET, "/whoami", None, &never) {
                Err(Trouble::Refused(404 | 405, _)) => Ok(Value::Null),
                other => other.map_err(Into::into),
            })?;
        if user["method"].as_str() == Some("unauthenticated") {
            let text = format!(
                "Permission denied: {} knows no user of this request{}",
                self.name(),
                Hint(self.token_hint())
            );
            return Err(FetchError::Final(text));
        }
        let mut random = [0; 16];
        if SystemRandom::new().fill(&mut random).is_err() {
            return Ok(None);
        }
        let sid: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        // The first organisation of a user is that of the job (`JobBuilder.py`).
        let space = user["vos_id"][0].as_str().and_then(|text| text.parse::<FtsJobId>().ok());
        Ok(space.and_then(|space| named_uuid(&space, &sid)).map(|number| (sid, number)))
    }

    /// Whether the server has this job.
    fn has(&self, number: &FtsJobId) -> bool {
        self.ask(Method::GET, &format!("/jobs/{number}"), None, &|| false).is_ok()
    }

    /// How a job is.
    ///
    /// # Errors
    /// The server does not answer, or has no such job for this user.
    pub fn status(&self, number: &FtsJobId, stop: &StopFlag) -> io::Result<FtsJob> {
        let is_over = || stop.is_set();
        let asked =
            self.web.retried(&is_over, &mut || self.job(number, ALL_FIELDS, &is_over).map_err(Into::into));
        asked.map_err(begin_error)
    }

    /// Ends a job, and returns how it is then. A job that had ended stays as it is.
    ///
    /// # Errors
    /// As of [`status`](Self::status).
    pub fn cancel(&self, number: &FtsJobId, stop: &StopFlag) -> io::Result<FtsJob> {
        let is_over = || stop.is_set();
        let at = format!("/jobs/{number}");
        // What it is then is asked for: the reply of some servers has it without its files.
        let asked = self
            .web
            .retried(&is_over, &mut || self.ask(Method::DELETE, &at, None, &is_over).map_err(Into::into));
        asked.map_err(begin_error)?;
        self.status(number, stop)
    }

    /// Follows a job until it has ended. `token` is asked for the token of the server before each request, as it may be renewed meanwhile;
    /// `seen` gets each answer.
    ///
    /// # Errors
    /// The server has no such job for this user.
    pub fn follow(
        &mut self,
        number: &FtsJobId,
        stop: &StopFlag,
        token: &dyn Fn() -> Option<String>,
        seen: &mut dyn FnMut(&FtsJob),
    ) -> io::Result<FtsFollowed> {
        let (begun, is_over, mut poll, mut job) = (Instant::now(), || stop.is_set(), Poll::new(), None);
        loop {
            self.renew(token);
            let mut asked = self.job(number, SHORT_FIELDS, &is_over);
            if asked.as_ref().is_ok_and(FtsJob::has_ended) {
                asked = self.job(number, ALL_FIELDS, &is_over);
            }
            let answer = match asked {
                Ok(now) => {
                    seen(&now);
                    if now.has_ended() {
                        return Ok(FtsFollowed { job: Some(now), stopped: None });
                    }
                    job = Some(now);
                    Answer::Job
                }
                Err(Trouble::Refused(_, text)) => return Err(io::Error::other(text)),
                Err(Trouble::Over | Trouble::Failed(FetchError::Over)) => {
                    return Ok(FtsFollowed { job, stopped: Some("interrupted".to_owned()) });
                }
                Err(Trouble::Unreadable(text)) => Answer::Unreadable(text),
                Err(Trouble::Failed(FetchError::Busy(text, wait))) => Answer::Later(text, wait),
                Err(Trouble::Failed(FetchError::Final(text) | FetchError::Broken(text))) => {
                    Answer::Later(text, None)
                }
            };
            let wait = match poll.next(begun.elapsed(), answer) {
                Ok(wait) => wait,
                Err(why) => return Ok(FtsFollowed { job, stopped: Some(why) }),
            };
            if pause(wait, &is_over).is_err() {
                return Ok(FtsFollowed { job, stopped: Some("interrupted".to_owned()) });
            }
        }
    }

    /// Takes another token for the server, if there is one.
    fn renew(&mut self, token: &dyn Fn() -> Option<String>) {
        let Some(token) = token().filter(|token| self.web.access.token.as_ref() != Some(token)) else {
            return;
        };
        // Sessions that wait have the other one.
        lock(&self.web.idle).clear();
        self.web.access.token = Some(token);
    }

    fn job(&self, number: &FtsJobId, fields: &str, is_over: &dyn Fn() -> bool) -> Result<FtsJob, Trouble> {
        let reply = self.ask(Method::GET, &format!("/jobs/{number}?files={fields}"), None, is_over)?;
        self.read(number, &reply)
    }

    /// The job of a reply, if it is the one that was asked for.
    fn read(&self, number: &FtsJobId, reply: &Value) -> Result<FtsJob, Trouble> {
        let unreadable = |why: &str| {
            Trouble::Unreadable(format!("{} sent something else than the job: {why}", self.name()))
        };
        let job = status::job(reply).map_err(|why| unreadable(&why))?;
        if job.job_id != *number {
            return Err(unreadable("it is another one"));
        }
        Ok(job)
    }

    fn name(&self) -> String {
        format!("the FTS server {}", self.server.authority())
    }

    /// The reply to a request, as JSON.
    fn ask(
        &self,
        method: Method,
        target: &str,
        body: Option<&str>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Value, Trouble> {
        let failed = |why: FetchError| {
            if matches!(why, FetchError::Over) { Trouble::Over } else { Trouble::Failed(why) }
        };
        let url = RemoteUrl::parse(&format!("{}{target}", self.base))
            .map_err(|why| Trouble::Refused(400, format!("{}: {why}", self.name())))?;
        let mut session = self.web.session(&url, "FTS server");
        let asked = self.web.wait(exchange(&mut session, method, body), REPLY_TIMEOUT, is_over);
        let (reply, text) = asked.map_err(failed)?.map_err(|failure| failed(fetch_error(&failure)))?;
        let (status, wait) =
            (reply.status.as_u16(), reply.text(&RETRY_AFTER).and_then(|text| text.trim().parse().ok()));
        let name = format!("{} answered {}", self.name(), reply.status);
        if text.len() > MAX_REPLY_BYTES {
            return Err(Trouble::Unreadable(format!("{name} with more than {} MiB", MAX_REPLY_BYTES >> 20)));
        }
        if status != 200 {
            return Err(self.refusal((status, wait.map(Duration::from_secs)), &name, &text));
        }
        session.keep(reply);
        self.web.put_back(session);
        serde_json::from_slice(&text)
            .map_err(|_| Trouble::Unreadable(format!("{name}, and its text is no JSON")))
    }

    /// Why the server does not do what it was asked.
    fn refusal(&self, (status, wait): (u16, Option<Duration>), name: &str, text: &[u8]) -> Trouble {
        let json: Value = serde_json::from_slice(text).unwrap_or_default();
        let said = json["message"].as_str().or_else(|| json["http_message"].as_str()).map(str::to_owned);
        let said = said.unwrap_or_else(|| {
            String::from_utf8_lossy(&text[..text.len().min(4 * MAX_REFUSAL)]).into_owned()
        });
        let said = self.without_tokens(status::plain(status::paragraph(&said), MAX_REFUSAL));
        let end = if said.is_empty() { String::new() } else { format!(": {said}") };
        let hint = match status {
            401 | 403 => Some(self.token_hint()),
            419 => Some(
                "for users with a certificate, delegate a proxy to the server first (`fts-rest-delegate`)",
            ),
            404 => Some("jobs that ended some days ago are in the archive of the server"),
            409 => Some("such as a destination to which another job copies already"),
            _ => None,
        };
        let hint = hint.map(|hint| Hint(hint).to_string()).unwrap_or_default();
        let words = if matches!(status, 401 | 403) { "Permission denied: " } else { "" };
        let text = format!("{words}{name}{end}{hint}");
        match status {
            408 | 429 | 500 | 502..=504 => Trouble::Failed(FetchError::Busy(text, wait)),
            _ => Trouble::Refused(status, text),
        }
    }

    /// What to do where the server gives no rights.
    fn token_hint(&self) -> &'static str {
        match &self.web.access.token {
            None => "give the file of a bearer token for it with --token-file or --via-token-file",
            Some(_) => {
                "the token must be of an issuer that this server trusts, for it as audience, and not expired"
            }
        }
    }

    /// A text of the server without the tokens that it was given.
    fn without_tokens(&self, text: String) -> String {
        let all = [
            &self.web.access.token,
            &self.access.web.token,
            &self.access.source_token,
            &self.access.destination_token,
        ];
        let secrets = all.into_iter().flatten().filter(|token| token.len() >= SECRET_BYTES);
        secrets.fold(text, |text, secret| text.replace(secret.as_str(), "…"))
    }
}

/// Sends a request, and reads the reply to a bound.
async fn exchange(
    session: &mut RemoteSession,
    method: Method,
    body: Option<&str>,
) -> Result<(RemoteReply, Vec<u8>), crate::remote::failure::Failure> {
    let mut reply = match body {
        Some(body) => {
            let head: HeaderMap =
                [(CONTENT_TYPE, HeaderValue::from_static("application/json"))].into_iter().collect();
            session.post(&head, body.as_bytes().to_vec()).await?
        }
        None => session.ask(method, &HeaderMap::new()).await?,
    };
    let text = reply.beginning(MAX_REPLY_BYTES + 1).await;
    Ok((reply, text))
}

/// The UUID of a name in a space of names, by SHA-1 (RFC 9562, 5.5).
fn named_uuid(space: &FtsJobId, name: &str) -> Option<FtsJobId> {
    let hex: String = space.as_str().chars().filter(|c| *c != '-').collect();
    let bytes = (0..16).map(|at| u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok());
    let mut text = bytes.collect::<Option<Vec<u8>>>()?;
    text.extend(name.as_bytes());
    let mut sum = digest(&SHA1_FOR_LEGACY_USE_ONLY, &text).as_ref().get(..16)?.to_vec();
    sum[6] = sum[6] & 0x0f | 0x50;
    sum[8] = sum[8] & 0x3f | 0x80;
    let hex: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_jobs_are_those_that_the_server_makes() {
        // uuid.uuid5(uuid.NAMESPACE_DNS, "python.org") of Python's documentation.
        let dns: FtsJobId = "6ba7b810-9dad-11d1-80b4-00c04fd430c8".parse().unwrap();
        assert_eq!(named_uuid(&dns, "python.org").unwrap().as_str(), "886313e1-3b8a-5372-9b90-0c9aee199e5d");
    }

    #[test]
    fn a_token_goes_to_a_server_with_tls_or_to_this_host() {
        let access = |server: &str, token: Option<&str>| {
            let server = server.to_owned();
            FtsAccess { server, source_token: token.map(str::to_owned), ..FtsAccess::default() }
        };
        let new = |server, token| {
            FtsClient::new(&access(server, token)).map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(new("https://fts.example:8446", Some("t")), Ok(()));
        assert_eq!(new("http://127.0.0.1:8446/", Some("t")), Ok(()));
        assert_eq!(new("http://fts.example:8446", None), Ok(()));
        for (server, why) in [
            ("http://fts.example:8446", "in plain text"),
            ("ftp://fts.example", "scheme"),
            ("https://fts.example/?a=b", "query"),
            ("fts.example", "no URL"),
        ] {
            assert!(new(server, Some("t")).unwrap_err().contains(why), "{server}");
        }
    }

    #[test]
    fn tokens_for_storage_are_sent_where_they_differ_from_that_of_the_server() {
        let client = |own: Option<&str>, source: Option<&str>, destination: Option<&str>| {
            let [token, source_token, destination_token] =
                [own, source, destination].map(|one| one.map(str::to_owned));
            let web = WebAccess { token, ..WebAccess::default() };
            let server = "https://fts.example:8446".to_owned();
            FtsClient::new(&FtsAccess { server, web, source_token, destination_token })
                .unwrap()
                .storage_tokens()
        };
        let two = |source: &str, destination: &str| {
            Some(StorageTokens { source: source.to_owned(), destination: destination.to_owned() })
        };
        assert_eq!(client(None, None, None), None);
        assert_eq!(client(Some("f"), None, None), None);
        assert_eq!(client(Some("f"), Some("f"), Some("f")), None);
        assert_eq!(client(Some("f"), Some("s"), None), two("s", "f"));
        assert_eq!(client(Some("f"), None, Some("d")), two("f", "d"));
        assert_eq!(client(Some("f"), Some("s"), Some("d")), two("s", "d"));
    }
}
