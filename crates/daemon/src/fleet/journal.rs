//! The memory of a member: an SQLite database with the newest record of each key.
//!
//! It is the truth when the store is away. A record is on the disk before the action that follows from it.

use crate::fleet_json::{decode, encode};
use rusqlite::{Connection, params};
use serde_json::{Value, json};
use skyhaul_core::fleet::{DesiredRecord, FleetKey, FleetName, FleetValue, MemberRecord};
use skyhaul_core::station::UnixMillis;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

/// SQLite's application id of this database: "skyf".
const APPLICATION_ID: i64 = 0x736b_7966;
/// Version of its tables.
const SCHEMA_VERSION: i64 = 1;

/// The memory of a member.
#[derive(Debug)]
pub(super) struct MemberJournal {
    connection: Connection,
    path: PathBuf,
}

impl MemberJournal {
    /// Opens the database, or makes it. No other process may have it open.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let failed =
            |error: &dyn Display| io::Error::other(format!("fleet database {}: {error}", path.display()));
        let open = || -> rusqlite::Result<(Connection, i64, i64)> {
            let connection = Connection::open(path)?;
            connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
            let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
            let (application, version) = (number("application_id")?, number("user_version")?);
            connection.pragma_update(None, "journal_mode", "WAL")?;
            connection.pragma_update(None, "synchronous", "FULL")?;
            Ok((connection, application, version))
        };
        let (connection, application, version) = open().map_err(|error| failed(&error))?;
        match (application, version) {
            (0, 0) => connection
                .execute_batch(&format!(
                    "BEGIN IMMEDIATE;
                     CREATE TABLE records (number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, record TEXT NOT NULL);
                     PRAGMA application_id = {APPLICATION_ID};
                     PRAGMA user_version = {SCHEMA_VERSION};
                     COMMIT;"
                ))
                .map_err(|error| failed(&error))?,
            (APPLICATION_ID, SCHEMA_VERSION) => {}
            (APPLICATION_ID, version) => {
                return Err(failed(&format_args!("version {version} is of another release of this program")));
            }
            _ => return Err(failed(&"not the database of a member of a fleet")),
        }
        Ok(Self { connection, path: path.to_owned() })
    }

    fn failed(&self, error: &dyn Display) -> io::Error {
        io::Error::other(format!("fleet database {}: {error}", self.path.display()))
    }

    /// Returns all records, in the order in which they were written last.
    pub(super) fn records(&self) -> io::Result<Vec<MemberRecord>> {
        let read = || -> rusqlite::Result<Vec<String>> {
            let mut query = self.connection.prepare("SELECT record FROM records ORDER BY number")?;
            query.query_map((), |row| row.get(0))?.collect()
        };
        let texts = read().map_err(|error| self.failed(&error))?;
        let record = |text: &String| {
            let value = serde_json::from_str(text).ok();
            value.and_then(|value| read_record(&value)).ok_or_else(|| self.failed(&"a record is damaged"))
        };
        texts.iter().map(record).collect()
    }

    /// Writes a record in place of the last one of its key, and returns when the disk has it.
    pub(super) fn write(&mut self, record: &MemberRecord) -> io::Result<()> {
        let (key, text) = (record.key(), text_of(record));
        let write = |connection: &mut Connection| -> rusqlite::Result<()> {
            let transaction = connection.transaction()?;
            transaction.execute("DELETE FROM records WHERE key = ?1", params![key])?;
            if let Some(text) = &text {
                transaction
                    .execute("INSERT INTO records (key, record) VALUES (?1, ?2)", params![key, text])?;
            }
            transaction.commit()
        };
        write(&mut self.connection).map_err(|error| self.failed(&error))
    }
}

/// A record as it is kept; `None`: nothing is remembered.
fn text_of(record: &MemberRecord) -> Option<String> {
    let value = |value: &FleetValue| -> Value {
        // Values of the member's own are within the length of values of the store: they came from there, or go there.
        encode(value).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    };
    let record = match record {
        MemberRecord::Desired(DesiredRecord { scan, desired, seen_at, ack, is_asked }) => json!({
            "scan": scan.as_str(), "desired": value(&FleetValue::Desired(desired.clone())), "seen_at_ms": seen_at.0,
            "ack": value(&FleetValue::Ack(ack.clone())), "is_asked": is_asked,
        }),
        MemberRecord::Forgotten { .. } | MemberRecord::Schedule(None) => return None,
        MemberRecord::Schedule(Some(current)) => {
            json!({ "schedule": value(&FleetValue::Current(current.clone())) })
        }
        MemberRecord::Closed { scan, published } => json!({
            "closed": value(&FleetValue::Scan(scan.clone())), "experiment": scan.experiment.as_str(),
            "scan": scan.scan.as_str(), "published": published,
        }),
    };
    Some(record.to_string())
}

