//! `skyhaul plot`: what samples look like, as a sketch in the terminal and as a picture.

mod about;
mod picture;
mod sketch;

use self::about::About;
use super::samples;
use crate::Outcome;
use crate::args::PlotArgs;
use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::print::{self, Progress};
use crate::report::picture::{check, save};
use crate::verb::receiving;
use anyhow::Result;
use skyhaul::samples::survey::SurveyOptions;

pub(crate) fn run(args: &PlotArgs) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    args.output_file.iter().try_for_each(|path| check(path))?;
    let (samples, name) = samples::open(&args.samples)?;
    let options = SurveyOptions {
        rows: samples::range(&samples, &args.samples)?,
        block: args.block,
        most: if args.all { u64::MAX } else { args.samples_at_most },
        ..SurveyOptions::default()
    };
    let mut progress = Progress::new(args.output.quiet);
    let survey = samples.survey(&options, |done, all| {
        let part = done as f64 / all.max(1) as f64 * 100.0;
        progress.show(&format!("looked at {part:.0} % of what is wanted of {name}"));
        !interrupt.is_set()
    })?;
    progress.clear();
    let whole = samples::tell_gaps(&samples.gaps());
    samples::tell_notes(&survey.notes, survey.repaired);
    let about = About::new(name, &samples, &survey);
    for path in &args.output_file {
        save(path, &picture::draw(&about, &survey))?;
        say!("wrote {}", path.display());
    }
    if args.output.json {
        receiving::print_json(&survey)?;
    } else {
        print::page(&sketch::draw(&about, &survey))?;
    }
    if survey.interrupted {
        say!("{INTERRUPTED}");
    }
    Ok(if whole && !survey.interrupted { Outcome::Done } else { Outcome::Failed })
}
