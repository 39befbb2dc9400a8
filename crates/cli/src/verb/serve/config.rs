//! The sections `[station]`, `[http]`, `[peers]`, `[etransfer]` and `[fleet]` of a configuration file. `docs/reference/serve.md` has all keys.

mod alarms;
mod delivery;
mod destination;
mod dialogue;
mod etransfer;
mod fleet;
mod http;
mod http_log;
mod http_scitags;
mod key;
mod mount;
mod peers;

pub(crate) use fleet::FleetAccess;
pub(super) use http::HttpConfig;
pub(super) use peers::PeersConfig;

use super::mounting::MountConfig;
use anyhow::{Result, anyhow, bail, ensure};
use key::{Key, line};
use skyhaul::core::balance::Prefix;
use skyhaul::core::hint::Hint;
use skyhaul::core::observation::delivery::MAX_DELIVERIES;
use skyhaul::core::station::{DiskConfig, InputConfig, StationConfig, is_scan_name};
use skyhaul::io::address::Endpoint;
use skyhaul::io::file::{SETTINGS, read_small_text};
use skyhaul::io::quantity::{Rate, Size};
use skyhaul::quality::{PhaseCal, QualityOptions};
use skyhaul::receive::ReceiverOptions;
use skyhaul::wire::Format;
use skyhaul_daemon::etransfer::EtransferOptions;
use skyhaul_daemon::fleet::FleetSetup;
use skyhaul_daemon::station::{AlarmSetup, ScheduleSetup, StationSetup};
use skyhaul_daemon::vsi::{ArrivalOptions, VsiOptions};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::DeTable;

/// Memory of a recording, unless the configuration says otherwise.
const DEFAULT_INPUT_MEMORY_BYTES: u64 = 512 << 20;
/// Bytes that remain free on each disk, unless the configuration says otherwise.
const DEFAULT_RESERVE_BYTES: u64 = 64 << 20;
/// Port of the HTTP API.
const DEFAULT_PORT: u16 = 8088;
/// Maximum number of networks in a list of those that may connect.
const MAX_NETWORKS: usize = 256;
/// Maximum number of inputs.
const MAX_INPUTS: usize = 256;
/// Maximum number of disks.
const MAX_DISKS: usize = 64;
/// Maximum number of destinations.
const MAX_DESTINATIONS: usize = 64;
/// Maximum number of threads of an input.
const MAX_THREADS: usize = 256;

/// A station's configuration.
pub(super) struct ServeConfig {
    pub(super) listen: SocketAddr,
    pub(super) token_file: Option<PathBuf>,
    /// Whether the Adler-32 of closed recordings is computed.
    pub(super) adler32: bool,
    pub(super) vsi: Option<VsiOptions>,
    /// Who may send data to what VSI-S opens, and where they arrive.
    pub(super) arrivals: ArrivalOptions,
    pub(super) mark6: Option<VsiOptions>,
    pub(super) mount: Option<MountConfig>,
    pub(super) http: Option<HttpConfig>,
    pub(super) peers: Option<PeersConfig>,
    pub(super) etransfer: Option<EtransferOptions>,
    pub(super) fleet: Option<FleetSetup>,
    pub(super) setup: StationSetup,
}

/// Reads a configuration.
pub(super) fn read(path: &Path) -> Result<ServeConfig> {
    let text = read_small_text(path, SETTINGS)?;
    parse(&text).map_err(|error| error.context(format!("{}", path.display())))
}

/// Reads the section `[http]` of a configuration that may be that of other verbs.
pub(super) fn read_http(path: &Path) -> Result<Option<HttpConfig>> {
    let text = read_small_text(path, SETTINGS)?;
    if DeTable::parse(&text).is_ok_and(|table| table.get_ref().get("http").is_none()) {
        return Ok(None);
    }
    let config = parse(&text).map_err(|error| error.context(format!("{}", path.display())))?;
    Ok(config.http)
}

