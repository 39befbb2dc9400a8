//! `[http.log]`: the file in which requests are logged.

use super::key::Key;
use anyhow::{Result, ensure};
use skyhaul::core::hint::Hint;
use skyhaul::io::quantity::{Size, Span};
use skyhaul::line_log::Retention;
use skyhaul_daemon::webdav::AccessLogOptions;
use std::path::PathBuf;

/// Size of a file, unless the configuration says otherwise; and its bounds: a smaller one would be rotated all the time.
const DEFAULT_BYTES: u64 = 64 << 20;
const MIN_BYTES: u64 = 64 << 10;
/// Rotated files that are kept.
const DEFAULT_FILES: usize = 10;
const MAX_FILES: usize = 10_000;

impl Key<'_> {
    pub(super) fn http_log(&self) -> Result<AccessLogOptions> {
        let (mut file, mut keep) =
            (None, Retention { bytes: DEFAULT_BYTES, files: DEFAULT_FILES, age: None });
        for entry in self.entries()? {
            match entry.key {
                "file" => file = Some(PathBuf::from(entry.string()?)),
                "rotate" => {
                    keep.bytes = entry.parse::<Size>()?.bytes();
                    ensure!(keep.bytes >= MIN_BYTES, entry.wrong("expected 64KiB or more"));
                }
                "keep" => keep.files = entry.count(MAX_FILES)?,
                "keep_for" => keep.age = Some(entry.parse::<Span>()?.duration()),
                _ => {
                    let hint = Hint("the keys of [http.log] are file, keep, keep_for, rotate");
                    return Err(entry.wrong(format_args!("unknown key{hint}")));
                }
            }
        }
        let hint = Hint("such as file = '/var/log/skyhaul/access.jsonl'");
        let file = file.filter(|file| !file.as_os_str().is_empty());
        let file = file.ok_or_else(|| self.wrong(format_args!("a log needs file{hint}")))?;
        Ok(AccessLogOptions { file, keep })
    }
}

#[cfg(test)]
mod tests {
    use crate::verb::serve::config::parse;

    fn with(log: &str) -> Result<String, String> {
        let station = "[station]\n[[station.disk]]\npath = '/'\n[[station.input]]\nname = 'a'\nlisten = ['udp://127.0.0.1:1']\n";
        let parsed = parse(&format!("{station}[http]\nrecordings = true\n{log}"));
        parsed
            .map(|config| format!("{:?}", config.http.and_then(|http| http.options.log)))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_log_is_read_and_mistakes_are_named() {
        assert_eq!(with("").unwrap(), "None");
        let read = with("[http.log]\nfile = '/var/log/a'").unwrap();
        assert!(
            read.contains("\"/var/log/a\"") && read.contains("bytes: 67108864, files: 10, age: None"),
            "{read}"
        );
        let read = with("[http.log]\nfile = 'a'\nrotate = '1MiB'\nkeep = 3\nkeep_for = '720h'").unwrap();
        assert!(read.contains("bytes: 1048576, files: 3, age: Some(2592000s)"), "{read}");
        for (log, why) in [
            ("[http.log]", "a log needs file; hint: such as"),
            ("[http.log]\nfile = ''", "a log needs file"),
            ("[http.log]\nfile = 'a'\nrotate = '1KiB'", "rotate: expected 64KiB or more"),
            ("[http.log]\nfile = 'a'\nkeep = -1", "keep"),
            ("[http.log]\nfile = 'a'\nkeep_for = 'long'", "keep_for"),
            ("[http.log]\npath = 'a'", "the keys of [http.log] are file, keep, keep_for, rotate"),
        ] {
            let error = with(log).unwrap_err();
            assert!(error.contains(why), "{log}: {error}");
        }
    }
}
