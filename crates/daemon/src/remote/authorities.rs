//! The authorities by which certificates of servers are verified.

use skyhaul::core::hint::Hint;
use std::io;
use std::path::Path;
use tokio_rustls::rustls::RootCertStore;

/// Whose certificates are trusted. Paths are PEM files, or directories with hashed names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Authorities<'a> {
    /// Those at this path, or else those of the system.
    InPlaceOfSystem(Option<&'a Path>),
    /// Those of the system, and those at this path.
    BesidesSystem(Option<&'a Path>),
}

impl Authorities<'_> {
    /// Reads them. What cannot be parsed is left out.
    ///
    /// # Errors
    /// The path holds no authority.
    pub(crate) fn roots(self) -> io::Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        let path = match self {
            Self::InPlaceOfSystem(path) | Self::BesidesSystem(path) => path,
        };
        if path.is_none() || matches!(self, Self::BesidesSystem(_)) {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        let Some(path) = path else { return Ok(roots) };
        let found = match path.is_dir() {
            true => rustls_native_certs::load_certs_from_paths(None, Some(path)),
            false => rustls_native_certs::load_certs_from_paths(Some(path), None),
        };
        let (added, _) = roots.add_parsable_certificates(found.certs);
        if added == 0 {
            let hint = Hint("give a PEM file, or a directory with hashed names");
            let text = format!("no certificates of authorities in {}{hint}", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Ok(roots)
    }
}
