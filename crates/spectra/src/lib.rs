//! # Spectra of samples
//!
//! Spectrum, autocorrelation and statistics of one column of samples, which a survey gathers block by block:
//!
//! ```text
//!   samples of a column ─▶ codes, mean, power
//!            └─▶ blocks of N, Hann window, N zeros ─▶ FFT ─▶ Σ|X|²
//!                                                             │
//!            autocorrelation ◀─ inverse FFT, less the window's ◀┘
//! ```
//!
//! A block with a missing sample is left out of the spectrum. The zeros behind each block make the autocorrelation that of the samples
//! as they follow each other, not of a circle.
//!
//! It is a crate because of what it is compiled of: the transforms are generic, and are compiled where their type is named. Here that
//! happens once, optimised in every profile; in the library it happened again for its tests, without optimisation.
//!
//! ```
//! use skyhaul_spectra::{Blockwise, Gathering};
//!
//! let blocks = Blockwise::new(8, false, 1000);
//! let mut gathering = Gathering::new(skyhaul_core::samples::Coding::Offset(2), &blocks);
//! gathering.add(&[1.0; 16], &blocks, &mut blocks.scratch());
//! let found = gathering.finish(&blocks);
//! assert_eq!((found.samples, found.blocks, found.mean), (16, 2, 1.0));
//! assert_eq!(found.spectrum.len(), blocks.frequencies().len());
//! ```
#![forbid(unsafe_code)]

mod blockwise;
mod gathering;

pub use blockwise::{BlockScratch, Blockwise};
pub use gathering::{ColumnSums, Gathering};
