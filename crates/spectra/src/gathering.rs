//! What is gathered of a column.

use crate::blockwise::{BlockScratch, Blockwise};
use skyhaul_core::samples::Coding;

/// What is known of a column while it is gathered.
#[derive(Clone, Debug)]
pub struct Gathering {
    /// How codes are counted.
    coding: Coding,
    counted: u64,
    sum: f64,
    squares: f64,
    components: u32,
    codes: Vec<u64>,
    blocks: u64,
    power: Vec<f64>,
}

/// Elementary samples that are written as codes at once: whole bytes of any width.
const CODES: usize = 4096;

impl Gathering {
    /// Of no samples. `coding` is how they were recorded.
    #[must_use]
    pub fn new(coding: Coding, transform: &Blockwise) -> Self {
        let bits = coding.bits().min(8);
        Self {
            coding: Coding::Offset(bits),
            counted: 0,
            sum: 0.0,
            squares: 0.0,
            components: 1,
            codes: vec![0; 1 << bits],
            blocks: 0,
            power: vec![0.0; transform.points()],
        }
    }

    /// Add consecutive elementary samples, with NaN for missing ones.
    pub fn add(&mut self, samples: &[f32], transform: &Blockwise, scratch: &mut BlockScratch) {
        self.components = transform.components();
        let mut valid: Vec<f32> = Vec::with_capacity(CODES);
        for part in samples.chunks(CODES) {
            valid.clear();
            valid.extend(part.iter().filter(|sample| !sample.is_nan()));
            self.count(&mut valid);
        }
        for block in samples.chunks_exact(transform.block() * self.components as usize) {
            if block.iter().all(|sample| !sample.is_nan()) {
                transform.add(block, scratch, &mut self.power);
                self.blocks += 1;
            }
        }
    }

    fn count(&mut self, valid: &mut Vec<f32>) {
        let count = valid.len();
        self.counted += count as u64;
        self.sum += valid.iter().map(|&sample| f64::from(sample)).sum::<f64>();
        self.squares += valid.iter().map(|&sample| f64::from(sample).powi(2)).sum::<f64>();
        valid.resize(count.next_multiple_of(8), 0.0);
        let bits = self.coding.bits();
        let mut octets = [0; CODES];
        let octets = &mut octets[..self.coding.octets_of(valid.len())];
        self.coding.encode(valid, octets);
        let each = (8 / bits) as usize;
        let mask = (1u32 << bits) - 1;
        for n in 0..count {
            let code = u32::from(octets[n / each]) >> ((n % each) as u32 * bits) & mask;
            self.codes[code as usize] += 1;
        }
    }

    /// What was found.
    #[must_use]
    pub fn finish(self, transform: &Blockwise) -> ColumnSums {
        let counted = self.counted.max(1) as f64;
        let any = self.blocks > 0;
        ColumnSums {
            samples: self.counted,
            mean: self.sum / counted,
            rms: (self.squares / counted * f64::from(self.components)).sqrt(),
            levels: (0..self.codes.len() as u32).map(|code| self.coding.level(code)).collect(),
            codes: self.codes,
            blocks: self.blocks,
            spectrum: if any { transform.density(&self.power, self.blocks) } else { Vec::new() },
            autocorrelation: if any { transform.autocorrelation(&self.power) } else { Vec::new() },
        }
    }
}

/// What was found of a column.
#[derive(Clone, Debug)]
pub struct ColumnSums {
    /// Elementary samples that were there.
    pub samples: u64,
    /// Their mean, of complex samples over both components.
    pub mean: f64,
    /// Root of the mean square of a complete sample.
    pub rms: f64,
    /// How often each code occurs, the lowest level first; of more than 8 bits, by the upper 8.
    pub codes: Vec<u64>,
    /// The level of each of these.
    pub levels: Vec<f32>,
    /// Blocks in the spectrum.
    pub blocks: u64,
    /// Power per Hz; empty without a block.
    pub spectrum: Vec<f64>,
    /// Autocorrelation by lag in complete samples, 1 at lag 0; of complex samples its magnitude. Empty without a block.
    pub autocorrelation: Vec<f64>,
}
