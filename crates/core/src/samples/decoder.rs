//! Numbers from codes: a table of the samples of each byte, or computed.

use super::coding::Coding;
use super::number::Number;

/// Decodes the samples of a coding to numbers.
#[derive(Clone, Debug)]
pub struct Decoder<T> {
    coding: Coding,
    table: Table<T>,
}

/// The samples of each byte.
#[derive(Clone, Debug)]
enum Table<T> {
    OneBit(Box<[[T; 8]; 256]>),
    TwoBits(Box<[[T; 4]; 256]>),
    FourBits(Box<[[T; 2]; 256]>),
    /// Computed.
    Wide,
}

impl<T: Number> Decoder<T> {
    /// `None` if this coding is not supported, or if `T` cannot hold its samples.
    #[must_use]
    pub fn new(coding: Coding) -> Option<Self> {
        let fits = coding.is_known() && coding.bits() <= T::BITS;
        let table = match coding.bits() {
            _ if !fits => return None,
            1 => Table::OneBit(table(coding)),
            2 => Table::TwoBits(table(coding)),
            4 => Table::FourBits(table(coding)),
            _ => Table::Wide,
        };
        Some(Self { coding, table })
    }

    /// The coding.
    #[must_use]
    pub fn coding(&self) -> Coding {
        self.coding
    }

    /// The numbers of all codes of up to four bits; shorter ones repeat, so that higher bits do not matter.
    #[must_use]
    pub fn sixteen(&self) -> [T; 16] {
        let mask = (1u32 << self.coding.bits().min(4)) - 1;
        std::array::from_fn(|code| T::of(self.coding, code as u32 & mask))
    }

    /// Decode all elementary samples of `octets`.
    ///
    /// # Panics
    /// If `samples` does not have room for exactly these.
    #[inline]
    pub fn decode(&self, octets: &[u8], samples: &mut [T]) {
        let expected = self.coding.samples_in(octets.len());
        assert_eq!(samples.len(), expected, "{} octets have {expected} samples", octets.len());
        match &self.table {
            Table::OneBit(table) => look_up(table, octets, samples),
            Table::TwoBits(table) => look_up(table, octets, samples),
            Table::FourBits(table) => look_up(table, octets, samples),
            Table::Wide => match self.coding.bits() {
                8 => to_each(octets, samples, |[octet]| T::of(Coding::Offset(8), u32::from(octet))),
                16 => {
                    to_each(octets, samples, |code| {
                        T::of(Coding::Offset(16), u16::from_le_bytes(code).into())
                    });
                }
                _ => to_each(octets, samples, |code| T::of(Coding::Offset(32), u32::from_le_bytes(code))),
            },
        }
    }
}

/// The samples of every byte.
fn table<T: Number, const N: usize>(coding: Coding) -> Box<[[T; N]; 256]> {
    let mut table = Box::new([[T::MISSING; N]; 256]);
    let bits = coding.bits();
    for (octet, samples) in (0..).zip(table.iter_mut()) {
        for (n, sample) in (0..).zip(samples) {
            *sample = T::of(coding, octet >> (n * bits) & ((1 << bits) - 1));
        }
    }
    table
}

#[inline]
fn look_up<T: Copy, const N: usize>(table: &[[T; N]; 256], octets: &[u8], samples: &mut [T]) {
    for (samples, octet) in samples.as_chunks_mut::<N>().0.iter_mut().zip(octets) {
        *samples = table[usize::from(*octet)];
    }
}

#[inline]
fn to_each<T, const N: usize>(octets: &[u8], samples: &mut [T], decode: impl Fn([u8; N]) -> T) {
    for (sample, code) in samples.iter_mut().zip(octets.as_chunks::<N>().0) {
        *sample = decode(*code);
    }
}
