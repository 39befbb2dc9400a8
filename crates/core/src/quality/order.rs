//! In which order the bytes and bits of samples are: by how strongly neighbouring samples are related.
//!
//! ```text
//!   as they lie   │ 3 2 1 0 │ 7 6 5 4 │   neighbours at a border of words: 0 and 7; within one: 2 and 1
//!   bytes turned  │ 0 1 2 3 │ 4 5 6 7 │   all neighbours are neighbours: all are related alike, and more strongly
//! ```
//!
//! The signal does not know of words. So if neighbours at one place of a word are related otherwise than at another place, the order is
//! wrong; and of all orders the right one has the strongest correlation. Both must hold: a cable with an echo has odd correlations,
//! but the same at every place.

use super::finding::{QualityFinding, SampleOrder};
use crate::samples::{Coding, Decoder};

/// Lags that are looked at, in complete samples: more than two words of 64 bits of four-bit samples.
const LAGS: usize = 32;
/// Lags for which places in a word are distinguished.
const PLACED_LAGS: usize = 2;
/// Bytes of the longest word that may be turned.
const WORD_BYTES: usize = 8;
/// Columns (components of channels) that are looked at.
const MAX_COLUMNS: usize = 16;
/// Bytes of a frame that are looked at.
const MAX_BYTES: usize = 2048;
/// A correlation counts from so many standard deviations of what white noise shows.
const SIGNIFICANT: f64 = 12.0;
/// The other order is right if correlation is stronger by this factor, and by so many standard deviations. Of bytes, places differ
/// too; of sign and magnitude, the factor is 2 to 10.
const STRONGER_BYTES: (f64, f64) = (1.1, 3.0);
const STRONGER_BITS: (f64, f64) = (1.5, 6.0);

/// What is tried beside the samples as they lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trial {
    AsIs,
    Order(SampleOrder),
    SignMagnitude,
}

const TRIALS: [Trial; 6] = [
    Trial::AsIs,
    Trial::Order(SampleOrder::Swapped16),
    Trial::Order(SampleOrder::Swapped32),
    Trial::Order(SampleOrder::Swapped64),
    Trial::Order(SampleOrder::BitsReversed),
    Trial::SignMagnitude,
];

/// Sums of products of samples for one trial.
#[derive(Clone, Debug)]
struct Lagged {
    trial: Trial,
    decoder: Decoder<f32>,
    /// By column, by lag.
    products: Vec<[f64; LAGS + 1]>,
    sums: Vec<f64>,
    rows: u64,
}

impl Lagged {
    fn new(trial: Trial, coding: Coding, columns: usize) -> Option<Self> {
        let coding = match (trial, coding) {
            (Trial::SignMagnitude, Coding::Offset(2)) => Coding::SignMagnitude(2),
            (Trial::SignMagnitude, Coding::SignMagnitude(2)) => Coding::Offset(2),
            (Trial::SignMagnitude, _) => return None,
            // Of wider samples, reversed bits are no numbers any more, which other findings show.
            (Trial::Order(SampleOrder::BitsReversed), coding) if coding.bits() > 4 => return None,
            (_, coding) => coding,
        };
        let decoder = Decoder::new(coding)?;
        Some(Self {
            trial,
            decoder,
            products: vec![[0.0; LAGS + 1]; columns],
            sums: vec![0.0; columns],
            rows: 0,
        })
    }

    fn add(&mut self, samples: &[f32], width: usize) {
        for lag in 0..=LAGS {
            let products = products(samples, samples.get(lag * width..).unwrap_or_default(), width);
            let each = (samples.len() / width).saturating_sub(lag).max(1) as f64;
            let rows = (samples.len() / width) as f64;
            // As many products as rows: lags are compared with each other.
            for (sum, product) in self.products.iter_mut().zip(products) {
                sum[lag] += f64::from(product) / each * rows;
            }
        }
        for row in samples.chunks_exact(width) {
            self.sums.iter_mut().zip(row).for_each(|(sum, sample)| *sum += f64::from(*sample));
        }
        self.rows += (samples.len() / width) as u64;
    }