/// Reads how a fleet is reached, from the section `[fleet]` of a configuration that needs no station.
pub(super) fn read_fleet(path: &Path) -> Result<Option<FleetAccess>> {
    let text = read_small_text(path, SETTINGS)?;
    let table = table(&text).map_err(|error| error.context(format!("{}", path.display())))?;
    let section = table.get_ref().get("fleet");
    let access = section.map(|value| Key { text: &text, key: "fleet", value }.fleet_access()).transpose();
    access.map_err(|error| error.context(format!("{}", path.display())))
}

fn table(text: &str) -> Result<Spanned<DeTable<'_>>> {
    DeTable::parse(text).map_err(|error| {
        anyhow!("line {}: {}", line(text, error.span().map_or(0, |span| span.start)), error.message())
    })
}

/// What holds where nothing is said.
fn unconfigured() -> ServeConfig {
    ServeConfig {
        listen: (Ipv4Addr::LOCALHOST, DEFAULT_PORT).into(),
        token_file: None,
        adler32: true,
        vsi: None,
        arrivals: ArrivalOptions::default(),
        mark6: None,
        mount: None,
        http: None,
        peers: None,
        etransfer: None,
        fleet: None,
        setup: StationSetup {
            config: StationConfig::default(),
            receivers: Vec::new(),
            disks: Vec::new(),
            reserve_bytes: DEFAULT_RESERVE_BYTES,
            reports: None,
            quality: Some(QualityOptions::default()),
            schedule: ScheduleSetup::default(),
            destinations: Vec::new(),
            files: Vec::new(),
            alarms: AlarmSetup::default(),
        },
    }
}

fn parse(text: &str) -> Result<ServeConfig> {
    let table = table(text)?;
    let Some(section) = table.get_ref().get("station") else {
        bail!("no section [station]{}", Hint("docs/reference/serve.md has an example"));
    };
    let mut config = unconfigured();
    let section = Key { text, key: "station", value: section };
    for entry in section.entries()? {
        let setup = &mut config.setup;
        match entry.key {
            "listen" => config.listen = entry.parse()?,
            "token_file" => config.token_file = Some(entry.string()?.into()),
            "vsi" => {
                let (vsi, arrivals) = entry.vsi()?;
                setup.files.clone_from(&arrivals.files);
                (config.vsi, config.arrivals) = (Some(vsi), arrivals);
            }
            "mark6" => config.mark6 = Some(entry.mark6()?),
            "mount" => config.mount = Some(entry.mount()?),
            "adler32" => config.adler32 = entry.flag()?,
            "alarms" => setup.alarms = entry.alarms()?,
            "memory" => setup.config.memory_bytes = entry.parse::<Size>()?.bytes(),
            "reserve" => setup.reserve_bytes = entry.parse::<Size>()?.bytes(),
            "reports" => setup.reports = Some(entry.string()?.into()),
            "quality" => setup.quality = entry.quality()?,
            "schedule" => setup.schedule = entry.schedule()?,
            "destination" => {
                let list = entry.list(MAX_DESTINATIONS)?.iter();
                list.map(|one| entry.at(one)).try_for_each(|one| one.destination(setup))?;
            }
            "disk" => entry.list(MAX_DISKS)?.iter().try_for_each(|disk| entry.at(disk).disk(setup))?,
            "input" => entry.list(MAX_INPUTS)?.iter().try_for_each(|input| entry.at(input).input(setup))?,
            _ => {
                let hint = "the keys are adler32, alarms, destination, disk, input, listen, mark6, memory, mount, quality, reports, reserve, schedule, token_file, vsi";
                return Err(entry.wrong(format_args!("unknown key{}", Hint(hint))));
            }
        }
    }
    if let Some(value) = table.get_ref().get("http") {
        config.http = Some(Key { text, key: "http", value }.http()?);
    }
    if let Some(value) = table.get_ref().get("etransfer") {
        config.etransfer = Some(Key { text, key: "etransfer", value }.etransfer()?);
    }
    if let Some(value) = table.get_ref().get("peers") {
        config.peers = Some(Key { text, key: "peers", value }.peers(config.http.as_ref())?);
    }
    check(&mut config.setup)?;
    config.arrivals.disks.clone_from(&config.setup.disks);
    config.arrivals.reserve_bytes = config.setup.reserve_bytes;
    if let Some(mount) = &mut config.mount {
        mount.options.disks.clone_from(&config.setup.disks);
    }
    if let Some(value) = table.get_ref().get("fleet") {
        config.fleet = Some(Key { text, key: "fleet", value }.fleet(&config.setup, config.http.is_some())?);
    }
    Ok(config)
}

