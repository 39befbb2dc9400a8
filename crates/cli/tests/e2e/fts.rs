//! `copy --via fts=URL`: jobs at an FTS server, which copies between two stations, or does what a test wants.

mod server;

use crate::site::{Done, Job, Site, number, wait_for, words};
use crate::third_party::with_token;
use crate::webdav::{Files, bytes};
use rustix::process::Signal;
use serde_json::{Value, json};
use server::{Act, Fts, Request};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const TOKEN: &str = "token-of-the-fts-server";
const INSIDE: &str = "[http.copy]\nallow = ['127.0.0.1']\n";
/// The number of a job that no server has.
const NOBODY: &str = "00000000-0000-4000-8000-000000000000";

/// A directory with the token of the server, and the command run on it.
struct Here(tempfile::TempDir);

impl Here {
    fn new() -> Self {
        let here = Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap());
        here.write("fts", TOKEN);
        here
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, name: &str, text: &str) {
        // Replaced by its owner alone, as tokens are.
        let new = self.at(".new");
        std::fs::write(&new, format!("{text}\n")).unwrap();
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::rename(new, self.at(name)).unwrap();
    }

    fn start(&self, line: &str) -> Job {
        let line = line.replace('@', self.0.path().to_str().unwrap());
        Job::start(&words(&format!("copy {line}")))
    }

    /// The command as it ends, with this code.
    #[track_caller]
    fn copy(&self, line: &str, code: i32) -> Done {
        self.start(line).finish().expect(code)
    }
}

/// Requests of a method for a job.
fn count(fts: &Fts, method: &str) -> usize {
    fts.requests().iter().filter(|request| request.line.starts_with(&format!("{method} /jobs"))).count()
}

/// A server that answers each question about a job by calling this with the number of earlier questions.
fn asked(answer: impl Fn(usize) -> Option<Act> + Send + Sync + 'static) -> Fts {
    let before = AtomicUsize::new(0);
    Fts::start(TOKEN, move |request: &Request| {
        request.line.starts_with("GET /jobs/").then(|| answer(before.fetch_add(1, Ordering::Relaxed)))?
    })
}

const ONE: &str = "http://127.0.0.1:1/exp/f http://127.0.0.1:1/exp/ --token-file @/fts";

#[test]
fn files_and_trees_are_copied_by_the_server() {
    let ((a, token_a), (b, token_b)) = (with_token(INSIDE), with_token(INSIDE));
    let here = Here::new();
    here.write("a", &token_a);
    here.write("b", &token_b);
    let data = bytes(2_000_017);
    let right = format!("Authorization: Bearer {token_a}");
    for (name, length) in [("t/a", 2_000_017), ("t/sub/b%20c", 70_000), ("t/sub/empty", 0), ("one", 5)] {
        a.ask(&format!("PUT /exp/{name}"), &[&right], &data[..length]).expect(201);
    }
    let fts = Fts::start(TOKEN, |_| None);
    let (from, to) = (format!("http://{}/exp", a.address), format!("http://{}/exp", b.address));
    let how = format!("{} --source-token-file @/a --token-file @/b --via-token-file @/fts --wait", fts.via());
    let done = here.copy(&format!("{from}/t/ {from}/one {to}/in/ {how} --json --retry 0 --priority 4 --activity Recordings --scitag 449"), 0);
    let report = done.json();
    assert_eq!(
        (report["state"].as_str(), report["is_whole"].as_bool()),
        (Some("FINISHED"), Some(true)),
        "{report}"
    );
    let files = report["files"].as_array().unwrap();
    assert_eq!(files.len(), 4, "{report}");
    assert!(files.iter().all(|file| file["state"] == "FINISHED" && file["reason"].is_null()), "{report}");
    assert_eq!(files.iter().map(|file| number(&file["bytes"])).sum::<u64>(), 2_070_022, "{report}");
    for (name, length) in [("t/a", 2_000_017), ("t/sub/b c", 70_000), ("t/sub/empty", 0), ("one", 5)] {
        assert!(std::fs::read(b.root.join("in").join(name)).unwrap() == data[..length], "{name}");
    }
    let document = fts.document();
    assert_eq!(document["files"][3]["sources"], json!([format!("{from}/one")]));
    assert_eq!(document["files"][3]["destinations"], json!([format!("{to}/in/one")]));
    for file in document["files"].as_array().unwrap() {
        assert_eq!(
            (&file["source_tokens"], &file["destination_tokens"]),
            (&json!([token_a]), &json!([token_b]))
        );
        assert_eq!(
            (&file["scitag"], &file["activity"], &file["checksum"]),
            (&json!(449), &json!("Recordings"), &json!("ADLER32"))
        );
    }
    let params = &document["params"];
    assert_eq!(
        (&params["retry"], &params["priority"], &params["nostreams"]),
        (&json!(-1), &json!(4), &json!(4))
    );
    assert_eq!((&params["verify_checksum"], &params["overwrite"]), (&json!("both"), &json!(false)));
    // The number is said before the end, and no token anywhere.
    assert!(
        done.stderr.contains(&format!("job {}\n", report["job_id"].as_str().unwrap())),
        "{}",
        done.stderr
    );
    for token in [TOKEN, &token_a, &token_b] {
        assert!(!done.said().contains(token) && !done.told().contains(token), "{}", done.said());
    }
    existing_files_and_failures((&a, &b), &here, (&fts, &from, &to, &how), &data);
}

