//! One connection: its lines in, answers and actions out.

use super::commands::{self, Context, Pending, Step};
use super::line::{MAX_LINE_BYTES, NotARequest, VsiLine, VsiRequest};
use super::reply::{MAX_REPLY_BYTES, VsiCode, VsiDialect, VsiReply};
use super::runtime::{DEFAULT_RUNTIME, MAX_RUNTIME_NAME_BYTES, Shared, VsiRuntimes};
use super::view::{VsiAction, VsiOutcome, VsiSource, VsiView};
use crate::placement::Nanos;
use std::collections::VecDeque;

/// Number of requests that wait behind an action, from which on lines are dropped.
pub const MAX_WAITING_REQUESTS: usize = 1024;

/// What a dialogue wants of its caller, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum VsiOutput {
    /// Send this, which ends with the end of a line.
    Reply(String),
    /// Carry this out, and call [`VsiDialogue::handle_done`]. There is never more than one at a time.
    Do(VsiAction),
}

/// Requests of a connection, and those among them that were refused before they were understood.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VsiDialogueCounts {
    /// Requests that were answered.
    pub requests: u64,
    /// Parts of lines that are no requests, and lines that are too long.
    pub rejected: u64,
}

/// The dialogue of one connection.
#[derive(Clone, Debug)]
pub struct VsiDialogue {
    id: u64,
    dialect: VsiDialect,
    runtime: String,
    echo: bool,
    waiting: VecDeque<Waiting>,
    /// Answers to the requests of this line so far.
    answers: String,
    /// The request whose action is carried out, what its outcome means, and what it [settles](VsiAction::settles).
    pending: Option<(VsiRequest, Pending, Option<u64>)>,
    counts: VsiDialogueCounts,
}

#[derive(Clone, Debug)]
enum Waiting {
    Request(VsiRequest),
    Invalid(&'static str),
    EndOfLine { crlf: bool },
}

impl VsiDialogue {
    /// Begins a dialogue in the default runtime. `id` is the number of the connection, which no other has had.
    #[must_use]
    pub fn new(id: u64) -> Self {
        Self::of(VsiDialect::default(), id)
    }

    /// The same in a dialect.
    #[must_use]
    pub fn of(dialect: VsiDialect, id: u64) -> Self {
        Self {
            id,
            dialect,
            runtime: DEFAULT_RUNTIME.to_owned(),
            echo: false,
            waiting: VecDeque::new(),
            answers: String::new(),
            pending: None,
            counts: VsiDialogueCounts::default(),
        }
    }

    /// Takes a line, and returns what follows from it. While an action is carried out, lines wait.
    pub fn handle_line(
        &mut self,
        line: &VsiLine,
        shared: &mut VsiRuntimes,
        view: &VsiView,
        now: Nanos,
    ) -> Vec<VsiOutput> {
        if self.waiting.len() >= MAX_WAITING_REQUESTS {
            // The caller need not read on while an action is carried out.
            self.counts.rejected += 1;
            return Vec::new();
        }
        let crlf = match line {
            VsiLine::TooLong => {
                self.waiting.push_back(Waiting::Invalid("the line is too long"));
                false
            }
            VsiLine::Text { bytes, crlf } => {
                debug_assert!(bytes.len() <= MAX_LINE_BYTES);
                for request in VsiRequest::on_line(bytes) {
                    match request {
                        Ok(request) => self.waiting.push_back(Waiting::Request(request)),
                        Err(NotARequest(why)) => self.waiting.push_back(Waiting::Invalid(why)),
                    }
                }
                *crlf
            }
        };
        self.waiting.push_back(Waiting::EndOfLine { crlf });
        self.run(shared, view, now)
    }

    /// Takes the outcome of the action; `view` includes what it did.
    pub fn handle_done(
        &mut self,
        outcome: VsiOutcome,
        shared: &mut VsiRuntimes,
        view: &VsiView,
        now: Nanos,
    ) -> Vec<VsiOutput> {
        self.outcome(Some(outcome), shared, view, now)
    }

