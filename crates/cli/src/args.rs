//! Command-line arguments: one definition feeds the parser, `--help`, the man pages and the completions.
//!
//! ```text
//!   args ──▶ cli ──▶ one file for each verb ──▶ arguments that verbs share ──▶ heading, limits, format
//!     └────▶ config, applies, situation
//! ```

#[cfg(test)]
mod advised;
mod applies;
mod balance;
mod bench;
mod cli;
mod config;
mod copy;
mod disk;
mod events;
mod heaps;
mod host;
mod lab;
mod limits;
mod mount;
mod probe;
mod rdma;
mod receive;
mod report;
mod schedule;
mod send;
mod serve;
mod situation;
mod status;
mod stored;
mod token;
mod top;
mod transfers;

pub(crate) use balance::{
    Allowed, AtArgs, BalanceArgs, BalancerArgs, BalancerWhat, ChainArgs, CreateArgs, DataPlaneArgs, LEVELS,
    RESERVATION, RESOURCES, ReserveArgs, SendersWhat, StrategyArg, TokensWhat, UntilArgs, WorkersWhat,
};
pub(crate) use bench::{BenchArgs, BenchWhat};
pub(crate) use cli::{Cli, DemoArgs, DemoWhat, GenerateArgs, GenerateWhat, PacketPathArgs, Verb, described};
pub(crate) use config::ConfigPaths;
pub(crate) use copy::{CopyArgs, CopyExistsArg, CopyFilesArgs, CopyModeArg, CopyServeArgs, CopyWhat};
pub(crate) use disk::DiskMeasureArgs;
pub(crate) use events::{EventSendArgs, MtuArg, TickArg};
pub(crate) use heaps::{Bounds, Experiment, HeapSendArgs, PacketArg, RateArg, StopArg};
pub(crate) use host::HostArgs;
pub(crate) use lab::{LabArgs, LabRunArgs, LabWhat};
pub(crate) use limits::{OutputArgs, ValueList};
pub(crate) use mount::{MountArgs, MountView};
pub(crate) use probe::{
    CampaignArgs, HowArgs, MonitorArgs, OneWayReceiveArgs, OneWaySendArgs, PathArgs, ProbeArgs, ProbeWhat,
    SendingArg, ServeArgs, Target,
};
pub(crate) use rdma::{RdmaArgs, RdmaReadArgs, RdmaServeArgs, RdmaWhat, RdmaWriteArgs};
pub(crate) use receive::{
    DiskEngine, ExistsArg, JoinArgs, KeepArg, Place, ReceiveArgs, ReceiveCommon, RecordArgs, SyncArg, TierArg,
};
pub(crate) use report::{DiffArgs, FailOn, ReportArgs, ReportWhat};
pub(crate) use schedule::{
    AtServerArgs, ScheduleArgs, ScheduleCheckArgs, ScheduleFileArgs, ScheduleListArgs, ScheduleLoadArgs,
    ScheduleRemoveArgs, ScheduleWhat,
};
pub(crate) use send::{NumberArg, SendArgs, SendMode};
pub(crate) use serve::StationServeArgs;
pub(crate) use status::{
    AtStationArgs, StationArgs, StationStartArgs, StationStopArgs, StationWhat, StatusArgs,
};
pub(crate) use stored::{CatArgs, CheckArgs, ExportArgs, InspectArgs, LsArgs, PlotArgs, SamplesArgs};
pub(crate) use token::{TokenArgs, TokenCreateArgs, TokenShowArgs, TokenWhat};
pub(crate) use top::TopArgs;
pub(crate) use transfers::{TransfersAddArgs, TransfersArgs, TransfersOneArgs, TransfersWhat};

use clap::FromArgMatches;
use std::ffi::OsString;

/// A command line that was read, completed with defaults from a file, and found consistent.
pub(crate) enum Parsed {
    /// What to do.
    Run(Box<Cli>),
    /// What `--show-config` prints.
    Show(String),
}

/// Read a command line, with defaults from the first file of `places`.
pub(crate) fn parse<T: Into<OsString>>(
    words: impl IntoIterator<Item = T>,
    places: &ConfigPaths,
) -> anyhow::Result<Parsed> {
    let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
    // A file may set options of every verb, and is checked as a whole.
    let has_file =
        places.may_be_set() || words.iter().any(|word| word.to_string_lossy().starts_with("--config"));
    let mut command = if has_file { cli::definition() } else { cli::definition_for(&words) };
    let merged = config::merge(&command, words, places)?;
    if let Some(text) = merged.shown {
        return Ok(Parsed::Show(text));
    }
    let matches = command.try_get_matches_from_mut(merged.words)?;
    let mut cli = Cli::from_arg_matches(&matches)?;
    if let Some(situation) = situation::situation(&cli) {
        for note in applies::check(&situation, &command, &matches, &merged.from_file)? {
            say!("note: {note}");
        }
    }
    if let Verb::Send(args) = &mut cli.verb {
        args.settle(std::env::var(send::VARIABLE).ok())?;
    }
    let file = match &mut cli.verb {
        Verb::Serve(args) => Some(&mut args.file),
        Verb::Token(args) => Some(&mut args.file),
        _ => None,
    };
    if let Some(file) = file {
        *file = places.file(cli.config.config.as_deref());
    }
    Ok(Parsed::Run(Box::new(cli)))
}
