//! How a message gets to a receiver: an attempt, with its time, and what the receiver said.

use super::message::AlarmMessage;
use super::setup::{AlarmReceiver, AlarmRoute};
use crate::remote::authorities::Authorities;
use crate::remote::progress::Progress;
use crate::remote::session::{Destinations, Purpose, RemoteAccess, RemoteSession};
use crate::remote::url::RemoteUrl;
use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use ring::hmac;
use skyhaul::auth::{hex, redacted};
use skyhaul::io::file::read_small_text;
use skyhaul::io::host::errand::run_errand;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// Maximum size of a file with a token or a secret, bytes.
const SECRET_BYTES: usize = 4096;
/// The HMAC of the body with SHA-256, in hexadecimal.
const SIGNATURE: HeaderName = HeaderName::from_static("x-skyhaul-signature");

/// What a receiver said to a message, or why it did not take it.
pub type AlarmTrial = Result<String, String>;

/// A receiver that can be sent to.
pub(super) struct Route {
    timeout: Duration,
    how: How,
}

enum How {
    Command(Vec<String>),
    Mail { to: Vec<String>, sendmail: Vec<String> },
    Webhook(Box<Webhook>),
}

struct Webhook {
    url: RemoteUrl,
    access: Arc<RemoteAccess>,
    token_file: Option<PathBuf>,
    secret_file: Option<PathBuf>,
    runtime: Runtime,
}

impl Route {
    pub(super) fn open(receiver: &AlarmReceiver) -> io::Result<Self> {
        let wrong =
            |why: String| io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {why}", receiver.name));
        receiver.check().map_err(wrong)?;
        let how = match &receiver.route {
            AlarmRoute::Command(words) => How::Command(words.clone()),
            AlarmRoute::Mail { to, sendmail } => How::Mail { to: to.clone(), sendmail: sendmail.clone() },
            AlarmRoute::Webhook { url, token_file, secret_file, authorities } => {
                let authorities = Authorities::InPlaceOfSystem(authorities.as_deref());
                How::Webhook(Box::new(Webhook {
                    url: RemoteUrl::parse(url).map_err(|error| wrong(error.to_string()))?,
                    access: Arc::new(RemoteAccess::new(Destinations::Any, authorities, Purpose::Alarms)?),
                    token_file: token_file.clone(),
                    secret_file: secret_file.clone(),
                    runtime: Builder::new_current_thread().enable_all().build()?,
                }))
            }
        };
        Ok(Self { timeout: receiver.timeout, how })
    }

    /// Sends a message, and waits for the receiver, at most for its time.
    pub(super) fn send(&self, message: &AlarmMessage, host: &str) -> AlarmTrial {
        match &self.how {
            How::Command(words) => {
                let text = format!("{}\n", message.json(host));
                self.run(words, message, host, &text)
            }
            How::Mail { to, sendmail } => self.run(sendmail, message, host, &message.mail(host, to)),
            How::Webhook(webhook) => webhook.runtime.block_on(async {
                match timeout(self.timeout, webhook.post(message, host)).await {
                    Ok(said) => said,
                    Err(_) => Err(format!("no answer within {} s", self.timeout.as_secs_f64())),
                }
            }),
        }
    }

    fn run(&self, words: &[String], message: &AlarmMessage, host: &str, text: &str) -> AlarmTrial {
        let Some((program, arguments)) = words.split_first() else { return Err("no program".into()) };
        let mut command = Command::new(program);
        command.args(arguments).envs(message.variables(host));
        let done = run_errand(command, text.as_bytes(), self.timeout)
            .map_err(|error| format!("{program} cannot be run: {error}"))?;
        let said = last_words(&String::from_utf8_lossy(&done.said));
        let end = if said.is_empty() { String::new() } else { format!(": {said}") };
        match done.status {
            Some(status) if status.success() => Ok(format!("{program} ended with 0{end}")),
            Some(status) => Err(format!("{program}: {status}{end}")),
            None => Err(format!("{program} was killed after {} s{end}", self.timeout.as_secs_f64())),
        }
    }
}

/// The end of a text, on one line.
fn last_words(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let over = line.chars().count().saturating_sub(400);
    redacted(&line.chars().skip(over).collect::<String>(), &[])
}

impl Webhook {
    async fn post(&self, message: &AlarmMessage, host: &str) -> AlarmTrial {
        let body = message.json(host).to_string().into_bytes();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let mut put = |name: HeaderName, text: &str| -> Result<(), String> {
            // The error would repeat nothing of it, and neither does this.
            let mut value =
                HeaderValue::from_str(text).map_err(|_| "the file of the token holds no token")?;
            value.set_sensitive(true);
            headers.insert(name, value);
            Ok(())
        };
        let token = self.token_file.as_deref().map(secret).transpose()?;
        if let Some(token) = &token {
            put(AUTHORIZATION, &format!("Bearer {token}"))?;
        }
        if let Some(file) = &self.secret_file {
            let key = hmac::Key::new(hmac::HMAC_SHA256, secret(file)?.as_bytes());
            put(SIGNATURE, &format!("sha256={}", hex(hmac::sign(&key, &body).as_ref())))?;
        }
        // As headers that are for this server, they are left out of what it repeats.
        let progress = Arc::new(Progress::default());
        let mut session = RemoteSession::new(&self.access, "webhook", (&self.url, &headers), &progress);
        let hidden = |text: &str| redacted(text, &[token.as_deref().unwrap_or_default()]);
        let reply = session.post(&HeaderMap::new(), body).await.map_err(|failure| hidden(failure.text()))?;
        let status = reply.status;
        if status.is_success() {
            return Ok(format!("{} answered {status}", self.url.authority()));
        }
        if status.is_redirection() {
            return Err(format!("{} answered {status}: redirects are not followed", self.url.authority()));
        }
        if token.is_some() {
            // What it says may repeat a part of the token.
            return Err(format!("{} answered {status}", self.url.authority()));
        }
        Err(hidden(session.refusal(reply).await.text()))
    }
}

/// The line of a file with a secret. No error has anything of it.
fn secret(path: &Path) -> Result<String, String> {
    let text = read_small_text(path, SECRET_BYTES).map_err(|error| error.to_string())?;
    let line = text.trim();
    if line.is_empty() {
        return Err(format!("{} is empty", path.display()));
    }
    Ok(line.to_owned())
}
