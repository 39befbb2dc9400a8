//! Sizes of a CPU's caches, as the kernel reports them.
//!
//! ```
//! use skyhaul_io::host::cache::Caches;
//! let caches = Caches::of_cpu(0);
//! println!("L2 {} KiB, L3 {} KiB", caches.l2 >> 10, caches.l3 >> 10);
//! ```
//!
//! Limits: a virtual machine reports what its host chose to show; an L3 may be shared with CPUs that this system does not see.

use std::fs;
use std::path::Path;

/// Bytes of the caches of one CPU; 0 for one that the kernel does not report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caches {
    /// First level, data.
    pub l1d: u64,
    /// Second level.
    pub l2: u64,
    /// Third level.
    pub l3: u64,
}

impl Caches {
    /// The caches of a CPU by its number.
    #[must_use]
    pub fn of_cpu(cpu: usize) -> Self {
        Self::read(Path::new(&format!("/sys/devices/system/cpu/cpu{cpu}/cache")))
    }

    fn read(root: &Path) -> Self {
        let mut caches = Self::default();
        for index in fs::read_dir(root).into_iter().flatten().flatten() {
            let field = |name| fs::read_to_string(index.path().join(name)).unwrap_or_default();
            let bytes = bytes(field("size").trim()).unwrap_or(0);
            match (field("level").trim(), field("type").trim()) {
                (_, "Instruction") => {}
                ("1", _) => caches.l1d = bytes,
                ("2", _) => caches.l2 = bytes,
                ("3", _) => caches.l3 = bytes,
                _ => {}
            }
        }
        caches
    }

    /// Bytes of the last level that is reported; 0 if there is none.
    #[must_use]
    pub fn last_level(&self) -> u64 {
        [self.l3, self.l2, self.l1d].into_iter().find(|&bytes| bytes > 0).unwrap_or(0)
    }
}

/// A size like `32768K`.
fn bytes(text: &str) -> Option<u64> {
    let (digits, unit) = match text.strip_suffix(['K', 'M']) {
        Some(digits) => (digits, if text.ends_with('K') { 1 << 10 } else { 1 << 20 }),
        None => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_caches_are_read_by_level_whatever_their_order() {
        let root = tempfile::tempdir().unwrap();
        for (n, level, kind, size) in [
            (0, "3", "Unified", "16M"),
            (1, "1", "Instruction", "64K"),
            (2, "1", "Data", "48K"),
            (3, "2", "Unified", "2048K"),
            (4, "2", "Unified", ""),
        ] {
            let index = root.path().join(format!("index{n}"));
            fs::create_dir(&index).unwrap();
            for (name, text) in [("level", level), ("type", kind), ("size", size)] {
                fs::write(index.join(name), format!("{text}\n")).unwrap();
            }
            if n == 3 {
                let caches = Caches::read(root.path());
                assert_eq!(caches, Caches { l1d: 48 << 10, l2: 2 << 20, l3: 16 << 20 });
                assert_eq!(caches.last_level(), 16 << 20);
            }
        }
        let none = Caches::read(Path::new("/nonexistent"));
        assert_eq!((none, none.last_level()), (Caches::default(), 0));
    }

    #[test]
    fn sizes_have_units_and_nonsense_is_none() {
        assert_eq!((bytes("64K"), bytes("2M"), bytes("512")), (Some(65_536), Some(2 << 20), Some(512)));
        assert_eq!((bytes(""), bytes("K"), bytes("18446744073709551615K")), (None, None, None));
    }
}
