//! An FTS server, made from the descriptions of its API (fts-rest-flask 3.13): it takes jobs, and copies their files by asking the
//! destination to pull, as FTS does. A test may answer any request itself.

use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// The organisation of all users, as `/whoami` names it: a UUID.
const ORGANISATION: &str = "5f1b9a4e-2d4b-5c0e-9a59-3f6a1c6f7a10";

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Method and target.
    pub(crate) line: String,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// What is done with a request instead of what FTS would do.
pub(crate) enum Act {
    /// This reply: a status, and a body.
    Say(u16, String),
    /// The connection ends without a word.
    End,
    /// What FTS does; the connection ends without a word.
    DoAndEnd,
    /// A body without an end.
    Endless,
}

type Answer = dyn Fn(&Request) -> Option<Act> + Send + Sync;

#[derive(Debug)]
struct File {
    job: usize,
    asked: Value,
    state: &'static str,
    reason: Option<String>,
    bytes: Option<u64>,
}

#[derive(Debug)]
struct Job {
    id: String,
    params: Value,
    is_cancelled: bool,
}

#[derive(Debug, Default)]
struct State {
    requests: Vec<Request>,
    jobs: Vec<Job>,
    files: Vec<File>,
    /// No file begins meanwhile.
    is_held: bool,
}

