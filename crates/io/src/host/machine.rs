//! The machine of a measurement: its name and CPUs, its energy meter, the state of its clock, and its memory bandwidth.
//!
//! The bandwidth is how fast all CPUs together copy memory, which bounds everything that copies payloads. The state of the
//! clock is the kernel's, from NTP or PTP; reading it needs no privilege.
//!
//! Limits: the bandwidth is measured for some ten milliseconds, while other programs run; 16 MiB for each CPU exceed its
//! cache.

use std::sync::Barrier;
use std::time::{Duration, Instant};
use std::{fmt, fs, io};

/// Description of the machine, reported with every measured figure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// CPU model, from the kernel.
    pub cpu: String,
    /// CPU family, model and stepping as the kernel numbers them; empty if it does not (AArch64).
    pub family: String,
    /// CPUs this process may use.
    pub cores: usize,
    /// Memory in bytes.
    pub memory: u64,
    /// Kernel name and release.
    pub kernel: String,
    /// Host name.
    pub host: String,
    /// The copy used for payloads (see [`crate::copy`]).
    pub copy: &'static str,
}

impl Machine {
    /// This machine.
    #[must_use]
    pub fn this() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (info, memory) = (read("/proc/cpuinfo"), read("/proc/meminfo"));
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|l| l.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let model = ["model name", "Model", "CPU implementer", "cpu"].iter().find_map(|n| field(&info, n));
        // "model name" begins like "model", which comes first.
        let numbers = ["cpu family", "model", "stepping"].map(|name| Some((name, field(&info, name)?)));
        let numbers: Vec<_> = numbers.into_iter().flatten().map(|(name, n)| format!("{name} {n}")).collect();
        let kib = field(&memory, "MemTotal").and_then(|m| m.split(' ').next()?.parse::<u64>().ok());
        let system = rustix::system::uname();
        Self {
            cpu: model.unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            family: numbers.join(", "),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory: kib.unwrap_or(0) * 1024,
            kernel: format!("{} {}", system.sysname().to_string_lossy(), system.release().to_string_lossy()),
            host: system.nodename().to_string_lossy().into_owned(),
            copy: crate::copy::name(),
        }
    }
}

/// As reported with figures.
impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gib = self.memory as f64 / f64::from(1 << 30);
        write!(f, "{}, {} CPUs, {gib:.0} GiB, {}, copy {}", self.cpu, self.cores, self.kernel, self.copy)
    }
}

/// Joules used by the CPU packages, if they are metered (RAPL) and readable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Energy {
    /// For each package: its name, microjoules at start, and the value at which the meter wraps around.
    packages: Vec<(String, u64, u64)>,
}

impl Energy {
    /// Start metering; `None` if there is no meter or it cannot be read (usually only by root).
    #[must_use]
    pub fn start() -> Option<Self> {
        Self::start_in("/sys/class/powercap")
    }

    fn start_in(root: &str) -> Option<Self> {
        let mut packages = Vec::new();
        for entry in fs::read_dir(root).ok()?.flatten() {
            // intel-rapl:0 is a package; intel-rapl:0:0 a part of it.
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.matches(':').count() == 1 {
                let path = entry.path().to_string_lossy().into_owned();
                if let (Some(now), Some(range)) =
                    (micros(&path, "energy_uj"), micros(&path, "max_energy_range_uj"))
                {
                    packages.push((path, now, range));
                }
            }
        }
        (!packages.is_empty()).then_some(Self { packages })
    }

    /// Joules since the start. Only one wrap-around of a meter is detected; poll it at least every few minutes.
    #[must_use]
    pub fn joules(&self) -> f64 {
        let used = |(path, start, range): &(String, u64, u64)| {
            let now = micros(path, "energy_uj").unwrap_or(*start);
            if now >= *start { now - start } else { now + range.saturating_sub(*start) }
        };
        Duration::from_micros(self.packages.iter().map(used).sum()).as_secs_f64()
    }
}

fn micros(path: &str, name: &str) -> Option<u64> {
    fs::read_to_string(format!("{path}/{name}")).ok()?.trim().parse().ok()
}

/// Ticks a second of the CPU times in `/proc/stat`.
#[must_use]
pub fn clock_ticks() -> u64 {
    rustix::param::clock_ticks_per_second()
}

/// Bytes that one CPU copies repeatedly.
const PIECE: usize = 16 << 20;
const TIME: Duration = Duration::from_millis(30);

/// Bytes read and written in a second.
#[must_use]
pub fn of_memory() -> u64 {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let begin = Barrier::new(threads);
    let copy = || {
        let (from, mut to) = (vec![1u8; PIECE], vec![0u8; PIECE]);
        begin.wait();
        let (begun, mut copied) = (Instant::now(), 0u64);
        while begun.elapsed() < TIME {
            to.copy_from_slice(&from);
            std::hint::black_box(&mut to);
            copied += 2 * PIECE as u64;
        }
        copied as f64 / begun.elapsed().as_secs_f64()
    };
    let all = std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(copy)).collect();
        started.into_iter().filter_map(|thread| thread.join().ok()).sum::<f64>()
    });
    all as u64
}

const UNSYNCHRONISED: libc::c_int = 0x40;

/// The state of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Whether a program keeps it to another clock.
    pub synchronised: bool,
    /// The largest error that is possible, in microseconds.
    pub max_error_us: u64,
    /// The error that is likely, in microseconds.
    pub estimated_error_us: u64,
}

impl Kept {
    /// Ask the kernel.
    ///
    /// # Errors
    /// A system error.
    pub fn read() -> io::Result<Self> {
        // SAFETY: a timex is numbers only, for which zeros are valid; its `modes` of 0 asks and changes nothing.
        let mut now: libc::timex = unsafe { std::mem::zeroed() };
        // SAFETY: `now` is a valid timex that outlives the call.
        if unsafe { libc::adjtimex(&raw mut now) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            synchronised: now.status & UNSYNCHRONISED == 0,
            max_error_us: u64::try_from(now.maxerror).unwrap_or(0),
            estimated_error_us: u64::try_from(now.esterror).unwrap_or(0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_cpu_memory_and_kernel() {
        let machine = Machine::this();
        assert!(!machine.cpu.is_empty() && machine.cores > 0 && machine.memory > 1 << 20, "{machine:?}");
        assert!(machine.kernel.starts_with("Linux "), "{machine:?}");
    }

    #[test]
    fn energy_is_read_over_the_meters_end() {
        let root = tempfile::tempdir().unwrap();
        let package = root.path().join("intel-rapl:0");
        for (dir, value) in [(package.clone(), "900"), (root.path().join("intel-rapl:0:0"), "5")] {
            fs::create_dir(&dir).unwrap();
            fs::write(dir.join("energy_uj"), value).unwrap();
            fs::write(dir.join("max_energy_range_uj"), "1000\n").unwrap();
        }
        let energy = Energy::start_in(root.path().to_str().unwrap()).unwrap();
        assert_eq!(energy.packages.len(), 1);
        fs::write(package.join("energy_uj"), "950").unwrap();
        assert!((energy.joules() - 50e-6).abs() < 1e-12);
        fs::write(package.join("energy_uj"), "100").unwrap();
        assert!((energy.joules() - 200e-6).abs() < 1e-12);
        assert_eq!(Energy::start_in("/nonexistent"), None);
    }

    #[test]
    fn memory_is_copied() {
        assert!(super::of_memory() > 1 << 20);
    }

    #[test]
    fn the_kernel_says_how_its_clock_is_kept() {
        let kept = super::Kept::read().unwrap();
        assert!(kept.synchronised || kept.max_error_us > 0, "{kept:?}");
    }
}
