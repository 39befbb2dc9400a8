//! `skyhaul copy --via fts=URL`: jobs of an FTS server.
//!
//! Results stand on standard output: the number of a job that was submitted, or how a job is. What the user may do next stands on standard error.

use super::options::refuse;
use super::web::{bearer, of_disks, url};
use crate::args::{ChecksumModeArg, CopyExistsArg, CopyFilesArgs};
use crate::outcome::{Interrupt, Outcome};
use crate::print::{self, Progress as Line};
use crate::verb::output::{command_line, typed};
use crate::verb::receiving::print_json;
use anyhow::{Context, Result, bail};
use serde::Serialize;
use skyhaul::core::hint::{Hint, lines};
use skyhaul::stop::StopFlag;
use skyhaul_daemon::scitags::SciTag;
use skyhaul_daemon::web_copy::WebAccess;
use skyhaul_daemon::web_copy::fts::{
    FtsAccess, FtsChecksumMode, FtsClient, FtsFile, FtsFollowed, FtsJob, FtsJobId, FtsOptions, FtsOrder,
};
use std::fmt::Write as _;
use std::path::Path;

/// Files that are listed one by one.
const MAX_LISTED: usize = 20;

/// A job that was submitted.
#[derive(Serialize)]
struct Submitted<'a> {
    version: u32,
    command: String,
    server: &'a str,
    job_id: &'a FtsJobId,
}

/// A job, and the command that asked for it.
#[derive(Serialize)]
struct JobReport<'a> {
    version: u32,
    command: String,
    server: &'a str,
    #[serde(flatten)]
    job: Option<&'a FtsJob>,
    /// Each file was transferred.
    is_whole: bool,
    /// Why the job is followed no more, though it has not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<&'a str>,
}

pub(super) fn run(args: &CopyFilesArgs) -> Result<Outcome> {
    let Some(server) = &args.via.via else { bail!("--via is missing") };
    let refused = [
        ("--port", args.port.is_some()),
        ("--encrypt", args.encrypt),
        ("--window", args.window.is_some()),
        ("--cc", args.cc.is_some()),
        ("--limit", args.limit.is_some()),
        ("--plan", args.plan),
        ("--verify", args.verify),
        ("--third-party", args.third_party),
    ];
    refuse(&refused, "with --via")?;
    refuse(&of_disks(args), "with --via")?;
    let access = access(args, &server.0)?;
    let client = FtsClient::new(&access)?;
    let interrupt = Interrupt::listen()?;
    let at = At { args, server: &server.0, stop: StopFlag::from(interrupt.flag()) };
    match &args.via.job {
        Some(job) if args.via.cancel => at.cancel(&client, job),
        Some(job) if args.via.wait => at.follow(client, job),
        Some(job) => {
            let job = client.status(job, &at.stop)?;
            at.tell(&FtsFollowed { job: Some(job), stopped: None })
        }
        None => at.submit(client),
    }
}

/// What every use of a server needs.
struct At<'a> {
    args: &'a CopyFilesArgs,
    server: &'a str,
    stop: StopFlag,
}

impl At<'_> {
    fn submit(&self, client: FtsClient) -> Result<Outcome> {
        let mut line = Line::new(self.args.output.quiet);
        line.show("asking the servers what they have");
        let draft = client.draft(&order(self.args)?, &self.stop)?;
        if self.args.dry_run {
            line.clear();
            print_json(&FtsClient::document(&draft))?;
            return Ok(Outcome::Done);
        }
        line.show("submitting the job");
        let job = client.submit(&draft, &self.stop);
        line.clear();
        let job = job?;
        if self.args.via.wait {
            // At once, so that it is not lost with this process.
            say!("job {job}");
            return self.follow(client, &job);
        }
        match self.args.output.json {
            true => print_json(&Submitted {
                version: skyhaul::report::VERSION,
                command: command_line(),
                server: self.server,
                job_id: &job,
            })?,
            false => tell_text!("{job}\n"),
        }
        if !self.args.output.quiet {
            say!("follow: {}\ncancel: {}", self.line(&job, "--wait"), self.line(&job, "--cancel"));
        }
        Ok(Outcome::Done)
    }

    fn follow(&self, mut client: FtsClient, job: &FtsJobId) -> Result<Outcome> {
        let mut line = Line::new(self.args.output.quiet);
        line.show("asking the FTS server");
        // A file that cannot be read now may be one that is being replaced: the token before it stays.
        let token = || token_file(self.args).and_then(|path| std::fs::read_to_string(path).ok());
        let token = || token().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let (mut said, quiet) = (String::new(), self.args.output.quiet);
        let followed = client.follow(job, &self.stop, &token, &mut |job| {
            line.show(&state(job));
            if !line.is_live() && !quiet && !job.has_ended() && said != job.state {
                say!("{}", state(job));
                said.clone_from(&job.state);
            }
        });
        line.clear();
        let followed = followed.with_context(|| format!("job {job}"))?;
        if let Some(why) = &followed.stopped {
            let follow = Hint(format_args!("follow it with `{}`", self.line(job, "--wait"))).to_string();
            let cancel = Hint(format_args!("cancel it with `{}`", self.line(job, "--cancel"))).to_string();
            say!(
                "{}",
                lines("", &format!("STOPPED: {why}; job {job} continues at the server{follow}{cancel}"))
            );
        }
        self.tell(&followed)
    }

    fn cancel(&self, client: &FtsClient, job: &FtsJobId) -> Result<Outcome> {
        let job = client.cancel(job, &self.stop)?;
        let is_cancelled = job.state == "CANCELED";
        if !is_cancelled && job.has_ended() {
            print::note(&format!("the job had ended before: {}", job.state));
        }
        self.tell(&FtsFollowed { job: Some(job), stopped: None })?;
        Ok(if is_cancelled { Outcome::Done } else { Outcome::Failed })
    }

    /// How a job is; a failure if it has ended and a file was not transferred, or it is not known how it ends.
    fn tell(&self, followed: &FtsFollowed) -> Result<Outcome> {
        let job = followed.job.as_ref();
        let is_whole = job.is_some_and(FtsJob::is_whole);
        if self.args.output.json {
            print_json(&JobReport {
                version: skyhaul::report::VERSION,
                command: command_line(),
                server: self.server,
                job,
                is_whole,
                stopped: followed.stopped.as_deref(),
            })?;
        } else if let Some(job) = job {
            tell_text!("{}", summary(job));
        }
        let is_running = followed.stopped.is_none() && job.is_some_and(|job| !job.has_ended());
        Ok(if is_whole || is_running { Outcome::Done } else { Outcome::Failed })
    }

    /// The command for this job.
    fn line(&self, job: &FtsJobId, what: &str) -> String {
        let mut line = format!("skyhaul copy --via {} --job {job}", typed(&format!("fts={}", self.server)));
        let paths = [
            ("--token-file", &self.args.token_file),
            ("--via-token-file", &self.args.via.via_token_file),
            ("--ca", &self.args.ca),
        ];
        for (option, path) in paths {
            let _ = path.as_ref().map(|path| write!(line, " {option} {}", typed(&path.to_string_lossy())));
        }
        if self.args.plain_token {
            line += " --plain-token";
        }
        format!("{line} {what}")
    }
}