/// What the keys must be together.
fn check(setup: &mut StationSetup) -> Result<()> {
    let inputs = &setup.config.inputs;
    ensure!(!inputs.is_empty(), "no input{}", Hint("add [[station.input]] with name and listen"));
    ensure!(!setup.disks.is_empty(), "no disk{}", Hint("add [[station.disk]] with path"));
    let mut seen = BTreeSet::new();
    for name in inputs.iter().map(|input| &input.name) {
        ensure!(
            seen.insert(name.clone()),
            "two inputs are named {name}{}",
            Hint("give each a name of its own")
        );
    }
    let total = &mut setup.config.memory_bytes;
    if *total == 0 {
        *total = inputs.iter().map(|input| input.memory_bytes).sum();
    }
    for input in inputs {
        ensure!(
            input.memory_bytes <= *total,
            "input {} needs more memory than the station has{}",
            input.name,
            Hint("raise `memory` of [station], or lower that of the input")
        );
    }
    if let Some(directory) = &setup.reports {
        let hint = Hint("make the directory, or remove `reports`");
        ensure!(directory.is_dir(), "reports: {} is not a directory{hint}", directory.display());
    }
    let ScheduleSetup { directory, input, .. } = &setup.schedule;
    if let Some(directory) = directory {
        let hint = Hint("make the directory, or remove `directory` of [station.schedule]");
        ensure!(directory.is_dir(), "schedule: {} is not a directory{hint}", directory.display());
    }
    let hint = Hint("give the name of a [[station.input]]");
    ensure!(input.is_empty() || seen.contains(input), "schedule: no input is named {input}{hint}");
    setup.check_deliveries().map_err(|why| anyhow!("schedule.delivery: {why}"))?;
    Ok(())
}

/// Networks that may connect unless others are given.
fn this_host() -> Vec<Prefix> {
    let mut allow = vec![Prefix::host(Ipv6Addr::LOCALHOST.into())];
    allow.extend(Prefix::new(Ipv4Addr::LOCALHOST.into(), 8));
    allow
}

