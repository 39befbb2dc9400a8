//! Reports in a directory, and the command that made them.

use anyhow::Result;
use skyhaul::io::file::failed;
use std::fs;
use std::path::Path;

/// This command, as it must be typed again.
pub(crate) fn command_line() -> String {
    std::env::args().skip(1).fold("skyhaul".to_owned(), |line, word| line + " " + &typed(&word))
}

/// A word as it must be typed into a shell.
fn typed(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=%@+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Make the directory of a report.
pub(crate) fn create(directory: &Path) -> Result<()> {
    Ok(fs::create_dir_all(directory).map_err(|error| failed("create", directory, &error))?)
}

/// Write a file of it.
pub(crate) fn write(directory: &Path, name: &str, text: &str) -> Result<()> {
    let path = directory.join(name);
    Ok(fs::write(&path, text).map_err(|error| failed("write", &path, &error))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_can_be_typed_again() {
        for (word, right) in [
            ("--rates=1Gbps,2Gbps", "--rates=1Gbps,2Gbps"),
            ("other {address}:{port}", "'other {address}:{port}'"),
            ("it's", "'it'\\''s'"),
            ("", "''"),
        ] {
            assert_eq!(typed(word), right);
        }
    }
}
