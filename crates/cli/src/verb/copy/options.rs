//! The options of a copy, whichever server it is with.

use crate::args::{CopyExistsArg, CopyFilesArgs, DiskEngine};
use anyhow::{Result, bail};
use skyhaul::core::hint::Hint;
use skyhaul::io::disk::Engine;
use skyhaul_transfer::copy::{Exists, Tuning};

/// Whether a source or destination is a URL. `a://` with other schemes is refused as one.
pub(super) fn is_url(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, _)| {
        !scheme.is_empty()
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    })
}

pub(super) fn engine(of: DiskEngine) -> Engine {
    match of {
        DiskEngine::Auto => Engine::Auto,
        DiskEngine::Uring => Engine::Uring,
        DiskEngine::Plain => Engine::Plain,
    }
}

pub(super) fn exists(of: CopyExistsArg) -> Result<Exists> {
    match of {
        CopyExistsArg::Fail => Ok(Exists::Fail),
        CopyExistsArg::Skip => Ok(Exists::Skip),
        CopyExistsArg::Replace => Ok(Exists::Replace),
        CopyExistsArg::Resume => {
            let hint = Hint("run the same command again: what has arrived is not sent again");
            bail!("--exists resume is for uploads to etd:// only{hint}")
        }
    }
}

pub(super) fn tuning(args: &CopyFilesArgs) -> Tuning {
    let usual = Tuning::default();
    Tuning {
        flows: args.flows,
        encrypt: args.encrypt,
        range: args.range.map_or(usual.range, |size| size.bytes()),
        depth: args.depth.unwrap_or(usual.depth),
        direct: !args.buffered,
        engine: args.disk_engine.map_or(usual.engine, engine),
        window: args.window.map(|size| size.bytes()),
        congestion: args.cc.clone(),
        limit: args.limit.map(|rate| rate.bits_per_second()),
        ..usual
    }
}

/// Refuses options that a copy does not use.
pub(super) fn refuse(options: &[(&str, bool)], with: &str) -> Result<()> {
    match options.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => bail!("{option} does nothing {with}{}", Hint("leave it out")),
        None => Ok(()),
    }
}
