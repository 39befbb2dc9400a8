//! Rates and sizes for people: three significant digits, in decimal units.
//!
//! ```
//! use skyhaul_core::units::{display_bytes, display_rate};
//! assert_eq!(display_rate(9.41e9), "9.41 Gb/s");
//! assert_eq!(display_rate(940e3), "940 kb/s");
//! assert_eq!(display_bytes(1_500), "1.50 kB");
//! ```

/// Returns `bits` per second as text.
#[must_use]
pub fn display_rate(bits: f64) -> String {
    scaled(bits, &["b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"])
}

/// Returns `bytes` as text.
#[must_use]
pub fn display_bytes(bytes: u64) -> String {
    scaled(bytes as f64, &["B", "kB", "MB", "GB", "TB", "PB"])
}

fn scaled(mut value: f64, units: &[&str]) -> String {
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = if unit == 0 || value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {}", units[unit])
}