/// What is there is replaced only if that was said; each file that fails is named with its reason.
fn existing_files_and_failures(
    (a, b): (&Files, &Files),
    here: &Here,
    (fts, from, to, how): (&Fts, &str, &str, &str),
    data: &[u8],
) {
    std::fs::write(b.root.join("in/one"), b"other").unwrap();
    let failed = here.copy(&format!("{from}/one {to}/in/ {how}"), 1);
    assert!(failed.told().contains("FAILED: 0 of 1 file finished, 1 failed"), "{}", failed.told());
    assert!(
        failed.told().contains(&format!("  FAILED {to}/in/one: DESTINATION [17] Destination file exists")),
        "{}",
        failed.told()
    );
    assert!(std::fs::read(b.root.join("in/one")).unwrap() == b"other");
    here.copy(&format!("{from}/one {to}/in/ {how} --exists replace"), 0);
    assert!(std::fs::read(b.root.join("in/one")).unwrap() == data[..5]);
    assert_eq!(fts.document()["params"]["overwrite"], true);
    // One of two: the job is neither finished nor failed.
    let dirty = here.copy(&format!("{from}/t/a {from}/nothing {to}/two/ {how} --json"), 1).json();
    assert_eq!(
        (dirty["state"].as_str(), dirty["is_whole"].as_bool()),
        (Some("FINISHEDDIRTY"), Some(false)),
        "{dirty}"
    );
    assert!(dirty["files"][1]["reason"].as_str().unwrap().contains("No such file or directory"), "{dirty}");
    assert!(std::fs::read(b.root.join("two/a")).unwrap() == data);
    // Nothing is submitted where the directory cannot be listed, or it is only to be shown.
    let jobs = fts.jobs();
    let none = here.copy(&format!("{from}/nothing/ {to}/in/ {how}"), 2);
    assert!(none.stderr.contains("does not list"), "{}", none.stderr);
    let shown = here.copy(&format!("{from}/t/ {to}/in/ {how} --dry-run"), 0).json();
    assert_eq!(shown["files"].as_array().unwrap().len(), 3);
    assert!(shown["files"][0]["source_tokens"].is_null(), "{shown}");
    assert_eq!(fts.jobs(), jobs);
    assert!(a.root.join("one").exists());
}

