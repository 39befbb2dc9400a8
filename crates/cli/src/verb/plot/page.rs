//! The survey as one drawing.
//!
//! ```text
//!   name, format, time
//!   spectrum                          one line for each column; with more than 16 channels, power by channel
//!   autocorrelation │ levels
//!   missing frames, by thread and time
//! ```

use super::about::{About, decibels, hertz};
use crate::html::svg::{Axis, COLOURS, Drawing, short};
use skyhaul::samples::survey::{Column, Survey};

const WIDTH: f64 = 1040.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = WIDTH - 24.0;
const MIDDLE: f64 = WIDTH / 2.0;
/// Lines in a plot, and rows of the loss map.
const MOST: usize = 16;
/// Points of a line.
const MOST_POINTS: usize = 2048;
/// Lags that are shown.
const LAGS: usize = 128;
/// Decibels below the highest that are shown.
const DEPTH: f64 = 60.0;

pub(super) fn draw(about: &About, survey: &Survey) -> String {
    let rows = survey.threads.len().min(MOST);
    let height = 716.0 + rows as f64 * 14.0;
    let mut drawing = Drawing::new(WIDTH, height, &format!("Samples of {}", about.name));
    drawing.text((LEFT, 26.0), "start", "title", &about.name);
    drawing.text((LEFT, 44.0), "start", "", &format!("{}; {}", about.format, about.time));
    drawing.text((LEFT, 61.0), "start", "", &about.looked);
    if survey.channels as usize > MOST {
        by_channel(&mut drawing, survey);
    } else {
        spectrum(&mut drawing, survey);
    }
    legend(&mut drawing, survey);
    autocorrelation(&mut drawing, survey);
    levels(&mut drawing, survey);
    losses(&mut drawing, survey);
    drawing.into_file(WIDTH, height)
}

fn shown(survey: &Survey) -> impl Iterator<Item = (String, &Column)> {
    survey.columns.iter().take(MOST).enumerate().map(|(n, column)| (class(n), column))
}

fn class(n: usize) -> String {
    format!("s{}", n % COLOURS.len())
}

fn line(drawing: &mut Drawing, points: &[(f64, f64)], class: &str) {
    drawing.path(points, false, class);
}

/// At most [`MOST_POINTS`] of the values, the highest of each part, so that no line of a spectrum is lost.
fn peaks(values: &[f64]) -> Vec<(usize, f64)> {
    let step = values.len().div_ceil(MOST_POINTS).max(1);
    let peak = |(n, part): (usize, &[f64])| {
        let (at, value) = part.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some((n * step + at, value))
    };
    values.chunks(step).enumerate().filter_map(peak).collect()
}

fn decibel_axis(powers: impl Iterator<Item = f64>, from: f64, to: f64) -> Axis {
    let (low, high) = powers.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), power| {
        (low.min(decibels(power)), high.max(decibels(power)))
    });
    Axis::linear(low.max(high - DEPTH) - 0.5, high + 0.5, from, to)
}

fn spectrum(drawing: &mut Drawing, survey: &Survey) {
    let (low, high) = (survey.frequencies[0], survey.frequencies[survey.frequencies.len() - 1]);
    let (divisor, unit) = hertz(high);
    let x = Axis::linear(low / divisor, high / divisor, LEFT, RIGHT);
    // What is constant is no signal, but may be high.
    let powers = shown(survey).flat_map(|(_, column)| column.spectrum.iter().skip(2).copied());
    let y = decibel_axis(powers, 330.0, 100.0);
    drawing.y_axis(&y, (LEFT, RIGHT), "power per Hz, dB", &short);
    drawing.x_axis(&x, 330.0, &format!("frequency in the band, {unit}"), &short);
    for (class, column) in shown(survey) {
        let points: Vec<(f64, f64)> = peaks(&column.spectrum)
            .into_iter()
            .map(|(n, power)| (x.at(survey.frequencies[n] / divisor), y.at(decibels(power))))
            .collect();
        line(drawing, &points, &class);
    }
}

/// Power of each channel, a line for each thread.
fn by_channel(drawing: &mut Drawing, survey: &Survey) {
    let channels = survey.channels as usize;
    let x = Axis::linear(0.0, (channels - 1) as f64, LEFT, RIGHT);
    let y = decibel_axis(survey.columns.iter().map(|column| column.rms.powi(2)), 330.0, 100.0);
    drawing.y_axis(&y, (LEFT, RIGHT), "power, dB", &short);
    drawing.x_axis(&x, 330.0, "channel", &short);
    for (n, columns) in survey.columns.chunks(channels).take(MOST).enumerate() {
        let points: Vec<(f64, f64)> = columns
            .iter()
            .map(|column| (x.at(f64::from(column.channel)), y.at(decibels(column.rms.powi(2)))))
            .collect();
        line(drawing, &points, &class(n));
    }
}

fn legend(drawing: &mut Drawing, survey: &Survey) {
    let names: Vec<String> = if survey.channels as usize > MOST {
        survey.threads.iter().map(|thread| format!("thread {thread}")).collect()
    } else {
        let name = |column: &Column| format!("thread {}, channel {}", column.thread, column.channel);
        survey.columns.iter().map(name).collect()
    };
    let each = (RIGHT - LEFT) / 6.0;
    for (n, name) in names.iter().take(MOST).enumerate() {
        let at = (LEFT + (n % 6) as f64 * each, 372.0 + (n / 6) as f64 * 16.0);
        drawing.dot((at.0 + 4.0, at.1 - 4.0), &class(n));
        drawing.text((at.0 + 13.0, at.1), "start", "", name);
    }
    if names.len() > MOST {
        let at = (LEFT + (MOST % 6) as f64 * each, 372.0 + (MOST / 6) as f64 * 16.0);
        drawing.text(at, "start", "", &format!("and {} more", names.len() - MOST));
    }
}

