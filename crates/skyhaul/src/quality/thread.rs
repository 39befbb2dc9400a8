//! What is gathered of one thread of a stream, and judged every few seconds.

use super::report::{ChannelQuality, FindingReport, ThreadQuality};
use super::shared::QualityOptions;
use crate::receive::StreamInfo;
use skyhaul_core::placement::Nanos;
use skyhaul_core::quality::{
    ColumnCounts, FindingChange, FindingLog, HeaderStats, PayloadStats, PhaseCal, PhaseCalTones,
    QualityFinding, judge_columns, phase_cal_tones,
};
use skyhaul_core::samples::{Coded, Decoder, append_column};
use skyhaul_core::wire::FrameTime;
use skyhaul_spectra::{BlockScratch, Blockwise, ColumnSums, Gathering};
use std::time::{Duration, Instant};

/// How long frames are gathered before they are judged, and how many they must be; at the end fewer are enough.
const PERIOD: Duration = Duration::from_secs(3);
const MIN_FRAMES: u64 = 12;
const MIN_LAST_FRAMES: u64 = 8;
/// Channels that are looked at.
const MAX_CHANNELS: usize = 64;
/// Findings in a report.
const MAX_FINDINGS: usize = 64;
/// Complete samples of a block of the spectrum.
const BLOCK: usize = 1024;
/// Points of a spectrum and lags in a report.
const POINTS: usize = 128;
const LAGS: usize = 32;
/// States in a report.
const STATES: usize = 16;
/// Distances of phase-cal tones in use: 1 MHz for most stations, 5 MHz for VGOS.
const SPACINGS: [f64; 2] = [1e6, 5e6];
/// Tones are there from so many standard deviations on, and gone below the other.
const PRESENT: (f64, f64) = (12.0, 0.05);
const GONE: f64 = 4.0;

/// A frame of a thread, as its header describes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SampledHeader {
    pub(super) time: FrameTime,
    pub(super) station: Option<u32>,
    pub(super) is_valid: bool,
    /// The payload is the test pattern, whose states are those of random bits.
    pub(super) is_pattern: bool,
    pub(super) coded: Option<Coded>,
}

/// One thread.
#[derive(Debug)]
pub(super) struct WatchedThread {
    pub(super) headers: HeaderStats,
    /// Of the frames of this period; `None` until a header says how samples are written.
    pub(super) samples: Option<PeriodSamples>,
    log: FindingLog,
    pub(super) report: ThreadQuality,
    since: Instant,
    /// Seconds of data of the parts that frames are from, until it is judged first; from then on it counts by the clock alone.
    first_seconds: Option<f64>,
    frames: u64,
    station: Option<u32>,
}

impl WatchedThread {
    pub(super) fn new(info: &StreamInfo, thread: u16) -> Self {
        let report = ThreadQuality {
            stream: info.id,
            sender: info.sender.to_string(),
            thread,
            ..ThreadQuality::default()
        };
        Self {
            headers: HeaderStats::default(),
            samples: None,
            log: FindingLog::default(),
            report,
            since: Instant::now(),
            first_seconds: Some(0.0),
            frames: 0,
            station: None,
        }
    }

    /// Takes a frame. `set`: time and station of most frames of its set.
    pub(super) fn add(
        &mut self,
        (header, set): (&SampledHeader, (FrameTime, Option<u32>)),
        payload: &[u8],
        rate: Option<u32>,
    ) {
        self.frames += 1;
        self.report.frames += 1;
        self.headers.add(header.is_valid, (header.time, header.station), set, rate);
        self.report.pattern_frames += u64::from(header.is_pattern);
        let Some(coded) = header.coded.filter(|_| header.is_valid && !header.is_pattern) else { return };
        let shape = (coded, payload.len(), rate);
        let samples = match &mut self.samples {
            Some(samples) if samples.shape == shape => samples,
            other => other.insert(PeriodSamples::new(shape)),
        };
        samples.add((header.time.unix_seconds, header.time.frame), payload);
    }

