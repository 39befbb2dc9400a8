//! What an FTS server says of a job (fts-rest-flask 3.13: `controllers/jobs.py`, `model/job.py`, `model/file.py`), read with suspicion:
//! states are kept to the letter, texts lose what could command a terminal and what may be secret.
//!
//! ```text
//!   job:  SUBMITTED READY ACTIVE STAGING ARCHIVING …  ─▶  FINISHED │ FINISHEDDIRTY │ FAILED │ CANCELED
//! ```

use super::job::{MAX_JOB_FILES, without_query};
use serde::Serialize;
use serde_json::Value;
use skyhaul::core::hint::Hint;
use std::collections::HashSet;

/// States in which a job has ended (`JobTerminalStates`).
const ENDED: [&str; 4] = ["FINISHED", "FAILED", "FINISHEDDIRTY", "CANCELED"];
/// The state of a job and of a file that succeeded.
const FINISHED: &str = "FINISHED";
/// The state of an alternative source that was not needed.
const NOT_USED: &str = "NOT_USED";
/// Longest reason that is kept, in characters, as FTS has it.
const MAX_REASON: usize = 2048;
/// Longest state and longest URL.
const MAX_STATE: usize = 64;
const MAX_URL: usize = 1100;

/// The number of a job: a UUID (RFC 9562), as FTS gives to jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct FtsJobId(String);

impl FtsJobId {
    /// As the server names it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for FtsJobId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for FtsJobId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let groups: Vec<&str> = text.split('-').collect();
        let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
        let is_hex = groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()));
        if lengths != [8, 4, 4, 4, 12] || !is_hex {
            let hint = Hint(
                "the line that `skyhaul copy --via` printed, such as 9fee8c1e-c46d-11e3-8299-02163e00a17a",
            );
            return Err(format!("expected the number of a job{hint}"));
        }
        Ok(Self(text.to_ascii_lowercase()))
    }
}

/// A file of a job, as the server has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FtsFile {
    /// The URL of the source, without its query.
    pub source: String,
    /// That of the destination.
    pub destination: String,
    /// As FTS names it: `SUBMITTED`, `ACTIVE`, `FINISHED`, `FAILED`, `CANCELED` and others.
    pub state: String,
    /// Why it failed, in the words of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its size in bytes, once it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// How long its transfer took, once it is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Which file of the job it is; sources of one file have the same number.
    #[serde(skip)]
    index: Option<u64>,
}

/// A job, as the server has it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FtsJob {
    /// Its number.
    pub job_id: FtsJobId,
    /// As FTS names it: `SUBMITTED`, `READY`, `ACTIVE`, `FINISHED`, `FINISHEDDIRTY`, `FAILED`, `CANCELED` and others.
    pub state: String,
    /// Why it failed, in the words of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its files.
    pub files: Vec<FtsFile>,
    /// It has an end time.
    #[serde(skip)]
    has_end: bool,
}

impl FtsJob {
    /// Whether it changes no more. A state that is not known here is an end if the server has written when it was.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        ENDED.contains(&self.state.as_str()) || self.has_end
    }

    /// Whether each of its files was transferred: `FINISHED`, or `NOT_USED` where another source of the same file is `FINISHED`.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let done: HashSet<u64> =
            self.files.iter().filter(|file| file.state == FINISHED).filter_map(|file| file.index).collect();
        let is_done = |file: &FtsFile| {
            file.state == FINISHED
                || (file.state == NOT_USED && file.index.is_some_and(|index| done.contains(&index)))
        };
        self.state == FINISHED && !self.files.is_empty() && self.files.iter().all(is_done)
    }

    /// Files in this state.
    #[must_use]
    pub fn count(&self, state: &str) -> usize {
        self.files.iter().filter(|file| file.state == state).count()
    }

    /// Files that were transferred.
    #[must_use]
    pub fn finished_files(&self) -> usize {
        self.count(FINISHED)
    }
}

