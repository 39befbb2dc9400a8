//! `skyhaul cat`.

use super::output::open_output;
use super::send::{ReadNotes, open};
use crate::args::CatArgs;
use crate::outcome::Outcome;
use crate::print::{self, Progress, count, counted};
use anyhow::Result;
use skyhaul::recording::{Missing, ReadOptions};
use std::io::Write;

pub(crate) fn run(args: &CatArgs) -> Result<Outcome> {
    let (recording, at) = open(&args.disks.disk, &args.scan, args.stream, args.follow)?;
    let missing = if args.fill { Missing::Fill } else { Missing::Skip };
    let options =
        ReadOptions { verify: !args.no_check, follow: args.follow, missing, ..ReadOptions::default() };
    let mut reader = recording.reader(at, &options)?;
    let mut met = ReadNotes::new(&recording, reader.account());
    let mut progress = Progress::new(true);
    let mut output = match &args.output_file {
        Some(path) => open_output(path)?,
        None => Box::new(print::output()),
    };
    loop {
        let piece = reader.next_piece()?;
        met.tell(&mut progress);
        let Some(piece) = piece else { break };
        output.write_all(piece.bytes())?;
    }
    output.flush()?;
    let account = reader.account();
    let (filled, left_out) = (account.frames_filled(), account.frames_left_out());
    if filled + left_out > 0 {
        let (filled, left_out) = (counted(filled, "frame"), count(left_out));
        say!("{filled} filled with frames marked invalid, {left_out} left out");
    }
    if args.follow {
        say!("{} read from the recorder's memory", counted(reader.chunks_from_memory(), "chunk"));
    }
    Ok(if met.end(&mut progress) == 0 { Outcome::Done } else { Outcome::Failed })
}
