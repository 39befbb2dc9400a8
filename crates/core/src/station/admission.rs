//! Whether a recording may begin: its name, its input, and memory, rate and space beside those of others.

use super::state::{DiskCondition, MAX_NAME_BYTES, Reserved, UnixMillis, is_scan_name};
use super::{StartRequest, Station, StationRefusal};

impl Station {
    /// The input of a recording, and what it would hold; or why it cannot begin.
    pub(super) fn admit(
        &self,
        now: UnixMillis,
        request: &StartRequest,
    ) -> Result<(usize, Reserved), StationRefusal> {
        use StationRefusal as R;
        if self.shutting_down {
            return Err(R::ShuttingDown);
        }
        let inputs = &self.config.inputs;
        let input = self.input_of(&request.input)?;
        if !is_scan_name(&request.name) {
            return Err(R::BadName { name: request.name.chars().take(MAX_NAME_BYTES).collect() });
        }
        let is_active = self.active.values().any(|held| held.status.name == request.name);
        if is_active || self.names.contains(&request.name) {
            return Err(R::NameTaken { name: request.name.clone() });
        }
        if let Some(held) = self.on_input(input) {
            let (input, recording) = (inputs[input].name.clone(), held.status.name.clone());
            return Err(R::InputBusy { input, recording });
        }
        let now = now.0.div_euclid(1000);
        let start = request.start.map_or(now, |start| start.max(now));
        let seconds = request.stop.map(|stop| stop.saturating_sub(start));
        if seconds.is_some_and(|seconds| seconds <= 0) {
            return Err(R::StopIsPast);
        }
        let rate_bits = request.overrides.rate_bits.or(inputs[input].rate_bits).unwrap_or(0);
        let bytes_until_stop = |seconds: i64| (rate_bits / 8).saturating_mul(seconds.unsigned_abs());
        let wanted = Reserved {
            memory_bytes: request.memory_bytes.unwrap_or(inputs[input].memory_bytes),
            rate_bits,
            space_bytes: seconds.map_or(0, bytes_until_stop),
        };
        self.check_resources(wanted).map(|()| (input, wanted))
    }

    /// Whether memory, the disks' rate and their space suffice for what is wanted and what is reserved already.
    fn check_resources(&self, wanted: Reserved) -> Result<(), StationRefusal> {
        use StationRefusal as R;
        let reserved = self.reserved();
        let total = self.config.memory_bytes;
        if wanted.memory_bytes == 0 || wanted.memory_bytes > total.saturating_sub(reserved.memory_bytes) {
            return Err(R::NoMemory { wanted: wanted.memory_bytes, reserved: reserved.memory_bytes, total });
        }
        if !self.disks.is_empty() && self.disks.iter().all(|disk| disk.condition != DiskCondition::Usable) {
            return Err(R::NoDisk { disks: self.disks.len() });
        }
        if let Some(total) = self.usable_rate()
            && wanted.rate_bits > total.saturating_sub(reserved.rate_bits)
        {
            return Err(R::NoRate { wanted: wanted.rate_bits, reserved: reserved.rate_bits, total });
        }
        if let Some(free) = self.free_bytes()
            && wanted.space_bytes > free.saturating_sub(reserved.space_bytes)
        {
            return Err(R::NoSpace { wanted: wanted.space_bytes, reserved: reserved.space_bytes, free });
        }
        Ok(())
    }

    /// What all recordings hold together; of the space, what is not written yet.
    pub(super) fn reserved(&self) -> Reserved {
        self.active.values().fold(Reserved::default(), |sum, held| sum.plus(held.remaining()))
    }

    /// The rate of the disks that can be written to; `None` if a disk has no known rate.
    pub(super) fn usable_rate(&self) -> Option<u64> {
        let usable = self.disks.iter().filter(|disk| disk.condition == DiskCondition::Usable);
        let rates = usable.map(|disk| disk.rate_bits);
        if self.disks.is_empty() { None } else { rates.sum() }
    }

    /// The space of the disks that can be written to; `None` if that of one is unknown.
    pub(super) fn free_bytes(&self) -> Option<u64> {
        let usable = self.disks.iter().filter(|disk| disk.condition == DiskCondition::Usable);
        if self.disks.is_empty() { None } else { usable.map(|disk| disk.free_bytes).sum() }
    }
}
