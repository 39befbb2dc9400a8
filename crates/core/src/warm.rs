//! Whether a payload is copied past the caches or into them: by how soon its memory was used before.
//!
//! ```text
//!   a block of memory comes back after N bytes of others were taken
//!        N ≤ limit   its lines are still in a cache: an ordinary copy writes there       (warm)
//!        N > limit   its lines are in memory: stores past the caches spare reading them  (streamed)
//! ```
//!
//! The limit follows from the caches. Packets and other programs pass through the last level too, so a sixteenth of it counts.
//! That level may be shared with CPUs that this system does not see: a virtual machine with two CPUs is shown the whole of its
//! host's. So the limit is also at most four times the second level, which a CPU has to itself.
//!
//! ```
//! use skyhaul_core::warm::WarmLimit;
//! let own = WarmLimit::by_caches(512 << 10, 32 << 20);
//! assert_eq!(own.bytes, 2 << 20);
//! let shared = WarmLimit::by_caches(2 << 20, 480 << 20);
//! assert_eq!(shared.bytes, 8 << 20);
//! ```
//!
//! Limits: decided once, at the start, by sizes alone; the traffic is not tried (`docs/decisions/0049`).

/// The part of the last level in which memory stays. Met on an AMD EPYC (family 25) with heaps of 64 KiB, which gain from an
/// ordinary copy, and of 4 MiB, which lose.
const LAST_LEVEL_SHARE: u64 = 16;
/// Multiple of the second level beyond which the last level is taken to be another's.
const SECOND_LEVELS: u64 = 4;
/// The last level if the kernel does not report one.
const USUAL_LAST_LEVEL: u64 = 8 << 20;

/// How many bytes may be taken between two uses of the same memory for it to be in a cache still, and why so many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmLimit {
    /// Bytes; 0: every copy is streamed.
    pub bytes: u64,
    /// Reason, for reports.
    pub because: String,
}

impl WarmLimit {
    /// By the sizes of the second and third level in bytes; 0 for one that is not reported.
    #[must_use]
    pub fn by_caches(l2: u64, l3: u64) -> Self {
        let kib = |bytes: u64| bytes >> 10;
        let last = if l3 > 0 { l3 } else { l2 };
        if last == 0 {
            let bytes = USUAL_LAST_LEVEL / LAST_LEVEL_SHARE;
            return Self { bytes, because: "the kernel reports no caches".into() };
        }
        let (of_last, of_own) = (last / LAST_LEVEL_SHARE, l2 * SECOND_LEVELS);
        if l2 > 0 && of_own < of_last {
            let because = format!(
                "{SECOND_LEVELS} times the L2 of {} KiB; the L3 of {} KiB is taken to be shared",
                kib(l2),
                kib(l3)
            );
            return Self { bytes: of_own, because };
        }
        let because = format!("1/{LAST_LEVEL_SHARE} of the last-level cache of {} KiB", kib(last));
        Self { bytes: of_last, because }
    }

    /// As the user asked.
    #[must_use]
    pub fn asked(bytes: u64, by: &str) -> Self {
        Self { bytes, because: format!("set by {by}") }
    }

    /// What is done, in words.
    #[must_use]
    pub fn chosen(&self) -> String {
        match self.bytes {
            0 => "streamed copy".into(),
            bytes => format!("cached copy into memory reused within {} KiB, else streamed", bytes >> 10),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_last_level_counts_by_its_share_and_a_shared_one_by_the_second_level() {
        for (l2, l3, bytes, because) in [
            (512 << 10, 32 << 20, 2 << 20, "1/16 of the last-level cache of 32768 KiB"),
            (1 << 20, 32 << 20, 2 << 20, "1/16 of"),
            (
                2 << 20,
                480 << 20,
                8 << 20,
                "4 times the L2 of 2048 KiB; the L3 of 491520 KiB is taken to be shared",
            ),
            (512 << 10, 512 << 20, 2 << 20, "4 times the L2"),
            (1 << 20, 0, 64 << 10, "1/16 of the last-level cache of 1024 KiB"),
            (0, 16 << 20, 1 << 20, "1/16 of"),
            (0, 0, 512 << 10, "the kernel reports no caches"),
        ] {
            let limit = WarmLimit::by_caches(l2, l3);
            assert_eq!(limit.bytes, bytes, "{l2} {l3}: {limit:?}");
            assert!(limit.because.starts_with(because), "{limit:?}");
        }
    }

    #[test]
    fn the_choice_is_told_in_words() {
        let told = |bytes| WarmLimit::asked(bytes, "x").chosen();
        assert_eq!(told(0), "streamed copy");
        assert_eq!(told(2 << 20), "cached copy into memory reused within 2048 KiB, else streamed");
        assert_eq!(WarmLimit::asked(1, "x").because, "set by x");
    }
}
