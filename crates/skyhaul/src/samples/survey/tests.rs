use super::*;
use crate::samples::{FrameMaker, Options, Written};
use skyhaul_core::wire::Format;
use std::f64::consts::TAU;
use std::path::Path;

const RATE: u64 = 64_000;

/// Frames of two threads: noise, and a tone at `hz` in the second thread. Frames for which `lost` is true are invalid.
fn write(path: &Path, bits: u32, complex: bool, hz: f64, frames: usize, lost: impl Fn(usize) -> bool) {
    let written = Written {
        bits,
        channels: 1,
        complex,
        threads: vec![3, 5],
        sample_rate: RATE,
        payload: Some(4000),
        start: (1_767_225_600, 0),
        station: "Sk".into(),
        version: None,
    };
    let family = "vdif".parse::<Format>().unwrap().family().unwrap();
    let mut maker = FrameMaker::new(family, &written).unwrap();
    let mut random = 1u64;
    let mut noise = || {
        // Twelve uniform numbers make a normal one. A loop, as an iterator that is not optimised takes ten times as long.
        let (mut sum, mut left) = (0.0, 12);
        while left > 0 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            sum += (random >> 40) as f64 / (1u64 << 24) as f64;
            left -= 1;
        }
        sum - 6.0
    };
    let (mut octets, mut rows) = (Vec::new(), Vec::new());
    for frame in 0..frames {
        rows.clear();
        for n in 0..maker.frame_rows() {
            let phase = TAU * hz * (frame * maker.frame_rows() + n) as f64 / RATE as f64;
            let tone = [2.0 * phase.cos(), 2.0 * phase.sin()];
            let components = 1 + usize::from(complex);
            for thread in 0..2 {
                for part in &tone[..components] {
                    let sample = noise() + if thread == 1 { *part } else { 0.0 };
                    rows.push(if lost(frame) { f32::NAN } else { sample as f32 });
                }
            }
        }
        maker.frames(&rows, &mut octets).unwrap();
    }
    std::fs::write(path, octets).unwrap();
}

fn open(path: &Path) -> Samples {
    Samples::of_files([path], &Options { sample_rate: Some(RATE), ..Options::default() }).unwrap()
}

fn peak(column: &Column, survey: &Survey) -> f64 {
    let at = (0..column.spectrum.len()).max_by(|&a, &b| column.spectrum[a].total_cmp(&column.spectrum[b]));
    survey.frequencies[at.unwrap()]
}

#[test]
fn a_tone_is_where_it_was_put_and_power_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x");
    for (bits, complex, hz) in [(8, false, 10_000.0), (8, true, -7_000.0), (2, false, 10_000.0)] {
        write(&path, bits, complex, hz, 40, |_| false);
        let samples = open(&path);
        let options = SurveyOptions { block: 512, ..SurveyOptions::default() };
        let survey = samples.survey(&options, |_, _| true).unwrap();
        assert_eq!((survey.looked, survey.interrupted), (samples.rows(), false));
        let [quiet, tone] = &survey.columns[..] else { panic!("two columns") };
        assert_eq!((quiet.thread, tone.thread), (3, 5));
        assert!((peak(tone, &survey) - hz).abs() <= 125.0, "{}", peak(tone, &survey));
        let step = survey.frequencies[1] - survey.frequencies[0];
        assert!((step - RATE as f64 / 1024.0).abs() < 1e-9);
        for column in [quiet, tone] {
            let ends = if complex { 0.0 } else { column.spectrum[0] + column.spectrum[512] };
            let power: f64 = (column.spectrum.iter().sum::<f64>() - ends / 2.0) * step;
            assert!((power / column.rms.powi(2) - 1.0).abs() < 0.03, "{bits} {complex} {power}");
            assert_eq!(column.samples, samples.rows() * (1 + u64::from(complex)));
            assert_eq!(column.codes.iter().sum::<u64>(), column.samples);
        }
        // Noise forgets at once, a tone never does.
        assert!(quiet.autocorrelation[1..].iter().all(|value| value.abs() < 0.08));
        // The tone has two thirds of the power.
        let part = 2.0 / 3.0;
        let at = |lag: usize| tone.autocorrelation[lag];
        if bits == 8 {
            let lag = if complex { 10 } else { 32 };
            assert!((at(lag) - part).abs() < 0.05, "{} {part}", at(lag));
        }
        assert!((at(0) - 1.0).abs() < 1e-9);
    }
}

