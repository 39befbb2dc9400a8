//! A request, or a session of a copy or a measurement, as a line of the log: JSON in ASCII, whatever its path or its subject has.
//!
//! ```text
//!   {"time":"2026-11-28T20:01:33.1Z","peer":"192.0.2.7:40222","auth":"issuer","subject":"ddmadmin","issuer":"https://iam.example/","method":"GET",
//!    "path":"/exp/f","status":206,"received_bytes":0,"sent_bytes":1048576,"seconds":0.0123,"complete":true}
//!   {"time":"2026-11-28T20:01:40.7Z","peer":"192.0.2.9:51234","auth":"peer","subject":"correlator","service":"copy","direction":"out",
//!    "path":"/disks/1/s","result":"done","received_bytes":0,"sent_bytes":4194304,"seconds":0.21}
//! ```
//!
//! The path is as it was sent, without its query: clients put tokens there. Of headers, only the numbers in `SciTag` and `ClientInfo` are shown. What
//! a terminal could obey, and all that is not ASCII, is escaped. Limits: [`MAX_PATH_BYTES`], [`MAX_NAME_BYTES`].

use crate::scitags::SciTag;
use serde::Serialize;
use skyhaul::auth::redacted;
use skyhaul::core::hint::split;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Bytes of a path that are shown.
const MAX_PATH_BYTES: usize = 4096;
/// Bytes of a name that are shown: of a subject, an issuer, a host, a method.
const MAX_NAME_BYTES: usize = 512;

/// Who asked, as it was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LoggedUser {
    /// A program on this host, where that is enough.
    Host,
    /// The holder of the server's own token.
    Token,
    /// The holder of a token of an issuer.
    Issuer { subject: String, issuer: String },
    /// The holder of a certificate with this subject.
    Certificate(String),
}

/// The job of FTS that a copy belongs to: `ClientInfo: job-id=…;file-id=…;retry=…`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct TransferJob {
    #[serde(rename = "job")]
    pub(super) id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retry: Option<u64>,
}

impl TransferJob {
    /// Reads `ClientInfo`; nothing if it names no job, or something that cannot be the name of one.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut job = Self::default();
        for (key, value) in text.split(';').filter_map(|pair| pair.split_once('=')) {
            let value = value.trim();
            match key.trim() {
                "job-id" => {
                    let is_name = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
                    if is_name && value.len() <= 64 {
                        value.clone_into(&mut job.id);
                    }
                }
                "file-id" => job.file = value.parse().ok(),
                "retry" => job.retry = value.parse().ok(),
                _ => {}
            }
        }
        (!job.id.is_empty()).then_some(job)
    }
}

/// A copy with another server.
#[derive(Serialize)]
pub(super) struct LoggedCopy<'a> {
    /// Number of the copy since the server started.
    pub(super) id: u64,
    pub(super) direction: &'static str,
    pub(super) host: &'a str,
    pub(super) result: &'static str,
    pub(super) bytes: u64,
    #[serde(flatten)]
    pub(super) job: Option<&'a TransferJob>,
}

/// A request that has been answered.
pub(super) struct LoggedRequest<'a> {
    pub(super) unix_nanoseconds: i128,
    pub(super) peer: SocketAddr,
    pub(super) user: Option<&'a LoggedUser>,
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    /// The other path of MOVE and COPY inside this server, with the name of its header.
    pub(super) other: Option<(&'static str, &'a str)>,
    pub(super) status: Option<u16>,
    pub(super) received_bytes: u64,
    pub(super) sent_bytes: u64,
    pub(super) nanoseconds: u64,
    pub(super) is_complete: bool,
    pub(super) tag: Option<SciTag>,
    pub(super) copy: Option<LoggedCopy<'a>>,
}

#[derive(Serialize)]
struct Fields<'a> {
    time: String,
    peer: String,
    auth: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    issuer: Option<&'a str>,
    method: &'a str,
    path: &'a str,
    /// If not all of it is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    destination: Option<&'a str>,
    status: Option<u16>,
    received_bytes: u64,
    sent_bytes: u64,
    seconds: f64,
    complete: bool,
    #[serde(flatten)]
    tag: Option<SciTag>,
    #[serde(skip_serializing_if = "Option::is_none")]
    copy: Option<&'a LoggedCopy<'a>>,
}