/// The server.
pub(crate) struct Fts {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Fts {
    /// One that takes requests with this token.
    pub(crate) fn start(
        token: &str,
        answer: impl Fn(&Request) -> Option<Act> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (address, state) = (listener.local_addr().unwrap(), Arc::<Mutex<State>>::default());
        let (answer, token, of) = (Arc::new(answer), token.to_owned(), Arc::clone(&state));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, token, state) = (Arc::clone(&answer), token.clone(), Arc::clone(&of));
                std::thread::spawn(move || serve(stream, &token, &*answer, &state));
            }
        });
        let of = Arc::clone(&state);
        std::thread::spawn(move || {
            loop {
                copy_next(&of);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        Self { address, state }
    }

    /// The option that names it.
    pub(crate) fn via(&self) -> String {
        format!("--via fts=http://{}", self.address)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Files of jobs wait, or are copied.
    pub(crate) fn hold(&self, is_held: bool) {
        self.state().is_held = is_held;
    }

    pub(crate) fn jobs(&self) -> usize {
        self.state().jobs.len()
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.state().requests.clone()
    }

    /// The document of the last job that came.
    pub(crate) fn document(&self) -> Value {
        let requests = self.requests();
        let last = requests.iter().rev().find(|request| request.line == "POST /jobs").unwrap();
        serde_json::from_str(&last.body).unwrap()
    }
}

fn serve(mut stream: TcpStream, token: &str, answer: &Answer, state: &Mutex<State>) {
    while let Some(request) = request(&mut stream) {
        state.lock().unwrap().requests.push(request.clone());
        let act = answer(&request);
        let (status, body) = match act {
            Some(Act::End) => return,
            Some(Act::Say(status, ref body)) => (status, body.clone()),
            Some(Act::Endless) => {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n[");
                while stream.write_all(&[b' '; 1 << 16]).is_ok() {}
                return;
            }
            None | Some(Act::DoAndEnd) => fts(&request, token, &mut state.lock().unwrap()),
        };
        if matches!(act, Some(Act::DoAndEnd)) {
            return;
        }
        let reply = format!(
            "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        if stream.write_all(reply.as_bytes()).is_err() {
            return;
        }
    }
}

fn request(stream: &mut TcpStream) -> Option<Request> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        (stream.read(&mut byte).ok()? == 1).then(|| head.push(byte[0]))?;
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).ok()?;
    let line = head.lines().next()?.strip_suffix(" HTTP/1.1")?.to_owned();
    Some(Request { line, head, body: String::from_utf8(body).unwrap() })
}

fn error(status: u16, name: &str, message: &str) -> (u16, String) {
    (status, json!({"status": format!("{status} {name}"), "message": message}).to_string())
}

fn fts(request: &Request, token: &str, state: &mut State) -> (u16, String) {
    if !request.head.contains(&format!("Authorization: Bearer {token}\r\n")) {
        return error(403, "Forbidden", "Invalid credentials (Invalid OAuth2 credentials)");
    }
    let (line, query) = request.line.split_once('?').unwrap_or((&request.line, ""));
    match line.split_once(' ').unwrap() {
        ("GET", "/whoami") => (200, json!({"method": "oauth2", "vos": ["vlbi"], "vos_id": [ORGANISATION], "base_id": "01874efb-4735-4595-bc9c-591aef8240c9"}).to_string()),
        ("POST", "/jobs") => submit(&serde_json::from_str(&request.body).unwrap(), state),
        (method, path) => {
            let id = path.strip_prefix("/jobs/").unwrap();
            let Some(at) = state.jobs.iter().position(|job| job.id == id) else {
                return error(404, "Not Found", &format!("No job with the id \"{id}\" has been found"));
            };
            if method == "DELETE" && job_state(state, at).1.is_null() {
                state.jobs[at].is_cancelled = true;
                let open = state.files.iter_mut().filter(|file| file.job == at && matches!(file.state, "SUBMITTED" | "ACTIVE"));
                open.for_each(|file| (file.state, file.reason) = ("CANCELED", Some("Job canceled by the user".to_owned())));
            }
            (200, job(state, at, query.strip_prefix("files=").unwrap_or_default()).to_string())
        }
    }
}

/// The number is made of the text that was chosen, so that a second submission is known.
fn submit(document: &Value, state: &mut State) -> (u16, String) {
    let sid = document["params"]["sid"].as_str().unwrap();
    assert_eq!(document["params"]["id_generator"], "deterministic");
    let id = uuid5(ORGANISATION, sid);
    if state.jobs.iter().any(|job| job.id == id) {
        return error(409, "Conflict", "The sid provided by the user is duplicated");
    }
    let job = state.jobs.len();
    for file in document["files"].as_array().unwrap() {
        state.files.push(File { job, asked: file.clone(), state: "SUBMITTED", reason: None, bytes: None });
    }
    state.jobs.push(Job { id: id.clone(), params: document["params"].clone(), is_cancelled: false });
    (200, json!({ "job_id": id }).to_string())
}

/// RFC 9562, 5.5.
fn uuid5(space: &str, name: &str) -> String {
    let hex = space.replace('-', "");
    let mut text: Vec<u8> =
        (0..16).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect();
    text.extend(name.as_bytes());
    let sum = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, &text);
    let mut sum = sum.as_ref()[..16].to_vec();
    (sum[6], sum[8]) = (sum[6] & 0x0f | 0x50, sum[8] & 0x3f | 0x80);
    let hex: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// The state of a job by those of its files, and when it ended.
fn job_state(state: &State, at: usize) -> (&'static str, Value) {
    let files: Vec<&'static str> =
        state.files.iter().filter(|file| file.job == at).map(|file| file.state).collect();
    let is = |one: &str| files.iter().filter(|state| **state == one).count();
    let ended = json!("2026-11-30T06:00:00");
    match () {
        () if state.jobs[at].is_cancelled => ("CANCELED", ended),
        () if is("FINISHED") == files.len() => ("FINISHED", ended),
        () if is("FAILED") == files.len() => ("FAILED", ended),
        () if is("FINISHED") + is("FAILED") == files.len() => ("FINISHEDDIRTY", ended),
        () if is("SUBMITTED") == files.len() => ("SUBMITTED", Value::Null),
        () => ("ACTIVE", Value::Null),
    }
}

fn job(state: &State, at: usize, fields: &str) -> Value {
    let (name, end) = job_state(state, at);
    let of = |(index, file): (usize, &File)| {
        let all = json!({
            "file_index": index, "file_state": file.state, "source_surl": file.asked["sources"][0], "dest_surl": file.asked["destinations"][0],
            "reason": file.reason, "filesize": file.bytes, "tx_duration": file.bytes.map(|_| 0.5),
        });
        let wanted = fields.split(',').map(|field| (field.to_owned(), all[field].clone()));
        Value::Object(wanted.filter(|(field, _)| !all[field].is_null()).collect())
    };
    let files: Vec<Value> = state.files.iter().filter(|file| file.job == at).enumerate().map(of).collect();
    let reason = matches!(name, "FAILED" | "FINISHEDDIRTY")
        .then_some("One or more files failed. Please have a look at the details for more information");
    json!({"job_id": state.jobs[at].id, "job_state": name, "reason": reason, "job_finished": end, "http_status": "200 Ok", "files": files})
}

/// Copies the next file that waits.
fn copy_next(state: &Mutex<State>) {
    let (at, file, overwrite) = {
        let mut all = state.lock().unwrap();
        let is_held = all.is_held;
        let Some(at) = all.files.iter().position(|file| file.state == "SUBMITTED").filter(|_| !is_held)
        else {
            return;
        };
        all.files[at].state = "ACTIVE";
        let overwrite = all.jobs[all.files[at].job].params["overwrite"] == true;
        (at, all.files[at].asked.clone(), overwrite)
    };
    let done = copy(&file, overwrite);
    let mut all = state.lock().unwrap();
    let file = &mut all.files[at];
    match done {
        Ok(bytes) => (file.state, file.bytes) = ("FINISHED", Some(bytes)),
        Err(reason) => (file.state, file.reason) = ("FAILED", Some(reason)),
    }
}

/// Asks the destination to pull, with both tokens; the size that moved.
fn copy(file: &Value, overwrite: bool) -> Result<u64, String> {
    let text = |name: &str| file[name][0].as_str().unwrap_or_default().to_owned();
    let (source, destination) = (text("sources"), text("destinations"));
    let ask = |method: &str, url: &str, more: &str| {
        let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let Ok(mut stream) = TcpStream::connect(host) else { return "Connection refused".to_owned() };
        stream
            .write_all(
                format!("{method} /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n")
                    .as_bytes(),
            )
            .unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    };
    let (own, other) = (text("destination_tokens"), text("source_tokens"));
    let right = format!("Authorization: Bearer {own}\r\n");
    if !overwrite && ask("HEAD", &destination, &right).starts_with("HTTP/1.1 200") {
        return Err("DESTINATION [17] Destination file exists and overwrite is not enabled".to_owned());
    }
    let more = format!(
        "Source: {source}\r\nCredential: none\r\n{right}TransferHeaderAuthorization: Bearer {other}\r\n"
    );
    let reply = ask("COPY", &destination, &more);
    let bytes =
        reply.lines().filter_map(|line| line.strip_prefix("Stripe Bytes Transferred: ")?.parse().ok()).max();
    // A copy of a server from itself is over with its status.
    match reply.contains("success: Created") || reply.starts_with("HTTP/1.1 201") {
        true => Ok(bytes.unwrap_or(0)),
        false => Err(format!(
            "TRANSFER [5] {}",
            reply.lines().rev().find(|line| line.len() > 3).unwrap_or_default()
        )),
    }
}