    /// The squares of all correlations, less what white noise has.
    fn strength(&self) -> f64 {
        let rows = self.rows.max(1) as f64;
        let column = |(products, sum): (&[f64; LAGS + 1], &f64)| {
            let square = (sum / rows).powi(2);
            let power = products[0] / rows - square;
            if power <= 1e-6 {
                return 0.0;
            }
            let of_lag = |product: &f64| ((product / rows - square) / power).powi(2) - 1.0 / rows;
            products[1..].iter().map(of_lag).sum()
        };
        self.products.iter().zip(&self.sums).map(column).sum()
    }
}

/// The sums of the products of samples with those that lie `later`, by column of rows of `width` samples.
///
/// Of the usual widths, a row of sums for so many samples at once: these are vectors, and most of what a look costs.
fn products(samples: &[f32], later: &[f32], width: usize) -> [f32; MAX_COLUMNS] {
    let mut sums = [0f32; MAX_COLUMNS];
    if !MAX_COLUMNS.is_multiple_of(width) {
        for (row, later) in samples.chunks_exact(width).zip(later.chunks_exact(width)) {
            for ((sum, a), b) in sums.iter_mut().zip(row).zip(later) {
                *sum += a * b;
            }
        }
        return sums;
    }
    let (samples, few) = samples[..later.len()].as_chunks::<MAX_COLUMNS>();
    let (later, few_later) = later.as_chunks::<MAX_COLUMNS>();
    for (a, b) in samples.iter().zip(later) {
        sums = std::array::from_fn(|n| sums[n] + a[n] * b[n]);
    }
    for ((sum, a), b) in sums.iter_mut().zip(few).zip(few_later) {
        *sum += a * b;
    }
    for n in width..MAX_COLUMNS {
        sums[n % width] += std::mem::take(&mut sums[n]);
    }
    sums
}

/// Products of neighbours as they lie, by their place in a word of 64 bits.
#[derive(Clone, Debug, Default)]
struct Places {
    /// Rows of a word.
    rows: usize,
    /// By lag, by place and column: the sum.
    products: [Vec<f64>; PLACED_LAGS],
    words: u64,
}

impl Places {
    fn add(&mut self, samples: &[f32], width: usize, columns: usize) {
        let word = self.rows * width;
        if self.rows < 2 || samples.len() < 2 * word {
            return;
        }
        for (lag, products) in (1..).zip(&mut self.products) {
            products.resize(self.rows * columns, 0.0);
            let mut sums = vec![0f32; self.rows * columns];
            // Where all columns are looked at, the rows of a word lie one after the other, as their sums do.
            let (rows, row) = if columns == width { (1, word) } else { (self.rows, columns) };
            for start in (0..=samples.len() - 2 * word).step_by(word) {
                for place in 0..rows {
                    let at = start + place * width;
                    let (now, later) = (&samples[at..at + row], &samples[at + lag * width..]);
                    for ((sum, a), b) in sums[place * columns..].iter_mut().zip(now).zip(later) {
                        *sum += a * b;
                    }
                }
            }
            products.iter_mut().zip(&sums).for_each(|(sum, new)| *sum += f64::from(*new));
        }
        self.words += (samples.len() / word - 1) as u64;
    }

    /// Whether the places differ by more than chance: the squares of their deviations against those of noise.
    fn differ(&self, power: &[f64]) -> bool {
        if self.rows < 2 || self.words == 0 {
            return false;
        }
        let (words, columns) = (self.words as f64, power.len());
        self.products.iter().any(|products| {
            let (mut squares, mut free) = (0.0, 0.0);
            for (column, &power) in power.iter().enumerate().filter(|(_, power)| **power > 1e-6) {
                let at = |place: usize| products[place * columns + column] / words / power;
                let mean = (0..self.rows).map(at).sum::<f64>() / self.rows as f64;
                squares += (0..self.rows).map(|place| (at(place) - mean).powi(2)).sum::<f64>() * words;
                free += (self.rows - 1) as f64;
            }
            squares > free + SIGNIFICANT * (2.0 * free).sqrt()
        })
    }
}

/// Tries the orders on frames of one thread.
#[derive(Clone, Debug)]
pub(super) struct Orders {
    trials: Vec<Lagged>,
    places: Places,
    /// Elementary samples of a row.
    width: usize,
    columns: usize,
    octets: Vec<u8>,
    samples: Vec<f32>,
}

