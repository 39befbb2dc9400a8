//! `[[station.destination]]`: hosts to which scans are copied.

use super::key::Key;
use anyhow::{Result, ensure};
use skyhaul::core::hint::Hint;
use skyhaul::core::observation::delivery::{DayWindow, minute_of_day};
use skyhaul::core::station::{DestinationConfig, RateWindow, is_scan_name};
use skyhaul::io::quantity::{Rate, Size, Span};
use skyhaul_daemon::station::{DestinationSetup, StationSetup};
use std::time::Duration;

/// Connections of a copy, unless the configuration says otherwise.
const DEFAULT_FLOWS: usize = 4;
/// Maximum number of connections of a copy.
const MAX_FLOWS: usize = 64;
/// Maximum number of windows of a destination.
const MAX_WINDOWS: usize = 16;
/// How long nothing may move, unless the configuration says otherwise: a disk that tries a bad sector again takes tens of seconds.
const DEFAULT_STALL: Duration = Duration::from_secs(60);
/// The other host says each second how far it has come.
const MIN_STALL: Duration = Duration::from_secs(2);
const MAX_STALL: Duration = Duration::from_secs(3600);
/// Least rate: with less, connections would be taken for dead.
const MIN_RATE_BITS: u64 = 1_000_000;

impl Key<'_> {
    /// A destination, its name and how it is reached.
    pub(super) fn destination(&self, setup: &mut StationSetup) -> Result<()> {
        let mut config = DestinationConfig::default();
        let mut reached = DestinationSetup {
            port: skyhaul_transfer::copy::PORT,
            flows: DEFAULT_FLOWS,
            stall: DEFAULT_STALL,
            ..DestinationSetup::default()
        };
        for entry in self.entries()? {
            match entry.key {
                "name" => entry.string()?.clone_into(&mut config.name),
                "host" => entry.string()?.clone_into(&mut reached.host),
                "port" => reached.port = entry.number(1..=u16::MAX)?,
                "token_file" => reached.token_file = entry.string()?.into(),
                "rate" => config.rate_bits = Some(entry.rate_bits()?),
                "hours" => {
                    let windows = entry.list(MAX_WINDOWS)?.iter().map(|window| entry.at(window).window());
                    config.windows = windows.collect::<Result<_>>()?;
                }
                "encrypt" => reached.encrypt = entry.flag()?,
                "flows" => reached.flows = entry.number(1..=MAX_FLOWS)?,
                "window" => reached.window_bytes = Some(entry.parse::<Size>()?.bytes()),
                "stall" => reached.stall = entry.stall()?,
                "cc" => reached.congestion = Some(entry.string()?.to_owned()),
                _ => {
                    let hint = Hint(
                        "the keys of a destination are cc, encrypt, flows, host, hours, name, port, rate, stall, \
                         token_file, window",
                    );
                    return Err(entry.wrong(format_args!("unknown key{hint}")));
                }
            }
        }
        let name = &config.name;
        ensure!(is_scan_name(name), self.wrong("a destination needs name: letters, digits and ._+-"));
        let is_new = setup.config.destinations.iter().all(|other| other.name != *name);
        ensure!(is_new, self.wrong(format_args!("two destinations are named {name}")));
        if reached.host.is_empty() {
            reached.host.clone_from(name);
        }
        let hint = Hint("copy the file that `skyhaul copy serve` made there");
        ensure!(
            !reached.token_file.as_os_str().is_empty(),
            self.wrong(format_args!("destination {name} needs token_file{hint}"))
        );
        setup.config.destinations.push(config);
        setup.destinations.push(reached);
        Ok(())
    }

    /// A rate at which connections stay alive.
    pub(super) fn rate_bits(&self) -> Result<u64> {
        let bits = self.parse::<Rate>()?.bits_per_second();
        ensure!(bits >= MIN_RATE_BITS, self.wrong("expected 1Mbps or more"));
        Ok(bits)
    }

    fn stall(&self) -> Result<Duration> {
        let time = self.parse::<Span>()?.duration();
        let is_fit = (MIN_STALL..=MAX_STALL).contains(&time);
        ensure!(is_fit, self.wrong("expected 2s to 1h"));
        Ok(time)
    }

    fn window(&self) -> Result<RateWindow> {
        let (mut from, mut to, mut rate) = (None, None, None);
        for entry in self.entries()? {
            match entry.key {
                "from" => from = Some(entry.minute()?),
                "to" => to = Some(entry.minute()?),
                "rate" => {
                    rate = Some(match entry.string()? {
                        "none" => Some(0),
                        "unlimited" => None,
                        _ => Some(entry.rate_bits()?),
                    });
                }
                _ => {
                    return Err(
                        entry.wrong(format_args!("unknown key{}", Hint("the keys are from, rate, to")))
                    );
                }
            }
        }
        let (Some(from_minute), Some(to_minute), Some(rate_bits)) = (from, to, rate) else {
            let hint = Hint(
                "such as { from = \"22:00\", to = \"06:00\", rate = \"1Gbps\" }; rate may be none or unlimited",
            );
            return Err(self.wrong(format_args!("needs from, to and rate{hint}")));
        };
        Ok(RateWindow { hours: DayWindow { from_minute, to_minute }, rate_bits })
    }

    /// A time of the day, `22:00`.
    pub(super) fn minute(&self) -> Result<u16> {
        let minute = minute_of_day(self.string()?);
        minute.ok_or_else(|| {
            self.wrong(format_args!("expected a time of the day, UTC{}", Hint("such as 22:00")))
        })
    }

    pub(super) fn number<N: std::str::FromStr + PartialOrd + std::fmt::Display>(
        &self,
        range: std::ops::RangeInclusive<N>,
    ) -> Result<N> {
        let number = self.value.get_ref().as_integer().and_then(|number| number.as_str().parse().ok());
        number.filter(|number| range.contains(number)).ok_or_else(|| {
            self.wrong(format_args!("expected a number from {} to {}", range.start(), range.end()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use skyhaul::core::observation::delivery::DayWindow;
    use skyhaul::core::station::{RateWindow, StationConfig};
    use std::time::Duration;

    const STATION: &str = "[station]\n[[station.disk]]\npath = '/d'\n[[station.input]]\nname = 'a'\n\
                           listen = ['udp://127.0.0.1:1']\n[[station.destination]]\n";

    fn refused(keys: &str) -> String {
        parse(&format!("{STATION}{keys}")).err().map(|error| format!("{error:#}")).unwrap()
    }

    #[test]
    fn every_key_is_read() {
        let keys = "name = 'correlator'\nhost = '10.0.0.9'\nport = 7412\ntoken_file = '/etc/t'\nrate = '400Mbps'\n\
                    flows = 8\nencrypt = true\nstall = '2min'\nwindow = '64MiB'\ncc = 'bbr'\nhours = [{ from = '22:00', to = '06:00', rate = '1Gbps' }, \
                    { from = '06:00', to = '07:30', rate = 'none' }, { from = '12:00', to = '13:00', rate = 'unlimited' }]";
        let setup = parse(&format!("{STATION}{keys}")).unwrap().setup;
        let StationConfig { destinations, .. } = setup.config;
        assert_eq!(
            (destinations[0].name.as_str(), destinations[0].rate_bits),
            ("correlator", Some(400_000_000))
        );
        let window = |from_minute, to_minute, rate_bits| RateWindow {
            hours: DayWindow { from_minute, to_minute },
            rate_bits,
        };
        let windows =
            [window(1320, 360, Some(1_000_000_000)), window(360, 450, Some(0)), window(720, 780, None)];
        assert_eq!(destinations[0].windows, windows);
        let reached = &setup.destinations[0];
        assert_eq!((reached.host.as_str(), reached.port, reached.flows), ("10.0.0.9", 7412, 8));
        assert_eq!((reached.window_bytes, reached.congestion.as_deref()), (Some(64 << 20), Some("bbr")));
        assert_eq!((reached.stall, reached.encrypt), (Duration::from_secs(120), true));
        let setup = parse(&format!("{STATION}name = 'c'\ntoken_file = 't'")).unwrap().setup;
        assert_eq!(setup.destinations[0].stall, Duration::from_secs(60));
        assert!(!setup.destinations[0].encrypt);
        assert_eq!((setup.destinations[0].host.as_str(), setup.destinations[0].port), ("c", 14301));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (keys, expected) in [
            ("nam = 'c'", "line 8: nam: unknown key"),
            ("name = 'c'", "destination c needs token_file"),
            ("token_file = 't'", "a destination needs name"),
            ("name = 'c'\ntoken_file = 't'\nrate = '1kbps'", "line 10: rate: expected 1Mbps or more"),
            ("name = 'c'\ntoken_file = 't'\nstall = '1s'", "stall: expected 2s to 1h"),
            ("name = 'c'\ntoken_file = 't'\nport = 0", "expected a number from 1 to 65535"),
            ("name = 'c'\ntoken_file = 't'\nhours = [{ from = '24:00' }]", "expected a time of the day"),
            ("name = 'c'\ntoken_file = 't'\nhours = [{ from = '22:00' }]", "needs from, to and rate"),
            (
                "name = 'c'\ntoken_file = 't'\n[[station.destination]]\nname = 'c'\ntoken_file = 't'",
                "two destinations",
            ),
        ] {
            let error = refused(keys);
            assert!(error.contains(expected), "{keys}: {error}");
        }
    }
}
