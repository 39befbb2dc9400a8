//! What is asked of the analysis, and what it shares with its taps.

use super::report::QualityReport;
use skyhaul_core::quality::PhaseCal;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

/// Share of one CPU that the analysis may take.
pub const CPU_SHARE: f64 = 0.1;
/// What is looked for, beside what every stream must be.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QualityOptions {
    /// Phase-cal tones that every channel must have. Without them, tones are only missed where there were some before.
    pub phase_cal: Option<PhaseCal>,
}

/// What taps and the thread of the analysis share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Sets of frames for which the queue had no room.
    pub(super) left_out: AtomicU64,
    /// Nothing more comes: what waits is looked at without regard to the share of a CPU.
    pub(super) is_ending: AtomicBool,
    pub(super) report: Mutex<Arc<QualityReport>>,
}
