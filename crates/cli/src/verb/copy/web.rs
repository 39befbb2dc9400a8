//! `skyhaul copy` with URLs.

use super::options::{exists, is_url, refuse, tuning};
use super::summary::{shown, tell};
use crate::args::{CopyFilesArgs, CopyModeArg};
use crate::outcome::{Interrupt, Outcome};
use crate::print::Progress as Line;
use crate::verb::listener;
use anyhow::{Context, Result, bail};
use skyhaul::core::hint::Hint;
use skyhaul::stop::StopFlag;
use skyhaul_daemon::scitags::SciTag;
use skyhaul_daemon::web_copy::{CopyBetween, CopyDirection, WebAccess, WebClient, copy_between};
use skyhaul_transfer::copy::{CopyOptions, Exists};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Longest bearer token in bytes.
const MAX_TOKEN_BYTES: usize = 8 << 10;

pub(super) fn run(args: &CopyFilesArgs) -> Result<Outcome> {
    let hint =
        Hint("`URL... DIR` downloads, `FILE... URL` uploads, `--third-party URL URL` copies between servers");
    let refused = [
        ("--port", args.port.is_some()),
        ("--encrypt", args.encrypt),
        ("--window", args.window.is_some()),
        ("--cc", args.cc.is_some()),
        ("--plan", args.plan),
    ];
    refuse(&refused, "with URLs")?;
    if args.third_party {
        return between(args);
    }
    let (to, sources) = args.paths.split_last().with_context(|| format!("no destination{hint}"))?;
    let urls: Vec<String> = sources.iter().filter_map(|source| url(source).map(str::to_owned)).collect();
    if let Some(to) = url(to).filter(|_| urls.is_empty()) {
        return upload(args, sources, to);
    }
    if url(to).is_some() || urls.len() != sources.len() {
        bail!("either all sources or the destination must be URLs{hint}");
    }
    let client = client(args, args.token_file.as_deref())?;
    let interrupt = Interrupt::listen()?;
    let (into, name) = destination(Path::new(to), urls.len());
    let options =
        CopyOptions { into: vec![into], pull: true, ..options(args, exists(args.exists)?, &interrupt) };
    let mut line = Line::new(args.output.quiet);
    line.show("asking the server what it has");
    let report = client.download(&urls, name.as_deref(), &options, &mut |progress| {
        line.show(&shown(progress));
    });
    line.clear();
    tell(args, &report?)
}

/// From here to a server.
fn upload(args: &CopyFilesArgs, sources: &[OsString], to: &str) -> Result<Outcome> {
    refuse(&of_disks(args), "with uploads to URLs")?;
    let sources: Vec<PathBuf> = sources.iter().map(PathBuf::from).collect();
    if let Some(missing) = sources.iter().find(|path| path.symlink_metadata().is_err()) {
        let hint = Hint(
            "for a recording as one file, have `skyhaul serve` offer it, and copy it from there with --third-party",
        );
        bail!("{}: no such file or directory{hint}", missing.display());
    }
    let client = client(args, args.token_file.as_deref())?;
    let interrupt = Interrupt::listen()?;
    let options = CopyOptions { sources, ..options(args, exists(args.exists)?, &interrupt) };
    let mut line = Line::new(args.output.quiet);
    line.show("asking the server what it has");
    let report = client.upload(to, &options, &mut |progress| line.show(&shown(progress)));
    line.clear();
    tell(args, &report?)
}

/// The options of a copy with one server of HTTP, without what is copied.
pub(super) fn options(args: &CopyFilesArgs, exists: Exists, interrupt: &Interrupt) -> CopyOptions {
    CopyOptions {
        server: Vec::new(),
        sources: Vec::new(),
        into: Vec::new(),
        pull: false,
        exists,
        tuning: tuning(args),
        plan: false,
        dry_run: args.dry_run,
        verify: args.verify,
        stop: StopFlag::from(interrupt.flag()),
    }
}

