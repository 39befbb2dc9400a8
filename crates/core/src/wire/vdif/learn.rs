//! Learns from the first packets of a VDIF stream its threads and their clocks, its rate and its oddities.

use super::layout::{LEGACY, VdifStream};
use super::{Extended, Header, Vdif};
use crate::{
    placement::Reject,
    wire::{
        family::{Sample, Seen, StreamFormat},
        frame::{Quirk, Thread},
        header::Order,
        layout::Place,
        vtp,
    },
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// More seconds than any half-year has.
const HALF_YEAR: u32 = 185 * 86_400;
/// Clocks that differ by more seconds than this are wrong, not late.
const CLOCKS_APART: i64 = 10;

fn frames<'a>(mine: &'a [&Sample], network: usize) -> impl Iterator<Item = (Vdif, &'a Sample)> + 'a {
    mine.iter().filter_map(move |sample| Some((Vdif::read(sample.frame(network))?.0, *sample)))
}

/// Whether each thread was seen so often, in more than a few frames, that another one lost every time is very unlikely
/// (0.3^12 at 30 % loss).
pub(super) fn settled(mine: &[&Sample], network: usize) -> bool {
    let threads: BTreeSet<_> = frames(mine, network).map(|(v, _)| v.thread).collect();
    let distinct: BTreeSet<_> = frames(mine, network).map(|(v, _)| (v.seconds, v.frame)).collect();
    distinct.len() >= 4 && mine.len() >= 12 * threads.len()
}

/// A deviation of a VDIF stream from the standard, or a property that makes it harder to use. It is tolerated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Oddity {
    /// This number of bits per sample is most likely one too high (the field holds bits less one).
    BitsPerSample(u32),
    /// The clock of a thread is wrong; these seconds are added to place it.
    WrongSeconds {
        /// The thread.
        thread: u16,
        /// Seconds to add to its clock.
        shift: i64,
    },
    /// The version is not 1.
    Version(u32),
    /// Bits that are unassigned are not zero.
    Unassigned,
    /// The reference epoch is more than a half-year before the data.
    OldEpoch,
    /// EDV 1 states the rate, but its writers differ by a factor of two.
    RateOfEdv1,
    /// Frame numbers exceed the rate in the header; the rate is not used.
    RateTooLow,
    /// Different packets have the same time and thread, as when several boards send thread 0.
    RepeatedTime,
    /// Each thread counts its own packets; placed by time.
    SequencePerThread,
}

impl fmt::Display for Oddity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Oddity::BitsPerSample(bits) => {
                write!(f, "{bits} bits per sample: most likely {}, written one too high", bits - 1)
            }
            Oddity::WrongSeconds { thread, shift } => {
                write!(f, "clock of thread {thread} is wrong: {shift:+} s to place it")
            }
            Oddity::Version(version) => write!(f, "VDIF version {version}"),
            Oddity::Unassigned => f.write_str("unassigned header bits are set"),
            Oddity::OldEpoch => f.write_str("reference epoch is more than half a year old"),
            Oddity::RateOfEdv1 => f.write_str(
                "frame rate from EDV 1, which is half the actual rate with some writers; specify it to be sure",
            ),
            Oddity::RateTooLow => f.write_str("frame numbers exceed the header's sample rate: rate unknown"),
            Oddity::RepeatedTime => f.write_str("several frames have the same time and thread"),
            Oddity::SequencePerThread => f.write_str("each thread counts its own packets: placed by time"),
        }
    }
}

impl From<Oddity> for Quirk {
    fn from(oddity: Oddity) -> Quirk {
        Quirk::new(&oddity)
    }
}

/// The format of the stream.
pub(super) fn format(seen: &Seen<'_>) -> Result<StreamFormat, Reject> {
    let (mine, network, length) = (seen.samples, seen.shape.network, seen.shape.length);
    let legacy = seen.shape.variant == LEGACY;
    let (vdif, sample) = frames(mine, network).next().ok_or(Reject::Unrecognised)?;
    let header_bytes = if legacy { 16 } else { 32 };
    let extended = if legacy { None } else { Extended::read(&sample.frame(network)[16..]) };
    let extended = extended.unwrap_or(Extended::Legacy);
    let mut quirks = header_quirks(mine, network);

    let (mut sequence, mut place) = seen.sequence()?;
    if network > 0 && sequence.is_none() {
        quirks.push(Quirk::new(&vtp::NO_SEQUENCE));
    }
    if let Some(order) = sequence {
        let (per_thread, repeated) = conflicts(mine, network, order);
        if per_thread {
            quirks.push(Oddity::SequencePerThread.into());
            if seen.options.place == Place::Auto {
                (sequence, place) = (None, Place::Time);
            }
        }
        quirks.extend(repeated.then(|| Oddity::RepeatedTime.into()));
    }

    let threads = threads(seen.options.threads.as_deref(), mine, network, header_bytes);
    let wrong = threads.iter().filter(|t| t.shift != 0);
    quirks.extend(wrong.map(|t| Oddity::WrongSeconds { thread: t.id, shift: t.shift }.into()));
    let frames_per_second = match seen.options.frames_per_second {
        Some(given) => Some(given),
        None => rate(&Header { vdif, extended }, mine, network, &mut quirks),
    };
    Ok(StreamFormat {
        place,
        sequence,
        network_bytes: network,
        packet_bytes: length + network,
        frame_bytes: length,
        header_bytes,
        threads,
        frames_per_second,
        station: Some(vdif.station_text()),
        quirks,
        ..seen.blank(VdifStream {
            edv: extended.edv(),
            bits: vdif.bits(),
            channels: vdif.channels(),
            complex: vdif.complex == 1,
        })
    })
}

