//! Step 2: record a scan to two disks.
//!
//! A [`Recorder`] is a receiver whose sink writes chunk files and an index to every disk. A chunk counts as acknowledged once
//! its bytes and its line in the index are durable. Later steps read the scan that `record` makes.

use skyhaul::io::memory::PoolOptions;
use skyhaul::quality::QualityOptions;
use skyhaul::receive::ReceiverOptions;
use skyhaul::recorder::{RecordReport, Recorder, RecorderOptions};
use skyhaul::recording::WriterOptions;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[path = "tutorial/telescope.rs"]
pub(crate) mod telescope;

pub(crate) const SCAN: &str = "exp_st_no0001";

/// Two directories stand in for two disks.
pub(crate) fn disks(below: &Path) -> std::io::Result<[PathBuf; 2]> {
    let disks = ["d1", "d2"].map(|name| below.join(name));
    disks.iter().try_for_each(std::fs::create_dir)?;
    Ok(disks)
}

/// Record 160 frames, of which the network loses some.
pub(crate) fn record(disks: &[PathBuf]) -> Result<RecordReport, Box<dyn Error>> {
    let mut recorder = Recorder::open(RecorderOptions {
        receiver: ReceiverOptions {
            listen: vec!["udp://127.0.0.1:0".parse()?],
            ..ReceiverOptions::default()
        },
        writer: WriterOptions::new(disks, SCAN),
        // A block of memory becomes a chunk file.
        pool: PoolOptions { block_bytes: 16 << 10, ..PoolOptions::with_total(16 << 20) },
        // Frames marked invalid in place of lost ones.
        fill: true,
        // Look at some frames of each stream while they are recorded.
        quality: Some(QualityOptions::default()),
    })?;
    let address = recorder.receiver().addresses().next().ok_or("no address")?.to_owned();
    let mut recording = recorder.start()?;
    let sent = telescope::send(&address, 160, "loss=0.05,seed=7")?;
    telescope::wait_for(recording.running(), sent.bytes);
    // The disks may take this long for what is still in memory.
    Ok(recording.finish(Duration::from_secs(30)))
}

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let report = record(&disks(directory.path())?)?;

    let stream = &report.recording.datastreams[0];
    println!("{}: {} of {} chunks acknowledged", stream.name, stream.acknowledged, stream.submitted);
    println!("{} frames received, {} filled", report.receive.placed(), report.frames_filled);

    assert!(report.is_whole(), "everything that arrived is on a disk");
    assert_eq!(report.frames_filled, report.receive.lost());
    Ok(())
}