    /// Frames of this thread arrived then, the last of them a moment ago.
    pub(super) fn arrived(&mut self, time: FrameTime, rate: Option<u32>, arrived: Nanos) {
        // A frame is complete when its last sample was taken.
        let (data, within) = nanos(time, rate);
        self.headers.arrived(data, within, i128::from(arrived.0));
    }

    /// Whether enough was gathered to judge it.
    pub(super) fn is_due(&self, at_end: bool) -> bool {
        match at_end {
            true => self.frames >= MIN_LAST_FRAMES,
            false => {
                // The first part of a slow stream is old when it comes.
                let is_old = self.first_seconds.is_some_and(|seconds| seconds >= PERIOD.as_secs_f64());
                self.frames >= MIN_FRAMES && (is_old || self.since.elapsed() >= PERIOD)
            }
        }
    }

    /// A part with so many seconds of data has come.
    pub(super) fn passed(&mut self, seconds: f64) {
        if let Some(all) = &mut self.first_seconds {
            *all += seconds;
        }
    }

    /// The findings in its own frames.
    pub(super) fn judge(&mut self, info: &StreamInfo, options: &QualityOptions) -> Vec<QualityFinding> {
        let mut found = Vec::new();
        let of_thread = info.format.threads.iter().find(|known| known.id == self.report.thread);
        self.headers.judge(of_thread.map_or(0, |thread| thread.shift), &mut found);
        self.station = self.headers.station();
        let name = |code| Some(info.format.family.frames()?.station_text(code));
        self.report.station = self.station.and_then(name);
        self.report.clock_offset_seconds = self.headers.offset_nanos().map(|nanos| nanos as f64 / 1e9);
        if let Some(samples) = &mut self.samples {
            samples.judge(options, &mut self.report, &mut found);
        }
        found
    }

    /// Its report when it is over: nothing holds any more.
    pub(super) fn end(mut self) -> ThreadQuality {
        let now = jiff::Timestamp::now().to_string();
        for finding in self.report.findings.iter_mut().filter(|finding| finding.ended_at.is_none()) {
            finding.ended_at = Some(now.clone());
        }
        self.report
    }

    /// The station in its headers.
    pub(super) fn station(&self) -> Option<u32> {
        self.station.or_else(|| self.headers.station())
    }

    /// Takes all findings of a judgement, and begins anew; returns what changed, in words.
    pub(super) fn conclude(&mut self, found: &[QualityFinding]) -> Vec<(bool, String)> {
        let now = jiff::Timestamp::now().to_string();
        let mut said = Vec::new();
        for change in self.log.update(found) {
            let (has_begun, finding) = match change {
                FindingChange::Begun(finding) => (true, finding),
                FindingChange::Ended(finding) => (false, finding),
            };
            if finding.is_event() {
                said.push((
                    has_begun,
                    format!("{} thread {}: {finding}", self.report.sender, self.report.thread),
                ));
            }
            let findings = &mut self.report.findings;
            if has_begun {
                if findings.len() < MAX_FINDINGS {
                    findings.push(FindingReport {
                        finding: finding.name().to_owned(),
                        channel: finding.channel(),
                        text: finding.to_string(),
                        is_alarm: finding.is_alarm(),
                        begun_at: now.clone(),
                        ended_at: None,
                    });
                }
                continue;
            }
            let is_known = |known: &&mut FindingReport| {
                known.ended_at.is_none()
                    && known.finding == finding.name()
                    && known.channel == finding.channel()
            };
            if let Some(known) = findings.iter_mut().rev().find(is_known) {
                known.ended_at = Some(now.clone());
            }
        }
        (self.since, self.frames, self.headers) = (Instant::now(), 0, HeaderStats::default());
        self.first_seconds = None;
        if let Some(samples) = &mut self.samples {
            samples.restart();
        }
        said
    }
}

