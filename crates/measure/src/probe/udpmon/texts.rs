//! The kernel's counters, as udpmon hands them on.

/// The kernel's texts of interfaces and protocols, and of processors.
#[derive(Clone, Debug, Default)]
pub(super) struct Texts {
    pub(super) dev: String,
    pub(super) snmp: String,
    stat: String,
}

impl Texts {
    /// As they are now: three files.
    pub(super) fn read() -> Self {
        let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        Self { dev: text("/proc/net/dev"), snmp: text("/proc/net/snmp"), stat: text("/proc/stat") }
    }

    /// Time of all processors and of each, in ticks.
    fn times(&self) -> Vec<[u64; 7]> {
        let line = |line: &str| {
            let mut words = line.strip_prefix("cpu")?.split_whitespace();
            // The name of one processor is cpu0; that of all has no number.
            if !line.starts_with("cpu ") {
                words.next()?;
            }
            let mut times = [0; 7];
            for time in &mut times {
                *time = words.next()?.parse().ok()?;
            }
            Some(times)
        };
        self.stat.lines().filter_map(line).collect()
    }
}

/// What processors did during a test, per cent.
pub(super) fn load(before: &Texts, after: &Texts) -> Vec<[u64; 7]> {
    let part = |(before, after): (&[u64; 7], &[u64; 7])| {
        let each: Vec<u64> = before.iter().zip(after).map(|(a, b)| b.saturating_sub(*a)).collect();
        let all: u64 = each.iter().sum();
        let mut out = [0; 7];
        for (out, ticks) in out.iter_mut().zip(each) {
            *out = (ticks * 100).checked_div(all).unwrap_or(0);
        }
        out
    };
    before.times().iter().zip(&after.times()).map(part).collect()
}
