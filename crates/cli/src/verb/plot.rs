//! `skyhaul plot`: what samples look like, as a sketch in the terminal and as a picture.
//!
//! ```text
//!   name, format, time
//!   spectrum                          one line for each column; with more than 16 channels, power by channel
//!   autocorrelation │ levels
//!   missing frames, by thread and time
//! ```

use super::{receiving, stored};
use crate::args::PlotArgs;
use crate::outcome::{INTERRUPTED, Interrupt, Outcome};
use crate::print::{self, Progress, count};
use crate::report::chart::{Mark, Panel, Series, legend};
use crate::report::drawing::{Drawing, Frame, Scale};
use crate::report::map::{HeatMap, Shades};
use crate::report::page::{check, save};
use crate::report::words::short;
use anyhow::Result;
use skyhaul::samples::Samples;
use skyhaul::samples::survey::{Column, Survey, SurveyOptions};
use std::fmt::Write as _;

pub(crate) fn run(args: &PlotArgs) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    args.output_file.iter().try_for_each(|path| check(path))?;
    let (samples, name) = stored::open(&args.samples)?;
    let options = SurveyOptions {
        rows: stored::range(&samples, &args.samples)?,
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
    let whole = stored::tell_gaps(&samples.gaps()) & stored::tell_not_shown(survey.not_shown.unwrap_or(0));
    stored::tell_notes(&survey.notes, survey.repaired);
    let about = About::new(name, &samples, &survey);
    for path in &args.output_file {
        save(path, &picture(&about, &survey))?;
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

/// What was looked at, in words.
pub(super) struct About {
    pub(super) name: String,
    pub(super) format: String,
    /// Beginning and end.
    pub(super) time: String,
    /// How much was looked at, and what is missing of it.
    pub(super) looked: String,
}

impl About {
    pub(super) fn new(name: String, samples: &Samples, survey: &Survey) -> Self {
        let (from, to) = survey.rows;
        let part = survey.looked as f64 / (to - from) as f64;
        let blocks = survey.columns.iter().map(|column| column.blocks).max().unwrap_or(0);
        let looked =
            if part >= 1.0 { "all of it".to_owned() } else { format!("{:.3} % of it", part * 100.0) };
        let missing = format!("{} of {} frames missing", count(survey.missing), count(survey.frames));
        Self {
            name,
            format: samples.format().describe(),
            time: format!("{} to {}", samples.time_of(from), samples.time_of(to)),
            looked: format!("{looked} looked at: {blocks} blocks of {} samples, {missing}", survey.block),
        }
    }
}

/// A frequency with its unit: divisor and name.
pub(super) fn hertz(highest: f64) -> (f64, &'static str) {
    [(1e9, "GHz"), (1e6, "MHz"), (1e3, "kHz")]
        .into_iter()
        .find(|(divisor, _)| highest >= *divisor)
        .unwrap_or((1.0, "Hz"))
}

/// Decibels; of nothing, far below all else.
pub(super) fn decibels(power: f64) -> f64 {
    10.0 * power.max(1e-30).log10()
}

const PICTURE_WIDTH: f64 = 1040.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = PICTURE_WIDTH - 24.0;
const MIDDLE: f64 = PICTURE_WIDTH / 2.0;
/// Where the spectrum stands, and the two plots below it.
const UPPER: Frame = Frame { left: LEFT, right: RIGHT, top: 100.0, floor: 330.0 };
const AT_LEFT: Frame = Frame { left: LEFT, right: MIDDLE - 40.0, top: 450.0, floor: 590.0 };
const AT_RIGHT: Frame = Frame { left: MIDDLE + 40.0, right: RIGHT, top: 450.0, floor: 590.0 };
/// Lines in a plot, and rows of the loss map.
const MAX_DRAWN_CHANNELS: usize = 16;
/// Points of a line.
const MAX_POINTS: usize = 2048;
/// Lags that are shown.
const LAGS: usize = 128;
/// Decibels below the highest that are shown.
const DEPTH: f64 = 60.0;

pub(super) fn picture(about: &About, survey: &Survey) -> String {
    let rows = survey.threads.len().min(MAX_DRAWN_CHANNELS);
    let height = 716.0 + rows as f64 * 14.0;
    let mut drawing = Drawing::new(PICTURE_WIDTH, height, &format!("Samples of {}", about.name));
    drawing.text((LEFT, 26.0), "start", "name", &about.name);
    drawing.text((LEFT, 44.0), "start", "", &format!("{}; {}", about.format, about.time));
    drawing.text((LEFT, 61.0), "start", "", &about.looked);
    let (x, panel) =
        if survey.channels as usize > MAX_DRAWN_CHANNELS { by_channel(survey) } else { spectrum(survey) };
    plot(&mut drawing, UPPER, &x, &panel);
    names(&mut drawing, survey);
    let (x, panel) = autocorrelation(survey);
    plot(&mut drawing, AT_LEFT, &x, &panel);
    let (x, panel) = levels(survey);
    plot(&mut drawing, AT_RIGHT, &x, &panel);
    picture_losses(&mut drawing, survey);
    drawing.into_file(PICTURE_WIDTH, height)
}

fn plot(drawing: &mut Drawing, frame: Frame, scale: &Scale, panel: &Panel) {
    let x = scale.axis(panel.along(), frame.left, frame.right);
    panel.draw(drawing, frame, &x);
    drawing.x_axis(&x, frame.floor, scale);
}

fn shown(survey: &Survey) -> impl Iterator<Item = (usize, &Column)> {
    survey.columns.iter().take(MAX_DRAWN_CHANNELS).enumerate()
}

/// At most [`MAX_POINTS`] of the values, the highest of each part, so that no line of a spectrum is lost.
fn peaks(values: &[f64]) -> Vec<(usize, f64)> {
    let step = values.len().div_ceil(MAX_POINTS).max(1);
    let peak = |(n, part): (usize, &[f64])| {
        let (at, value) = part.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some((n * step + at, value))
    };
    values.chunks(step).enumerate().filter_map(peak).collect()
}

/// The highest powers, and what lies within [`DEPTH`] below.
fn decibel_scale(title: &str, powers: impl Iterator<Item = f64>) -> Scale {
    let (low, high) = powers.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), power| {
        (low.min(decibels(power)), high.max(decibels(power)))
    });
    Scale::linear(title).from(low.max(high - DEPTH) - 0.5).to(high + 0.5)
}