fn read_record(record: &Value) -> Option<MemberRecord> {
    let name = |field: &str| FleetName::new(record[field].as_str()?).ok();
    let bytes = |field: &str| record.get(field).map(|value| value.to_string().into_bytes());
    // Names in keys that the values do not contain.
    let any = FleetName::new("any").ok()?;
    if let Some(desired) = bytes("desired") {
        let scan = name("scan")?;
        let key = FleetKey::DesiredScan(any.clone(), any.clone(), scan.clone());
        let FleetValue::Desired(desired) = decode(&key, &desired).ok()? else { return None };
        let key = FleetKey::ScanAck(any.clone(), any, scan.clone());
        let FleetValue::Ack(ack) = decode(&key, &bytes("ack")?).ok()? else { return None };
        let seen_at = UnixMillis(record["seen_at_ms"].as_i64()?);
        let is_asked = record["is_asked"].as_bool()?;
        return Some(MemberRecord::Desired(DesiredRecord { scan, desired, seen_at, ack, is_asked }));
    }
    if let Some(current) = bytes("schedule") {
        let FleetValue::Current(current) = decode(&FleetKey::CurrentSchedule(any), &current).ok()? else {
            return None;
        };
        return Some(MemberRecord::Schedule(Some(current)));
    }
    let key = FleetKey::ClosedScan(name("experiment")?, name("scan")?, any);
    let FleetValue::Scan(scan) = decode(&key, &bytes("closed")?).ok()? else { return None };
    Some(MemberRecord::Closed { scan, published: record["published"].as_u64() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_core::fleet::{AckState, ClosedScan, CurrentSchedule, DesiredAction, DesiredScan, ScanAck};

    fn name(text: &str) -> FleetName {
        FleetName::new(text).unwrap()
    }

    fn records() -> [MemberRecord; 3] {
        let desired = DesiredScan {
            action: DesiredAction::Start,
            experiment: name("N26C3"),
            start: Some(1_790_000_000),
            stop: Some(1_790_000_060),
            source: "3C84".to_owned(),
            mode: String::new(),
            deadline: None,
        };
        let ack = ScanAck {
            desired_revision: 7,
            state: AckState::Started,
            reason: Some("late".to_owned()),
            recording: "n26c3_on_no0001".to_owned(),
        };
        let seen_at = UnixMillis(1_789_999_999_123);
        let scan = ClosedScan {
            experiment: name("N26C3"),
            scan: name("No0001"),
            recorder: name("rec1"),
            recording: "n26c3_on_no0001".to_owned(),
            bytes: 5,
            start: None,
            stop: None,
            valid_fraction: Some(0.5),
            lost_frames: 3,
            lost_is_lower_bound: true,
            missing_sha256: None,
            adler32: None,
            crc32c: Some(0xdead_beef),
            outcome: "gaps".to_owned(),
        };
        let schedule = CurrentSchedule { experiment: name("N26C3"), revision: 9 };
        [
            MemberRecord::Desired(DesiredRecord {
                scan: name("No0001"),
                desired,
                seen_at,
                ack,
                is_asked: true,
            }),
            MemberRecord::Schedule(Some(schedule)),
            MemberRecord::Closed { scan, published: None },
        ]
    }

    #[test]
    fn the_last_record_of_a_key_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fleet.db");
        let mut journal = MemberJournal::open(&path).unwrap();
        let records = records();
        records.iter().for_each(|record| journal.write(record).unwrap());
        let MemberRecord::Closed { scan, .. } = &records[2] else { panic!("{records:?}") };
        let published = MemberRecord::Closed { scan: scan.clone(), published: Some(12) };
        journal.write(&published).unwrap();
        drop(journal);
        let mut journal = MemberJournal::open(&path).unwrap();
        let [desired, schedule, _] = records;
        assert_eq!(journal.records().unwrap(), [desired, schedule, published.clone()]);
        journal.write(&MemberRecord::Forgotten { scan: name("No0001") }).unwrap();
        journal.write(&MemberRecord::Schedule(None)).unwrap();
        assert_eq!(journal.records().unwrap(), [published]);
    }

    #[test]
    fn a_database_of_others_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fleet.db");
        let other = Connection::open(&path).unwrap();
        other.execute_batch("CREATE TABLE a (b TEXT); PRAGMA user_version = 4;").unwrap();
        drop(other);
        let error = MemberJournal::open(&path).unwrap_err().to_string();
        assert!(error.contains("not the database of a member"), "{error}");
    }
}
