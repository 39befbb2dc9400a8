//! Predicts the duration of a copy of files from two small trial copies.
//!
//! ```text
//!   seconds = fixed + files × file + 8 × octets / rate
//!             connecting,    names, messages,      what disks and
//!             agreeing,      making and naming     path carry
//!             the last sync  each file
//! ```
//!
//! One of the two has few files, the other many: the difference gives the cost per file, and the rest is fixed.

/// A copy that was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FilesCopied {
    /// Files.
    pub files: f64,
    /// Bytes of all files.
    pub octets: f64,
    /// Time from the request until all data are durable, s.
    pub seconds: f64,
}

impl FilesCopied {
    /// The time that its bytes do not explain at this rate, s.
    fn besides(&self, rate: f64) -> f64 {
        self.seconds - 8.0 * self.octets / rate
    }
}

/// Cost of a copy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FilesCost {
    /// Fixed cost of a copy, s.
    pub fixed: f64,
    /// For each file, s.
    pub file: f64,
    /// Rate of the bytes, bit/s.
    pub rate: f64,
}

impl FilesCost {
    /// The costs that explain a copy of few files and one of many, if bytes are carried at `rate` bit/s or faster
    /// (faster if the copies were). They reproduce the duration of `many`.
    #[must_use]
    pub fn of(few: &FilesCopied, many: &FilesCopied, rate: f64) -> Self {
        let quickest = |octets: f64, seconds: f64| if seconds > 0.0 { 8.0 * octets / seconds } else { 0.0 };
        let (files, octets) = (many.files - few.files, many.octets - few.octets);
        let rate = rate
            .max(quickest(many.octets, many.seconds))
            .max(quickest(octets, many.seconds - few.seconds))
            .max(1.0);
        let bare = many.besides(rate).max(0.0);
        let file = if files > 0.0 { ((bare - few.besides(rate).max(0.0)) / files).max(0.0) } else { 0.0 };
        // If necessary, all of the time is attributed to the files, and nothing is fixed.
        let file = if many.files > 0.0 { file.min(bare / many.files) } else { file };
        Self { fixed: bare - many.files * file, file, rate }
    }

    /// Predicted duration for this many files and bytes, s.
    #[must_use]
    pub fn seconds(&self, files: f64, octets: f64) -> f64 {
        self.fixed + files * self.file + 8.0 * octets / self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(files: f64, octets: f64, seconds: f64) -> FilesCopied {
        FilesCopied { files, octets, seconds }
    }

    fn is_about(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9 * b.abs().max(1.0)
    }

    #[test]
    fn two_copies_tell_fixed_cost_and_cost_of_a_file() {
        // 20 ms, 0.2 ms a file of 4 KiB, 8 Gb/s.
        let took = |files: f64| 0.02 + files * (0.2e-3 + 4096.0 / 1e9);
        let of = |files: f64| copied(files, files * 4096.0, took(files));
        let cost = FilesCost::of(&of(64.0), &of(1024.0), 8e9);
        assert!(is_about(cost.fixed, 0.02) && is_about(cost.file, 0.2e-3) && cost.rate == 8e9, "{cost:?}");
        assert!(is_about(cost.seconds(1e6, 4.096e9), took(1e6)));
        // Files of another size, with the same cost.
        assert!(is_about(cost.seconds(100.0, 1e9), 0.02 + 100.0 * 0.2e-3 + 1.0));
    }

    #[test]
    fn copies_that_were_faster_than_the_rate_say_how_fast() {
        let cost = FilesCost::of(&copied(1.0, 1e6, 0.011), &copied(4.0, 4e6, 0.014), 1e9);
        assert!(is_about(cost.rate, 8e9) && is_about(cost.seconds(4.0, 4e6), 0.014), "{cost:?}");
        assert!(is_about(cost.fixed, 0.01) && cost.file.abs() < 1e-12);
    }

    #[test]
    fn one_copy_alone_is_all_fixed_but_its_octets() {
        let one = copied(1.0, 1e9, 1.25);
        let cost = FilesCost::of(&one, &one, 8e9);
        assert_eq!((cost.fixed, cost.file, cost.rate), (0.25, 0.0, 8e9));
    }

    #[test]
    fn what_it_says_of_many_files_is_what_they_took() {
        let pairs = [
            (copied(10.0, 0.0, 0.5), copied(100.0, 0.0, 0.1)), // a first copy that was slow
            (copied(10.0, 1e6, 0.001), copied(1000.0, 1e8, 9.0)), // nothing is fixed
            (copied(1.0, 0.0, 0.1), copied(1.0, 0.0, 0.1)),
            (copied(2.0, 5e9, 0.1), copied(3.0, 1e9, 0.3)),
        ];
        for (few, many) in pairs {
            let cost = FilesCost::of(&few, &many, 1e9);
            assert!(
                is_about(cost.seconds(many.files, many.octets), many.seconds),
                "{few:?} {many:?} {cost:?}"
            );
            assert!(cost.fixed >= 0.0 && cost.file >= 0.0 && cost.rate >= 1e9, "{cost:?}");
        }
        let nothing = FilesCost::of(&FilesCopied::default(), &FilesCopied::default(), 0.0);
        assert_eq!(nothing.seconds(5.0, 0.0), 0.0);
    }
}