    /// Answers without the outcome of the action, after its [deadline](VsiAction::deadline). The outcome of an action that
    /// [settles](VsiAction::settles) something is reported to [`VsiRuntimes::settle`] when it is known, that of any other is not.
    pub fn handle_late(&mut self, shared: &mut VsiRuntimes, view: &VsiView, now: Nanos) -> Vec<VsiOutput> {
        self.outcome(None, shared, view, now)
    }

    /// Ends the dialogue: returns what ends the recordings and transfers of its transient runtimes.
    pub fn close(self, shared: &mut VsiRuntimes) -> Vec<VsiAction> {
        shared.end_with(self.id)
    }

    /// Whether an action is being carried out.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.pending.is_some()
    }

    /// Returns the counts of the connection.
    #[must_use]
    pub fn counts(&self) -> VsiDialogueCounts {
        self.counts
    }

    fn run(&mut self, shared: &mut VsiRuntimes, view: &VsiView, now: Nanos) -> Vec<VsiOutput> {
        let mut outputs = Vec::new();
        while self.pending.is_none() {
            let Some(waiting) = self.waiting.pop_front() else { break };
            match waiting {
                Waiting::Request(request) => {
                    self.counts.requests += 1;
                    let step = self.carry_out(&request, shared, view, now);
                    self.take(step, request, shared, &mut outputs);
                }
                Waiting::Invalid(why) => {
                    self.counts.rejected += 1;
                    let answer =
                        VsiReply::of(self.dialect, "syntax", false, VsiCode::Syntax).field(why).finish();
                    self.answer(&answer, &mut outputs);
                }
                Waiting::EndOfLine { crlf } => self.end_line(if crlf { "\r\n" } else { "\n" }, &mut outputs),
            }
        }
        outputs
    }

    fn outcome(
        &mut self,
        outcome: Option<VsiOutcome>,
        shared: &mut VsiRuntimes,
        view: &VsiView,
        now: Nanos,
    ) -> Vec<VsiOutput> {
        let Some((request, pending, settles)) = self.pending.take() else { return Vec::new() };
        if let Some(id) = settles.filter(|_| outcome.is_some()) {
            shared.answered(id);
        }
        let mut outputs = Vec::new();
        let step = match self.context(&request, shared, view, now) {
            Some(mut context) => commands::answer(&mut context, pending, outcome),
            None => Step::Reply(self.runtime_is_gone(&request)),
        };
        self.take(step, request, shared, &mut outputs);
        outputs.extend(self.run(shared, view, now));
        outputs
    }

    fn take(
        &mut self,
        step: Step,
        request: VsiRequest,
        shared: &mut VsiRuntimes,
        outputs: &mut Vec<VsiOutput>,
    ) {
        match step {
            Step::Reply(reply) => self.answer(&reply.finish(), outputs),
            Step::Act(action, pending) => {
                let settles = action.settles();
                if let Some(id) = settles {
                    shared.expect(id);
                }
                self.pending = Some((request, pending, settles));
                outputs.push(VsiOutput::Do(action));
            }
        }
    }

    /// Appends an answer to those of the line; what does not fit into a line begins another.
    fn answer(&mut self, answer: &str, outputs: &mut Vec<VsiOutput>) {
        if self.answers.len() + answer.len() + 2 > MAX_REPLY_BYTES {
            self.end_line("\n", outputs);
        }
        self.answers.push_str(answer);
    }

    fn end_line(&mut self, end: &str, outputs: &mut Vec<VsiOutput>) {
        if !self.answers.is_empty() {
            outputs.push(VsiOutput::Reply(std::mem::take(&mut self.answers) + end));
        }
    }

    fn carry_out(
        &mut self,
        request: &VsiRequest,
        shared: &mut VsiRuntimes,
        view: &VsiView,
        now: Nanos,
    ) -> Step {
        match request.keyword.as_str() {
            _ if self.dialect == VsiDialect::Mark6 => {}
            "runtime" => return Step::Reply(self.runtime(request, shared, view)),
            "echo" => return Step::Reply(self.echo(request)),
            _ => {}
        }
        shared.notice(view, now);
        match self.context(request, shared, view, now) {
            Some(mut context) => commands::carry_out(&mut context),
            None => Step::Reply(self.runtime_is_gone(request)),
        }
    }

