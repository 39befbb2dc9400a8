//! Step 5: check a scan, damage it, check it again.
//!
//! A check reads every byte of every disk and compares it with the index. Frames that the network lost do not make a recording
//! damaged; a single changed byte does.

use skyhaul::frames::FramesOf;
use skyhaul::recording::{CheckOptions, Datastream, FrameReader, ReadOptions, Recording, Verdict};
use std::error::Error;
use std::fs;
use std::io::Read;

#[path = "step02_record.rs"]
#[expect(dead_code, reason = "its own main function")]
mod step02_record;
use step02_record::{SCAN, disks, record};

fn frames(about: &Datastream) -> Option<Box<dyn FrameReader>> {
    FramesOf::datastream(about, false).map(|frames| Box::new(frames) as Box<dyn FrameReader>)
}

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let disks = disks(directory.path())?;
    record(&disks)?;

    let recording = Recording::open(disks, SCAN)?;
    let options = CheckOptions { frames: Some(&frames), ..CheckOptions::default() };
    let report = recording.check(&options)?;
    println!(
        "{}: {} of {} frames never received",
        report.verdict.name(),
        report.ledger.never_received,
        report.ledger.expected()
    );
    assert_eq!(report.verdict, Verdict::Holes);

    // Change one byte of chunk 3.
    let chunk = recording.datastreams[0].chunks.get(&3).ok_or("no chunk 3")?;
    let mut bytes = fs::read(&chunk.path)?;
    bytes[5000] ^= 1;
    fs::write(&chunk.path, bytes)?;

    let report = recording.check(&options)?;
    println!("{}: {}", report.verdict.name(), report.findings[0].text);
    assert_eq!(report.verdict, Verdict::Damaged);

    // No reader passes it on unnoticed.
    let mut all = Vec::new();
    let error = recording.reader(0, &ReadOptions::default())?.read_to_end(&mut all);
    assert!(error.is_err(), "the reader ends at the damaged chunk");
    Ok(())
}