/// Samples of a period.
#[derive(Debug)]
pub(super) struct PeriodSamples {
    /// How they are written, bytes of a payload, frames in a second.
    shape: (Coded, usize, Option<u32>),
    pub(super) payload: PayloadStats,
    columns: Option<Columns>,
    /// Tones that were seen, by channel.
    tones: Vec<Option<PhaseCalTones>>,
}

impl PeriodSamples {
    fn new(shape: (Coded, usize, Option<u32>)) -> Self {
        Self { shape, payload: PayloadStats::new(shape.0), columns: Columns::new(shape), tones: Vec::new() }
    }

    fn restart(&mut self) {
        self.payload.restart();
        self.columns = Columns::new(self.shape);
    }

    fn add(&mut self, number: (i64, u32), payload: &[u8]) {
        self.payload.add(number, payload);
        if let Some(columns) = &mut self.columns {
            columns.add(payload);
        }
    }

    fn judge(
        &mut self,
        options: &QualityOptions,
        report: &mut ThreadQuality,
        found: &mut Vec<QualityFinding>,
    ) {
        self.payload.judge(found);
        report.bits = self.shape.0.coding.map(skyhaul_core::samples::Coding::bits);
        report.complex = self.shape.0.complex;
        report.bits_set = self.payload.bits_set().to_vec();
        let is_constant = found.iter().any(|one| matches!(one, QualityFinding::ConstantPayload { .. }));
        let is_other = found.iter().any(|one| matches!(one, QualityFinding::BitsPerSample { .. }));
        let (Some(columns), Some(coding)) = (self.columns.take(), self.shape.0.coding) else { return };
        report.sample_rate = columns.sample_rate;
        let (sums, step) = columns.finish();
        // Words that are no samples, or samples of another width, have no states.
        if !is_constant && !is_other {
            let counts: Vec<_> = (0..)
                .zip(&sums)
                .map(|(channel, sums)| ColumnCounts { channel, codes: &sums.codes })
                .collect();
            judge_columns(coding, &counts, found);
        }
        self.tones.resize(sums.len(), None);
        report.channels.clear();
        for ((channel, sums), known) in (0..).zip(&sums).zip(&mut self.tones) {
            let tones =
                step.filter(|_| !report.complex).and_then(|step| judge_tones(sums, step, options, known));
            let missing = tones.and_then(|(tones, is_missing)| is_missing.then_some(tones));
            if let Some(tones) = missing.filter(|_| !is_constant) {
                let PhaseCalTones { spacing_hz, sigmas, .. } = tones;
                found.push(QualityFinding::PhaseCalMissing { channel, spacing_hz, sigmas });
            }
            report.channels.push(described(channel, sums, tones.map(|(tones, _)| tones)));
        }
    }
}

/// The tones of a channel, if they are expected or were seen, and whether they are missing. `known` keeps those that were seen.
fn judge_tones(
    sums: &ColumnSums,
    step: f64,
    options: &QualityOptions,
    known: &mut Option<PhaseCalTones>,
) -> Option<(PhaseCalTones, bool)> {
    let measure = |expected| phase_cal_tones(&sums.spectrum, step, sums.blocks, expected);
    let is_present = |tones: &PhaseCalTones| tones.sigmas > PRESENT.0 && tones.excess > PRESENT.1;
    if let Some(expected) = options.phase_cal {
        let tones = measure(expected)?;
        return Some((tones, tones.sigmas < GONE));
    }
    if let Some(seen) = known {
        let at = PhaseCal { spacing_hz: seen.spacing_hz, offset_hz: Some(seen.offset_hz) };
        let tones = measure(at)?;
        return Some((tones, tones.sigmas < GONE));
    }
    let all = SPACINGS.iter().filter_map(|&spacing_hz| measure(PhaseCal { spacing_hz, offset_hz: None }));
    // Tones every megahertz are also tones every five; the closer ones are named.
    *known = all.into_iter().find(is_present);
    known.map(|tones| (tones, false))
}