/// Ctrl-C stops following and not the job; it is found again by its number, and cancelled.
#[test]
fn a_job_is_left_followed_again_and_cancelled() {
    let here = Here::new();
    let fts = Fts::start(TOKEN, |_| None);
    fts.hold(true);
    let via = fts.via();
    // Without --wait, the number stands alone on standard output.
    let done = here.copy(&format!("{via} {ONE}"), 0);
    let first = done.told();
    assert_eq!(first.trim().len(), 36, "{first}");
    let follow = format!("follow: skyhaul copy {via} --job {} --token-file ", first.trim());
    assert!(done.stderr.contains(&follow) && done.stderr.contains(" --cancel\n"), "{}", done.stderr);
    let quiet = here.copy(&format!("{via} {ONE} --quiet --json"), 0);
    assert!(quiet.stderr.is_empty(), "{}", quiet.stderr);
    let job = here.start(&format!("{via} {ONE} --wait"));
    wait_for("the job to be followed", || {
        job.stderr().contains("SUBMITTED: 0 of 1 file finished").then_some(())
    });
    job.signal(Signal::INT);
    let left = job.finish().expect(1);
    let id = left.stderr.split("job ").nth(1).unwrap()[..36].to_owned();
    let said = format!("STOPPED: interrupted; job {id} continues at the server");
    assert!(
        left.stderr.contains(&said) && left.stderr.contains("hint: cancel it with `skyhaul copy --via "),
        "{}",
        left.stderr
    );
    assert_eq!(count(&fts, "DELETE"), 0);
    let at = format!("{via} --token-file @/fts --job {id}");
    let shown = here.copy(&format!("{at} --json"), 0).json();
    assert_eq!(
        (shown["state"].as_str(), shown["is_whole"].as_bool()),
        (Some("SUBMITTED"), Some(false)),
        "{shown}"
    );
    let cancelled = here.copy(&format!("{at} --cancel"), 0);
    assert!(cancelled.told().contains("CANCELED: 0 of 1 file finished, 1 canceled"), "{}", cancelled.told());
    assert!(
        cancelled.told().contains("CANCELED http://127.0.0.1:1/exp/f: Job canceled by the user"),
        "{}",
        cancelled.told()
    );
    // It has ended, and not as it should.
    here.copy(&format!("{at} --wait"), 1);
    here.copy(&at, 1);
    // A job that had ended otherwise is not cancelled.
    let from = Site::new(1);
    let files = Files::of(from, INSIDE);
    files.ask("PUT /exp/f", &[], b"data").expect(201);
    fts.hold(false);
    let url = format!("http://{}/exp", files.address);
    let whole = here.copy(&format!("{via} --token-file @/fts {url}/f {url}/g --wait --json"), 0).json();
    let at = format!("{via} --token-file @/fts --job {}", whole["job_id"].as_str().unwrap());
    let late = here.copy(&format!("{at} --cancel"), 1);
    assert!(late.stderr.contains("the job had ended before: FINISHED"), "{}", late.stderr);
    here.copy(&at, 0);
}

