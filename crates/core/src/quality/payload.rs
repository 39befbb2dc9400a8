//! What the payload of a thread's frames is like, before and beside its decoding: bits of words, order of bytes, fingerprints.

use super::finding::{QualityFinding, SampleOrder};
use super::order::Orders;
use crate::samples::Coded;
use std::collections::VecDeque;

/// Words of 32 bits before anything is said of their bits.
const MIN_WORDS: u64 = 4000;
/// Frames before anything is said of whole frames.
const MIN_FRAMES: u64 = 8;
/// Fingerprints that are kept.
const MAX_FINGERPRINTS: usize = 64;
/// Two adjacent bits differ in more than this share of the words: they are the two highest of a sample. Small samples are more
/// frequent than large ones, and offset binary has 01… and 10… in the middle.
const TOP_BITS: f64 = 0.56;
/// The bit below them is related to them by this much, where there is one: bits of other samples are not.
const RELATED: f64 = 0.006;
/// Where a bit of noise meets the next: clipping makes them a little alike.
const UNRELATED: f64 = 0.03;
/// Share of frames that must be alike.
const MOST_FRAMES: f64 = 0.5;
/// Channels whose fingerprints are compared.
const MAX_CHANNELS: u32 = 64;

/// A frame's number in time, and a hash of its payload or channel.
type Fingerprint = ((i64, u32), u64);

/// What was gathered of the payload of one thread.
#[derive(Clone, Debug)]
pub struct PayloadStats {
    coded: Coded,
    frames: u64,
    words: u64,
    /// Words in which bit `k` is set.
    set: [u64; 32],
    /// Words in which bit `k` differs from bit `k + 1`.
    differs: [u64; 31],
    orders: Option<Orders>,
    /// Frames of one word over and over, and the last such word.
    constant: (u64, u32),
    /// Frames with the payload of an earlier one.
    repeated: u64,
    payloads: VecDeque<Fingerprint>,
    /// By channel.
    channels: Vec<Vec<Fingerprint>>,
}

impl PayloadStats {
    /// Of no frames; `coded`: as headers state it.
    #[must_use]
    pub fn new(coded: Coded) -> Self {
        let width = width(&coded);
        let channels = coded.channels.unwrap_or(0).min(MAX_CHANNELS);
        Self {
            orders: coded.coding.filter(|coding| coding.is_known()).map(|coding| Orders::new(coding, width)),
            coded,
            frames: 0,
            words: 0,
            set: [0; 32],
            differs: [0; 31],
            constant: (0, 0),
            repeated: 0,
            payloads: VecDeque::new(),
            channels: vec![Vec::new(); channels as usize],
        }
    }

    /// Begins anew; fingerprints of payloads stay, so that what is repeated seconds later is found.
    pub fn restart(&mut self) {
        let payloads = std::mem::take(&mut self.payloads);
        *self = Self { payloads, ..Self::new(self.coded) };
    }

    /// Frames so far.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Takes the payload of a frame: its second and number, its bytes without header.
    pub fn add(&mut self, number: (i64, u32), payload: &[u8]) {
        self.frames += 1;
        let words = payload.as_chunks::<4>().0;
        self.count_bits(words);
        let first = words.first().copied().unwrap_or_default();
        if words.len() > 1 && words.iter().all(|word| *word == first) {
            self.constant = (self.constant.0 + 1, u32::from_le_bytes(first));
            return;
        }
        let whole = hash(payload.iter().copied());
        if self.payloads.iter().any(|&(at, known)| known == whole && at != number) {
            self.repeated += 1;
        } else {
            if self.payloads.len() >= MAX_FINGERPRINTS {
                self.payloads.pop_front();
            }
            self.payloads.push_back((number, whole));
        }
        self.mark_channels(number, payload);
        if let Some(orders) = &mut self.orders {
            orders.add(payload);
        }
    }

