//! `skyhaul plot`: what samples look like, as a sketch in the terminal and as a picture.

mod about;
mod picture;

use super::{receiving, samples};
use crate::args::PlotArgs;
use crate::outcome::{INTERRUPTED, Interrupt, Outcome};
use crate::print::{self, Progress};
use crate::report::page::{check, save};
use about::{About, decibels, hertz};
use anyhow::Result;
use skyhaul::samples::survey::{Column, Survey, SurveyOptions};
use std::fmt::Write as _;

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
    let whole = samples::tell_gaps(&samples.gaps()) & samples::tell_not_shown(survey.not_shown.unwrap_or(0));
    samples::tell_notes(&survey.notes, survey.repaired);
    let about = About::new(name, &samples, &survey);
    for path in &args.output_file {
        save(path, &picture::draw(&about, &survey))?;
        say!("wrote {}", path.display());
    }
    if args.output.json {
        receiving::print_json(&survey)?;
    } else {
        print::page(&draw(&about, &survey))?;
    }
    if survey.interrupted {
        say!("{INTERRUPTED}");
    }
    Ok(if whole && !survey.interrupted { Outcome::Done } else { Outcome::Failed })
}

/// Characters of a line of bars.
const WIDTH: usize = 64;
/// Columns that are shown.
const MAX_CHANNELS: usize = 16;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

fn draw(about: &About, survey: &Survey) -> String {
    let mut out = format!("{}\n  {}\n  {}\n  {}\n", about.name, about.format, about.time, about.looked);
    if let (Some(&low), Some(&high)) = (survey.frequencies.first(), survey.frequencies.last()) {
        let (divisor, unit) = hertz(high);
        let _ = writeln!(out, "\nspectrum, {:.6} to {:.6} {unit}", low / divisor, high / divisor);
    }
    for column in survey.columns.iter().take(MAX_CHANNELS) {
        let powers: Vec<f64> = column.spectrum.iter().map(|&power| decibels(power)).collect();
        let (line, low, high) = bars(&powers, WIDTH);
        if powers.is_empty() {
            let _ = writeln!(out, "  {:<20} no whole block without a missing sample", name(column));
        } else {
            let _ = writeln!(out, "  {:<20} {line} {:.1} dB", name(column), high - low);
        }
    }
    let _ = writeln!(out, "\nhow often each level occurs, %");
    for column in survey.columns.iter().take(MAX_CHANNELS) {
        let all = column.codes.iter().sum::<u64>().max(1) as f64;
        let parts: Vec<f64> = column.codes.iter().map(|&count| count as f64 / all * 100.0).collect();
        let shown = if parts.len() <= 4 {
            let each: Vec<String> = parts.iter().map(|part| format!("{part:5.2}")).collect();
            each.join(" ")
        } else {
            bars(&parts, WIDTH.min(parts.len())).0
        };
        let _ =
            writeln!(out, "  {:<20} {shown}   mean {:+.4}, rms {:.4}", name(column), column.mean, column.rms);
    }
    if survey.columns.len() > MAX_CHANNELS {
        let _ = writeln!(
            out,
            "  and {} more (choose with --threads; all are in --json)",
            survey.columns.len() - MAX_CHANNELS
        );
    }
    let _ = writeln!(out, "\nmissing frames by time: ░ some, ▒ 10 %, ▓ 50 %, █ all, - not looked at");
    for (thread, times) in survey.threads.iter().zip(&survey.loss).take(MAX_CHANNELS) {
        let _ = writeln!(out, "  {:<20} {}", format!("thread {thread}"), losses(times));
    }
    out
}

fn name(column: &Column) -> String {
    format!("thread {} channel {}", column.thread, column.channel)
}

/// A bar for each of `width` parts, as high as the highest value in it; and the lowest and highest value.
fn bars(values: &[f64], width: usize) -> (String, f64, f64) {
    let width = width.min(values.len()).max(1);
    let highest = |n: usize| {
        let part = &values[n * values.len() / width..(n + 1) * values.len() / width];
        part.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    };
    let parts: Vec<f64> = if values.is_empty() { Vec::new() } else { (0..width).map(highest).collect() };
    let low = parts.iter().copied().fold(f64::INFINITY, f64::min);
    let high = parts.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let bar = |&value: &f64| {
        let part = (value - low) / (high - low).max(1e-9);
        BARS[((part * BARS.len() as f64) as usize).min(BARS.len() - 1)]
    };
    (parts.iter().map(bar).collect(), low, high)
}

fn losses(times: &[Option<f64>]) -> String {
    // Two times for each character.
    let shade = |pair: &[Option<f64>]| {
        let worst = pair.iter().flatten().copied().reduce(f64::max);
        match worst {
            None => '-',
            Some(0.0) => '·',
            Some(part) if part < 0.1 => '░',
            Some(part) if part < 0.5 => '▒',
            Some(part) if part < 1.0 => '▓',
            Some(_) => '█',
        }
    };
    times.chunks(2).map(shade).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_reach_from_the_lowest_to_the_highest() {
        assert_eq!(bars(&[0.0, 1.0, 2.0, 7.0], 4), ("▁▂▃█".to_owned(), 0.0, 7.0));
        assert_eq!(bars(&[0.0, 9.0, 1.0, 1.0], 2).0, "█▁");
        assert_eq!(bars(&[3.0], 64).0, "▁");
        assert_eq!(bars(&[], 64).0, "");
        assert_eq!(
            losses(&[Some(0.0), None, None, None, Some(0.05), Some(0.2), Some(1.0), Some(0.0)]),
            "·-▒█"
        );
    }
}
