//! Schedules of observations: which scans a station records, when, and at which rate.
//!
//! ```text
//!   VEX 1.5, 2.0 ── vex ──▶ VexFile ──┐
//!                                     ├─▶ StationSchedule ── check ──▶ CheckedScan: bytes, running sum, problems
//!   Field System ── snap ─────────────┘
//! ```
//!
//! ```
//! use skyhaul_core::observation::{check::{CheckLimits, check}, vex::VexFile};
//! let text = "VEX_rev = 2.0;
//!     $STATION; def Mh; enddef;
//!     $FREQ; def f; sample_rate = 32 Ms/sec; enddef;
//!     $DATASTREAMS; def d; datastream = &DS : VDIF;
//!         thread = &DS : &T0 : 0 : 16 : 32 Ms/sec : 2 : real : 8000; enddef;
//!     $MODE; def wide; ref $FREQ = f; ref $DATASTREAMS = d : Mh; enddef;
//!     $SCHED; scan No0001; start = 2026y330d12h00m00s; mode = wide; source = 3C84;
//!         station = Mh : 0 sec : 60 sec : : : : 1; endscan;";
//! let schedule = VexFile::parse(text).unwrap().schedule("Mh").unwrap();
//! let scan = &schedule.scans[0];
//! assert_eq!((scan.start, scan.stop - scan.start), (1_795_694_400, 60));
//! assert_eq!(scan.rate.as_ref().unwrap().sample_bits_per_second, 1_024_000_000);
//! let checked = check(&schedule.scans, &CheckLimits::default());
//! // 32 bytes of header for each 8000 bytes of samples.
//! assert_eq!(checked[0].bytes, Some(1_024_000_000 / 8 * 60 / 8000 * 8032));
//! ```
//!
//! The schedule of repeated measurements is [`crate::schedule`], which has nothing to do with these.
//!
//! Limits: times are whole seconds; a fraction of a second makes a scan start earlier or stop later. Text is limited to
//! [`MAX_TEXT`](scan::MAX_TEXT) bytes, and what is kept of it to a small multiple of it.

pub mod check;
pub mod delivery;
pub mod rate;
pub mod scan;
pub mod sequencer;
pub mod snap;
pub mod time;
pub mod vex;
