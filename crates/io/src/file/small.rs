//! Small files named by the user: settings, tokens, certificates, plans, reports.
//!
//! Such a name may be anything: a FIFO, on which `open` waits for a writer, or a device that never ends. So the number
//! of bytes is limited, and nothing waits for ever. Pipes are permitted, because shells make them:
//! `--token-file <(pass sky)`.

use super::failed;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// Maximum size in bytes of a file with settings, a plan or a certificate.
pub const SETTINGS: usize = 1 << 20;
/// Maximum size in bytes of a file with a token or a URI.
pub const TOKEN: usize = 4096;
/// How long the writer of a pipe may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the bytes of the file at `path`, at most `most`.
///
/// # Errors
/// The file cannot be read, is longer, is a pipe without a writer, or its writer takes longer than half a minute. The
/// error names the path.
pub fn read_small(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    let failing = |error: io::Error| failed("read", path, &error);
    let refused =
        |text: String| io::Error::new(ErrorKind::InvalidInput, format!("read {}: {text}", path.display()));
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failing)?;
    let kind = file.metadata().map_err(failing)?.file_type();
    if kind.is_dir() {
        return Err(failing(io::Error::from_raw_os_error(libc::EISDIR)));
    }
    let (mut bytes, until) = (Vec::new(), Instant::now() + PATIENCE);
    loop {
        let mut part = (&file).take((most + 1 - bytes.len()) as u64);
        match part.read_to_end(&mut bytes) {
            Ok(_) => break,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if !waited(&file, until).map_err(failing)? {
                    let seconds = PATIENCE.as_secs();
                    let text = format!("nothing was written to it in {seconds} s; hint: name a regular file");
                    return Err(refused(text));
                }
            }
            Err(error) => return Err(failing(error)),
        }
    }
    if bytes.len() > most {
        return Err(refused(format!("it has more than {most} bytes; hint: name another file")));
    }
    // An ordinary `open` would wait for a writer.
    if bytes.is_empty() && kind.is_fifo() {
        return Err(refused("it is a pipe without a writer; hint: name a regular file".to_owned()));
    }
    Ok(bytes)
}

/// The same, as text.
///
/// # Errors
/// As [`read_small`]; or it is not UTF-8.
pub fn read_small_text(path: &Path, most: usize) -> io::Result<String> {
    String::from_utf8(read_small(path, most)?).map_err(|_| {
        let text = format!("read {}: it is not text (UTF-8); hint: name another file", path.display());
        io::Error::new(ErrorKind::InvalidData, text)
    })
}

/// Waits until there is something to read or the writer is gone; `false` on timeout.
fn waited(file: &File, until: Instant) -> io::Result<bool> {
    let left = until.saturating_duration_since(Instant::now());
    let wait = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
    match poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&wait)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    fn said(path: &Path) -> String {
        read_small(path, 10).unwrap_err().to_string()
    }

    #[test]
    fn whatever_is_named_is_read_to_a_bound_or_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        for length in [0, 10] {
            std::fs::write(&path, vec![b'x'; length]).unwrap();
            assert_eq!(read_small_text(&path, 10).unwrap().len(), length);
        }
        std::fs::write(&path, [b'x'; 11]).unwrap();
        assert!(said(&path).contains("it has more than 10 bytes"), "{}", said(&path));
        std::fs::write(&path, [0xFF]).unwrap();
        assert!(read_small_text(&path, 10).unwrap_err().to_string().contains("not text"));
        assert_eq!(read_small(Path::new("/dev/null"), 10).unwrap(), b"");
        assert!(said(Path::new("/dev/zero")).contains("it has more than 10 bytes"));
        assert!(said(directory.path()).contains("directory"));
        assert!(said(&directory.path().join("none")).contains("hint: check the name"));
    }

    #[test]
    fn a_pipe_is_read_to_its_end_and_one_without_a_writer_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(said(&path).contains("a pipe without a writer"), "{}", said(&path));
        // As from a shell: the other end is open, and its data arrive later.
        let (reader, mut writer) = io::pipe().unwrap();
        let name = format!("/proc/self/fd/{}", reader.as_raw_fd());
        let late = std::thread::spawn(move || {
            for part in [b"abc", b"def"] {
                std::thread::sleep(Duration::from_millis(50));
                writer.write_all(part).unwrap();
            }
        });
        assert_eq!(read_small(Path::new(&name), 10).unwrap(), b"abcdef");
        late.join().unwrap();
    }
}
