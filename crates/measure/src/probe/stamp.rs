//! STAMP (RFC 8762), both ends: a sender of test packets, and a reflector for senders of any maker.
//!
//! ```
//! use skyhaul_measure::probe::stamp::{Reflector, ReflectorOptions, StampOptions, measure};
//! use skyhaul_measure::probe::udp::UdpPoint;
//! use std::{sync::atomic::AtomicBool, time::Duration};
//! let reflector = Reflector::start("127.0.0.1:0".parse().unwrap(), ReflectorOptions::default())?;
//! // 44 octets each 2 ms.
//! let point = UdpPoint { packets: 20, ..UdpPoint::even(44, 2_000_000_000, Duration::from_secs(20)) };
//! let options = StampOptions { settle: Duration::from_secs(5), ..StampOptions::new(reflector.local(), point) };
//! let report = measure(&options, &AtomicBool::new(false))?;
//! assert_eq!((report.sent.packets, report.received, report.lost), (20, 20, 0));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Test packets leave as in every measurement ([`super::udp`]); times of arrival are the kernel's. The clock of the reflector is
//! compared with ours by all packets, so delays of each way have an error bar.
//!
//! Limits: unauthenticated mode, in which anyone who sees the packets can forge them; a session is an address and port of a sender.

mod reflector;
mod sender;

pub use reflector::{Reflector, ReflectorOptions, ReflectorStats};
pub use sender::{MAX_STAMP_PACKETS, StampOptions, measure};
pub use sender::{ReflectorSummary, StampReport};
pub use skyhaul_core::wire::stamp::{LEN, PORT};

use skyhaul_core::wire::stamp::Estimate;
use skyhaul_io::host::machine::Kept;

/// How good this host's clock is; if the kernel does not tell, a second.
fn estimate() -> Estimate {
    let (error, synchronised) =
        Kept::read().map_or((1_000_000, false), |kept| (kept.max_error_us, kept.synchronised));
    Estimate::of(error.saturating_mul(1000), synchronised)
}
