//! The ports of VSI-S and of a Mark 6: `[station.vsi]` and `[station.mark6]`.

use super::key::Key;
use super::this_host;
use anyhow::{Result, ensure};
use skyhaul::core::balance::AllowList;
use skyhaul::core::hint::Hint;
use skyhaul::core::vsi::VsiDialect;
use skyhaul_daemon::vsi::{ArrivalOptions, DEFAULT_MARK6_PORT, DEFAULT_PORT, VsiOptions};
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// Maximum number of directories.
const MAX_DIRECTORIES: usize = 64;

impl Key<'_> {
    /// The port of VSI-S, and where data of other hosts arrive for it, except for the disks.
    pub(super) fn vsi(&self) -> Result<(VsiOptions, ArrivalOptions)> {
        let mut listen = (Ipv4Addr::LOCALHOST, DEFAULT_PORT).into();
        let (mut allow, mut receive_from, mut files) = (this_host(), None, Vec::new());
        for entry in self.entries()? {
            match entry.key {
                "listen" => listen = entry.parse()?,
                "allow" => allow = entry.networks()?,
                "receive_from" => receive_from = Some(entry.networks()?),
                "files" => files = entry.directories()?,
                _ => {
                    let hint = Hint("the keys are allow, files, listen, receive_from");
                    return Err(entry.wrong(format_args!("unknown key{hint}")));
                }
            }
        }
        let from = AllowList::of(receive_from.as_ref().unwrap_or(&allow));
        let options = VsiOptions { listen, allow: AllowList::of(&allow), dialect: VsiDialect::FlexBuff };
        Ok((options, ArrivalOptions { files, from, ..ArrivalOptions::default() }))
    }

    /// The port of a Mark 6.
    pub(super) fn mark6(&self) -> Result<VsiOptions> {
        let mut listen = (Ipv4Addr::LOCALHOST, DEFAULT_MARK6_PORT).into();
        let mut allow = this_host();
        for entry in self.entries()? {
            match entry.key {
                "listen" => listen = entry.parse()?,
                "allow" => allow = entry.networks()?,
                _ => {
                    let hint = Hint("the keys are allow, listen");
                    return Err(entry.wrong(format_args!("unknown key{hint}")));
                }
            }
        }
        Ok(VsiOptions { listen, allow: AllowList::of(&allow), dialect: VsiDialect::Mark6 })
    }

    /// Directories, by their absolute paths.
    fn directories(&self) -> Result<Vec<PathBuf>> {
        let directory = |entry: Key<'_>| {
            let path = std::path::absolute(entry.string()?).map_err(|error| entry.wrong(error))?;
            let (shown, hint) = (path.display(), Hint("make the directory, or remove it from the list"));
            ensure!(path.is_dir(), entry.wrong(format_args!("{shown} is not a directory{hint}")));
            Ok(path)
        };
        self.list(MAX_DIRECTORIES)?.iter().map(|value| directory(self.at(value))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    const TEXT: &str = "[station]\n[[station.disk]]\npath = \"/tmp\"\n[[station.input]]\nname = \"a\"\nlisten = [\"udp://127.0.0.1:1\"]\n[station.vsi]\n";

    #[test]
    fn data_come_from_hosts_of_the_list_and_files_are_below_directories() {
        let of = |keys: &str| parse(&format!("{TEXT}{keys}"));
        let may_send = |keys: &str, ip: &str| of(keys).unwrap().arrivals.from.admits(ip.parse().unwrap());
        assert!(may_send("", "127.0.0.1") && !may_send("", "10.0.0.1"));
        assert!(may_send("allow = ['10.0.0.0/8']", "10.0.0.1"));
        let both = "allow = ['10.0.0.0/8']\nreceive_from = ['192.0.2.1']";
        assert!(may_send(both, "192.0.2.1") && !may_send(both, "10.0.0.1"));
        let config = of("files = ['/tmp']").unwrap();
        assert_eq!(config.setup.files, [std::path::PathBuf::from("/tmp")]);
        assert_eq!(
            (&config.arrivals.files, &config.arrivals.disks),
            (&config.setup.files, &config.setup.disks)
        );
        assert!(of("").unwrap().setup.files.is_empty());
        let error = of("files = ['/no/such/directory']").err().map(|error| format!("{error:#}")).unwrap();
        assert!(error.contains("/no/such/directory is not a directory"), "{error}");
    }
}