fn autocorrelation(drawing: &mut Drawing, survey: &Survey) {
    let end = MIDDLE - 40.0;
    let lags = survey.columns.iter().map(|column| column.autocorrelation.len()).max().unwrap_or(0).min(LAGS);
    let x = Axis::linear(0.0, lags.max(2) as f64 - 1.0, LEFT, end);
    let values = || shown(survey).flat_map(|(_, column)| column.autocorrelation.iter().take(LAGS).skip(1));
    let least = values().copied().fold(-0.05, f64::min);
    let most = values().copied().fold(0.05, f64::max);
    let y = Axis::linear(least * 1.1, most * 1.1, 590.0, 450.0);
    drawing.y_axis(&y, (LEFT, end), "autocorrelation", &short);
    drawing.x_axis(&x, 590.0, "lag, samples", &short);
    for (class, column) in shown(survey) {
        let points: Vec<(f64, f64)> = column
            .autocorrelation
            .iter()
            .enumerate()
            .take(LAGS)
            .skip(1)
            .map(|(lag, &value)| (x.at(lag as f64), y.at(value)))
            .collect();
        line(drawing, &points, &class);
    }
}

/// How often each level occurs: bars of few levels, lines of many.
fn levels(drawing: &mut Drawing, survey: &Survey) {
    let begin = MIDDLE + 40.0;
    let part = |column: &Column, count: u64| count as f64 / column.samples.max(1) as f64 * 100.0;
    let most = shown(survey)
        .flat_map(|(_, column)| column.codes.iter().map(move |&count| part(column, count)))
        .fold(1.0, f64::max);
    let y = Axis::linear(0.0, most * 1.08, 590.0, 450.0);
    drawing.y_axis(&y, (begin, RIGHT), "how often each level occurs, %", &short);
    let Some(first) = survey.columns.first() else { return };
    let (count, columns) = (first.codes.len(), survey.columns.len().min(MOST));
    if count <= 4 {
        drawing.line((begin, 590.0), (RIGHT, 590.0), "axis");
        let group = (RIGHT - begin) / count as f64;
        let bar = (group - 12.0) / columns as f64;
        for code in 0..count {
            let left = begin + code as f64 * group;
            for (n, (class, column)) in shown(survey).enumerate() {
                let top = y.at(part(column, column.codes[code]));
                let at = (left + 6.0 + n as f64 * bar, top);
                drawing.rect(at, (bar - 1.0).max(0.5), 590.0 - top, &class, "");
            }
            drawing.text((left + group / 2.0, 607.0), "middle", "", &short(f64::from(first.levels[code])));
        }
        drawing.text((RIGHT, 624.0), "end", "title", "level");
        return;
    }
    let ends = |levels: &[f32]| (f64::from(levels[0]), f64::from(levels[levels.len() - 1]));
    let (low, high) = ends(&first.levels);
    let x = Axis::linear(low, high, begin, RIGHT);
    drawing.x_axis(&x, 590.0, "level", &short);
    for (class, column) in shown(survey) {
        let points: Vec<(f64, f64)> = column
            .codes
            .iter()
            .zip(&column.levels)
            .map(|(&count, &level)| (x.at(f64::from(level)), y.at(part(column, count))))
            .collect();
        line(drawing, &points, &class);
    }
}

fn losses(drawing: &mut Drawing, survey: &Survey) {
    let seconds = (survey.rows.1 - survey.rows.0) as f64 / survey.sample_rate as f64;
    let (divisor, unit) = if seconds < 1e-3 {
        (1e-6, "µs")
    } else if seconds < 1.0 {
        (1e-3, "ms")
    } else {
        (1.0, "s")
    };
    let x = Axis::linear(0.0, seconds / divisor, LEFT, RIGHT);
    let top = 660.0;
    drawing.text((LEFT, top - 9.0), "start", "title", "missing frames by thread and time");
    for (n, (thread, times)) in survey.threads.iter().zip(&survey.loss).take(MOST).enumerate() {
        let y = top + n as f64 * 14.0;
        drawing.text((LEFT - 7.0, y + 10.0), "end", "", &thread.to_string());
        let width = (RIGHT - LEFT) / times.len() as f64;
        for (n, part) in times.iter().enumerate() {
            drawing.rect((LEFT + n as f64 * width, y), width, 12.0, shade(*part), "");
        }
    }
    let floor = top + survey.threads.len().min(MOST) as f64 * 14.0;
    drawing.x_axis(&x, floor + 4.0, &format!("time, {unit}"), &short);
    let shades = [
        ("q0", "none"),
        ("q2", "below 1 %"),
        ("q3", "below 10 %"),
        ("q4", "below 50 %"),
        ("q6", "more"),
        ("none", "not looked at"),
    ];
    for (n, (class, name)) in shades.into_iter().enumerate() {
        let left = RIGHT - 555.0 + n as f64 * 94.0;
        drawing.rect((left, top - 19.0), 10.0, 10.0, class, "");
        drawing.text((left + 15.0, top - 10.0), "start", "", name);
    }
}

fn shade(part: Option<f64>) -> &'static str {
    match part {
        None => "none",
        Some(0.0) => "q0",
        Some(part) if part < 0.01 => "q2",
        Some(part) if part < 0.1 => "q3",
        Some(part) if part < 0.5 => "q4",
        Some(_) => "q6",
    }
}

#[cfg(test)]
mod tests;