    /// Each bit and each pair of neighbours, bit by bit for 64 words at once: the sums of columns of a matrix of bits.
    fn count_bits(&mut self, words: &[[u8; 4]]) {
        for part in words.chunks(255) {
            // A byte for each bit does not overflow within 255 words.
            let (mut set, mut differs) = ([0u8; 32], [0u8; 32]);
            for word in part {
                let word = u32::from_le_bytes(*word);
                let differing = word ^ word >> 1;
                for (bit, (set, differs)) in (0..).zip(set.iter_mut().zip(&mut differs)) {
                    *set += (word >> bit & 1) as u8;
                    *differs += (differing >> bit & 1) as u8;
                }
            }
            self.set.iter_mut().zip(set).for_each(|(sum, new)| *sum += u64::from(new));
            self.differs.iter_mut().zip(differs).for_each(|(sum, new)| *sum += u64::from(new));
        }
        self.words += words.len() as u64;
    }

    fn mark_channels(&mut self, number: (i64, u32), payload: &[u8]) {
        let Some(coding) = self.coded.coding.filter(|coding| coding.is_known()) else { return };
        let row = width(&self.coded) * coding.bits() as usize;
        let (channels, bits) = (self.channels.len(), row / self.coded.channels.unwrap_or(1).max(1) as usize);
        if channels == 0 || !row.is_power_of_two() || self.channels[0].len() >= MAX_FINGERPRINTS {
            return;
        }
        if channels == 1 {
            let whole = hash(payload.iter().copied());
            self.channels[0].push((number, whole));
            return;
        }
        for (channel, marks) in self.channels.iter_mut().enumerate() {
            let at = |row_at: usize| bits_at(payload, row_at + channel * bits, bits);
            // A few hundred rows tell two channels apart.
            let rows = (payload.len() * 8 / row).min(1024);
            let codes = (0..rows).map(|n| at(n * row));
            let mut codes = codes.peekable();
            let first = codes.peek().copied();
            let (mut sum, mut varies) = (HASH_START, false);
            for code in codes {
                varies |= Some(code) != first;
                sum = (sum ^ code).wrapping_mul(HASH_FACTOR);
            }
            // A dead channel is like every other dead one.
            if varies {
                marks.push((number, sum));
            }
        }
    }

    /// Appends what is wrong with the payload of this thread.
    pub fn judge(&self, found: &mut Vec<QualityFinding>) {
        let share = |count: u64| count as f64 / self.frames.max(1) as f64;
        if self.frames >= MIN_FRAMES && share(self.constant.0) > MOST_FRAMES {
            let (count, word) = self.constant;
            found.push(QualityFinding::ConstantPayload { word, share: share(count) });
            return;
        }
        if self.frames >= MIN_FRAMES && share(self.repeated) > MOST_FRAMES {
            found.push(QualityFinding::RepeatedPayload { share: share(self.repeated) });
        }
        let before = found.len();
        self.judge_width(found);
        // Samples of another width are in no order.
        if let Some(orders) = self.orders.as_ref().filter(|_| before == found.len()) {
            orders.judge(found);
        }
    }

    /// The two highest bits of samples show how wide these are.
    fn judge_width(&self, found: &mut Vec<QualityFinding>) {
        let Some(coding) = self.coded.coding else { return };
        if self.words < MIN_WORDS {
            return;
        }
        let tops: Vec<bool> = (0..31).map(|bit| 0.5 + self.leaning([bit].into_iter()) > TOP_BITS).collect();
        let is_exact = |is_top: &dyn Fn(u32) -> bool| (0..31).all(|bit| tops[bit as usize] == is_top(bit));
        let stated = coding.bits();
        // Of samples as stated no other bits are highest; some may not be seen, at a high level.
        let strange = (0..31).any(|bit| tops[bit as usize] && !is_top(stated, bit));
        for width in [2, 4, 8, 16, 32].into_iter().filter(|&width| width != stated) {
            if is_exact(&|bit| is_top(width, bit)) && (strange || self.is_one(stated, width)) {
                found.push(QualityFinding::BitsPerSample { stated, found: width });
                return;
            }
        }
        // The upper byte of each sample is the first one.
        if stated == 16 && is_exact(&|bit| bit % 16 == 6) {
            let strongest = self.orders.as_ref().and_then(Orders::strongest);
            let order = strongest.unwrap_or(SampleOrder::Swapped16);
            found.push(QualityFinding::ByteOrder { order, as_is: 0.0, reordered: 0.0 });
        }
    }

