//! `skyhaul cat`.

use super::receiving::open_output;
use super::send::open;
use crate::Outcome;
use crate::args::CatArgs;
use anyhow::Result;
use skyhaul::recording::ReadOptions;
use std::io::Write;

pub(crate) fn run(args: &CatArgs) -> Result<Outcome> {
    let (recording, at) = open(&args.disks.disk, &args.scan, args.stream, args.follow)?;
    let options = ReadOptions { verify: !args.no_check, follow: args.follow, ..ReadOptions::default() };
    let mut reader = recording.reader(at, &options)?;
    let mut output = match &args.output_file {
        Some(path) => open_output(path)?,
        None => Box::new(std::io::stdout()),
    };
    while let Some(piece) = reader.next_piece()? {
        output.write_all(piece.bytes())?;
    }
    output.flush()?;
    if args.follow {
        eprintln!("{} chunks came from the recorder's memory", reader.chunks_from_memory());
    }
    let stream = &recording.datastreams[at];
    let gaps = stream.gaps();
    if !args.follow && (!gaps.is_empty() || !recording.missing_disks.is_empty()) {
        eprintln!("warning: {} is not whole: chunks {gaps:?} are not on these disks", stream.name);
        return Ok(Outcome::Failed);
    }
    Ok(Outcome::Done)
}
