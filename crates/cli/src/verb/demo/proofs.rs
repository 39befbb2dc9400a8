//! The report of the demo of a recorder: what it measured, and its claims, verified against what others than the recorder saw.

use crate::print::{self, counted};
use serde::Serialize;
use skyhaul::recorder::RecordReport;
use skyhaul::recording::{CheckReport, DatastreamCheck};
use skyhaul::report::{ReceiveReport, StreamSummary};
use skyhaul::send::SendReport;

/// First sequence number: a stream seldom starts at 0.
pub(super) const FIRST: u64 = 1_000_003;

/// Each claim, with its evidence.
pub(super) fn prove(
    sent: &SendReport,
    recorded: &RecordReport,
    second: &ReceiveReport,
    check: &CheckReport,
) -> Vec<Proof> {
    let stream = recorded.receive.streams.first().cloned().unwrap_or_default();
    let mut proofs = prove_path(sent, recorded, &stream);
    proofs.extend(prove_copies(recorded, second, check, &stream));
    proofs
}

/// What arrived from the network, and what this host did with it.
fn prove_path(sent: &SendReport, recorded: &RecordReport, stream: &StreamSummary) -> Vec<Proof> {
    let n = print::count;
    let withheld = visible(&sent.lost_ranges, sent.numbered);
    let lost: u64 = withheld.iter().map(|r| r.1 - r.0).sum();
    let refused = |why: &str| stream.rejects.get(why).copied().unwrap_or(0);
    let (duplicates, late) = (refused("duplicate"), refused("late"));
    let (drops, no_buffer) = (recorded.receive.kernel_drops(), recorded.no_buffer());
    vec![
        Proof {
            claim: "no packet that arrived was lost on this machine",
            held: drops == 0 && no_buffer == 0 && sent.packets == stream.packets,
            evidence: format!(
                "{} sent, {} received, {} dropped by the kernel, {} without memory",
                n(sent.packets),
                n(stream.packets),
                n(drops),
                n(no_buffer)
            ),
        },
        Proof {
            claim: "the loss map matches exactly what the network lost",
            held: stream.loss_map == withheld && sent.lost_not_listed == 0,
            evidence: format!(
                "{} lost in {}, {} found missing in {}",
                counted(lost, "frame"),
                counted(withheld.len() as u64, "run"),
                n(stream.lost),
                counted(stream.loss_map.len() as u64, "run")
            ),
        },
        Proof {
            claim: "every duplicate packet was refused once",
            held: duplicates + late == sent.duplicated,
            evidence: format!(
                "{} duplicated, {} refused as duplicates, {} as late",
                n(sent.duplicated),
                n(duplicates),
                n(late)
            ),
        },
    ]
}

/// What is on the disks, and what the second receiver got.
fn prove_copies(
    recorded: &RecordReport,
    second: &ReceiveReport,
    check: &CheckReport,
    stream: &StreamSummary,
) -> Vec<Proof> {
    let n = print::count;
    let sum = |of: fn(&DatastreamCheck) -> u64| check.datastreams.iter().map(of).sum::<u64>();
    let (checked, filled, illegal) =
        (sum(|d| d.frames_seen), sum(|d| d.filled_frames), sum(|d| d.illegal_frames));
    let right = checked == stream.placed + stream.lost && filled == stream.lost && illegal == 0;
    let safe = recorded.recording.acknowledged_bytes();
    vec![
        Proof {
            claim: "every byte on the disks is correct",
            held: check.exit_code() == 0 && right,
            evidence: format!(
                "{} frames read back, {} match the pattern, {} marked invalid, {} wrong",
                n(checked),
                n(checked.saturating_sub(filled + illegal)),
                n(filled),
                n(illegal)
            ),
        },
        Proof {
            claim: "everything placed is safe on a disk",
            held: recorded.recording.is_whole(),
            evidence: format!(
                "{} acknowledged on {} disks",
                print::bytes(safe),
                recorded.recording.disks.len()
            ),
        },
        Proof {
            claim: "the second receiver got every frame during the recording",
            held: taken(second)
                == recorded.receive.placed().saturating_add(recorded.receive.forwarded_then_refused())
                && second.pattern_errors == Some(0),
            evidence: format!(
                "{} frames ({} of them cut off as incomplete sets), {} wrong",
                n(taken(second)),
                n(taken(second) - second.placed()),
                n(second.pattern_errors.unwrap_or(0))
            ),
        },
    ]
}

/// Frames that arrived once: those in their place, and those that were cut off.
fn taken(report: &ReceiveReport) -> u64 {
    let cut = |s: &StreamSummary| {
        ["partial_set", "stray"]
            .iter()
            .filter_map(|why| s.rejects.get(*why))
            .fold(0u64, |a, b| a.saturating_add(*b))
    };
    report.streams.iter().map(cut).fold(report.placed(), u64::saturating_add)
}

/// Ranges of withheld packets that the receiver can detect: as sequence numbers, between the first and the last packet sent.
fn visible(ranges: &[(u64, u64)], numbered: u64) -> Vec<(u64, u64)> {
    ranges.iter().filter(|r| r.0 > 0 && r.1 < numbered).map(|r| (r.0 + FIRST, r.1 + FIRST)).collect()
}

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub(crate) struct DemoReport {
    pub(crate) version: u32,
    /// The command that produced it.
    pub(crate) command: String,
    pub(crate) machine: String,
    pub(crate) faults: String,
    /// Number of the first packet sent.
    pub(crate) first_number: u64,
    pub(crate) sent: SendReport,
    pub(crate) recorded: RecordReport,
    pub(crate) second: ReceiveReport,
    pub(crate) check: CheckReport,
    pub(crate) proofs: Vec<Proof>,
    /// Bytes written to each disk, by time since the start in seconds.
    pub(crate) disks_over_time: Vec<(f64, Vec<u64>)>,
}

/// A claim, and whether it is true.
#[derive(Debug, Serialize)]
pub(crate) struct Proof {
    pub(crate) claim: &'static str,
    pub(crate) held: bool,
    pub(crate) evidence: String,
}
