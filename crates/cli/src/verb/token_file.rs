//! Files that only their owner reads: the operator's token, a URI with a token in it.

use anyhow::{Context, Result, bail};
use skyhaul::auth::{MAX_TOKEN_CHARS, MIN_TOKEN_CHARS, is_token, new_token};
use skyhaul::io::file::{TOKEN, failed, read_small_text};
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The token in `path`; a new one if there is no such file. It is never shown.
pub(super) fn read_or_make(path: &Path) -> Result<String> {
    if std::fs::metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        let token = new_token().context("make a token")?;
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        made.and_then(|mut file| writeln!(file, "{token}"))
            .map_err(|error| failed("make the token file", path, &error))?;
        say!("a new operator's token is in {}", path.display());
        return Ok(token);
    }
    read(path)
}

/// The token in `path`. It is never shown.
pub(super) fn read(path: &Path) -> Result<String> {
    let text = read_small_text(path, TOKEN).context("token file")?;
    let token = text.trim();
    if !is_token(token) {
        bail!(
            "{} has no token: {MIN_TOKEN_CHARS} to {MAX_TOKEN_CHARS} letters, digits and `-_.~` on one line\nhint: remove the file, and a \
             token is made",
            path.display()
        );
    }
    warn_of_readers(path);
    Ok(token.to_owned())
}

/// The line in `path`, which has a secret in it.
pub(super) fn read_line(path: &Path) -> Result<String> {
    let text = read_small_text(path, TOKEN)?;
    warn_of_readers(path);
    Ok(text.trim().to_owned())
}

fn warn_of_readers(path: &Path) {
    let mode = std::fs::metadata(path).map(|meta| meta.permissions().mode()).unwrap_or(0o600);
    if mode & 0o077 != 0 {
        say!("note: others may read {0}\nhint: chmod 600 {0}", path.display());
    }
}

/// Write a line that only its owner reads.
pub(super) fn private(path: &Path, line: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    writeln!(file, "{line}")
}