/// From one server to another.
fn between(args: &CopyFilesArgs) -> Result<Outcome> {
    let hint = Hint("`skyhaul copy --third-party https://a/file https://b/directory/`");
    let [source, destination] = args.paths.as_slice() else { bail!("expected two URLs{hint}") };
    let (Some(source), Some(destination)) = (url(source), url(destination)) else {
        bail!("expected two URLs{hint}");
    };
    let refused = [("--verify", args.verify), ("--dry-run", args.dry_run), ("--limit", args.limit.is_some())];
    refuse(&refused, "with --third-party")?;
    refuse(&of_disks(args), "with --third-party")?;
    let own = args.source_token_file.as_deref().or(args.token_file.as_deref());
    let (there, here) = (client(args, args.token_file.as_deref())?, client(args, own)?);
    let interrupt = Interrupt::listen()?;
    let order = CopyBetween {
        source: source.to_owned(),
        destination: destination.to_owned(),
        direction: match args.mode {
            None => CopyDirection::Either,
            Some(CopyModeArg::Pull) => CopyDirection::Pull,
            Some(CopyModeArg::Push) => CopyDirection::Push,
        },
        streams: args.flows,
        exists: exists(args.exists)?,
        stop: StopFlag::from(interrupt.flag()),
    };
    let mut line = Line::new(args.output.quiet);
    line.show("asking the servers what they have");
    let report = copy_between(&order, &here, &there, &mut |progress| line.show(&shown(progress)));
    line.clear();
    tell(args, &report?)
}

/// The options of the disk here.
pub(super) fn of_disks(args: &CopyFilesArgs) -> [(&'static str, bool); 4] {
    [
        ("--range", args.range.is_some()),
        ("--depth", args.depth.is_some()),
        ("--buffered", args.buffered),
        ("--disk-engine", args.disk_engine.is_some()),
    ]
}

pub(super) fn url(word: &OsStr) -> Option<&str> {
    word.to_str().filter(|text| is_url(text))
}

/// The directory to copy into and, if one file gets another name, that.
pub(super) fn destination(to: &Path, sources: usize) -> (PathBuf, Option<OsString>) {
    let is_directory = to.is_dir() || to.as_os_str().as_bytes().ends_with(b"/") || sources > 1;
    match to.file_name() {
        Some(name) if !is_directory => {
            let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
            (parent.unwrap_or(Path::new(".")).to_owned(), Some(name.to_owned()))
        }
        _ => (to.to_owned(), None),
    }
}

fn client(args: &CopyFilesArgs, token_file: Option<&Path>) -> Result<WebClient> {
    let token = token_file.map(bearer).transpose()?;
    let access = WebAccess {
        token,
        token_in_plain_text: args.plain_token,
        authorities: args.ca.clone(),
        tag: args.scitag.and_then(SciTag::from_number),
    };
    Ok(WebClient::new(&access, tuning(args).patience)?)
}

/// The bearer token in a file.
pub(super) fn bearer(path: &Path) -> Result<String> {
    let token = listener::read_line(path).context("token file")?;
    if token.is_empty() || token.len() > MAX_TOKEN_BYTES || !token.bytes().all(|byte| byte.is_ascii_graphic())
    {
        bail!(
            "{} holds no token: expected one line without spaces{}",
            path.display(),
            Hint("write the bearer token into it")
        );
    }
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_a_directory_or_the_name_of_a_file() {
        let here = tempfile::tempdir().unwrap();
        let at = |path: &str| here.path().join(path);
        assert_eq!(destination(here.path(), 1), (here.path().to_owned(), None));
        assert_eq!(destination(&at("f"), 1), (here.path().to_owned(), Some("f".into())));
        assert_eq!(destination(&at("d/"), 1), (at("d/"), None));
        assert_eq!(destination(&at("d"), 2), (at("d"), None));
        assert_eq!(destination(Path::new("f"), 1), (".".into(), Some("f".into())));
    }

    #[test]
    fn urls_are_told_from_hosts_and_paths() {
        for (text, is) in [
            ("https://a/f", true),
            ("davs://a", true),
            ("s3://bucket/f", true),
            ("host:/f", false),
            ("./a://b", false),
            ("://a", false),
        ] {
            assert_eq!(super::is_url(text), is, "{text}");
        }
    }
}
