//! What `plot` and `export` share: opening samples, and saying what is missing.

use crate::args::SamplesArgs;
use crate::print;
use crate::verb::send;
use anyhow::{Result, bail};
use skyhaul::core::hint::{Hint, lines};
use skyhaul::recording::{Gap, mark6};
use skyhaul::samples::Samples;
use std::ops::Range;

/// Gaps that are listed.
const MAX_GAPS: usize = 20;

/// The samples, and what they are of.
pub(super) fn open(args: &SamplesArgs) -> Result<(Samples, String)> {
    let options = args.options()?;
    if args.disk.is_empty() {
        if let Some(directory) = args.what.iter().find(|path| path.is_dir()) {
            bail!(
                "{} is a directory{}",
                directory.display(),
                Hint("for a recording, give its disks with --disk, and its name")
            );
        }
        let name = args.what[0].file_name().unwrap_or_default().to_string_lossy().into_owned();
        return Ok((Samples::of_files(&args.what, &options)?, name));
    }
    let [scan] = &args.what[..] else { bail!("expected one recording{}", Hint("give one name with --disk")) };
    let scan = scan.to_string_lossy();
    let scattered = mark6::files(&args.disk, &scan);
    if !scattered.is_empty() {
        return Ok((Samples::of_files(scattered, &options)?, scan.into_owned()));
    }
    let (recording, at) = send::open(&args.disk, &scan, args.stream, false)?;
    let name = recording.datastreams[at].name.clone();
    Ok((Samples::of_recording(&recording, at, &options)?, name))
}

/// The rows that were asked for.
pub(super) fn range(samples: &Samples, args: &SamplesArgs) -> Result<Range<u64>> {
    Ok(samples.range(args.start, args.duration.map(|span| span.duration()))?)
}

/// Report frames that one axis of time cannot show; returns whether there are none.
pub(super) fn tell_not_shown(frames: u64) -> bool {
    if frames > 0 {
        let frames = print::counted(frames, "recorded frame");
        let hint = Hint("`skyhaul check` reports where; `skyhaul cat` writes every frame");
        let text =
            format!("{frames} not shown: times that go backwards, repeat or lie outside the data{hint}");
        say!("{}", lines("", &text));
    }
    frames == 0
}

/// Say what is missing or damaged; whether nothing is.
pub(super) fn tell_gaps(gaps: &[Gap]) -> bool {
    gaps.iter().take(MAX_GAPS).for_each(|gap| say!("gap: {gap}"));
    if gaps.len() > MAX_GAPS {
        say!("and {} more gaps", gaps.len() - MAX_GAPS);
    }
    gaps.is_empty()
}

/// Say what a user of the samples has to know, and how many frames were repaired.
pub(super) fn tell_notes(notes: &[String], repaired: u64) {
    notes.iter().for_each(|note| say!("note: {note}"));
    if repaired > 0 {
        say!("note: {} used with a repaired time", print::counted(repaired, "frame"));
    }
}
