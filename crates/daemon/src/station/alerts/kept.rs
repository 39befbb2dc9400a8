//! The alarms that receivers were sent, as they are kept on the disks for a restart.

use super::ledger::AlarmLedger;
use super::message::AlarmMessage;
use crate::station::dashboard::alarms::AlarmLevel;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The file. Of several, that of the highest version counts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct KeptAlarms {
    pub(super) version: u64,
    pub(super) alarms: Vec<KeptAlarm>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct KeptAlarm {
    kind: String,
    subject: String,
    level: String,
    since: String,
    count: u64,
}

impl KeptAlarms {
    pub(super) fn newest(files: &[Vec<u8>]) -> Option<Self> {
        files
            .iter()
            .filter_map(|bytes| serde_json::from_slice::<Self>(bytes).ok())
            .max_by_key(|file| file.version)
    }

    /// Those that hold or may come again, and those of whose end a receiver does not know yet.
    pub(super) fn of(ledger: &AlarmLedger, ends: &[AlarmMessage]) -> Self {
        let open = ledger.episodes.iter().map(|((kind, subject), episode)| KeptAlarm {
            kind: kind.clone(),
            subject: subject.clone(),
            level: episode.level.name().into(),
            since: episode.since.clone(),
            count: episode.count,
        });
        let ending =
            ends.iter().filter(|end| !ledger.episodes.contains_key(&end.key())).map(|end| KeptAlarm {
                kind: end.kind.clone(),
                subject: end.subject.clone(),
                level: end.level.name().into(),
                since: end.since.clone(),
                count: end.count,
            });
        let mut alarms: Vec<KeptAlarm> = open.chain(ending).collect();
        alarms.sort();
        alarms.dedup();
        Self { version: 0, alarms }
    }
}

impl KeptAlarm {
    pub(super) fn restore(self, ledger: &mut AlarmLedger, time: &str) {
        // Of a level that is not known, it is at least worth a look.
        let level = AlarmLevel::of(&self.level).unwrap_or(AlarmLevel::Warning);
        let text = "it was over when the service had started again".into();
        let episode = AlarmLedger::kept(level, text, self.since, self.count);
        ledger.restore((self.kind, self.subject), episode, Duration::ZERO, time);
    }
}