impl LoggedRequest<'_> {
    /// The line, without its end.
    pub(super) fn text(&self) -> String {
        let (auth, subject, issuer) = match self.user {
            None => (None, None, None),
            Some(LoggedUser::Host) => (Some("host"), None, None),
            Some(LoggedUser::Token) => (Some("token"), None, None),
            Some(LoggedUser::Issuer { subject, issuer }) => {
                (Some("issuer"), Some(subject.as_str()), Some(issuer.as_str()))
            }
            Some(LoggedUser::Certificate(subject)) => (Some("certificate"), Some(subject.as_str()), None),
        };
        let short = |text| beginning(text, MAX_NAME_BYTES);
        let other =
            |name| self.other.filter(|(of, _)| *of == name).map(|(_, path)| beginning(path, MAX_PATH_BYTES));
        let path = beginning(self.path, MAX_PATH_BYTES);
        let fields = Fields {
            time: time(self.unix_nanoseconds),
            peer: peer(self.peer),
            auth,
            subject: subject.map(short),
            issuer: issuer.map(short),
            method: short(self.method),
            path,
            path_bytes: (path.len() < self.path.len()).then_some(self.path.len()),
            source: other("source"),
            destination: other("destination"),
            status: self.status,
            received_bytes: self.received_bytes,
            sent_bytes: self.sent_bytes,
            seconds: self.nanoseconds as f64 / 1e9,
            complete: self.is_complete,
            tag: self.tag,
            copy: self.copy.as_ref(),
        };
        // Structures of text and numbers are always JSON.
        ascii(&serde_json::to_string(&fields).unwrap_or_default()).into_owned()
    }
}

/// A session of a copy or a measurement that came to the port of the files, or to that of `[peers]`; or a control connection that was refused.
pub(crate) struct LoggedSession<'a> {
    pub(crate) unix_nanoseconds: i128,
    /// `None` where refusals of many are counted.
    pub(crate) peer: Option<SocketAddr>,
    /// Whose token was proved, if one was.
    pub(crate) client: Option<&'a str>,
    /// What was asked for, if something was.
    pub(crate) service: Option<&'a str>,
    pub(crate) is_upload: Option<bool>,
    pub(crate) paths: &'a [PathBuf],
    pub(crate) result: &'a str,
    /// Why it was refused, or failed.
    pub(crate) reason: Option<&'a str>,
    /// Refusals that got no line since the last one that did.
    pub(crate) left_out: u64,
    pub(crate) received_bytes: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) nanoseconds: u64,
}

#[derive(Serialize)]
struct SessionFields<'a> {
    time: String,
    peer: Option<String>,
    auth: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    direction: Option<&'static str>,
    /// The first path.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<usize>,
    /// How many there are, if there are more.
    #[serde(skip_serializing_if = "Option::is_none")]
    paths: Option<usize>,
    result: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<u64>,
    received_bytes: u64,
    sent_bytes: u64,
    seconds: f64,
}

impl LoggedSession<'_> {
    /// The line, without its end.
    pub(crate) fn text(&self) -> String {
        let whole = self.paths.first().map(|path| path.to_string_lossy());
        let path = whole.as_deref().map(|path| beginning(path, MAX_PATH_BYTES));
        let bytes = whole.as_deref().map(str::len);
        let fields = SessionFields {
            time: time(self.unix_nanoseconds),
            peer: self.peer.map(peer),
            auth: self.client.map(|_| "peer"),
            subject: self.client.map(|client| beginning(client, MAX_NAME_BYTES)),
            service: self.service.map(|service| beginning(service, MAX_NAME_BYTES)),
            direction: self.is_upload.map(|is_upload| if is_upload { "in" } else { "out" }),
            path,
            path_bytes: bytes.filter(|bytes| *bytes > path.map_or(0, str::len)),
            paths: Some(self.paths.len()).filter(|paths| *paths > 1),
            result: self.result,
            // Hints are for the user of the client.
            reason: self.reason.map(|reason| redacted(split(reason).0, &[])),
            left_out: Some(self.left_out).filter(|left_out| *left_out > 0),
            received_bytes: self.received_bytes,
            sent_bytes: self.sent_bytes,
            seconds: self.nanoseconds as f64 / 1e9,
        };
        ascii(&serde_json::to_string(&fields).unwrap_or_default()).into_owned()
    }
}

/// To the millisecond.
fn time(unix_nanoseconds: i128) -> String {
    skyhaul::time::format_exact(unix_nanoseconds / 1_000_000 * 1_000_000)
}

fn peer(address: SocketAddr) -> String {
    SocketAddr::new(address.ip().to_canonical(), address.port()).to_string()
}

