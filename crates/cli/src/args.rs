//! Command-line arguments: one definition feeds the parser, `--help`, the man pages and the completions.
//!
//! ```text
//!   args ──▶ cli ──▶ one file for each verb ──▶ arguments that verbs share ──▶ heading, limits, format
//!     └────▶ config, applies, situation
//! ```

#[cfg(test)]
mod advised;
mod applies;
#[cfg(feature = "full")]
mod balance;
#[cfg(feature = "full")]
mod bench;
mod cli;
mod config;
#[cfg(feature = "full")]
mod copy;
#[cfg(feature = "full")]
mod disk;
mod events;
#[cfg(feature = "full")]
mod fleet;
mod heaps;
#[cfg(feature = "full")]
mod host;
#[cfg(feature = "full")]
mod lab;
mod limits;
#[cfg(feature = "full")]
mod mount;
#[cfg(feature = "full")]
mod probe;
mod rdma;
mod receive;
mod report;
#[cfg(feature = "full")]
mod scans;
#[cfg(feature = "full")]
mod schedule;
mod send;
#[cfg(feature = "full")]
mod serve;
mod situation;
mod sky;
#[cfg(feature = "full")]
mod status;
mod stored;
#[cfg(feature = "full")]
mod token;
#[cfg(feature = "full")]
mod top;
#[cfg(feature = "full")]
mod transfers;
#[cfg(not(feature = "full"))]
mod unbuilt;
#[cfg(feature = "full")]
mod via;

#[cfg(feature = "full")]
pub(crate) use balance::{
    Allowed, AtArgs, BalanceArgs, BalancerArgs, BalancerWhat, ChainArgs, CreateArgs, DataPlaneArgs, LEVELS,
    RESERVATION, RESOURCES, ReserveArgs, SendersWhat, StrategyArg, TokensWhat, UntilArgs, WorkersWhat,
};
#[cfg(feature = "full")]
pub(crate) use bench::{BenchArgs, BenchWhat, PacketPathArgs};
pub(crate) use cli::{Cli, DemoArgs, DemoWhat, GenerateArgs, GenerateWhat, Verb, described};
pub(crate) use config::ConfigPaths;
#[cfg(feature = "full")]
pub(crate) use copy::{CopyArgs, CopyExistsArg, CopyFilesArgs, CopyModeArg, CopyServeArgs, CopyWhat};
#[cfg(feature = "full")]
pub(crate) use disk::DiskMeasureArgs;
pub(crate) use events::{EventSendArgs, MtuArg, TickArg};
#[cfg(feature = "full")]
pub(crate) use fleet::{
    AtFleetArgs, FleetArgs, FleetLoadArgs, FleetRunArgs, FleetStartArgs, FleetStatusArgs, FleetStopArgs,
    FleetWhat,
};
pub(crate) use heaps::{Bounds, Experiment, HeapSendArgs, PacketArg, RateArg, StopArg};
#[cfg(feature = "full")]
pub(crate) use host::HostArgs;
#[cfg(feature = "full")]
pub(crate) use lab::{LabArgs, LabRunArgs, LabWhat};
pub(crate) use limits::OutputArgs;
#[cfg(feature = "full")]
pub(crate) use mount::{MountArgs, MountView};
#[cfg(feature = "full")]
pub(crate) use probe::{
    CampaignArgs, HowArgs, MonitorArgs, OneWayReceiveArgs, OneWaySendArgs, PathArgs, ProbeArgs, ProbeWhat,
    SendingArg, ServeArgs, Target, ValueList,
};
pub(crate) use rdma::{RdmaArgs, RdmaMessageArgs, RdmaReadArgs, RdmaServeArgs, RdmaWhat};
pub(crate) use receive::{
    DiskEngine, ExistsArg, JoinArgs, KeepArg, Place, ReceiveArgs, ReceiveCommon, RecordArgs, SyncArg, TierArg,
};
pub(crate) use report::{DiffArgs, FailOn, ReportArgs, ReportWhat};
#[cfg(feature = "full")]
pub(crate) use scans::ScansArgs;
#[cfg(feature = "full")]
pub(crate) use schedule::{
    AtServerArgs, ScheduleArgs, ScheduleCheckArgs, ScheduleFileArgs, ScheduleListArgs, ScheduleLoadArgs,
    ScheduleRemoveArgs, ScheduleWhat,
};
pub(crate) use send::{NumberArg, SendArgs, SendMode};
#[cfg(feature = "full")]
pub(crate) use serve::StationServeArgs;
#[cfg(feature = "full")]
pub(crate) use status::{
    AtStationArgs, StationArgs, StationStartArgs, StationStopArgs, StationWhat, StatusArgs,
};
pub(crate) use stored::{CatArgs, CheckArgs, ExportArgs, InspectArgs, LsArgs, PlotArgs, SamplesArgs};
#[cfg(feature = "full")]
pub(crate) use token::{TokenArgs, TokenCreateArgs, TokenShowArgs, TokenWhat};
#[cfg(feature = "full")]
pub(crate) use top::TopArgs;
#[cfg(feature = "full")]
pub(crate) use transfers::{TransfersAddArgs, TransfersArgs, TransfersOneArgs, TransfersWhat};
#[cfg(feature = "full")]
pub(crate) use via::ChecksumModeArg;

use clap::{CommandFactory, FromArgMatches};
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
    let mut command = cli::definition_for(&words);
    let merged = config::merge(&command, Cli::command, words, places)?;
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
    #[cfg(feature = "full")]
    let file = match &mut cli.verb {
        Verb::Serve(args) => Some(&mut args.file),
        Verb::Token(args) => Some(&mut args.file),
        Verb::Fleet(args) => Some(&mut args.file),
        Verb::Top(args) => Some(&mut args.file),
        _ => None,
    };
    #[cfg(feature = "full")]
    if let Some(file) = file {
        *file = places.file(cli.config.config.as_deref());
    }
    Ok(Parsed::Run(Box::new(cli)))
}