/// The file with the token for the server.
fn token_file(args: &CopyFilesArgs) -> Option<&Path> {
    args.via.via_token_file.as_deref().or(args.token_file.as_deref())
}

fn access(args: &CopyFilesArgs, server: &str) -> Result<FtsAccess> {
    let own = token_file(args);
    let token = own.map(bearer).transpose()?;
    // Each file is read once, with one warning if others can read it, too.
    let of = |path: Option<&Path>| match path.filter(|path| Some(*path) != own) {
        Some(path) => bearer(path).map(Some),
        None => Ok(path.and(token.clone())),
    };
    let destination_token = of(args.token_file.as_deref())?;
    let source_token = match &args.source_token_file {
        Some(path) => of(Some(path))?,
        None => destination_token.clone(),
    };
    Ok(FtsAccess {
        server: server.to_owned(),
        web: WebAccess {
            token,
            token_in_plain_text: args.plain_token,
            authorities: args.ca.clone(),
            tag: None,
        },
        source_token,
        destination_token,
    })
}

fn order(args: &CopyFilesArgs) -> Result<FtsOrder> {
    let hint = Hint("`skyhaul copy --via fts=https://fts.example:8446 https://a/file https://b/directory/`");
    let urls: Option<Vec<String>> = args.paths.iter().map(|word| url(word).map(str::to_owned)).collect();
    let Some(mut sources) = urls else { bail!("with --via, sources and destination must be URLs{hint}") };
    let Some(destination) = sources.pop() else { bail!("no destination{hint}") };
    let overwrite = match args.exists {
        CopyExistsArg::Fail => false,
        CopyExistsArg::Replace => true,
        CopyExistsArg::Skip | CopyExistsArg::Resume => {
            bail!(
                "FTS fails where a file exists, or replaces it{}",
                Hint("--exists fail or --exists replace")
            )
        }
    };
    let via = &args.via;
    let options = FtsOptions {
        checksum_mode: match via.checksum_mode {
            None | Some(ChecksumModeArg::Both) => FtsChecksumMode::Both,
            Some(ChecksumModeArg::Source) => FtsChecksumMode::Source,
            Some(ChecksumModeArg::Target) => FtsChecksumMode::Target,
            Some(ChecksumModeArg::None) => FtsChecksumMode::Neither,
        },
        checksum: via.checksum.clone().unwrap_or_else(|| "ADLER32".to_owned()),
        overwrite,
        retry: via.retry,
        priority: via.priority,
        activity: via.activity.clone(),
        streams: args.flows,
        tag: args.scitag.and_then(SciTag::from_number),
    };
    Ok(FtsOrder { sources, destination, options })
}

/// A job in a line.
fn state(job: &FtsJob) -> String {
    let (finished, all) = (job.finished_files(), job.files.len());
    let mut line = format!(
        "{}: {} of {} finished",
        job.state,
        print::count(finished as u64),
        print::counted(all as u64, "file")
    );
    for other in ["ACTIVE", "FAILED", "CANCELED"] {
        let count = job.count(other);
        if count > 0 {
            let _ = write!(line, ", {count} {}", other.to_ascii_lowercase());
        }
    }
    line
}

fn summary(job: &FtsJob) -> String {
    let mut out = format!("job {}\n{}", job.job_id, state(job));
    let bytes: u64 =
        job.files.iter().filter(|file| file.state == "FINISHED").filter_map(|file| file.bytes).sum();
    if bytes > 0 {
        let _ = write!(out, ", {}", print::bytes(bytes));
    }
    out.push('\n');
    if let Some(reason) = &job.reason {
        let _ = writeln!(out, "  reason: {reason}");
    }
    let is_other = |file: &&FtsFile| !matches!(file.state.as_str(), "FINISHED" | "NOT_USED");
    for file in job.files.iter().filter(is_other).take(MAX_LISTED) {
        let reason = file.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let _ = writeln!(
            out,
            "  {} {}{reason}",
            file.state,
            if file.destination.is_empty() { &file.source } else { &file.destination }
        );
    }
    let more = job.files.iter().filter(is_other).count().saturating_sub(MAX_LISTED);
    if more > 0 {
        let _ = writeln!(out, "  and {more} more (--json)");
    }
    out
}