/// A text of the server on one line, without control characters and queries of URLs, of at most so many characters.
pub(super) fn plain(text: &str, most: usize) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let words: Vec<String> = words.map(shown).collect();
    words.join(" ").chars().take(most).collect()
}

/// A word of it: the query of a URL may hold a key.
fn shown(word: &str) -> String {
    match word.find("://").and_then(|at| word[at..].find('?').map(|query| at + query)) {
        Some(at) => format!("{}?…", &word[..at]),
        None => word.to_owned(),
    }
}

/// What an error says, if it is a page: FTS answers 401 and 403 so (`fts3authmiddleware.py`).
pub(super) fn paragraph(text: &str) -> &str {
    let inner = text.split_once("<p>").and_then(|(_, rest)| rest.split_once("</p>")).map(|(inner, _)| inner);
    inner.filter(|_| text.trim_start().starts_with('<')).unwrap_or(text)
}

/// Reads a job.
pub(super) fn job(value: &Value) -> Result<FtsJob, String> {
    let text = |of: &Value, name: &str, most: usize| {
        of[name].as_str().map(|text| plain(text, most)).filter(|text| !text.is_empty())
    };
    let needs = |name: &str| format!("the reply has no {name}");
    let job_id = value["job_id"].as_str().and_then(|id| id.parse().ok()).ok_or_else(|| needs("job_id"))?;
    let state = text(value, "job_state", MAX_STATE).ok_or_else(|| needs("job_state"))?;
    let listed = value["files"].as_array().map(Vec::as_slice).unwrap_or_default();
    if listed.len() > MAX_JOB_FILES {
        return Err(format!("the reply has {} files, more than {MAX_JOB_FILES}", listed.len()));
    }
    let file = |of: &Value| {
        let url = |name: &str| plain(without_query(of[name].as_str().unwrap_or_default()), MAX_URL);
        Ok(FtsFile {
            source: url("source_surl"),
            destination: url("dest_surl"),
            state: text(of, "file_state", MAX_STATE).ok_or_else(|| needs("file_state"))?,
            reason: text(of, "reason", MAX_REASON),
            bytes: of["filesize"].as_u64(),
            seconds: of["tx_duration"].as_f64().filter(|seconds| *seconds > 0.0),
            index: of["file_index"].as_u64(),
        })
    };
    Ok(FtsJob {
        job_id,
        state,
        reason: text(value, "reason", MAX_REASON),
        files: listed.iter().map(file).collect::<Result<_, String>>()?,
        has_end: value["job_finished"].as_str().is_some_and(|time| !time.is_empty()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const ID: &str = "9fee8c1e-c46d-11e3-8299-02163e00a17a";

    fn of(state: &str, files: &[(&str, u64)]) -> FtsJob {
        let files: Vec<Value> =
            files.iter().map(|(state, index)| json!({"file_state": state, "file_index": index})).collect();
        job(&json!({"job_id": ID, "job_state": state, "files": files})).unwrap()
    }

    #[test]
    fn a_job_is_whole_when_it_and_all_its_files_are_finished() {
        for (state, files, ended, whole) in [
            ("FINISHED", &[("FINISHED", 0), ("FINISHED", 1)][..], true, true),
            ("FINISHED", &[("FINISHED", 0), ("FAILED", 1)], true, false),
            // Of several sources one is used.
            ("FINISHED", &[("NOT_USED", 0), ("FINISHED", 0)], true, true),
            ("FINISHED", &[("NOT_USED", 0), ("FINISHED", 1)], true, false),
            ("FINISHED", &[], true, false),
            ("FINISHEDDIRTY", &[("FINISHED", 0), ("FAILED", 1)], true, false),
            ("FAILED", &[("FAILED", 0)], true, false),
            ("CANCELED", &[("CANCELED", 0)], true, false),
            ("ACTIVE", &[("FINISHED", 0)], false, false),
            ("SUBMITTED", &[("SUBMITTED", 0)], false, false),
            ("STAGING", &[("STAGING", 0)], false, false),
            ("ARCHIVING", &[("ARCHIVING", 0)], false, false),
            ("QOS_TRANSITION", &[("QOS_TRANSITION", 0)], false, false),
            ("finished", &[("FINISHED", 0)], false, false),
            ("SOME_NEW_STATE", &[("FINISHED", 0)], false, false),
        ] {
            let job = of(state, files);
            assert_eq!(
                (job.has_ended(), job.is_whole(), job.state.as_str()),
                (ended, whole, state),
                "{state} {files:?}"
            );
        }
        let new =
            json!({"job_id": ID, "job_state": "EXPIRED", "job_finished": "2026-11-30T06:00:00", "files": []});
        let new = job(&new).unwrap();
        assert!(new.has_ended() && !new.is_whole());
    }

    #[test]
    fn texts_of_the_server_command_no_terminal_and_tell_no_key() {
        let reply = json!({
            "job_id": ID.to_uppercase(),
            "job_state": "FAILED\u{1b}[2J",
            "reason": "One or more\r\nfiles \u{9b}31mfailed",
            "files": [{
                "file_state": "FAILED", "filesize": 3, "tx_duration": 1.5,
                "source_surl": "https://s3.example/f?X-Amz-Signature=cafe", "dest_surl": "https://b/f",
                "reason": "SOURCE [2] https://s3.example/f?X-Amz-Signature=cafe: No such\u{0} file",
            }],
        });
        let job = job(&reply).unwrap();
        assert_eq!((job.job_id.as_str(), job.state.as_str()), (ID, "FAILED [2J"));
        assert_eq!(job.reason.as_deref(), Some("One or more files 31mfailed"));
        let file = &job.files[0];
        assert_eq!(
            (file.source.as_str(), file.bytes, file.seconds),
            ("https://s3.example/f", Some(3), Some(1.5))
        );
        assert_eq!(file.reason.as_deref(), Some("SOURCE [2] https://s3.example/f?… No such file"));
    }

    #[test]
    fn an_error_that_is_a_page_is_its_paragraph() {
        let page = "<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 3.2 Final//EN\">\n<title>403 Forbidden</title>\n<h1>Forbidden</h1>\n<p>Invalid credentials (x)</p>\n";
        assert_eq!(paragraph(page), "Invalid credentials (x)");
        for other in ["a <p>b</p> c", "<p>b", "", "<html>in maintenance</html>"] {
            assert_eq!(paragraph(other), other);
        }
    }

    #[test]
    fn what_is_no_job_is_refused() {
        let many = vec![json!({"file_state": "ACTIVE"}); MAX_JOB_FILES + 1];
        for (reply, why) in [
            (json!({}), "no job_id"),
            (json!([]), "no job_id"),
            (json!("x"), "no job_id"),
            (json!({"job_id": "../../etc", "job_state": "ACTIVE"}), "no job_id"),
            (json!({"job_id": ID}), "no job_state"),
            (json!({"job_id": ID, "job_state": 7}), "no job_state"),
            (json!({"job_id": ID, "job_state": "ACTIVE", "files": [{}]}), "no file_state"),
            (json!({"job_id": ID, "job_state": "ACTIVE", "files": many}), "more than 10000"),
        ] {
            assert!(job(&reply).unwrap_err().contains(why), "{why}");
        }
        for bad in [
            "",
            "x",
            "9fee8c1e-c46d-11e3-8299-02163e00a17",
            "9fee8c1e-c46d-11e3-8299-02163e00a17g",
            "9fee8c1e/c46d-11e3-8299-02163e00a17a",
        ] {
            assert!(bad.parse::<FtsJobId>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_becomes_one_line(text in any::<String>()) {
            let line = plain(&text, 100);
            prop_assert!(!line.chars().any(char::is_control) && line.chars().count() <= 100);
            let _ = job(&json!({"job_id": ID, "job_state": text, "files": [{"file_state": text, "reason": text}]}));
        }
    }
}