impl Key<'_> {
    fn disk(&self, setup: &mut StationSetup) -> Result<()> {
        let (mut path, mut rate_bits) = (None, None);
        for entry in self.entries()? {
            match entry.key {
                "path" => path = Some(entry.string()?),
                "rate" => rate_bits = Some(entry.parse::<Rate>()?.bits_per_second()),
                _ => {
                    return Err(
                        entry.wrong(format_args!("unknown key{}", Hint("the keys of a disk are path, rate")))
                    );
                }
            }
        }
        let path = path.ok_or_else(|| self.wrong("a disk needs path"))?;
        setup.disks.push(path.into());
        setup.config.disks.push(DiskConfig { path: path.to_owned(), rate_bits });
        Ok(())
    }

    /// `true`, `false`, or a table with what every channel must have.
    fn quality(&self) -> Result<Option<QualityOptions>> {
        if let Some(is_on) = self.value.get_ref().as_bool() {
            return Ok(is_on.then(QualityOptions::default));
        }
        let mut options = QualityOptions::default();
        for entry in self.entries()? {
            match entry.key {
                "phase_cal" => options.phase_cal = Some(entry.parse::<PhaseCal>()?),
                _ => {
                    let hint = Hint("the key of quality is phase_cal; quality = false turns it off");
                    return Err(entry.wrong(format_args!("unknown key{hint}")));
                }
            }
        }
        Ok(Some(options))
    }

    fn schedule(&self) -> Result<ScheduleSetup> {
        let mut setup = ScheduleSetup::default();
        for entry in self.entries()? {
            match entry.key {
                "directory" => setup.directory = Some(entry.string()?.into()),
                "station" => setup.station = Some(entry.string()?.to_owned()),
                "input" => entry.string()?.clone_into(&mut setup.input),
                "delivery" => {
                    let list = entry.list(MAX_DELIVERIES)?.iter();
                    setup.deliveries = list.map(|one| entry.at(one).delivery()).collect::<Result<_>>()?;
                }
                _ => {
                    let hint = Hint("the keys of schedule are delivery, directory, input, station");
                    return Err(entry.wrong(format_args!("unknown key{hint}")));
                }
            }
        }
        Ok(setup)
    }

    fn input(&self, setup: &mut StationSetup) -> Result<()> {
        let mut input = InputConfig { memory_bytes: DEFAULT_INPUT_MEMORY_BYTES, ..InputConfig::default() };
        let mut receiver = ReceiverOptions::default();
        for entry in self.entries()? {
            match entry.key {
                "name" => entry.string()?.clone_into(&mut input.name),
                "listen" => {
                    let list =
                        entry.list(MAX_INPUTS)?.iter().map(|value| entry.at(value).parse::<Endpoint>());
                    receiver.listen = list.collect::<Result<_>>()?;
                }
                "memory" => input.memory_bytes = entry.parse::<Size>()?.bytes(),
                "rate" => input.rate_bits = Some(entry.parse::<Rate>()?.bits_per_second()),
                "format" => receiver.learn.format = entry.parse::<Format>()?,
                "socket_buffer" => receiver.udp.buffer = entry.parse()?,
                "threads" => {
                    let number =
                        entry.value.get_ref().as_integer().and_then(|number| number.as_str().parse().ok());
                    let number = number.filter(|number| (1..=MAX_THREADS).contains(number));
                    receiver.threads = number.ok_or_else(|| {
                        entry.wrong(format_args!("expected a number from 1 to {MAX_THREADS}"))
                    })?;
                }
                _ => {
                    let hint =
                        "the keys of an input are format, listen, memory, name, rate, socket_buffer, threads";
                    return Err(entry.wrong(format_args!("unknown key{}", Hint(hint))));
                }
            }
        }
        ensure!(is_scan_name(&input.name), self.wrong("an input needs name: letters, digits and ._+-"));
        let hint = Hint("such as listen = [\"udp://0.0.0.0:46227\"]");
        ensure!(
            !receiver.listen.is_empty(),
            self.wrong(format_args!("input {} needs listen{hint}", input.name))
        );
        input.listen = receiver.listen.iter().map(ToString::to_string).collect();
        setup.config.inputs.push(input);
        setup.receivers.push(receiver);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul::core::vsi::VsiDialect;

    const TEXT: &str = r#"
[station]
listen = "127.0.0.1:0"
memory = "1GiB"
reserve = "1GB"
[[station.disk]]
path = "/data/d0"
rate = "2Gbps"
[[station.input]]
name = "mh1"
listen = ["udp://127.0.0.1:46227", "udp://127.0.0.1:46228"]
format = "vdif"
memory = "256MiB"
rate = "1Gbps"
threads = 2
socket_buffer = "8MiB"
"#;

    #[test]
    fn every_key_is_read() {
        let config = parse(TEXT).unwrap();
        let setup = config.setup;
        assert_eq!(setup.config.disks[0].rate_bits, Some(2_000_000_000));
        let input = &setup.config.inputs[0];
        assert_eq!((input.listen.len(), input.memory_bytes), (2, 256 << 20));
        assert_eq!((setup.receivers[0].threads, setup.receivers[0].udp.buffer.bytes()), (2, 8 << 20));
        assert_eq!((setup.config.memory_bytes, setup.reserve_bytes), (1 << 30, 1_000_000_000));
        assert!(config.listen.port() == 0 && config.vsi.is_none());
    }

    #[test]
    fn vsi_serves_this_host_unless_networks_are_given() {
        let of = |keys: &str| parse(&format!("{TEXT}[station.vsi]\n{keys}"));
        let vsi = of("").unwrap().vsi.unwrap();
        let admits = |vsi: &VsiOptions, ip: &str| vsi.allow.admits(ip.parse().unwrap());
        assert_eq!(vsi.listen.to_string(), "127.0.0.1:2620");
        assert!(admits(&vsi, "127.0.0.9") && admits(&vsi, "::1") && !admits(&vsi, "10.0.0.1"));
        let vsi = of("listen = \"0.0.0.0:2621\"\nallow = [\"10.0.0.0/8\"]").unwrap().vsi.unwrap();
        assert!(vsi.listen.port() == 2621 && admits(&vsi, "10.0.0.1") && !admits(&vsi, "127.0.0.1"));
        for (keys, expected) in
            [("alow = []", "line 18: alow: unknown key"), ("allow = [\"x\"]", "`x` is no sender")]
        {
            let error = of(keys).err().map(|error| format!("{error:#}")).unwrap();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_mark_6_has_a_port_of_its_own() {
        let mark6 = parse(&format!("{TEXT}[station.mark6]\n")).unwrap().mark6.unwrap();
        assert_eq!(
            (mark6.listen.to_string().as_str(), mark6.dialect),
            ("127.0.0.1:14242", VsiDialect::Mark6)
        );
        assert!(!mark6.allow.admits("10.0.0.1".parse().unwrap()));
    }

    #[test]
    fn schedules_are_read_from_a_directory() {
        let of = |keys: &str| parse(&format!("{TEXT}[station.schedule]\n{keys}"));
        let setup = of("directory = '/tmp'\nstation = 'Mh'\ninput = 'mh1'").unwrap().setup.schedule;
        let (directory, station) = (Some("/tmp".into()), Some("Mh".into()));
        assert_eq!(
            setup,
            ScheduleSetup { directory, station, input: "mh1".into(), ..ScheduleSetup::default() }
        );
        for (keys, expected) in [
            ("directry = '/tmp'", "line 18: directry: unknown key"),
            ("directory = '/nowhere/at/all'", "/nowhere/at/all is not a directory"),
            ("input = 'mh9'", "no input is named mh9"),
        ] {
            let error = of(keys).err().map(|error| format!("{error:#}")).unwrap();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (from, to, expected) in [
            ("reserve =", "reserv =", "line 5: reserv: unknown key; hint: the keys are"),
            ("\"1GiB\"", "7", "line 4: memory: expected text"),
            ("\"1GiB\"", "\"1\u{1b}GiX\"", "line 4: "),
            ("path =", "pth =", "line 7: pth: unknown key"),
            ("\"mh1\"", "\"../mh1\"", "an input needs name"),
            ("\"udp://127.0.0.1:46227\"", "\"46227\"", "line 11: listen: "),
            ("threads = 2", "threads = 0", "line 15: threads: expected a number from 1 to 256"),
            ("\"1GiB\"", "\"1MiB\"", "input mh1 needs more memory"),
            ("[[station.input]]", "[[station.inputs]]", "inputs: unknown key"),
            ("[station]", "[station", "line 2: "),
            ("station", "stat", "no section [station]"),
        ] {
            let text = TEXT.replace(from, to);
            let error = parse(&text).err().map(|error| format!("{error:#}")).unwrap();
            assert!(error.contains(expected), "{to}: {error}");
        }
    }
}
