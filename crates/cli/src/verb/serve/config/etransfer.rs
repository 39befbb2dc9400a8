//! The section `[etransfer]`: files and recordings for `etc`.

use super::key::Key;
use super::{MAX_NETWORKS, this_host};
use anyhow::{Result, ensure};
use skyhaul::core::balance::{AllowList, Prefix};
use skyhaul::core::etransfer::{COMMAND_PORT, DATA_PORT};
use skyhaul::core::hint::Hint;
use skyhaul_daemon::etransfer::{EtransferDirectory, EtransferOptions, EtransferTimes};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// Maximum number of directories.
const MAX_DIRECTORIES: usize = 64;

impl Key<'_> {
    /// The section.
    pub(super) fn etransfer(&self) -> Result<EtransferOptions> {
        let mut listen: SocketAddr = (Ipv4Addr::LOCALHOST, COMMAND_PORT).into();
        let (mut data, mut send_to) = (None, None);
        let mut allow = this_host();
        let (mut directories, mut recordings) = (Vec::<EtransferDirectory>::new(), false);
        for entry in self.entries()? {
            match entry.key {
                "listen" => listen = entry.parse()?,
                "data" => data = Some(entry.parse()?),
                "allow" => allow = entry.networks()?,
                "send_to" => send_to = Some(entry.networks()?),
                "recordings" => recordings = entry.flag()?,
                "root" => {
                    for root in entry.list(MAX_DIRECTORIES)? {
                        directories.push(entry.at(root).etransfer_root()?);
                    }
                }
                _ => {
                    let hint =
                        Hint("the keys of [etransfer] are allow, data, listen, recordings, root, send_to");
                    return Err(entry.wrong(format_args!("unknown key{hint}")));
                }
            }
        }
        let hint = Hint("add [[etransfer.root]] with directory, or recordings = true");
        let is_empty = directories.is_empty() && !recordings;
        ensure!(!is_empty, self.wrong(format_args!("nothing is served{hint}")));
        for (at, of) in directories.iter().enumerate() {
            let is_again = directories[..at].iter().any(|other| other.directory == of.directory);
            ensure!(!is_again, self.wrong(format_args!("{} is given twice", of.directory.display())));
        }
        // On the same address, unless one is given: the data port of the field, or any if the command port is any.
        let port = if listen.port() == 0 { 0 } else { DATA_PORT };
        Ok(EtransferOptions {
            listen,
            data: data.unwrap_or(SocketAddr::new(listen.ip(), port)),
            send_to: AllowList::of(send_to.as_ref().unwrap_or(&allow)),
            allow: AllowList::of(&allow),
            directories,
            recordings,
            times: EtransferTimes::default(),
        })
    }

    /// A list of networks.
    pub(super) fn networks(&self) -> Result<Vec<Prefix>> {
        self.list(MAX_NETWORKS)?.iter().map(|value| self.at(value).parse()).collect()
    }

    fn etransfer_root(&self) -> Result<EtransferDirectory> {
        let (mut directory, mut is_writable) = (None, false);
        for entry in self.entries()? {
            match entry.key {
                "directory" => directory = Some(PathBuf::from(entry.string()?)),
                "write" => is_writable = entry.flag()?,
                _ => {
                    let hint = Hint("the keys of a root are directory, write");
                    return Err(entry.wrong(format_args!("unknown key{hint}")));
                }
            }
        }
        let directory = directory.ok_or_else(|| self.wrong("a root needs directory"))?;
        // It is served under this path.
        let directory = std::path::absolute(directory).map_err(|error| self.wrong(error))?;
        let shown = directory.display();
        let hint = Hint("make the directory, or remove the root");
        ensure!(directory.is_dir(), self.wrong(format_args!("{shown} is not a directory{hint}")));
        Ok(EtransferDirectory { directory, is_writable })
    }
}

#[cfg(test)]
mod tests {
    use crate::verb::serve::config::parse;

    fn with(section: &str) -> Result<String, String> {
        let station = "[station]\n[[station.disk]]\npath = '/'\n[[station.input]]\nname = 'a'\nlisten = ['udp://127.0.0.1:1']\n";
        let parsed = parse(&format!("{station}{section}"));
        parsed.map(|config| format!("{:?}", config.etransfer)).map_err(|error| error.to_string())
    }

    #[test]
    fn this_host_may_read_recordings_unless_more_is_given() {
        assert_eq!(with("").unwrap(), "None");
        let read = with("[etransfer]\nrecordings = true").unwrap();
        for part in ["listen: 127.0.0.1:4004", "data: 127.0.0.1:8008", "directories: []", "127.0.0.0", "::1"]
        {
            assert!(read.contains(part), "{read}");
        }
        let read = with("[etransfer]\nlisten = '[::]:4005'\ndata = '[::]:8009'\nallow = ['192.0.2.0/24']\n[[etransfer.root]]\ndirectory = '/'\nwrite = true").unwrap();
        for part in ["[::]:4005", "[::]:8009", "192.0.2.0", "directory: \"/\", is_writable: true"] {
            assert!(read.contains(part), "{read}");
        }
        assert!(!read.contains("127.0.0.0"), "{read}");
    }

    #[test]
    fn mistakes_are_named() {
        let root = "[[etransfer.root]]\ndirectory = '/'\n";
        for (section, why) in [
            ("[etransfer]", "nothing is served"),
            ("[etransfer]\nport = 1", "unknown key; hint: the keys of [etransfer] are"),
            ("[etransfer]\nrecordings = 'yes'", "line 8: recordings: expected true or false"),
            ("[etransfer]\nrecordings = true\nallow = ['x']", "`x` is no sender"),
            (&format!("{root}{root}"), "/ is given twice"),
            ("[[etransfer.root]]\ndirectory = 'nowhere/at/all'", "nowhere/at/all is not a directory"),
            ("[[etransfer.root]]\ndirectory = '/nowhere/at/all'", "/nowhere/at/all is not a directory"),
            ("[[etransfer.root]]\nwrite = true", "a root needs directory"),
            (&format!("{root}mode = 1"), "the keys of a root are directory, write"),
        ] {
            let error = with(section).unwrap_err();
            assert!(error.contains(why), "{section}: {error}");
        }
    }
}
