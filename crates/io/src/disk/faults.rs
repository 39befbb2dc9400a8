//! Injected disk faults, so that every failure path can be tested and demonstrated.
//!
//! Written as text: `slow=200,latency=50ms,enospc=64MiB,eio=16MiB,eagain=3,esync=2`.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::str::FromStr;
use std::time::Duration;

use super::FailingDisk;

/// Faults of a disk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// Every write takes this many times as long as it would without the fault.
    pub slow: Option<f64>,
    /// Every write takes this much longer.
    pub latency: Option<Duration>,
    /// After this many bytes: "no space left on device".
    pub enospc: Option<u64>,
    /// After this many bytes, every write fails with "input/output error".
    pub eio: Option<u64>,
    /// Every request is deferred this many times ("try again") before it is accepted.
    pub eagain: Option<u32>,
    /// A file system that can be killed, and whose syncs can fail.
    pub disk: Option<FailingDisk>,
}

impl Faults {
    /// Write all of `bytes` at `offset`.
    ///
    /// # Errors
    /// A system error, or that of a fault.
    pub fn write_all_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.writes(file, offset, bytes.len())?;
        file.write_all_at(bytes, offset)
    }

    /// Makes the bytes of a file durable. If it fails, data written since the last success may be lost, even if a later
    /// call succeeds.
    ///
    /// # Errors
    /// A system error, or that of a fault.
    pub fn sync_data(&self, file: &File) -> io::Result<()> {
        self.syncs(file)?;
        file.sync_data()
    }

    /// Make a file with its metadata durable, or a directory.
    ///
    /// # Errors
    /// As [`sync_data`](Self::sync_data).
    pub fn sync_all(&self, file: &File) -> io::Result<()> {
        self.syncs(file)?;
        file.sync_all()
    }

    /// Cut or extend a file.
    ///
    /// # Errors
    /// A system error, or that of a fault.
    pub fn set_len(&self, file: &File, bytes: u64) -> io::Result<()> {
        self.changes()?;
        file.set_len(bytes)
    }

    /// Make a range of a file read as zeros, and free its space. Returns whether the file system can do that.
    ///
    /// # Errors
    /// A system error, or that of a fault.
    pub fn punch(&self, file: &File, range: Range<u64>) -> io::Result<bool> {
        self.changes()?;
        super::space::punch(file, range)
    }

    /// Before something is written elsewhere.
    pub(super) fn writes(&self, file: &File, offset: u64, bytes: usize) -> io::Result<()> {
        self.disk.as_ref().map_or(Ok(()), |disk| disk.writes(file, offset, bytes))
    }

    /// Before a file is synced elsewhere.
    pub(super) fn syncs(&self, file: &File) -> io::Result<()> {
        self.disk.as_ref().map_or(Ok(()), |disk| disk.syncs(file))
    }

    /// Before names, lengths or permissions are changed elsewhere.
    pub(super) fn changes(&self) -> io::Result<()> {
        self.disk.as_ref().map_or(Ok(()), FailingDisk::changes)
    }

    /// Whether there are no faults.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Faults::default()
    }

    /// The error for a write that ends at byte `total` of all bytes given to this disk.
    pub(super) fn error_at(&self, total: u64) -> Option<io::Error> {
        if self.eio.is_some_and(|limit| total > limit) {
            return Some(rustix::io::Errno::IO.into());
        }
        self.enospc.is_some_and(|limit| total > limit).then(|| rustix::io::Errno::NOSPC.into())
    }

    /// The error for a request that has been deferred this often.
    pub(super) fn puts_off(&self, times: u32) -> Option<io::Error> {
        self.eagain.is_some_and(|most| times < most).then(|| rustix::io::Errno::AGAIN.into())
    }

    /// The delay added to a write that took `time`.
    pub(super) fn delay(&self, time: Duration) -> Duration {
        let slow = self.slow.map_or(Duration::ZERO, |factor| time.mul_f64((factor - 1.0).clamp(0.0, 1e6)));
        slow + self.latency.unwrap_or_default()
    }
}

const EXAMPLE: &str = "use any of slow=200,latency=20ms,enospc=1GiB,eio=1GiB,eagain=3,esync=2";

impl FromStr for Faults {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut faults = Faults::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| format!("{part}: not of the form name=value; hint: {EXAMPLE}"))?;
            let bad = || format!("{part}: {value} is not a valid value for {name}; hint: {EXAMPLE}");
            match name {
                "slow" => {
                    let factor = value.trim_end_matches('x').parse::<f64>().map_err(|_| bad())?;
                    faults.slow = Some(factor).filter(|f| (1.0..=1e6).contains(f)).ok_or_else(bad)?.into();
                }
                "latency" => faults.latency = Some(duration(value).ok_or_else(bad)?),
                "enospc" => faults.enospc = Some(bytes(value).ok_or_else(bad)?),
                "eio" => faults.eio = Some(bytes(value).ok_or_else(bad)?),
                "esync" => {
                    let number = value.parse::<u64>().ok().filter(|n| *n > 0).ok_or_else(bad)?;
                    faults.disk.get_or_insert_with(|| FailingDisk::new(number)).fail_sync_after(number - 1);
                }
                "eagain" => faults.eagain = Some(value.parse().map_err(|_| bad())?),
                _ => return Err(format!("{name}: unknown; hint: {EXAMPLE}")),
            }
        }
        Ok(faults)
    }
}

fn split(text: &str) -> (f64, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (text[..end].parse().unwrap_or(-1.0), &text[end..])
}

fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = split(text);
    let scale = match unit {
        "s" => 1.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        _ => return None,
    };
    Duration::try_from_secs_f64(number * scale).ok()
}

fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = split(text);
    let scale = match unit {
        "" | "B" => 1.0,
        "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "KiB" => 1024.0,
        "MiB" => 1_048_576.0,
        "GiB" => 1_073_741_824.0,
        _ => return None,
    };
    let product = number * scale;
    (0.0..1e18).contains(&product).then_some(product as u64)
}
