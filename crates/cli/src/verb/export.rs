//! `skyhaul export`.

use super::samples;
use crate::args::ExportArgs;
use crate::outcome::Interrupt;
use crate::outcome::Outcome;
use crate::print::{self, Progress};
use crate::verb::receiving;
use anyhow::Result;
use skyhaul::samples::export::{ExportError, ExportOptions};
use std::time::Instant;

pub(crate) fn run(args: &ExportArgs) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let (samples, name) = samples::open(&args.samples)?;
    let rows = samples::range(&samples, &args.samples)?;
    let options = ExportOptions { rows, format: args.to, integers: args.integers };
    let mut progress = Progress::new(args.output.quiet);
    let started = Instant::now();
    let done = samples.export(&args.output_file, &options, |done, all| {
        let part = done as f64 / all.max(1) as f64 * 100.0;
        progress.show(&format!("exported {part:.1} % of {name}"));
        !interrupt.is_set()
    });
    progress.clear();
    let done = match done {
        Err(ExportError::Interrupted) => {
            say!("interrupted: nothing was written");
            return Ok(Outcome::Failed);
        }
        done => done?,
    };
    let whole = samples::tell_gaps(&samples.gaps()) & samples::tell_not_shown(done.not_shown);
    samples::tell_notes(&done.notes, done.repaired);
    if args.output.json {
        receiving::print_json(&done)?;
    } else if !args.output.quiet {
        let shape: Vec<String> = done.shape.iter().map(ToString::to_string).collect();
        tell!(
            "{}: {} {} of {}, {} in {:.1} s; {} of {} frames are missing",
            done.path.display(),
            done.dtype,
            shape.join(" × "),
            name,
            print::bytes(done.bytes),
            started.elapsed().as_secs_f64(),
            print::count(done.missing),
            print::count(done.frames),
        );
    }
    Ok(if whole { Outcome::Done } else { Outcome::Failed })
}
