//! One sender's stream: any packet of it, and where that belongs, by arithmetic on its position.

use crate::ledger::{Held, hold};
use crate::random::Random;
use skyhaul_core::assembly::OrderedConfig;
use skyhaul_core::placement::{Key, Layout, Nanos, Placement, Reject};
use skyhaul_core::wire::trial::Trial;
use skyhaul_core::wire::{FamilyRef, LearnOptions, Learner, StreamFormat};
use std::fmt;

/// One sender's stream, and the window that it goes to.
pub struct Frames {
    pub(super) trial: Trial,
    pub(super) format: StreamFormat,
    pub(super) layout: Box<dyn Layout + Send + Sync>,
    /// Packets of an object, of the largest where they differ; octets kept of each.
    pub(super) units: u64,
    pub(super) unit: u64,
    pub(super) first: u64,
    /// The receiver's limits.
    pub config: OrderedConfig,
    /// Positions that were sent, ascending but for restarts.
    pub(super) sent: Vec<u64>,
    /// What happened while they were.
    pub(super) journey: Journey,
}

/// What a sender does while it sends.
#[derive(Clone, Debug, Default)]
pub struct Journey {
    /// Packets.
    pub packets: u64,
    /// Between two of them.
    pub gap: Nanos,
    /// The sender's counter begins again, so many times.
    pub restarts: u64,
    /// The sender goes on but nothing leaves, so many times; up to this many packets.
    pub outages: u64,
    /// Longest outage in packets.
    pub outage_longest: u64,
}

impl fmt::Debug for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Frames { trial, format, units, first, config, journey, .. } = self;
        let format = format.describe();
        write!(f, "{trial:?}: {format}, {units} to an object, from {first}\n{config:#?}\n{journey:#?}")
    }
}

impl Frames {
    /// A stream with about `units` packets to an object, and limits as they are by default. `position` chooses where it
    /// begins.
    ///
    /// # Errors
    /// It is not learned from its first packets, or a frame of each thread has no room.
    pub fn new(family: FamilyRef, trial: Trial, units: u64, position: u64) -> Held<Frames> {
        let first = trial.first.start + position % (trial.first.end - trial.first.start);
        let mut learner = Learner::new(LearnOptions {
            format: family.into(),
            threads: trial.threads.clone(),
            frames_per_second: trial.frames_per_second,
            ..LearnOptions::default()
        });
        (first..first + Learner::MOST as u64).for_each(|position| learner.observe(&(trial.packet)(position)));
        let learned = learner.conclude(true).unwrap_or(Err(Reject::Unproven));
        let mut format = learned.map_err(|why| format!("{trial:?} is not learned: {}", why.name()))?;
        // The rate may show in the first packets, and is not to be known where it is not told.
        format.frames_per_second = trial.frames_per_second;
        let unit = format.unit_bytes() as u64;
        format.object_bytes = units * unit;
        let cannot = |why: Reject| format!("{trial:?} cannot be placed: {}", why.name());
        let (layout, units) = (format.layout().map_err(cannot)?, format.blocks().map_err(cannot)?.units);
        let open_ended = format.short_objects();
        hold!(open_ended == trial.seconds.is_some(), "{trial:?}: whether seconds begin objects");
        // A second without a known rate spans so many object numbers.
        let ahead = trial.seconds.map_or(1, |(_, most)| most / units + 2);
        let config = OrderedConfig { ahead, open_ended, ..OrderedConfig::new(layout.geometry()) };
        let (sent, journey) = (Vec::new(), Journey::default());
        Ok(Frames { trial, format, layout, units, unit, first, config, sent, journey })
    }

    /// All positions that are sent, and when.
    pub(super) fn order(&self, journey: &Journey, random: &mut Random) -> Vec<(Nanos, u64)> {
        let mut moments =
            |count: u64| -> Vec<u64> { (0..count).map(|_| random.below(journey.packets)).collect() };
        let (restarts, outages) = (moments(journey.restarts), moments(journey.outages));
        let (mut now, mut position) = (Nanos(1_000_000), self.first);
        let mut order = Vec::new();
        for n in 0..journey.packets {
            if outages.contains(&n) {
                // The whole stream was sent; nobody remembers the packets of an outage one by one.
                position += random.between(1, journey.outage_longest);
            }
            if restarts.contains(&n) {
                position = self.first.saturating_sub(random.below(self.first.min(100_000)));
            }
            order.push((now, position));
            position += 1;
            now = now.plus(journey.gap);
        }
        order
    }

    /// Whether every position is told, gaps over whole objects too.
    pub(super) fn counts_gaps(&self) -> bool {
        self.trial.seconds.is_none()
    }

    /// Where a packet belongs.
    pub(super) fn place_of(&self, position: u64) -> Placement {
        let (object, within) = match self.trial.seconds {
            Some((in_second, most)) => {
                let (second, within) = (position / in_second, position % in_second);
                (second * most.div_ceil(self.units) + within / self.units, within % self.units)
            }
            None => (position / self.units, position % self.units),
        };
        let size = Some(self.units * self.unit);
        let offset = within * self.unit;
        Placement { key: Key::of(object), offset, length: self.unit, size, ..Placement::default() }
    }
}