/// The first bytes of a text.
fn beginning(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// JSON without a character that is not plain ASCII. Such characters stand only in strings, where they may be escaped.
fn ascii(json: &str) -> Cow<'_, str> {
    if json.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return Cow::Borrowed(json);
    }
    let mut text = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if (' '..='~').contains(&c) {
            text.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing into a string does not fail.
                let _ = write!(text, "\\u{unit:04x}");
            }
        }
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn request<'a>(path: &'a str, user: Option<&'a LoggedUser>) -> LoggedRequest<'a> {
        LoggedRequest {
            unix_nanoseconds: 1_795_896_093_123_456_789,
            peer: "[::ffff:192.0.2.7]:40222".parse().unwrap(),
            user,
            method: "GET",
            path,
            other: None,
            status: Some(206),
            received_bytes: 0,
            sent_bytes: 5,
            nanoseconds: 1_500_000,
            is_complete: true,
            tag: None,
            copy: None,
        }
    }

    #[test]
    fn a_line_has_what_an_operator_asks_for() {
        let user = LoggedUser::Issuer { subject: "ann".to_owned(), issuer: "https://i/".to_owned() };
        let plain = "{\"time\":\"2026-11-28T20:01:33.123Z\",\"peer\":\"192.0.2.7:40222\",\"auth\":\"issuer\",\"subject\":\"ann\",\
            \"issuer\":\"https://i/\",\"method\":\"GET\",\"path\":\"/exp/f\",\"status\":206,\"received_bytes\":0,\"sent_bytes\":5,\
            \"seconds\":0.0015,\"complete\":true";
        assert_eq!(request("/exp/f", Some(&user)).text(), format!("{plain}}}"));
        let job = TransferJob::parse("job-id=6a-7B;file-id=2;retry=0;more=x").unwrap();
        let copy = LoggedCopy {
            id: 7,
            direction: "pull",
            host: "b.example:8443",
            result: "done",
            bytes: 9,
            job: Some(&job),
        };
        let full =
            LoggedRequest { tag: SciTag::parse(" 449"), copy: Some(copy), ..request("/exp/f", Some(&user)) };
        let more = ",\"experiment\":7,\"activity\":1,\"copy\":{\"id\":7,\"direction\":\"pull\",\"host\":\"b.example:8443\",\"result\":\"done\",\
            \"bytes\":9,\"job\":\"6a-7B\",\"file\":2,\"retry\":0}}";
        assert_eq!(full.text(), format!("{plain}{more}"));
        let moved =
            LoggedRequest { other: Some(("destination", "/exp/g")), status: None, ..request("/exp/f", None) };
        let value: Value = serde_json::from_str(&moved.text()).unwrap();
        assert_eq!(
            (value["destination"].as_str(), &value["status"], &value["auth"]),
            (Some("/exp/g"), &Value::Null, &Value::Null)
        );
    }

    #[test]
    fn a_session_is_a_line_with_the_same_names() {
        let paths = ["/disks/1/s".into(), "/exp/a".into()];
        let session = LoggedSession {
            unix_nanoseconds: 1_795_896_093_123_456_789,
            peer: Some("[::ffff:192.0.2.9]:51234".parse().unwrap()),
            client: Some("correlator"),
            service: Some("copy"),
            is_upload: Some(false),
            paths: &paths,
            result: "done",
            reason: None,
            left_out: 0,
            received_bytes: 0,
            sent_bytes: 9,
            nanoseconds: 1_500_000,
        };
        let head = "{\"time\":\"2026-11-28T20:01:33.123Z\",\"peer\":\"192.0.2.9:51234\",\"auth\":\"peer\",\"subject\":\"correlator\",";
        let tail = "\"result\":\"done\",\"received_bytes\":0,\"sent_bytes\":9,\"seconds\":0.0015}";
        let copied = "\"service\":\"copy\",\"direction\":\"out\",\"path\":\"/disks/1/s\",\"paths\":2,";
        assert_eq!(session.text(), format!("{head}{copied}{tail}"));
        let probed = LoggedSession { service: Some("udp"), is_upload: None, paths: &[], ..session };
        assert_eq!(probed.text(), format!("{head}\"service\":\"udp\",{tail}"));
        let long = [PathBuf::from(format!("/\u{1b}{}", "é".repeat(6000)))];
        let value: Value = serde_json::from_str(&LoggedSession { paths: &long, ..probed }.text()).unwrap();
        assert_eq!(value["path_bytes"], 12_002);
        let reason = Some("no `\u{1b}[2J`; hint: ask the operator");
        let refused =
            LoggedSession { client: None, service: None, result: "refused", reason, left_out: 7, ..probed };
        let expected = "\"peer\":\"192.0.2.9:51234\",\"auth\":null,\"result\":\"refused\",\"reason\":\"no ` [2J`\",\"left_out\":7,\"received_bytes\":0,";
        assert!(refused.text().contains(expected), "{}", refused.text());
    }

    #[test]
    fn only_names_of_jobs_are_read() {
        for text in [
            "",
            "job-id=",
            "job-id=a b",
            "job-id=a\u{1b}[2J",
            "file-id=1",
            "job-id",
            &format!("job-id={}", "a".repeat(65)),
        ] {
            assert_eq!(TransferJob::parse(text), None, "{text}");
        }
        assert_eq!(
            TransferJob::parse("job-id=a;file-id=x;retry=-1").map(|job| (job.file, job.retry)),
            Some((None, None))
        );
    }

    proptest! {
        #[test]
        fn any_text_is_one_plain_line_and_reads_back(path in any::<String>(), subject in any::<String>(), long in 0usize..6000) {
            let user = LoggedUser::Certificate(subject.clone());
            let path = format!("{path}{}", "é".repeat(long));
            let text = request(&path, Some(&user)).text();
            prop_assert!(text.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
            let value: Value = serde_json::from_str(&text).unwrap();
            prop_assert!(path.starts_with(value["path"].as_str().unwrap()));
            prop_assert!(subject.starts_with(value["subject"].as_str().unwrap()));
            let shown = value["path"].as_str().unwrap().len();
            prop_assert!(shown <= MAX_PATH_BYTES && shown + 4 > path.len().min(MAX_PATH_BYTES));
            prop_assert_eq!(value["path_bytes"].as_u64(), (shown < path.len()).then_some(path.len() as u64));
        }
    }
}