/// A reply that was lost makes no second job; a server that restarts is waited for; what it says wrongly is not believed.
#[test]
fn a_server_in_trouble_is_asked_again_and_not_believed() {
    let here = Here::new();
    let files = Files::of(Site::new(1), INSIDE);
    files.ask("PUT /exp/f", &[], b"data").expect(201);
    let url = format!("http://{}/exp", files.address);
    let line = |fts: &Fts, name: &str| {
        format!("{} --token-file @/fts {url}/f {url}/{name} --wait --json", fts.via())
    };
    let lost = AtomicUsize::new(0);
    let fts = Fts::start(TOKEN, move |request| {
        let is_first = request.line == "POST /jobs" && lost.fetch_add(1, Ordering::Relaxed) == 0;
        is_first.then_some(Act::DoAndEnd)
    });
    let report = here.copy(&line(&fts, "lost"), 0).json();
    assert_eq!(
        (fts.jobs(), count(&fts, "POST"), report["state"].as_str()),
        (1, 2, Some("FINISHED")),
        "{report}"
    );
    // The same with a server that was busy, and made none.
    let busy = AtomicUsize::new(0);
    let fts = Fts::start(TOKEN, move |request| {
        let is_first = request.line == "POST /jobs" && busy.fetch_add(1, Ordering::Relaxed) == 0;
        is_first.then(|| Act::Say(503, "<html>busy</html>".to_owned()))
    });
    here.copy(&line(&fts, "busy"), 0);
    assert_eq!((fts.jobs(), count(&fts, "POST")), (1, 2));
    let fts = asked(|before| match before {
        0 => Some(Act::Say(500, "Internal Server Error".to_owned())),
        1 => Some(Act::End),
        2 => Some(Act::Say(200, "<html>in maintenance</html>".to_owned())),
        3 => Some(Act::Say(
            200,
            json!({"job_id": NOBODY, "job_state": "FINISHED", "files": [{"file_state": "FINISHED"}]})
                .to_string(),
        )),
        4 => Some(Act::Say(429, String::new())),
        _ => None,
    });
    let report = here.copy(&line(&fts, "restarted"), 0).json();
    assert_eq!(report["files"][0]["destination"].as_str(), Some(&*format!("{url}/restarted")), "{report}");
    assert!(count(&fts, "GET") >= 7);
    // One that says the same of another job each time, or talks without an end.
    let fts = asked(|_| Some(Act::Say(200, json!({"job_id": NOBODY, "job_state": "FINISHED"}).to_string())));
    let said = here.copy(&format!("{} {ONE} --wait", fts.via()), 1).stderr;
    assert!(
        said.contains("sent something else than the job: it is another one; job ")
            && said.contains("continues at the server"),
        "{said}"
    );
    let fts = asked(|_| Some(Act::Endless));
    let said = here.copy(&format!("{} --token-file @/fts --job {NOBODY}", fts.via()), 2).stderr;
    assert!(said.contains("with more than 64 MiB"), "{said}");
    // It says that all is done, and no files.
    let fts = Fts::start(TOKEN, |request| {
        let id = request.line.strip_prefix("GET /jobs/")?.get(..36)?.to_owned();
        Some(Act::Say(200, json!({"job_id": id, "job_state": "FINISHED", "files": []}).to_string()))
    });
    let report: Value = here.copy(&format!("{} {ONE} --wait --json", fts.via()), 1).json();
    assert_eq!(report["is_whole"], false, "{report}");
    // A reply without a number.
    let fts = Fts::start(TOKEN, |request| {
        (request.line == "POST /jobs").then(|| Act::Say(200, json!({"job_id": "../x"}).to_string()))
    });
    assert!(here.copy(&format!("{} {ONE}", fts.via()), 2).stderr.contains("did not say its number"));
}