#[test]
fn codes_are_counted_one_by_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x");
    for bits in [1, 2, 4, 8, 16, 32] {
        write(&path, bits, false, 0.0, 8, |frame| frame == 3);
        let samples = open(&path);
        let survey = samples.survey(&SurveyOptions::default(), |_, _| true).unwrap();
        let mut rows = vec![0f32; samples.rows() as usize * 2];
        samples.read(0, &mut rows).unwrap();
        for (n, column) in survey.columns.iter().enumerate() {
            let mut codes = vec![0; 1 << bits.min(8)];
            for row in rows.chunks_exact(2).filter(|row| !row[n].is_nan()) {
                let nearest = (0..codes.len()).min_by(|&a, &b| {
                    (column.levels[a] - row[n]).abs().total_cmp(&(column.levels[b] - row[n]).abs())
                });
                codes[nearest.unwrap()] += 1;
            }
            // Wider ones may lie between two.
            if bits <= 8 {
                assert_eq!(column.codes, codes, "{bits} bits");
            }
            assert_eq!(column.samples, codes.iter().sum::<u64>(), "{bits} bits");
        }
    }
}

#[test]
fn losses_are_counted_by_their_time_and_break_no_spectrum() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x");
    write(&path, 2, false, 1000.0, 40, |frame| (10..15).contains(&frame) || frame == 30);
    let samples = open(&path);
    let options = SurveyOptions { times: 8, ..SurveyOptions::default() };
    let survey = samples.survey(&options, |_, _| true).unwrap();
    let expected = [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.2, 0.0].map(Some);
    assert_eq!(survey.loss, [expected, expected]);
    assert_eq!((survey.frames, survey.missing), (80, 12));
    assert!(survey.columns.iter().all(|column| column.spectrum.iter().all(|power| power.is_finite())));
    let rows = samples.frame_rows();
    let blocks: u64 = [10, 15, 9].iter().map(|frames| frames * rows / 1024).sum();
    // Which blocks a loss touches depends on where it begins in them.
    assert!(survey.columns[0].blocks.abs_diff(blocks) <= 3, "{}", survey.columns[0].blocks);
    // Nothing but losses.
    let lost = SurveyOptions { rows: 10 * rows..15 * rows, ..SurveyOptions::default() };
    let survey = samples.survey(&lost, |_, _| true).unwrap();
    let column = &survey.columns[0];
    assert_eq!((column.samples, column.blocks, column.spectrum.len()), (0, 0, 0));
    assert!(column.mean == 0.0 && column.rms == 0.0 && survey.frames == survey.missing);
}

#[test]
fn looks_are_spread_over_a_range_that_is_too_long() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x");
    write(&path, 1, false, 1000.0, 400, |_| false);
    let samples = open(&path);
    for most in [1, 1 << 20, 5 << 20, 9 << 20, u64::MAX] {
        let looks = samples.looks(&(100..samples.rows() - 7), 1024, most);
        assert!(looks.windows(2).all(|pair| pair[0].start < pair[1].start));
        assert_eq!(looks[0].start, 100);
        assert!(looks.iter().all(|look| look.end <= samples.rows() - 7 && !look.is_empty()));
        if looks.len() > 1 {
            assert_eq!(looks[looks.len() - 1].end, samples.rows() - 7);
        }
        let total: u64 = looks.iter().map(|look| (look.end - look.start) * 2).sum();
        assert!(total <= most.max(BLOCK_SAMPLES).saturating_add(BLOCK_SAMPLES), "{most}: {total}");
    }
    let mut seen = Vec::new();
    let survey = samples
        .survey(&SurveyOptions::default(), |done, all| {
            seen.push((done, all));
            done < 4_000_000
        })
        .unwrap();
    assert!(survey.interrupted && survey.looked < samples.rows() && seen.len() > 2);
    for (rows, block) in [(5..5, 0), (0..9, 1), (0..9, 1 << 21), (samples.rows()..u64::MAX, 0)] {
        let options = SurveyOptions { rows, block, ..SurveyOptions::default() };
        assert!(samples.survey(&options, |_, _| true).is_err());
    }
}