fn spectrum(survey: &Survey) -> (Scale, Panel) {
    let (low, high) = (survey.frequencies[0], survey.frequencies[survey.frequencies.len() - 1]);
    let (divisor, unit) = hertz(high);
    let x = Scale::linear(format!("frequency in the band, {unit}")).from(low / divisor).to(high / divisor);
    // What is constant is no signal, but may be high.
    let powers = shown(survey).flat_map(|(_, column)| column.spectrum.iter().skip(2).copied());
    let y = decibel_scale("power per Hz, dB", powers);
    let line = |(n, column): (usize, &Column)| {
        let points = peaks(&column.spectrum)
            .into_iter()
            .map(|(n, power)| (survey.frequencies[n] / divisor, decibels(power)));
        Series::line("", points).colour(n)
    };
    (x, Panel::new(0.0, y).all(shown(survey).map(line)))
}

/// Power of each channel, a line for each thread.
fn by_channel(survey: &Survey) -> (Scale, Panel) {
    let channels = survey.channels as usize;
    let x = Scale::linear("channel").to((channels - 1) as f64);
    let y = decibel_scale("power, dB", survey.columns.iter().map(|column| column.rms.powi(2)));
    let line = |(n, columns): (usize, &[Column])| {
        let power = |column: &Column| (f64::from(column.channel), decibels(column.rms.powi(2)));
        Series::line("", columns.iter().map(power)).colour(n)
    };
    (
        x,
        Panel::new(0.0, y)
            .all(survey.columns.chunks(channels).take(MAX_DRAWN_CHANNELS).enumerate().map(line)),
    )
}

fn names(drawing: &mut Drawing, survey: &Survey) {
    let names: Vec<String> = if survey.channels as usize > MAX_DRAWN_CHANNELS {
        survey.threads.iter().map(|thread| format!("thread {thread}")).collect()
    } else {
        let name = |column: &Column| format!("thread {}, channel {}", column.thread, column.channel);
        survey.columns.iter().map(name).collect()
    };
    let left_out = names.len().saturating_sub(MAX_DRAWN_CHANNELS);
    let mut all: Vec<(Mark, String)> = names
        .into_iter()
        .take(MAX_DRAWN_CHANNELS)
        .enumerate()
        .map(|(n, name)| (Mark::series(n), name))
        .collect();
    if left_out > 0 {
        all.push((Mark::None, format!("and {left_out} more")));
    }
    legend(drawing, &all, (LEFT, 368.0), RIGHT - LEFT);
}

