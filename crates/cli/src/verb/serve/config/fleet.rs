//! The section `[fleet]`: the station as a member of a fleet.

use super::key::Key;
use anyhow::{Result, ensure};
use skyhaul::core::fleet::{FleetName, RecorderInfo};
use skyhaul::core::hint::Hint;
use skyhaul_daemon::fleet::{FleetSetup, FleetStore, FleetStoreOptions};
use skyhaul_daemon::station::StationSetup;
use std::path::PathBuf;
use std::time::Duration;

/// Maximum number of endpoints.
const MAX_ENDPOINTS: usize = 16;
/// Lease of the live state, unless the configuration gives another, and its limits, seconds.
const DEFAULT_LEASE_SECONDS: u64 = 15;
const LEASE_SECONDS: std::ops::RangeInclusive<u64> = 10..=30;
/// Name of the database, on the first disk.
const DATABASE_FILE: &str = "station_fleet.db";

/// How a fleet is reached, without what a station of it needs.
#[derive(Debug, Default)]
pub(crate) struct FleetAccess {
    pub(crate) fleet: Option<FleetName>,
    pub(crate) store: FleetStoreOptions,
}

impl Key<'_> {
    /// How the fleet is reached.
    pub(super) fn fleet_access(&self) -> Result<FleetAccess> {
        let mut access = FleetAccess::default();
        for entry in self.entries()? {
            match entry.key {
                "database" | "input" | "lease" | "recorder" | "station" | "url" => {}
                _ => entry.access_key(&mut access)?,
            }
        }
        Ok(access)
    }

    fn access_key(&self, FleetAccess { fleet, store }: &mut FleetAccess) -> Result<()> {
        let path = || self.string().map(PathBuf::from);
        match self.key {
            "name" => *fleet = Some(self.name()?),
            "endpoints" => {
                let list = self.list(MAX_ENDPOINTS)?.iter();
                store.endpoints =
                    list.map(|one| self.at(one).string().map(str::to_owned)).collect::<Result<_>>()?;
            }
            "user_file" => store.user_file = Some(path()?),
            "authority" => store.certificates.authority = Some(path()?),
            "certificate" => store.certificates.own = Some(path()?),
            "key" => store.certificates.key = Some(path()?),
            "plain" => store.allow_plain = self.flag()?,
            _ => {
                let hint = Hint(
                    "the keys of [fleet] are authority, certificate, database, endpoints, input, key, lease, name, plain, recorder, station, url, user_file",
                );
                return Err(self.wrong(format_args!("unknown key{hint}")));
            }
        }
        Ok(())
    }

    /// The section.
    pub(super) fn fleet(&self, station: &StationSetup, serves_files: bool) -> Result<FleetSetup> {
        let mut access = FleetAccess::default();
        let (mut code, mut recorder) = (None, None);
        let (mut database, mut input, mut url) = (None, String::new(), None);
        let mut lease = Duration::from_secs(DEFAULT_LEASE_SECONDS);
        for entry in self.entries()? {
            match entry.key {
                "station" => code = Some(entry.name()?),
                "recorder" => recorder = Some(entry.name()?),
                "lease" => lease = entry.lease()?,
                "input" => entry.string()?.clone_into(&mut input),
                "database" => database = Some(PathBuf::from(entry.string()?)),
                "url" => url = Some(entry.string()?.to_owned()),
                _ => entry.access_key(&mut access)?,
            }
        }
        let FleetAccess { fleet, store } = access;
        let needed = |what, name: Option<FleetName>| {
            name.ok_or_else(|| {
                self.wrong(format_args!(
                    "[fleet] needs {what}{}",
                    Hint("docs/reference/fleet.md has an example")
                ))
            })
        };
        let (fleet, code) = (needed("name", fleet)?, needed("station", code)?);
        let recorder = needed("recorder", recorder)?;
        ensure!(
            !store.endpoints.is_empty(),
            self.wrong(format_args!("[fleet] needs endpoints{}", Hint("the client URLs of etcd")))
        );
        // Files, addresses and certificates are looked at before the station begins.
        FleetStore::open(&store).map_err(|error| self.wrong(error))?;
        let has_input = station.config.inputs.iter().any(|one| one.name == input);
        ensure!(
            input.is_empty() || has_input,
            self.wrong(format_args!(
                "no input is named {input}{}",
                Hint("give the name of a [[station.input]]")
            ))
        );
        let database = database.unwrap_or_else(|| station.disks[0].join(DATABASE_FILE));
        let info = RecorderInfo {
            build: concat!("skyhaul ", env!("CARGO_PKG_VERSION")).to_owned(),
            disks: station.config.disks.iter().map(|disk| disk.path.clone()).collect(),
            interfaces: station.config.inputs.iter().flat_map(|input| input.listen.clone()).collect(),
            srr_url: url
                .as_ref()
                .filter(|_| serves_files)
                .map(|url| format!("{}/srr", url.trim_end_matches('/'))),
            webdav_url: url,
            ..RecorderInfo::default()
        };
        Ok(FleetSetup { store, fleet, station: code, recorder, lease, input, database, info })
    }

    fn name(&self) -> Result<FleetName> {
        FleetName::new(self.string()?).map_err(|error| self.wrong(error))
    }

    fn lease(&self) -> Result<Duration> {
        let hint = || self.wrong("expected a time from 10s to 30s");
        let seconds = self.string()?.strip_suffix('s').and_then(|text| text.parse().ok()).ok_or_else(hint)?;
        ensure!(LEASE_SECONDS.contains(&seconds), hint());
        Ok(Duration::from_secs(seconds))
    }
}

#[cfg(test)]
mod tests {
    use crate::verb::serve::config::parse;

    fn with(section: &str) -> Result<String, String> {
        let station = "[station]\n[[station.disk]]\npath = '/'\n[[station.input]]\nname = 'a'\nlisten = ['udp://127.0.0.1:1']\n";
        let parsed = parse(&format!("{station}{section}"));
        parsed.map(|config| format!("{:?}", config.fleet)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_fleet_has_a_name_a_station_a_recorder_and_a_store() {
        assert_eq!(with("").unwrap(), "None");
        let whole = "[fleet]\nname = 'evn'\nstation = 'On'\nrecorder = 'rec1'\nendpoints = ['http://127.0.0.1:2379']\n";
        let read = with(whole).unwrap();
        for part in ["evn", "On", "rec1", "http://127.0.0.1:2379", "15s", "/station_fleet.db"] {
            assert!(read.contains(part), "{part}: {read}");
        }
        for (more, problem) in [
            ("lease = '5s'\n", "from 10s to 30s"),
            ("input = 'b'\n", "no input is named b"),
            ("colour = 'red'\n", "unknown key"),
            ("user_file = '/no/such/file'\n", "/no/such/file"),
            ("certificate = '/dev/null'\n", "belong together"),
        ] {
            let error = with(&format!("{whole}{more}")).unwrap_err();
            assert!(error.contains(problem) && error.contains("line "), "{error}");
        }
        for (line, problem) in [
            ("name = 'evn'", "needs name"),
            ("recorder = 'rec1'", "needs recorder"),
            ("endpoints = ['http://127.0.0.1:2379']", "needs endpoints"),
        ] {
            let error = with(&whole.replace(line, "")).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
        let error = with(&whole.replace("'evn'", "'../x'")).unwrap_err();
        assert!(error.contains("is not a name"), "{error}");
        let error = with(&whole.replace("127.0.0.1", "192.0.2.1")).unwrap_err();
        assert!(error.contains("only on this host"), "{error}");
    }
}
