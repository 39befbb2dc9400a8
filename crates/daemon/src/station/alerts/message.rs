//! What a receiver is sent of an alarm: the fields that `figures` has of it, and what happened to it.

use crate::station::dashboard::alarms::AlarmLevel;
use serde_json::{Value, json};

/// Maximum length of a text or name in a message, characters.
const MAX_CHARS: usize = 1000;

/// What happened to an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AlarmEvent {
    Begin,
    /// It was a warning, and is an error.
    Worse,
    /// It is about more of them than before, such as another recording that failed.
    More,
    /// It held before the service started, and still does.
    Still,
    End,
    /// Nothing happened: an operator tries the receiver.
    Test,
}

impl AlarmEvent {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Begin => "begin",
            Self::Worse => "worse",
            Self::More => "more",
            Self::Still => "still",
            Self::End => "end",
            Self::Test => "test",
        }
    }
}

/// Which alarm it is: its kind, and its disk or recording.
pub(super) type AlarmKey = (String, String);

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AlarmMessage {
    pub(super) event: AlarmEvent,
    pub(super) level: AlarmLevel,
    pub(super) kind: String,
    pub(super) subject: String,
    pub(super) text: String,
    pub(super) since: String,
    pub(super) time: String,
    /// How often it has begun since.
    pub(super) count: u64,
    /// An earlier run of the service may have sent the same.
    pub(super) is_after_restart: bool,
}

impl AlarmMessage {
    pub(super) fn key(&self) -> AlarmKey {
        (self.kind.clone(), self.subject.clone())
    }

    /// A message that says that nothing is wrong.
    pub(super) fn test(time: &str) -> Self {
        Self {
            event: AlarmEvent::Test,
            level: AlarmLevel::Warning,
            kind: "test".into(),
            subject: String::new(),
            text: "a test of the alarms; nothing is wrong".into(),
            since: time.into(),
            time: time.into(),
            count: 1,
            is_after_restart: false,
        }
    }

    /// Its fields by name, as text; `host` is that of the station.
    fn fields(&self, host: &str) -> [(&'static str, String); 9] {
        [
            ("event", self.event.name().into()),
            ("level", self.level.name().into()),
            ("kind", plain(&self.kind)),
            ("subject", plain(&self.subject)),
            ("text", plain(&self.text)),
            ("since", self.since.clone()),
            ("time", self.time.clone()),
            ("host", plain(host)),
            ("count", self.count.to_string()),
        ]
    }

    /// One JSON object.
    pub(super) fn json(&self, host: &str) -> Value {
        let mut all: serde_json::Map<String, Value> =
            self.fields(host).into_iter().map(|(name, text)| (name.to_owned(), text.into())).collect();
        all.insert("count".into(), json!(self.count));
        all.insert("after_restart".into(), json!(self.is_after_restart));
        all.into()
    }

    /// Environment variables for a program.
    pub(super) fn variables(&self, host: &str) -> Vec<(String, String)> {
        let restart = ("after_restart", self.is_after_restart.to_string());
        let all = self.fields(host).into_iter().chain([restart]);
        all.map(|(name, text)| (format!("SKYHAUL_ALARM_{}", name.to_ascii_uppercase()), text)).collect()
    }

    /// A line for people.
    pub(super) fn line(&self, host: &str) -> String {
        let subject = if self.subject.is_empty() { String::new() } else { format!(" {}", self.subject) };
        let event = self.event.name();
        plain(&format!("{host}: {event}, {} {}{subject}: {}", self.level.name(), self.kind, self.text))
    }

    /// A message for `sendmail -t` (RFC 5322). A line of its head is ASCII: nothing in an alarm can make another one.
    pub(super) fn mail(&self, host: &str, to: &[String]) -> String {
        let subject: String =
            self.line(host).chars().map(|c| if c.is_ascii() { c } else { '?' }).take(200).collect();
        let fields: String =
            self.fields(host).iter().map(|(name, text)| format!("{name}: {text}\n")).collect();
        let again = if self.is_after_restart {
            "after a restart of the service: it may have been sent before\n"
        } else {
            ""
        };
        format!(
            "To: {}\nSubject: [skyhaul] {subject}\nAuto-Submitted: auto-generated\nMIME-Version: 1.0\n\
             Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n{}\n\n{fields}{again}",
            to.join(", "),
            self.line(host)
        )
    }
}

/// One line without control characters.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_adds_a_line_to_the_head_of_a_mail_or_a_zero_to_a_variable() {
        let mut message = AlarmMessage::test("2026-11-29T00:00:00Z");
        message.subject = "a\nBcc: x@y\r\n\r\nbody\0é".into();
        let mail = message.mail("mh\n", &["op@obs.example".into()]);
        let head = mail.split_once("\n\n").unwrap().0;
        assert!(head.is_ascii() && head.lines().count() == 6, "{head}");
        assert!(!head.lines().any(|line| line.starts_with("Bcc")), "{head}");
        assert!(message.variables("mh").iter().all(|(_, text)| !text.contains(['\0', '\n'])));
    }
}
