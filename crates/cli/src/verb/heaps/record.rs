//! `skyhaul record --format spead`: heaps onto disks.

use super::consume::Outlet;
use super::receive::{Asked, Received, receive};
use super::received::{SpeadReceiveReport, summary};
use crate::Outcome;
use crate::args::RecordArgs;
use crate::interrupt::Interrupt;
use crate::print::{self, Progress};
use crate::verb::receiving::{pool, print_json};
use crate::verb::record::{FINISH, recording_summary, writer};
use anyhow::Result;
use serde::Serialize;
use skyhaul::io::memory::{PoolOptions, default_block_bytes};
use skyhaul::recording::RecordingReport;
use skyhaul::spead::record::{HeapRecorder, HeapRecorderOptions};

/// What was received and recorded.
#[derive(Serialize)]
struct SpeadRecordReport {
    #[serde(flatten)]
    receive: SpeadReceiveReport,
    /// Heaps for which the disks gave no memory back.
    heaps_not_recorded: u64,
    /// What became of the others on the disks.
    recording: RecordingReport,
}

pub(crate) fn run(args: &RecordArgs) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let mut progress = Progress::new(args.common.output.quiet);
    // One half for heaps under construction, one for chunks on their way to the disks.
    let all = pool(&args.common, true);
    let half = all.total_bytes / 2;
    let block_bytes = args.common.chunk.map_or_else(|| default_block_bytes(half), |_| all.block_bytes);
    let pool = PoolOptions { total_bytes: half, block_bytes, ..all };
    let flush = args.common.flush.duration();
    let recorder = HeapRecorder::open(&HeapRecorderOptions { writer: writer(args)?, pool, flush })?;
    let what = format!("recording {}", recorder.scan());
    let asked = Asked { common: &args.common, verify: false, memory: half };
    let outlet = Outlet::Disks(Box::new(recorder));
    let received = receive(&asked, outlet, &what, &interrupt, &mut progress)?;
    let Some(Received { report: receive, outlet: Outlet::Disks(recorder), .. }) = received else {
        return Ok(Outcome::Failed);
    };
    let heaps_not_recorded = recorder.lost();
    let recording = recorder.finish(FINISH);
    let report = SpeadRecordReport { receive, heaps_not_recorded, recording };
    if args.common.output.json {
        print_json(&report)?;
    } else {
        eprint!("{}{}", summary(&report.receive), recording_summary(&report.recording));
        if heaps_not_recorded > 0 {
            eprintln!(
                "  {} heaps not recorded: the disks gave no memory back\n  hint: more or faster disks, or more --memory",
                print::count(heaps_not_recorded)
            );
        }
    }
    let whole = report.receive.is_whole() && report.recording.is_whole() && heaps_not_recorded == 0;
    Ok(if whole { Outcome::Done } else { Outcome::Failed })
}