/// Oddities that most headers show.
fn header_quirks(mine: &[&Sample], network: usize) -> Vec<Quirk> {
    let most =
        |odd: fn(&Vdif) -> bool| frames(mine, network).filter(|(v, _)| odd(v)).count() * 2 > mine.len();
    let first = frames(mine, network).next().map_or(Vdif::default(), |(vdif, _)| vdif);
    let one_too_many = |v: &Vdif| v.bits() > 2 && (v.bits() - 1).is_power_of_two();
    [
        (most(one_too_many), Oddity::BitsPerSample(first.bits())),
        (most(|v| v.version != 1), Oddity::Version(first.version)),
        (most(|v| v.unassigned != 0), Oddity::Unassigned),
        (most(|v| v.seconds > HALF_YEAR), Oddity::OldEpoch),
    ]
    .into_iter()
    .filter(|(is, _)| *is)
    .map(|(_, oddity)| oddity.into())
    .collect()
}

/// Whether different frames have the same sequence number (each thread counts its own), and whether different numbers
/// have the same time and thread (several boards send the same thread).
fn conflicts(mine: &[&Sample], network: usize, order: Order) -> (bool, bool) {
    let mut by_number = BTreeMap::new();
    let mut by_time = BTreeMap::new();
    let (mut same_number, mut same_time) = (0, 0);
    for (vdif, sample) in frames(mine, network) {
        let Some(number) = vtp::psn(sample.head(), order) else { continue };
        let time = (vdif.seconds, vdif.frame, vdif.thread);
        same_number += usize::from(*by_number.entry(number).or_insert(time) != time);
        same_time += usize::from(*by_time.entry(time).or_insert(number) != number);
    }
    (same_number * 8 > mine.len(), same_time * 8 > mine.len())
}

/// The threads, ascending (or as given), each with a header and the error of its clock.
fn threads(given: Option<&[u16]>, mine: &[&Sample], network: usize, header_bytes: usize) -> Vec<Thread> {
    let mut counts: BTreeMap<u16, usize> = BTreeMap::new();
    for (vdif, _) in frames(mine, network) {
        *counts.entry(vdif.thread as u16).or_default() += 1;
    }
    // A very rare thread is a damaged header.
    let most = counts.values().copied().max().unwrap_or_default();
    let often = |count: usize| (count > 1 || most < 4) && count * 8 >= most;
    let seen = || counts.iter().filter(|&(_, &count)| often(count)).map(|(&id, _)| id);
    let ids: Vec<u16> = given.map_or_else(|| seen().collect(), <[u16]>::to_vec);
    let clocks = clocks(&ids, mine, network);
    let thread = |(id, shift): (u16, i64)| {
        let template = frames(mine, network).find(|(vdif, _)| vdif.thread == u32::from(id));
        let header = template.and_then(|(_, sample)| sample.frame(network).get(..header_bytes));
        Thread { id, shift, header: header.unwrap_or_default().to_vec() }
    };
    ids.iter().copied().zip(clocks).map(thread).collect()
}

/// The error of each thread's clock. The majority is right; on a tie, the later.
fn clocks(ids: &[u16], mine: &[&Sample], network: usize) -> Vec<i64> {
    let mut by_thread: BTreeMap<u32, Vec<(u32, i64)>> = BTreeMap::new();
    for (vdif, _) in frames(mine, network) {
        by_thread.entry(vdif.thread).or_default().push((vdif.frame, vdif.unix_seconds()));
    }
    let median = |id: &u16| {
        let mut seconds: Vec<i64> =
            by_thread.get(&u32::from(*id))?.iter().map(|&(_, second)| second).collect();
        seconds.sort_unstable();
        seconds.get(seconds.len() / 2).copied()
    };
    let medians: Vec<Option<i64>> = ids.iter().map(median).collect();
    let near = |a: i64, b: i64| (a - b).abs() <= CLOCKS_APART;
    let votes = |right: &i64| (medians.iter().flatten().filter(|m| near(**m, *right)).count(), *right);
    let Some(right) = medians.iter().flatten().copied().max_by_key(votes) else { return vec![0; ids.len()] };

    // At the same frame number all threads should have the same second; this is exact, unlike medians.
    let mut second_of: BTreeMap<u32, i64> = BTreeMap::new();
    for &(frame, second) in by_thread.values().flatten().filter(|(_, second)| near(*second, right)) {
        second_of.entry(frame).or_insert(second);
    }
    let shift = |(id, median): (&u16, &Option<i64>)| {
        let Some(median) = median.filter(|m| !near(*m, right)) else { return 0 };
        let mut votes: BTreeMap<i64, usize> = BTreeMap::new();
        for (frame, second) in by_thread.get(&u32::from(*id)).into_iter().flatten() {
            if let Some(there) = second_of.get(frame) {
                *votes.entry(there - second).or_default() += 1;
            }
        }
        votes.into_iter().max_by_key(|&(_, count)| count).map_or(right - median, |(shift, _)| shift)
    };
    ids.iter().zip(&medians).map(shift).collect()
}

/// Frames per second from the extended data, unless the frame numbers contradict it.
fn rate(header: &Header, mine: &[&Sample], network: usize, quirks: &mut Vec<Quirk>) -> Option<u32> {
    let told = header.frames_per_second()?;
    let beyond = |fps: u32| frames(mine, network).filter(|(v, _)| v.frame >= fps).count() * 8 > mine.len();
    let edv1 = matches!(header.extended, Extended::Nict(_));
    let rates = [Some(told), told.checked_mul(2).filter(|_| edv1)];
    let rate = rates.into_iter().flatten().find(|&fps| !beyond(fps));
    quirks.extend((edv1 && rate.is_some()).then(|| Oddity::RateOfEdv1.into()));
    quirks.extend(rate.is_none().then(|| Oddity::RateTooLow.into()));
    rate
}
