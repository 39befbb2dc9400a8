//! What a command line deals with, which decides which of its options apply.

use super::applies::{
    Cases, DISK_PATH, Decided, EVENTS, EXPERIMENTS, FRAMES, GENERATED, HEAPS, LIMITED, NONE, PATH, PEERS,
    RDMA, RECORDING, SWEEP, Situation, TCP, UDP,
};
#[cfg(feature = "full")]
use super::bench::BenchWhat;
use super::cli::{Cli, Verb};
use super::heaps::Experiment;
use skyhaul::io::address::Transport;
use skyhaul::wire::{Format, Objects};
use std::ops::BitOr;

/// What a command line deals with; `None`: every option applies.
pub(super) fn situation(cli: &Cli) -> Option<Situation> {
    let decided = |cases, by: String| Some(Decided { by, cases });
    let formatted = |format: Format, objects| decided(of(objects), format!("--format {format}"));
    match &cli.verb {
        Verb::Send(args) => {
            let objects = match (args.scan.is_some(), args.format.objects()) {
                (true, _) => decided(RECORDING, "--scan".to_owned()),
                (_, Some(objects)) => formatted(args.format, objects),
                (_, None) => decided(FRAMES, "frames".to_owned()),
            };
            let source = match (args.scan.is_some(), args.input().is_some()) {
                (true, _) => decided(NONE, "--scan".to_owned()),
                (_, true) => decided(NONE, "--input".to_owned()),
                _ => decided(GENERATED, String::new()),
            };
            Some([objects, source, transports(args.transports(), "")])
        }
        Verb::Receive(_) | Verb::Record(_) => {
            let common = match &cli.verb {
                Verb::Receive(args) => &args.common,
                Verb::Record(args) => &args.common,
                _ => return None,
            };
            let format = common.stream.format;
            let objects = format.objects().and_then(|objects| formatted(format, objects));
            let over = common.listen.iter().map(|at| at.transport);
            Some([objects, None, transports(over, "--pcap")])
        }
        #[cfg(feature = "full")]
        Verb::Bench(args) => {
            let sized = args.format.objects().filter(|objects| *objects != Objects::Frames);
            let (cases, by) = match args.what {
                Some(BenchWhat::Events) => (SWEEP, "`bench ejfat`".to_owned()),
                Some(BenchWhat::Peers) => (PEERS, "`bench peers`".to_owned()),
                Some(BenchWhat::Rdma) => (RDMA, "`bench rdma`".to_owned()),
                None if args.format.objects() == Some(Objects::Heaps) => {
                    let limited = args.heaps.experiments.contains(&Experiment::Limited);
                    (if limited { EXPERIMENTS | LIMITED } else { EXPERIMENTS }, EXPERIMENTS.noun())
                }
                what => {
                    let disk = if what == Some(BenchWhat::Record) { DISK_PATH } else { NONE };
                    let what = what.unwrap_or(BenchWhat::Receive);
                    (PATH | disk | sized.map_or(NONE, of), format!("`bench {}`", what.name()))
                }
            };
            Some([decided(cases, by), None, None])
        }
        _ => None,
    }
}

fn of(objects: Objects) -> Cases {
    match objects {
        Objects::Frames => FRAMES,
        Objects::Heaps => HEAPS,
        Objects::Events => EVENTS,
    }
}

/// `without`: what is read if there is no address.
fn transports(over: impl Iterator<Item = Transport>, without: &str) -> Option<Decided> {
    let cases = over.map(|transport| match transport {
        Transport::Udp => UDP,
        Transport::Tcp => TCP,
    });
    let cases = cases.fold(NONE, BitOr::bitor);
    let by = if cases == NONE { without.to_owned() } else { cases.nouns() };
    Some(Decided { by, cases })
}