    fn context<'a>(
        &self,
        request: &'a VsiRequest,
        shared: &'a mut VsiRuntimes,
        view: &'a VsiView,
        now: Nanos,
    ) -> Option<Context<'a>> {
        let Shared { runtime, errors, next_recording, unsettled } = shared.get_mut(&self.runtime)?;
        let dialect = self.dialect;
        Some(Context { dialect, runtime, errors, next_recording, unsettled, view, now, request })
    }

    fn runtime_is_gone(&self, request: &VsiRequest) -> VsiReply {
        let why = format!("runtime {} has been deleted", self.runtime);
        VsiReply::of(self.dialect, &request.keyword, request.query, VsiCode::Failed).message(&why)
    }

    fn echo(&mut self, request: &VsiRequest) -> VsiReply {
        let reply = |code| VsiReply::new("echo", request.query, code);
        if request.query {
            return reply(VsiCode::Done).field(if self.echo { "on" } else { "off" });
        }
        match (request.fields.len(), request.field(0)) {
            (1, word @ ("on" | "off")) => {
                self.echo = word == "on";
                reply(VsiCode::Done)
            }
            _ => reply(VsiCode::Parameter).field("expected on or off"),
        }
    }

    /// `runtime = name [: new | exists | transient | delete]`
    fn runtime(&mut self, request: &VsiRequest, shared: &mut VsiRuntimes, view: &VsiView) -> VsiReply {
        let reply = |code| VsiReply::new("runtime", request.query, code);
        if request.query {
            let others: Vec<&str> = shared.names().filter(|name| *name != self.runtime).collect();
            let count = shared.names().count();
            return reply(VsiCode::Done).field(&self.runtime).field(count).fields(others);
        }
        let (name, word) = (request.field(0), request.word(1));
        let legal = name.len() <= MAX_RUNTIME_NAME_BYTES && name.bytes().all(|b| b.is_ascii_graphic());
        if request.fields.len() > 2 || name.is_empty() || !legal {
            return reply(VsiCode::Parameter).field("expected a name of up to 64 characters, and an action");
        }
        let conflict = |why: &str| reply(VsiCode::Conflict).field(format_args!("{name} {why}"));
        let existing = shared.get(name);
        match (word.as_str(), existing) {
            ("delete", None) | ("exists", None) => return conflict("does not exist"),
            ("new" | "transient", Some(_)) => return conflict("exists already"),
            ("delete", Some(_)) if name == DEFAULT_RUNTIME => return conflict("cannot be deleted"),
            ("delete", Some(runtime)) if runtime.is_recording(view) => {
                return conflict("is recording, use record=off first");
            }
            ("delete", Some(runtime)) if runtime.transferring(view).is_some() => {
                let source = runtime.transfer.as_ref().map(|held| held.source);
                return conflict(match source {
                    Some(VsiSource::ScanToFile) => "is writing a file, use reset=abort first",
                    Some(VsiSource::ScanToEtransfer) => "is sending, use reset=abort first",
                    _ => "is sending, use disk2net=disconnect first",
                });
            }
            ("delete", Some(runtime)) if runtime.open_arrival(view).is_some() => {
                return conflict("is receiving, close that first");
            }
            ("delete", Some(_)) => {
                shared.remove(name);
                if self.runtime == name {
                    DEFAULT_RUNTIME.clone_into(&mut self.runtime);
                }
                return reply(VsiCode::Done).field(&self.runtime);
            }
            ("" | "exists", Some(_)) => {}
            ("" | "new" | "transient", None) => {
                let owner = (word == "transient").then_some(self.id);
                if !shared.create(name, owner) {
                    return reply(VsiCode::Failed).field("there are too many runtimes");
                }
            }
            _ => return reply(VsiCode::Parameter).field("expected new, exists, transient or delete"),
        }
        name.clone_into(&mut self.runtime);
        reply(VsiCode::Done).field(name)
    }
}
