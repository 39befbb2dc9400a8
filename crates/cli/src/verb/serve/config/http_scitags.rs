//! `[http.scitags]`: how connections are marked for networks.

use super::key::Key;
use anyhow::{Result, ensure};
use skyhaul::core::hint::Hint;
use skyhaul::io::quantity::Span;
use skyhaul_daemon::scitags::{SciTag, SciTagOptions};
use std::time::Duration;

/// Maximum number of collectors.
const MAX_COLLECTORS: usize = 16;
/// Shortest time between datagrams of a connection.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

impl Key<'_> {
    pub(super) fn http_scitags(&self) -> Result<SciTagOptions> {
        let mut options = SciTagOptions::default();
        for entry in self.entries()? {
            match entry.key {
                "collectors" => {
                    for name in entry.list(MAX_COLLECTORS)? {
                        options.collectors.push(entry.at(name).string()?.to_owned());
                    }
                }
                "default" => {
                    let number = entry.count(usize::from(u16::MAX))?;
                    let tag = u16::try_from(number).ok().and_then(SciTag::from_number);
                    let tag = tag.ok_or_else(|| entry.wrong("expected a number from 65 to 65535"))?;
                    options.default = Some(tag);
                }
                "flow_label" => options.flow_label = entry.flag()?,
                "interval" => {
                    let interval = entry.parse::<Span>()?.duration();
                    ensure!(interval >= MIN_INTERVAL, entry.wrong(format_args!("at least {MIN_INTERVAL:?}")));
                    options.interval = Some(interval);
                }
                "peer" => options.to_peer = entry.flag()?,
                _ => {
                    let hint = Hint(
                        "the keys of [http.scitags] are collectors, default, flow_label, interval, peer",
                    );
                    return Err(entry.wrong(format_args!("unknown key{hint}")));
                }
            }
        }
        options.check().map_err(|why| self.wrong(why))?;
        let hint = Hint("such as collectors = ['fireflies.example']");
        let does = !options.collectors.is_empty() || options.to_peer || options.flow_label;
        ensure!(
            does,
            self.wrong(format_args!("nothing is marked: set collectors, peer or flow_label{hint}"))
        );
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use crate::verb::serve::config::parse;

    fn with(section: &str) -> Result<String, String> {
        let station = "[station]\n[[station.disk]]\npath = '/'\n[[station.input]]\nname = 'a'\nlisten = ['udp://127.0.0.1:1']\n";
        let parsed = parse(&format!("{station}[http]\nrecordings = true\n{section}"));
        parsed
            .map(|config| format!("{:?}", config.http.and_then(|http| http.options.scitags)))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn marking_is_read_and_mistakes_are_named() {
        assert_eq!(with("").unwrap(), "None");
        let all = "[http.scitags]\ncollectors = ['a.example', '[::1]:99']\ndefault = 449\nflow_label = true\ninterval = '60s'\npeer = true";
        let read = with(all).unwrap();
        let expected = "Some(SciTagOptions { collectors: [\"a.example\", \"[::1]:99\"], to_peer: true, flow_label: true, \
            interval: Some(60s), default: Some(SciTag { experiment: 7, activity: 1 }) })";
        assert_eq!(read, expected);
        for (section, why) in [
            ("[http.scitags]", "nothing is marked: set collectors, peer or flow_label"),
            ("[http.scitags]\ncollectors = ['a b']", "`a b` is not a collector"),
            ("[http.scitags]\npeer = true\ndefault = 64", "default: expected a number from 65 to 65535"),
            ("[http.scitags]\npeer = true\ndefault = 65536", "default: expected a number from 1 to 65535"),
            ("[http.scitags]\npeer = true\ninterval = '10ms'", "interval: at least 1s"),
            ("[http.scitags]\ncolector = 'a'", "the keys of [http.scitags] are"),
        ] {
            let error = with(section).unwrap_err();
            assert!(error.contains(why), "{section}: {error}");
        }
    }
}
