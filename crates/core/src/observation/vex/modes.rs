//! The rate of a mode at a station, from what the mode refers to.
//!
//! | revision | samples | from |
//! |---|---|---|
//! | 2.0 | channels × sample rate × bits | each `thread` of `$DATASTREAMS` |
//! | 2.0 | bit streams × `stream_sample_rate` | each `stream_def` of `$BITSTREAMS` |
//! | 1.5 | bit streams × `sample_rate` of `$FREQ` | each sign or magnitude of `fanout_def` of `$TRACKS`; one pass |
//!
//! The rates of everything that applies to the station add up.

use super::{VexDefinition, VexFile};
use crate::observation::rate::{FrameSize, RecordedRate, bits, hertz, named_mode, samples_per_second};
use crate::observation::scan::{RateError, excerpt};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of definitions of one block that apply to a station in one mode.
const MAX_REFERENCES: usize = 16;

impl VexFile {
    /// The rate of `mode` at `station`.
    pub(super) fn rate(&self, mode: &str, station: &str) -> Result<RecordedRate, RateError> {
        let mode = self
            .definition("MODE", mode)
            .ok_or_else(|| RateError::Invalid(format!("mode {} is not in $MODE", excerpt(mode))))?;
        let mut parts = Vec::new();
        for definition in self.referred(mode, "DATASTREAMS", station)? {
            parts.extend(threads(definition)?);
        }
        for definition in self.referred(mode, "BITSTREAMS", station)? {
            parts.push(bitstreams(definition)?);
        }
        let tracks = self.referred(mode, "TRACKS", station)?;
        if parts.is_empty() && !tracks.is_empty() {
            let rate = self.sample_rate(mode, station)?;
            parts.extend(track_rate(&tracks, rate)?);
        }
        let sources = if self.is_second() { "$DATASTREAMS or $BITSTREAMS" } else { "$TRACKS" };
        sum(parts).ok_or_else(|| {
            RateError::Invalid(format!(
                "mode {} has no {sources} for {}",
                excerpt(&mode.name),
                excerpt(station)
            ))
        })
    }

    /// What `mode` refers to in `block` for `station`.
    fn referred(
        &self,
        mode: &VexDefinition,
        block: &str,
        station: &str,
    ) -> Result<Vec<&VexDefinition>, RateError> {
        let key = format!("ref ${block}");
        let mut found = Vec::new();
        for statement in mode.statements.iter().filter(|statement| statement.key() == key) {
            let mut fields = statement.fields();
            let name = fields.next().unwrap_or_default();
            let mut stations = fields.filter(|field| !field.is_empty()).peekable();
            if stations.peek().is_some() && !stations.any(|field| field == station) {
                continue;
            }
            if found.len() == MAX_REFERENCES {
                let text =
                    format!("line {}: more than {MAX_REFERENCES} references to ${block}", statement.line);
                return Err(RateError::Invalid(text));
            }
            let definition = self.definition(block, &name);
            found.push(definition.ok_or_else(|| {
                let (name, line) = (excerpt(&name), statement.line);
                RateError::Invalid(format!("line {line}: {name} is not in ${block}"))
            })?);
        }
        Ok(found)
    }

    /// Samples per second of each channel, and how many channels there are.
    fn sample_rate(&self, mode: &VexDefinition, station: &str) -> Result<(f64, usize), RateError> {
        let all = self.referred(mode, "FREQ", station)?;
        let Some(first) = all.first() else {
            let text = format!("mode {} has no $FREQ for {}", excerpt(&mode.name), excerpt(station));
            return Err(RateError::Invalid(text));
        };
        let statements = |key: &'static str| first.statements.iter().filter(move |found| found.key() == key);
        let channels = statements("chan_def").count();
        if let Some(statement) = statements("sample_rate").next() {
            let text = statement.first();
            let rate = samples_per_second(&text).filter(|rate| *rate > 0.0);
            return rate.map(|rate| (rate, channels)).ok_or_else(|| {
                RateError::Invalid(format!(
                    "line {}: invalid sample rate `{}`",
                    statement.line,
                    excerpt(&text)
                ))
            });
        }
        // A channel sampled without a word about it has two samples for each hertz of its bandwidth.
        let bandwidth =
            statements("chan_def").filter_map(|found| hertz(&found.fields().nth(3)?)).reduce(f64::max);
        let rate = bandwidth.map(|bandwidth| (bandwidth * 2.0, channels));
        rate.ok_or_else(|| {
            RateError::Invalid(format!("{} of $FREQ has no sample rate", excerpt(&first.name)))
        })
    }
}

fn sum(parts: Vec<RecordedRate>) -> Option<RecordedRate> {
    let mut parts = parts.into_iter();
    let mut all = parts.next()?;
    for part in parts {
        all.sample_bits_per_second = all.sample_bits_per_second.saturating_add(part.sample_bits_per_second);
        all.frame = heavier(all.frame, part.frame);
    }
    Some(all)
}

/// Of two sizes of frames, that with more header: bytes are then not underestimated.
fn heavier(a: FrameSize, b: FrameSize) -> FrameSize {
    let share = |size: FrameSize| f64::from(size.frame_bytes) / f64::from(size.sample_bytes.max(1));
    if share(b) > share(a) { b } else { a }
}

