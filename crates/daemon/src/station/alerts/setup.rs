//! To whom alarms are sent.

use super::outbox::AlarmFilter;
use crate::remote::url::RemoteUrl;
use skyhaul::core::hint::Hint;
use std::path::PathBuf;
use std::time::Duration;

/// Maximum number of receivers.
pub const MAX_RECEIVERS: usize = 16;

/// To whom alarms are sent, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlarmSetup {
    /// An alarm that is over for less than this is not over.
    pub hold: Duration,
    /// How long messages are tried after their alarm is over.
    pub retry_for: Duration,
    /// The receivers.
    pub receivers: Vec<AlarmReceiver>,
}

impl Default for AlarmSetup {
    fn default() -> Self {
        Self { hold: Duration::from_secs(10), retry_for: Duration::from_secs(3600), receivers: Vec::new() }
    }
}

/// A receiver of alarms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlarmReceiver {
    /// Its name, in metrics and messages.
    pub name: String,
    /// How it is reached.
    pub route: AlarmRoute,
    /// Time of an attempt.
    pub timeout: Duration,
    /// Only errors are sent.
    pub errors_only: bool,
    /// Names of the alarms that are sent; all if empty.
    pub only: Vec<String>,
}

/// How a receiver is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlarmRoute {
    /// A program with its arguments. It gets the alarm as JSON at its standard input, and as variables.
    Command(Vec<String>),
    /// Addresses, and the program that takes the message as `sendmail -t` does.
    Mail {
        /// Addresses.
        to: Vec<String>,
        /// The program with its arguments.
        sendmail: Vec<String>,
    },
    /// POST of a JSON object.
    Webhook {
        /// Its address.
        url: String,
        /// File with a bearer token, read for each attempt.
        token_file: Option<PathBuf>,
        /// File with the key of the signature, read for each attempt.
        secret_file: Option<PathBuf>,
        /// Authorities that verify its certificate, in place of the system's.
        authorities: Option<PathBuf>,
    },
}

impl AlarmRoute {
    /// Its key in the configuration.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Command(_) => "command",
            Self::Mail { .. } => "mail",
            Self::Webhook { .. } => "webhook",
        }
    }
}

impl AlarmReceiver {
    pub(super) fn filter(&self) -> AlarmFilter {
        AlarmFilter { errors_only: self.errors_only, kinds: self.only.iter().cloned().collect() }
    }

    /// Whether it can be used as it is written.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), String> {
        let is_program = |words: &[String]| words.first().is_some_and(|word| !word.is_empty());
        match &self.route {
            AlarmRoute::Command(words) if !is_program(words) => Err(format!(
                "command has no program{}",
                Hint("such as command = [\"/usr/local/bin/page\", \"--all\"]")
            )),
            AlarmRoute::Command(_) => Ok(()),
            AlarmRoute::Mail { to, sendmail } => {
                if !is_program(sendmail) {
                    return Err(format!(
                        "sendmail has no program{}",
                        Hint("such as [\"/usr/sbin/sendmail\", \"-t\", \"-i\"]")
                    ));
                }
                match to.iter().find(|one| !is_address(one)) {
                    Some(bad) => Err(format!(
                        "`{}` is no address{}",
                        bad.escape_debug(),
                        Hint("such as operator@obs.example")
                    )),
                    None if to.is_empty() => Err("mail has no address".into()),
                    None => Ok(()),
                }
            }
            AlarmRoute::Webhook { url, token_file, .. } => {
                let url = RemoteUrl::parse(url).map_err(|error| format!("webhook: {error}"))?;
                let is_here = url.host == "localhost" || url.address().is_some_and(|ip| ip.is_loopback());
                match token_file {
                    Some(_) if !url.is_encrypted && !is_here => {
                        Err(format!("the token would be sent in plain text{}", Hint("use https")))
                    }
                    _ => Ok(()),
                }
            }
        }
    }
}

/// An address of RFC 5321 without quotes or comments.
fn is_address(text: &str) -> bool {
    let is_plain = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "._%+=/-".contains(c))
    };
    text.len() <= 254
        && !text.starts_with('-')
        && text.split_once('@').is_some_and(|(user, host)| is_plain(user) && is_plain(host))
}
