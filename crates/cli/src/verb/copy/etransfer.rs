//! `skyhaul copy` with `etd://HOST[:PORT]/PATH`: servers of etransfer.

use super::options::{exists, refuse, tuning};
use super::summary::{shown, tell};
use super::web::{destination, of_disks, options};
use crate::args::{CopyExistsArg, CopyFilesArgs};
use crate::outcome::{Interrupt, Outcome};
use crate::print::Progress as Line;
use anyhow::{Context, Result, bail, ensure};
use skyhaul::core::hint::Hint;
use skyhaul_daemon::etransfer_copy::{EtransferClient, EtransferUploadMode, EtransferUrl};
use skyhaul_transfer::copy::{CopyOptions, Exists};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

pub(super) fn is_url(word: &OsStr) -> bool {
    word.to_str().is_some_and(EtransferUrl::is_one)
}

pub(super) fn run(args: &CopyFilesArgs) -> Result<Outcome> {
    let hint = Hint("`etd://HOST/PATH... DIR` downloads, `SRC... etd://HOST/DIR/` uploads");
    let refused = [
        ("--port", args.port.is_some()),
        ("--encrypt", args.encrypt),
        ("--window", args.window.is_some()),
        ("--cc", args.cc.is_some()),
        ("--plan", args.plan),
        ("--verify", args.verify),
        ("--third-party", args.third_party),
        ("--token-file", args.token_file.is_some()),
        ("--plain-token", args.plain_token),
        ("--ca", args.ca.is_some()),
        ("--scitag", args.scitag.is_some()),
    ];
    refuse(&refused, "with etd://")?;
    let (to, sources) = args.paths.split_last().with_context(|| format!("no destination{hint}"))?;
    let far = sources.iter().filter(|source| is_url(source)).count();
    if is_url(to) && far == 0 {
        return upload(args, sources, to);
    }
    ensure!(
        !is_url(to) && far == sources.len(),
        "either all sources or the destination must be etd:// URLs{hint}"
    );
    download(args, sources, to)
}

fn url(word: &OsStr) -> Result<EtransferUrl> {
    Ok(EtransferUrl::parse(&word.to_string_lossy())?)
}

fn download(args: &CopyFilesArgs, sources: &[OsString], to: &OsStr) -> Result<Outcome> {
    let urls: Vec<EtransferUrl> = sources.iter().map(|source| url(source)).collect::<Result<_>>()?;
    let [first, others @ ..] = &urls[..] else { bail!("no source") };
    if others.iter().any(|other| (&other.host, other.port) != (&first.host, first.port)) {
        bail!("the URLs are of different servers{}", Hint("run a copy for each of them"));
    }
    let interrupt = Interrupt::listen()?;
    let client = EtransferClient::new(first, tuning(args).patience)?;
    let is_many = urls.len() > 1 || urls.iter().any(|url| url.is_directory() || has_wildcards(&url.path));
    let (into, name) = destination(Path::new(to), if is_many { 2 } else { 1 });
    let options =
        CopyOptions { into: vec![into], pull: true, ..options(args, exists(args.exists)?, &interrupt) };
    let mut line = Line::new(args.output.quiet);
    line.show("asking the server what it has");
    let report =
        client.download(&urls, name.as_deref(), &options, &mut |progress| line.show(&shown(progress)));
    line.clear();
    tell(args, &report?)
}

fn has_wildcards(path: &str) -> bool {
    skyhaul::core::etransfer::has_wildcards(path)
}

fn upload(args: &CopyFilesArgs, sources: &[OsString], to: &OsStr) -> Result<Outcome> {
    refuse(&of_disks(args), "with uploads to etd://")?;
    let to = url(to)?;
    let hint = Hint("a server expands them in a source only");
    ensure!(!has_wildcards(&to.path), "{to}: a destination has no wildcards{hint}");
    let sources: Vec<PathBuf> = sources.iter().map(PathBuf::from).collect();
    if let Some(missing) = sources.iter().find(|path| path.symlink_metadata().is_err()) {
        bail!("{}: no such file or directory", missing.display());
    }
    let mode = match args.exists {
        CopyExistsArg::Fail => EtransferUploadMode::Fail,
        CopyExistsArg::Skip => EtransferUploadMode::Skip,
        CopyExistsArg::Replace => EtransferUploadMode::Replace,
        CopyExistsArg::Resume => EtransferUploadMode::Resume,
    };
    let interrupt = Interrupt::listen()?;
    let client = EtransferClient::new(&to, tuning(args).patience)?;
    // What is there is dealt with by the mode alone.
    let options = CopyOptions { sources, ..options(args, Exists::Fail, &interrupt) };
    let mut line = Line::new(args.output.quiet);
    line.show("asking the server what it has");
    let report = client.upload(&to, mode, &options, &mut |progress| line.show(&shown(progress)));
    line.clear();
    tell(args, &report?)
}