fn described(channel: u32, sums: &ColumnSums, tones: Option<PhaseCalTones>) -> ChannelQuality {
    let total = sums.codes.iter().sum::<u64>().max(1) as f64;
    let each = sums.codes.len().div_ceil(STATES).max(1);
    let states = sums.codes.chunks(each).map(|codes| codes.iter().sum::<u64>() as f64 / total).collect();
    let mean = sums.spectrum.iter().sum::<f64>() / sums.spectrum.len().max(1) as f64;
    let each = sums.spectrum.len().div_ceil(POINTS).max(1);
    let point = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64 / mean;
    let spectrum = if mean > 0.0 { sums.spectrum.chunks(each).map(point).collect() } else { Vec::new() };
    ChannelQuality {
        channel,
        states,
        mean: sums.mean,
        rms: sums.rms,
        spectrum,
        autocorrelation: sums.autocorrelation.iter().take(LAGS).copied().collect(),
        phase_cal: tones.map(|tones| (tones.spacing_hz, tones.offset_hz, tones.excess, tones.sigmas)),
    }
}

/// Channels of a thread, as plots gather them.
#[derive(Debug)]
struct Columns {
    decoder: Decoder<f32>,
    transform: Blockwise,
    scratch: BlockScratch,
    all: Vec<Gathering>,
    /// Elementary samples of one instant, and of one channel.
    width: usize,
    each: usize,
    sample_rate: Option<u64>,
    samples: Vec<f32>,
    column: Vec<f32>,
}

impl Columns {
    /// `None` if the header does not state how samples are written, or a frame holds no two of a channel.
    fn new((coded, bytes, rate): (Coded, usize, Option<u32>)) -> Option<Self> {
        let (coding, channels) = (coded.coding?, coded.channels.filter(|&channels| channels > 0)? as usize);
        let each = 1 + usize::from(coded.complex);
        let decoder = Decoder::new(coding)?;
        let width = channels.checked_mul(each)?;
        let rows = coding.samples_in(bytes) / width;
        let block = if rows < 2 { return None } else { BLOCK.min(1 << rows.ilog2()) };
        let sample_rate =
            rate.and_then(|rate| (rows as u64).checked_mul(rate.into())).filter(|&rate| rate > 0);
        let transform = Blockwise::new(block, coded.complex, sample_rate.unwrap_or(1));
        let all = (0..channels.min(MAX_CHANNELS)).map(|_| Gathering::new(coding, &transform)).collect();
        Some(Self {
            scratch: transform.scratch(),
            decoder,
            transform,
            all,
            width,
            each,
            sample_rate,
            samples: Vec::new(),
            column: Vec::new(),
        })
    }

    fn add(&mut self, payload: &[u8]) {
        let coding = self.decoder.coding();
        self.samples.resize(coding.samples_in(payload.len()), 0.0);
        self.decoder.decode(payload, &mut self.samples);
        for (channel, gathering) in self.all.iter_mut().enumerate() {
            self.column.clear();
            let part = channel * self.each..(channel + 1) * self.each;
            append_column(&self.samples, self.width, part, &mut self.column);
            gathering.add(&self.column, &self.transform, &mut self.scratch);
        }
    }

    /// What was gathered, and Hz between two points of a spectrum, if that is known.
    fn finish(self) -> (Vec<ColumnSums>, Option<f64>) {
        let Self { all, transform, sample_rate, .. } = self;
        let step = sample_rate.map(|rate| rate as f64 / (2 * transform.block()) as f64);
        (all.into_iter().map(|gathering| gathering.finish(&transform)).collect(), step)
    }
}

/// When a frame begins and how long it may last, Unix time in nanoseconds; without a rate, its second.
pub(super) fn nanos(time: FrameTime, rate: Option<u32>) -> (i128, i128) {
    const SECOND: i128 = 1_000_000_000;
    let begin = i128::from(time.unix_seconds) * SECOND;
    match rate.filter(|&rate| rate > 0).map(i128::from) {
        Some(rate) => (begin + i128::from(time.frame) * SECOND / rate, SECOND / rate),
        None => (begin, SECOND),
    }
}