/// `thread = link : thread : number : channels : sample rate : bits : real|complex : bytes`.
fn threads(definition: &VexDefinition) -> Result<Vec<RecordedRate>, RateError> {
    let mut formats = BTreeMap::new();
    for statement in definition.statements.iter().filter(|found| found.key() == "datastream") {
        let mut fields = statement.fields().map(|field| field.into_owned());
        formats.insert(fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
    }
    let mut found = Vec::new();
    for statement in definition.statements.iter().filter(|found| found.key() == "thread") {
        let fields: Vec<_> = statement.fields().take(16).collect();
        let field = |at: usize| fields.get(at).map_or("", |field| field.as_ref());
        let rate = || {
            let (channels, depth): (u32, u32) = (field(3).parse().ok()?, field(5).parse().ok()?);
            let components = if field(6).eq_ignore_ascii_case("complex") { 2 } else { 1 };
            bits(
                samples_per_second(field(4))?,
                f64::from(channels) * f64::from(depth) * f64::from(components),
            )
        };
        let rate = rate().ok_or_else(|| {
            let fields = "link : thread : number : channels : sample rate : bits : real or complex : bytes";
            RateError::Invalid(format!("line {}: expected `thread = {fields}`", statement.line))
        })?;
        let format = formats.get(field(0)).cloned().unwrap_or_else(|| "VDIF".to_owned());
        let bytes = field(7).parse().ok().filter(|bytes| (8..=1 << 27).contains(bytes));
        let frame = match bytes {
            Some(bytes) if format.to_ascii_uppercase().contains("VDIF") => {
                FrameSize::with_samples(&format, bytes)
            }
            _ => FrameSize::of(&format),
        };
        found.push(RecordedRate { sample_bits_per_second: rate, frame, format });
    }
    Ok(found)
}

/// `stream_def = channel : sign|mag : input : stream`, each at `stream_sample_rate = rate [: link]`.
fn bitstreams(definition: &VexDefinition) -> Result<RecordedRate, RateError> {
    let mut rates = Vec::new();
    for statement in definition.statements.iter().filter(|found| found.key() == "stream_sample_rate") {
        let text = statement.first();
        let rate = samples_per_second(&text).ok_or_else(|| {
            RateError::Invalid(format!("line {}: invalid sample rate `{}`", statement.line, excerpt(&text)))
        })?;
        rates.push((statement.fields().nth(1).unwrap_or_default().into_owned(), rate));
    }
    let mut seen = BTreeSet::new();
    let mut total = 0.0;
    for statement in definition.statements.iter().filter(|found| found.key() == "stream_def") {
        let fields: Vec<_> = statement.fields().take(8).map(|field| field.into_owned()).collect();
        let link = fields.get(4).cloned().unwrap_or_default();
        let rate = rates.iter().find(|(of, _)| *of == link).or(rates.first()).map(|(_, rate)| *rate);
        if seen.insert((fields.first().cloned(), fields.get(1).cloned(), link)) {
            total += rate.unwrap_or_default();
        }
    }
    let rate = bits(total, 1.0);
    let rate = rate.ok_or_else(|| {
        RateError::Invalid(format!("{} of $BITSTREAMS gives no rate", excerpt(&definition.name)))
    })?;
    // VSI bit streams are what Mark 5B formats.
    Ok(RecordedRate {
        sample_bits_per_second: rate,
        frame: FrameSize::of("MARK5B"),
        format: "MARK5B".to_owned(),
    })
}

/// `fanout_def = pass : channel : sign|mag : headstack : track …`; `None`: nothing is recorded.
///
/// Format and tracks may stand in definitions of their own.
fn track_rate(
    all: &[&VexDefinition],
    (rate, channels): (f64, usize),
) -> Result<Option<RecordedRate>, RateError> {
    let statements = |key: &'static str| {
        all.iter().flat_map(|definition| &definition.statements).filter(move |found| found.key() == key)
    };
    let value = |key| statements(key).next().map(|found| found.first().into_owned());
    let mut passes: BTreeMap<String, BTreeSet<(String, String)>> = BTreeMap::new();
    for statement in statements("fanout_def") {
        let mut fields = statement.fields().map(|field| field.into_owned());
        let pass = fields.next().unwrap_or_default();
        let channel = fields.next().unwrap_or_default();
        passes.entry(pass).or_default().insert((channel, fields.next().unwrap_or_default()));
    }
    let format = value("track_frame_format").unwrap_or_default();
    let total = match passes.values().map(BTreeSet::len).max() {
        None => match named_mode(&format) {
            Some(named) => return Ok(Some(named)),
            None => untracked(value("S2_recording_mode"), &format, rate, channels),
        },
        Some(streams) => bits(rate, streams as f64),
    };
    if let Some(total) = total {
        let frame = FrameSize::of(&format);
        let format = if format.is_empty() { "S2".to_owned() } else { format };
        return Ok(Some(RecordedRate { sample_bits_per_second: total, frame, format }));
    }
    if format.is_empty() || format.eq_ignore_ascii_case("none") {
        return Ok(None);
    }
    Err(RateError::NotGiven)
}

/// The rate without tracks: `S2_recording_mode = 32x4-2` are 32 tracks of 4 Mb/s; `VDIF/8032/2` are 2 bits per sample.
fn untracked(s2: Option<String>, format: &str, rate: f64, channels: usize) -> Option<u64> {
    if let Some(mode) = s2 {
        let (tracks, megabits) = mode.split('-').next()?.split_once('x')?;
        return bits(megabits.parse::<u32>().ok()?.into(), 1e6 * f64::from(tracks.parse::<u32>().ok()?));
    }
    let depth: u32 = format.rsplit('/').next()?.parse().ok().filter(|depth| (1..=64).contains(depth))?;
    bits(rate, f64::from(depth) * channels as f64)
}
