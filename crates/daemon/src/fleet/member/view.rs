//! The whole fleet for people who look at this station: a thread of its own, so that no write of the member waits behind it.
//!
//! Nobody looks, and nothing is read. It ends with its member, and is not waited for.

use super::super::store::FleetStore;
use crate::fleet_json::{decode, encode};
use crate::station::{StationService, wall_millis};
use serde_json::{Map, Value, json};
use skyhaul::time::format_exact;
use skyhaul_core::fleet::{FleetKey, FleetRoot, FleetValue};
use skyhaul_core::hint::split;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How often the store is read while somebody looks.
const INTERVAL: Duration = Duration::from_secs(5);
/// How often it is asked whether somebody looks.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum number of keys of recorders that are read.
const MAX_KEYS: usize = 4096;
/// Maximum number of recorders that are shown.
const MAX_SHOWN: usize = 256;

/// Ends the thread when it is dropped.
pub(super) struct FleetViewer(Arc<AtomicBool>);

impl FleetViewer {
    pub(super) fn start(
        store: FleetStore,
        root: FleetRoot,
        service: &Arc<StationService>,
    ) -> io::Result<Self> {
        let over = Arc::<AtomicBool>::default();
        let (seen, service) = (Arc::clone(&over), Arc::downgrade(service));
        let run = move || look(&store, &root, &service, &seen);
        std::thread::Builder::new().name("fleet-view".into()).spawn(run)?;
        Ok(Self(over))
    }
}

impl Drop for FleetViewer {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn look(store: &FleetStore, root: &FleetRoot, service: &Weak<StationService>, over: &AtomicBool) {
    let mut last = None::<Instant>;
    while !over.load(Ordering::SeqCst) {
        let is_due = last.is_none_or(|last| last.elapsed() >= INTERVAL);
        match service.upgrade() {
            None => return,
            Some(service) if !service.is_fleet_looked_at() => last = None,
            Some(service) if is_due => {
                service.note_fleet_view(view(store, root));
                last = Some(Instant::now());
            }
            Some(_) => {}
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// The members of the store, and every recorder of the fleet.
fn view(store: &FleetStore, root: &FleetRoot) -> Value {
    let members = store.members().into_iter().map(|member| match member {
        Ok(member) => json!({ "at": member.at, "version": member.version, "is_leader": member.is_leader }),
        Err(error) => json!({ "at": error.at, "problem": split(&error.to_string()).0 }),
    });
    let mut seen = json!({
        "at": format_exact(i128::from(wall_millis()) * 1_000_000),
        "store": members.collect::<Vec<_>>(),
    });
    match recorders(store, root) {
        Ok((recorders, left_out)) => {
            seen["recorders"] = recorders;
            seen["left_out"] = left_out.into();
        }
        Err(why) => seen["problem"] = why.into(),
    }
    seen
}

/// The recorders by station, and the number of those that are left out.
fn recorders(store: &FleetStore, root: &FleetRoot) -> Result<(Value, usize), String> {
    let prefix = format!("{}recorders/", root.prefix());
    let list = store.list(&prefix, MAX_KEYS).map_err(|error| split(&error.to_string()).0.to_owned())?;
    let mut all = BTreeMap::new();
    for stored in &list.values {
        let Ok(key) = root.parse(&stored.key) else { continue };
        let value = decode(&key, &stored.value);
        match key {
            FleetKey::RecorderInfo(station, recorder) => {
                all.entry((station, recorder)).or_insert(None);
            }
            FleetKey::RecorderLive(station, recorder) => {
                let fields = match value {
                    Ok(live) => fields(&live),
                    Err(error) => Map::from_iter([("problem".to_owned(), error.to_string().into())]),
                };
                all.insert((station, recorder), Some(fields));
            }
            _ => {}
        }
    }
    let left_out = all.len().saturating_sub(MAX_SHOWN);
    let shown = all.into_iter().take(MAX_SHOWN).map(|((station, recorder), live)| {
        let mut fields = Map::from_iter([
            ("station".to_owned(), station.as_str().into()),
            ("recorder".to_owned(), recorder.as_str().into()),
            ("online".to_owned(), live.is_some().into()),
        ]);
        fields.extend(live.unwrap_or_default());
        Value::Object(fields)
    });
    Ok((shown.collect(), left_out))
}

/// A value as it is stored, without its version.
fn fields(value: &FleetValue) -> Map<String, Value> {
    let stored = encode(value).ok().and_then(|bytes| serde_json::from_slice::<Map<_, _>>(&bytes).ok());
    let mut fields = stored.unwrap_or_default();
    fields.remove("v");
    fields
}
