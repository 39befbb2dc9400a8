//! Output files that exist already: replaced when there is something to write, not before.

use anyhow::Result;
use skyhaul::io::file::{failed, replace};
use std::borrow::Cow;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A file whose old contents stay until the first byte is written. Its errors name it.
struct Replaced {
    file: File,
    path: PathBuf,
    begun: bool,
}

impl Replaced {
    fn begin(&mut self) -> io::Result<()> {
        // A device or FIFO has no length.
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.begun = true;
        Ok(())
    }
}

impl Write for Replaced {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let begun = if self.begun || bytes.is_empty() { Ok(()) } else { self.begin() };
        begun.and_then(|()| self.file.write(bytes)).map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => error,
            _ => failed("write", &self.path, &error),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Where data are written: a file, or standard output for `-`. An existing file keeps its contents until the first data are
/// written. A file that cannot be written to is an error now, not then.
///
/// # Errors
/// The file cannot be created or opened for writing.
pub(crate) fn open_output(path: &Path) -> Result<Box<dyn Write + Send>> {
    if path == Path::new("-") {
        return Ok(Box::new(crate::print::output()));
    }
    let opened = OpenOptions::new().write(true).create(true).truncate(false).open(path);
    let file = opened.map_err(|error| failed("create", path, &error))?;
    Ok(Box::new(BufWriter::with_capacity(1 << 20, Replaced { file, path: path.to_owned(), begun: false })))
}

/// Where a list of this run is written: an old one is emptied at once, so that its lines are never taken for new ones.
///
/// # Errors
/// The file cannot be created.
pub(crate) fn open_list(path: &Path) -> Result<Box<dyn Write + Send>> {
    if path != Path::new("-") {
        File::create(path).map_err(|error| failed("create", path, &error))?;
    }
    open_output(path)
}

/// This command, as it must be typed again.
pub(crate) fn command_line() -> String {
    std::env::args()
        .skip(1)
        .fold("skyhaul".to_owned(), |line, word| line + " " + &typed(without_key(&word).as_ref()))
}

/// A word without the query of a URL of the web: it may hold a key, or sign a request.
fn without_key(word: &str) -> Cow<'_, str> {
    let is_web = ["https://", "http://", "davs://", "dav://"]
        .iter()
        .any(|scheme| word.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme)));
    match word.split_once('?').filter(|_| is_web) {
        Some((url, _)) => Cow::Owned(format!("{url}?…")),
        None => Cow::Borrowed(word),
    }
}

/// A word as it must be typed into a shell.
pub(crate) fn typed(word: &str) -> String {
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
    Ok(replace(&path, text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_of_urls_are_not_repeated() {
        for (word, is) in [
            ("https://s3.example/b/f?X-Amz-Signature=cafe", "https://s3.example/b/f?…"),
            ("DAVS://a/f?authz=token", "DAVS://a/f?…"),
            ("https://a/f", "https://a/f"),
            ("what?", "what?"),
            ("udp://1.2.3.4:5?a=b", "udp://1.2.3.4:5?a=b"),
        ] {
            assert_eq!(without_key(word), is);
        }
    }

    #[test]
    fn old_contents_stay_until_there_are_new_ones() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("scan.vdif");
        std::fs::write(&path, "the night before").unwrap();
        drop(open_output(&path).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), b"the night before");
        let mut output = open_output(&path).unwrap();
        output.flush().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"the night before", "nothing came yet");
        output.write_all(b"new").unwrap();
        output.flush().unwrap();
        output.write_all(b"er").unwrap();
        drop(output);
        assert_eq!(std::fs::read(&path).unwrap(), b"newer");
        drop(open_list(&path).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), b"");
    }

    #[test]
    fn devices_are_written_to_and_directories_are_not() {
        open_output(Path::new("/dev/null")).unwrap().write_all(&[1; 4 << 20]).unwrap();
        let directory = tempfile::tempdir().unwrap();
        assert!(open_output(directory.path()).is_err());
    }

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