impl Orders {
    /// `width`: elementary samples of one instant.
    pub(super) fn new(coding: Coding, width: usize) -> Self {
        let width = width.max(1);
        let columns = width.min(MAX_COLUMNS);
        let trials = TRIALS.iter().filter_map(|&trial| Lagged::new(trial, coding, columns)).collect();
        let bits = coding.bits() as usize * width;
        // A row as long as a word keeps its place in every order.
        let rows = (WORD_BYTES * 8).checked_div(bits).unwrap_or(0);
        Self {
            trials,
            places: Places { rows, ..Places::default() },
            width,
            columns,
            octets: Vec::new(),
            samples: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, payload: &[u8]) {
        let row_bytes = |coding: Coding| (self.width * coding.bits() as usize).div_ceil(8);
        for trial in &mut self.trials {
            let coding = trial.decoder.coding();
            // Whole words and whole rows.
            let piece = row_bytes(coding).next_multiple_of(WORD_BYTES);
            let most = MAX_BYTES.max(4 * LAGS * row_bytes(coding)).min(payload.len()) / piece * piece;
            if most == 0 {
                return;
            }
            self.octets.clear();
            self.octets.extend_from_slice(&payload[..most]);
            turn(trial.trial, &mut self.octets);
            let count = coding.samples_in(most) / self.width * self.width;
            self.samples.resize(coding.samples_in(most), 0.0);
            trial.decoder.decode(&self.octets, &mut self.samples);
            trial.add(&self.samples[..count], self.width);
            if trial.trial == Trial::AsIs {
                self.places.add(&self.samples[..count], self.width, self.columns);
            }
        }
    }

    /// The order in which samples are related most strongly, if any other than as they lie is.
    pub(super) fn strongest(&self) -> Option<SampleOrder> {
        let strengths = self.trials.iter().map(|trial| (trial.strength(), trial.trial));
        match strengths.max_by(|a, b| a.0.total_cmp(&b.0))?.1 {
            Trial::Order(order) => Some(order),
            _ => None,
        }
    }

    pub(super) fn judge(&self, found: &mut Vec<QualityFinding>) {
        let Some((as_is, others)) = self.trials.split_first() else { return };
        let rows = as_is.rows.max(1) as f64;
        let lags = (self.columns * LAGS) as f64;
        let (before, chance) = (as_is.strength(), (2.0 * lags).sqrt() / rows);
        // How much stronger one must be than another, whose noise is that of the signal too.
        let is_stronger = |after: f64, (factor, deviations): (f64, f64)| {
            let error = (chance.powi(2) + 4.0 * after.max(before).max(0.0) / rows).sqrt();
            after > SIGNIFICANT * chance && after > factor * before.max(0.0) + deviations * error
        };
        let power: Vec<f64> = as_is.products.iter().map(|products| products[0] / rows).collect();
        let strongest = others.iter().map(|trial| (trial.strength(), trial.trial));
        let Some((after, trial)) = strongest.max_by(|a, b| a.0.total_cmp(&b.0)) else { return };
        match trial {
            Trial::SignMagnitude if is_stronger(after, STRONGER_BITS) => {
                found.push(QualityFinding::SignMagnitude { as_is: before, exchanged: after });
            }
            Trial::Order(order) if is_stronger(after, STRONGER_BYTES) && self.places.differ(&power) => {
                found.push(QualityFinding::ByteOrder { order, as_is: before, reordered: after });
            }
            _ => {}
        }
    }
}

/// Puts bytes of whole words in another order.
fn turn(trial: Trial, octets: &mut [u8]) {
    let Trial::Order(order) = trial else { return };
    let word = match order {
        SampleOrder::Swapped16 => 2,
        SampleOrder::Swapped32 => 4,
        SampleOrder::Swapped64 => 8,
        SampleOrder::BitsReversed => {
            octets.iter_mut().for_each(|octet| *octet = octet.reverse_bits());
            return;
        }
    };
    octets.chunks_exact_mut(word).for_each(<[u8]>::reverse);
}
