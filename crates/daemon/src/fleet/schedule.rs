//! The schedule of an experiment as it is written: parts first, then the meta that proves them.
//!
//! A station that reads meanwhile finds a digest that differs, and reads again.

use super::error::{FleetStoreError, StoreProblem};
use super::store::{ConditionalWrite, FleetStore};
use crate::fleet_json::{decode, encode};
use ring::digest::{SHA256, digest};
use skyhaul::auth::hex;
use skyhaul_core::fleet::{FleetKey, FleetName, FleetRoot, FleetValue, MAX_VEX_PART_BYTES, ScheduleMeta};
use skyhaul_core::station::UnixMillis;

/// Parts of an earlier, longer schedule that are removed at most.
const MAX_OLD_PARTS: u32 = 1024;

impl FleetStore {
    /// Writes the schedule of an experiment, in place of one that is there; returns the revision of its meta, for
    /// [`CurrentSchedule`](skyhaul_core::fleet::CurrentSchedule). `None`: somebody else has written it meanwhile.
    ///
    /// # Errors
    /// The name of the author is too long; or see [`FleetStoreError`].
    pub fn put_schedule(
        &self,
        root: &FleetRoot,
        experiment: &FleetName,
        text: &str,
        (author, at): (&str, UnixMillis),
    ) -> Result<Option<u64>, FleetStoreError> {
        let key = FleetKey::ScheduleMeta(experiment.clone());
        let before = self.get(&root.key(&key))?;
        // One that cannot be read is replaced, too.
        let old_parts = match before.as_ref().map(|found| decode(&key, &found.value)) {
            Some(Ok(FleetValue::Meta(meta))) => meta.parts.min(MAX_OLD_PARTS),
            _ => 0,
        };
        let mut parts = 0;
        for part in text.as_bytes().chunks(MAX_VEX_PART_BYTES) {
            self.put(&root.key(&FleetKey::SchedulePart(experiment.clone(), parts)), part, None)?;
            parts += 1;
        }
        for part in parts..old_parts {
            self.delete(&root.key(&FleetKey::SchedulePart(experiment.clone(), part)))?;
        }
        let meta = ScheduleMeta {
            sha256: hex(digest(&SHA256, text.as_bytes()).as_ref()),
            bytes: text.len() as u64,
            parts,
            author: author.to_owned(),
            at,
        };
        let meta = encode(&FleetValue::Meta(meta)).map_err(|error| FleetStoreError {
            what: "write a schedule",
            at: self.connection.all(),
            why: StoreProblem::Unsent { problem: error.to_string(), hint: "shorten the name of its author" },
        })?;
        let written = match before {
            None => self.put_if_absent(&root.key(&key), &meta, None)?,
            Some(before) => self.replace(&root.key(&key), &meta, before.mod_revision, None)?,
        };
        Ok(match written {
            ConditionalWrite::Written { mod_revision, .. } => u64::try_from(mod_revision).ok(),
            ConditionalWrite::Refused(_) => None,
        })
    }
}