fn autocorrelation(survey: &Survey) -> (Scale, Panel) {
    let lags = survey.columns.iter().map(|column| column.autocorrelation.len()).max().unwrap_or(0).min(LAGS);
    let values = || shown(survey).flat_map(|(_, column)| column.autocorrelation.iter().take(LAGS).skip(1));
    let least = values().copied().fold(-0.05, f64::min);
    let most = values().copied().fold(0.05, f64::max);
    let y = Scale::linear("autocorrelation").from(least * 1.1).to(most * 1.1);
    let line = |(n, column): (usize, &Column)| {
        let points = column.autocorrelation.iter().take(LAGS).enumerate().skip(1);
        Series::line("", points.map(|(lag, &value)| (lag as f64, value))).colour(n)
    };
    let x = Scale::linear("lag, samples").to(lags.max(2) as f64 - 1.0);
    (x, Panel::new(0.0, y).all(shown(survey).map(line)))
}

/// How often each level occurs: bars of few levels, lines of many.
fn levels(survey: &Survey) -> (Scale, Panel) {
    let part = |column: &Column, count: u64| count as f64 / column.samples.max(1) as f64 * 100.0;
    let panel = Panel::new(0.0, Scale::linear("how often each level occurs, %").at_least(1.0));
    let levels: Vec<f64> = survey
        .columns
        .first()
        .map(|column| column.levels.iter().map(|&level| f64::from(level)).collect())
        .unwrap_or_default();
    if levels.len() <= 4 {
        let columns = survey.columns.len().clamp(1, MAX_DRAWN_CHANNELS) as f64;
        let bars = |(n, column): (usize, &Column)| {
            let left = |code: usize| code as f64 - 0.4 + n as f64 * 0.8 / columns;
            let bar =
                |(code, &count): (usize, &u64)| (left(code), left(code) + 0.8 / columns, part(column, count));
            Series::bars("", column.codes.iter().enumerate().map(bar)).colour(n)
        };
        let panel = panel.all(shown(survey).map(bars));
        let x = Scale::linear("level").from(-0.5).to(levels.len() as f64 - 0.5).words(move |code| {
            let level = (code.fract() == 0.0).then(|| levels.get(code as usize)).flatten();
            level.map(|&level| short(level)).unwrap_or_default()
        });
        return (x, panel);
    }
    let line = |(n, column): (usize, &Column)| {
        let points = column.codes.iter().zip(&column.levels);
        Series::line("", points.map(|(&count, &level)| (f64::from(level), part(column, count)))).colour(n)
    };
    let x = Scale::linear("level").from(levels[0]).to(levels[levels.len() - 1]);
    (x, panel.all(shown(survey).map(line)))
}

fn picture_losses(drawing: &mut Drawing, survey: &Survey) {
    let seconds = (survey.rows.1 - survey.rows.0) as f64 / survey.sample_rate as f64;
    let (divisor, unit) = if seconds < 1e-3 {
        (1e-6, "µs")
    } else if seconds < 1.0 {
        (1e-3, "ms")
    } else {
        (1.0, "s")
    };
    let (top, rows) = (660.0, survey.threads.len().min(MAX_DRAWN_CHANNELS));
    drawing.text((LEFT, top - 9.0), "start", "title", "missing frames by thread and time");
    let bounds = [(0.01, 2, "below 1 %"), (0.1, 3, "below 10 %"), (0.5, 4, "below 50 %"), (1.0, 6, "more")];
    let map = HeatMap {
        rows: survey.threads.iter().take(MAX_DRAWN_CHANNELS).map(u16::to_string).collect(),
        cells: survey.loss.iter().take(MAX_DRAWN_CHANNELS).cloned().collect(),
        shades: Shades::below(&bounds, "none", "not looked at"),
    };
    map.legend(drawing, (RIGHT - 575.0, top - 19.0));
    let floor = top + rows as f64 * 14.0;
    map.draw(drawing, Frame { left: LEFT, right: RIGHT, top, floor });
    let scale = Scale::linear(format!("time, {unit}")).to(seconds / divisor);
    drawing.x_axis(&scale.axis(std::iter::empty(), LEFT, RIGHT), floor + 4.0, &scale);
}

#[cfg(test)]
mod tests;
