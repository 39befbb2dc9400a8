//! Keys of issuers as they are kept on disk, so that a restart does not need the issuer.
//!
//! ```text
//!   STATE/issuer-3f….json     {"issuer": URL, "fetched": seconds since 1970, "jwks": {"keys": […]}}
//! ```

use crate::tokens::{MAX_KEYS_BYTES, WebKeys};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use skyhaul::auth::hex;
use skyhaul::io::file::{failed, read_small};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[derive(Serialize, Deserialize)]
struct KeptFile {
    issuer: String,
    fetched: u64,
    jwks: serde_json::Value,
}

/// The file with the keys of an issuer.
pub(super) fn path(state: &Path, issuer: &str) -> PathBuf {
    let hash = hex(digest(&SHA256, issuer.as_bytes()).as_ref());
    state.join(format!("issuer-{}.json", &hash[..32]))
}

/// The usable keys in a file and the time at which the issuer gave them; `None` if no key is usable.
pub(super) fn read(path: &Path, issuer: &str) -> Option<(WebKeys, SystemTime)> {
    let kept: KeptFile = serde_json::from_slice(&read_small(path, 2 * MAX_KEYS_BYTES).ok()?).ok()?;
    if kept.issuer != issuer {
        return None;
    }
    let keys = WebKeys::parse(kept.jwks.to_string().as_bytes()).ok()?;
    // A clock that was set back must not make them last longer.
    let fetched = UNIX_EPOCH.checked_add(Duration::from_secs(kept.fetched))?.min(SystemTime::now());
    Some((keys, fetched))
}

/// Keeps the keys that an issuer has given. The file is whole, or it is the one before.
pub(super) fn write(path: &Path, issuer: &str, jwks: &[u8], fetched: SystemTime) -> io::Result<()> {
    let fetched = fetched.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let kept = KeptFile { issuer: issuer.to_owned(), fetched, jwks: serde_json::from_slice(jwks)? };
    let text = serde_json::to_vec(&kept)?;
    let new = path.with_extension("new");
    let written = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&text)?;
        file.sync_all()?;
        std::fs::rename(&new, path)?;
        File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
    };
    written().map_err(|error| failed("keep the keys of an issuer in", path, &error))
}
