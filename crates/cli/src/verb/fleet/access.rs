//! How the command reaches a fleet: its name and its store, by configuration and options.

use crate::args::AtFleetArgs;
use crate::verb::serve::{FleetAccess, fleet_access};
use anyhow::{Result, anyhow, ensure};
use skyhaul::core::fleet::{FleetKey, FleetName, FleetRoot, FleetValue};
use skyhaul::core::hint::Hint;
use skyhaul_daemon::fleet::{ConditionalWrite, FleetStore};
use skyhaul_daemon::fleet_json::encode;
use std::path::Path;
use std::time::Duration;

/// How often the store is looked at while something is waited for.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// A fleet and its store.
pub(in crate::verb) struct Fleet {
    pub(in crate::verb) name: FleetName,
    pub(super) root: FleetRoot,
    pub(super) store: FleetStore,
}

impl Fleet {
    /// By options, and for what they omit by the section `[fleet]` of a configuration.
    pub(in crate::verb) fn open(file: Option<&Path>, at: &AtFleetArgs) -> Result<Self> {
        let FleetAccess { fleet, mut store } =
            file.map(fleet_access).transpose()?.flatten().unwrap_or_default();
        let given = at.fleet.as_deref().map(FleetName::new).transpose()?;
        let hint = "give --fleet and --endpoint, or --config FILE with a section [fleet]; docs/reference/fleet.md has an example";
        let name = given.or(fleet).ok_or_else(|| anyhow!("no fleet{}", Hint(hint)))?;
        if !at.endpoints.is_empty() {
            store.endpoints.clone_from(&at.endpoints);
        }
        ensure!(!store.endpoints.is_empty(), "no endpoint of the fleet's store{}", Hint(hint));
        store.user_file = at.user_file.clone().or(store.user_file);
        let files = &mut store.certificates;
        files.authority = at.authority.clone().or(files.authority.take());
        files.own = at.certificate.clone().or(files.own.take());
        files.key = at.key.clone().or(files.key.take());
        store.allow_plain |= at.plain;
        let store = FleetStore::open(&store).map_err(|error| anyhow!("{error}"))?;
        Ok(Self { root: FleetRoot::new(&name), name, store })
    }

    /// Writes a key; `None`: somebody else has written it since `before`, the revision at which it was read.
    pub(super) fn write(
        &self,
        key: &FleetKey,
        value: &FleetValue,
        before: Option<u64>,
    ) -> Result<Option<u64>> {
        let bytes = encode(value).map_err(|error| anyhow!("{key}: {error}"))?;
        let name = self.root.key(key);
        let written = match before.map(i64::try_from) {
            None => self.store.put_if_absent(&name, &bytes, None)?,
            Some(before) => self.store.replace(&name, &bytes, before?, None)?,
        };
        Ok(match written {
            ConditionalWrite::Written { mod_revision, .. } => Some(revision(mod_revision)),
            ConditionalWrite::Refused(_) => None,
        })
    }
}

/// A revision as the layout of a fleet has it.
pub(super) fn revision(revision: i64) -> u64 {
    u64::try_from(revision).unwrap_or(0)
}
