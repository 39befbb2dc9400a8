//! The section `[station.mount]`: scans as files.

use super::key::Key;
use crate::verb::serve::mounting::MountConfig;
use anyhow::{Result, ensure};
use skyhaul::core::hint::Hint;
use skyhaul::io::quantity::{Size, Span};
use skyhaul_mount::{MountOptions, ScanPattern};
use std::path::PathBuf;

/// Maximum number of patterns.
const MAX_PATTERNS: usize = 256;

impl Key<'_> {
    /// The section, except for the disks.
    pub(super) fn mount(&self) -> Result<MountConfig> {
        let mut point = None;
        let mut options = MountOptions::default();
        for entry in self.entries()? {
            match entry.key {
                "point" => point = Some(PathBuf::from(entry.string()?)),
                "scans" => {
                    let pattern = |entry: Key<'_>| {
                        ScanPattern::new(entry.string()?).map_err(|error| entry.wrong(error))
                    };
                    let list = entry.list(MAX_PATTERNS)?.iter();
                    options.patterns = list.map(|one| pattern(entry.at(one))).collect::<Result<_>>()?;
                }
                "view" => {
                    options.threads = match entry.string()? {
                        "whole" => false,
                        "threads" => true,
                        _ => return Err(entry.wrong("expected whole or threads")),
                    };
                }
                "fill" => options.fill = entry.flag()?,
                "allow_other" => options.allow_other = entry.flag()?,
                "timeout" => options.timeout = entry.parse::<Span>()?.duration(),
                "memory" => options.memory_bytes = entry.parse::<Size>()?.bytes(),
                _ => {
                    let hint =
                        Hint("the keys of mount are allow_other, fill, memory, point, scans, timeout, view");
                    return Err(entry.wrong(format_args!("unknown key{hint}")));
                }
            }
        }
        ensure!(!options.timeout.is_zero(), self.wrong("timeout must be longer than 0"));
        let hint = Hint("name an empty directory, such as point = \"/mnt/scans\"");
        let point = point.ok_or_else(|| self.wrong(format_args!("a mount needs point{hint}")))?;
        Ok(MountConfig { point, options })
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use std::path::Path;
    use std::time::Duration;

    const TEXT: &str = "[station]\n[[station.disk]]\npath = \"/data/d0\"\n[[station.input]]\nname = \"a\"\nlisten = [\"udp://127.0.0.1:1\"]\n[station.mount]\n";

    #[test]
    fn scans_are_mounted_where_the_section_says() {
        let of = |keys: &str| parse(&format!("{TEXT}{keys}"));
        let mount = of("point = '/tmp'").unwrap().mount.unwrap();
        assert_eq!(
            (mount.point.as_path(), mount.options.disks.as_slice()),
            (Path::new("/tmp"), &["/data/d0".into()][..])
        );
        assert!(mount.options.verify && !mount.options.fill && mount.options.patterns.is_empty());
        let keys = "point = '/tmp'\nscans = ['n26*']\nview = 'threads'\nfill = true\nallow_other = true\ntimeout = '3s'\nmemory = '64MiB'";
        let options = of(keys).unwrap().mount.unwrap().options;
        assert_eq!(
            (options.patterns.len(), options.timeout, options.memory_bytes),
            (1, Duration::from_secs(3), 64 << 20)
        );
        assert!(options.threads && options.fill && options.allow_other);
        for (keys, expected) in [
            ("", "line 7: mount: a mount needs point"),
            ("pint = '/tmp'", "line 8: pint: unknown key"),
            ("point = '/tmp'\nview = 'half'", "line 9: view: expected whole or threads"),
            ("point = '/tmp'\nfill = 1", "line 9: fill: expected true or false"),
        ] {
            let error = of(keys).err().map(|error| format!("{error:#}")).unwrap();
            assert!(error.contains(expected), "{error}");
        }
    }
}