    /// By how much more than half of the words these bits differ from the bits above them.
    fn leaning(&self, bits: impl Iterator<Item = u32>) -> f64 {
        let (count, sum) =
            bits.fold((0u64, 0), |(count, sum), bit| (count + 1, sum + self.differs[bit as usize]));
        sum as f64 / (count * self.words).max(1) as f64 - 0.5
    }

    /// Whether several samples of the stated width are one of a wider: the bit below its highest two is related to them, which that of
    /// another sample is not, and where the others would have their highest bits these are as of noise.
    fn is_one(&self, stated: u32, width: u32) -> bool {
        if width <= stated.max(2) {
            return false;
        }
        let chance = 2.0 / ((32 / width) as f64 * self.words as f64).sqrt();
        let third = self.leaning((0..31).filter(|&bit| is_top(width, bit)).map(|bit| bit - 1)).abs();
        let mut lower = (0..31).filter(|&bit| is_top(stated, bit) && !is_top(width, bit));
        third > RELATED + chance
            && lower.all(|bit| self.leaning([bit].into_iter()).abs() < UNRELATED + chance)
    }

    /// Appends the channels of this thread that are copies of a channel in `others` (threads with their statistics; the thread itself
    /// may be among them), each of the first such.
    pub fn judge_copies<'a>(
        &self,
        thread: u16,
        others: &(impl Iterator<Item = (u16, &'a PayloadStats)> + Clone),
        found: &mut Vec<QualityFinding>,
    ) {
        for (channel, marks) in (0..).zip(&self.channels) {
            let of = others.clone().find_map(|(of_thread, stats)| {
                let before = (0..).zip(&stats.channels).find(|&(of_channel, other)| {
                    (of_thread, of_channel) < (thread, channel) && is_copy(marks, other)
                });
                before.map(|(of_channel, _)| (of_thread, of_channel))
            });
            if let Some((of_thread, of_channel)) = of {
                found.push(QualityFinding::CopiedChannel { channel, of_thread, of_channel });
            }
        }
    }

    /// The share of words in which each bit is set, the lowest first.
    #[must_use]
    pub fn bits_set(&self) -> [f64; 32] {
        self.set.map(|count| count as f64 / self.words.max(1) as f64)
    }
}

/// Whether this bit of a word and the next are the highest two of a sample.
fn is_top(width: u32, bit: u32) -> bool {
    width > 1 && bit % width == width - 2
}

/// Elementary samples of one instant.
fn width(coded: &Coded) -> usize {
    coded.channels.unwrap_or(1).max(1) as usize * (1 + usize::from(coded.complex))
}

/// Whether all frames that both have are the same, and there are enough of them.
fn is_copy(one: &[Fingerprint], other: &[Fingerprint]) -> bool {
    let mut same = 0u64;
    for (number, mark) in one {
        match other.iter().find(|(at, _)| at == number) {
            Some((_, known)) if known == mark => same += 1,
            Some(_) => return false,
            None => {}
        }
    }
    same >= MIN_FRAMES
}

/// FNV-1a, 64 bits.
const HASH_START: u64 = 0xcbf2_9ce4_8422_2325;
const HASH_FACTOR: u64 = 0x0000_0100_0000_01b3;

fn hash(octets: impl Iterator<Item = u8>) -> u64 {
    octets.fold(HASH_START, |sum, octet| (sum ^ u64::from(octet)).wrapping_mul(HASH_FACTOR))
}

/// Up to 64 bits from bit `at` on, the earliest in the lowest.
fn bits_at(octets: &[u8], at: usize, bits: usize) -> u64 {
    let first = at / 8;
    let mut word = [0; 16];
    let end = (first + 9).min(octets.len());
    word[..end - first].copy_from_slice(&octets[first..end]);
    (u128::from_le_bytes(word) >> (at % 8)) as u64 & (u64::MAX >> (64 - bits.clamp(1, 64)))
}
