//! The quality of a stream, judged from some of its frames: states of the samples, byte order, copies, phase-cal tones, times.
//!
//! ```text
//!   frames ─▶ PayloadStats: bits of words, order of bytes, fingerprints ┐
//!        └──▶ code counts and spectra of columns (skyhaul_spectra)      ├─▶ judge ─▶ QualityFinding ─▶ FindingLog ─▶ begun, ended
//!        └──▶ HeaderStats: time, station, validity                      ┘
//! ```
//!
//! Radio noise is Gaussian, and its neighbouring samples are related in the same way wherever they lie in a word. Most mistakes of a
//! station break one of the two: a bit that never changes, a spare card that exchanges bytes, a header that states another width. So
//! they show in a few dozen frames, without a second station.
//!
//! What white noise hides stays hidden: exchanged bytes or bits only show where the band has a shape (neighbouring samples are
//! correlated), and not at all if a complete sample is as long as the exchanged word. The thresholds are the constants here; each
//! is far outside what a gain change of 3 dB does (a test holds that).

mod finding;
mod judge;
mod log;
mod order;
mod payload;
mod phase_cal;
mod times;

pub use finding::{ClockGuess, QualityFinding, SampleOrder};
pub use judge::{ColumnCounts, judge_columns};
pub use log::{FindingChange, FindingLog};
pub use payload::PayloadStats;
pub use phase_cal::{PhaseCal, PhaseCalTones, phase_cal_tones};
pub use times::{HeaderStats, guess_clock};

#[cfg(test)]
mod tests;