/// Refusals of the server are said as it says them, without what commands a terminal and without tokens.
#[test]
fn refusals_name_the_reason_and_what_to_do() {
    let here = Here::new();
    let fts = Fts::start(TOKEN, |request| {
        let say = |status, message: &str| {
            Some(Act::Say(status, json!({"status": "x", "message": message}).to_string()))
        };
        match request.body.as_str() {
            body if body.contains("/denied") => say(403, &format!("no \u{1b}[2J rights for {TOKEN}")),
            body if body.contains("/bad") => {
                say(400, "Invalid value within the request: https://a/f?X-Amz-Signature=cafe")
            }
            body if body.contains("/twice") => say(409, "The submission is duplicated"),
            body if body.contains("/proxy") => say(419, "No delegation found"),
            _ => None,
        }
    });
    let via = fts.via();
    here.write("wrong", "0000000000000000");
    let to = "http://127.0.0.1:1/exp/";
    for (line, why, hint) in [
        (format!("{to}denied {to} --token-file @/fts"), "Permission denied: the FTS server", "audience"),
        (
            format!("{to}denied {to} --token-file @/fts"),
            "answered 403 Forbidden: no [2J rights for …",
            "issuer",
        ),
        (format!("{to}x {to} --token-file @/wrong"), "Invalid OAuth2 credentials", "issuer"),
        (format!("{to}x {to}"), "answered 403", "--via-token-file"),
        (format!("{to}bad {to} --token-file @/fts"), "Invalid value within the request: https://a/f?…", ""),
        (
            format!("{to}twice {to} --token-file @/fts"),
            "answered 409 Conflict: The submission is duplicated",
            "another job",
        ),
        (format!("{to}proxy {to} --token-file @/fts"), "No delegation found", "fts-rest-delegate"),
        (format!("--job {NOBODY} --token-file @/fts"), "No job with the id", "archive"),
        (format!("--job {NOBODY} --token-file @/fts --wait"), "answered 404 Not Found", "archive"),
        (format!("--job {NOBODY} --token-file @/fts --cancel"), "No job with the id", "archive"),
    ] {
        let said = here.copy(&format!("{via} {line}"), 2).stderr;
        assert!(said.contains(why) && said.contains(hint), "{line}: {said}");
        assert!(!said.contains('\u{1b}') && !said.contains(TOKEN) && !said.contains("cafe"), "{said}");
    }
    assert_eq!(fts.jobs(), 0);
    let before = fts.requests().len();
    for (line, why) in [
        (format!("{to}x {to} --limit 1Gbps"), "--limit does nothing with --via"),
        (format!("{to}x {to} --verify"), "--verify does nothing with --via"),
        (format!("{to}x {to} --depth 2"), "--depth does nothing with --via"),
        (format!("{to}x {to} --third-party --mode pull"), "--third-party does nothing with --via"),
        (format!("{to}x {to} --exists skip"), "FTS fails where a file exists"),
        (format!("{to}x @/y"), "must be URLs"),
        (format!("{to}x {to}x/y {to}x"), "two files would become"),
        (format!("{to}x {to} --checksum-mode target"), "none is"),
        (format!("{to}x {to}y {to} --checksum ADLER32:03da0195"), "a checksum is of one file"),
    ] {
        let said = here.copy(&format!("{via} {line}"), 2).stderr;
        assert!(said.contains(why), "{line}: {said}");
    }
    let said = here.copy(&format!("--via fts=http://192.0.2.1 {to}x {to} --token-file @/fts"), 2).stderr;
    assert!(said.contains("in plain text"), "{said}");
    assert_eq!(fts.requests().len(), before);
}

/// A job may take longer than a token is valid: the file is read again.
#[test]
fn a_token_that_is_renewed_in_its_file_is_used() {
    let here = Here::new();
    let seen = Mutex::new(0);
    let fts = Fts::start("another-token-of-the-user", move |request| {
        // The first one holds until the job is followed.
        let is_old = request.head.contains(TOKEN);
        if !request.line.starts_with("GET /jobs/") || !is_old {
            let submitted = request.line == "POST /jobs" || request.line == "GET /whoami";
            return (is_old && submitted).then(|| match request.line.as_str() {
                "POST /jobs" => Act::Say(200, json!({ "job_id": NOBODY }).to_string()),
                _ => Act::Say(200, "{}".to_owned()),
            });
        }
        *seen.lock().unwrap() += 1;
        Some(Act::Say(
            200,
            json!({"job_id": NOBODY, "job_state": "ACTIVE", "files": [{"file_state": "ACTIVE"}]}).to_string(),
        ))
    });
    let job = here.start(&format!("{} {ONE} --wait", fts.via()));
    wait_for("the job to be followed", || job.stderr().contains("ACTIVE").then_some(()));
    here.write("fts", "another-token-of-the-user");
    // To the new token, the server says that it has no such job.
    let said = job.finish().expect(2).stderr;
    assert!(said.contains("No job with the id"), "{said}");
}
