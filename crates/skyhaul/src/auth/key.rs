//! The key by which clients know a server again, and its fingerprint, as with ssh.
//!
//! It is an Ed25519 key, shown in TLS as a raw public key (RFC 7250): there is no name and no date in it, so nobody has to install or
//! renew a certificate.

use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;
use rustls::crypto::ring::sign::any_eddsa_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use skyhaul_core::hint::Hint;
use skyhaul_io::file::{TOKEN, failed, read_small};
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, process};

/// What a fingerprint begins with.
const FINGERPRINT_HEAD: &str = "SHA256:";
/// Characters of a SHA-256 in base64 without padding.
const FINGERPRINT_DIGITS: usize = 43;
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Characters of a line in PEM.
const PEM_LINE_CHARS: usize = 64;

/// The SHA-256 of a server's public key (its `SubjectPublicKeyInfo` in DER), as `SHA256:` and base64 without padding.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(String);

impl Fingerprint {
    pub(crate) fn of(public_key: &[u8]) -> Self {
        Self(format!("{FINGERPRINT_HEAD}{}", base64(digest(&SHA256, public_key).as_ref())))
    }

    /// From its text; `None` if it is no fingerprint.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(FINGERPRINT_HEAD)?;
        let is_base64 = digits.len() == FINGERPRINT_DIGITS && digits.bytes().all(|b| BASE64.contains(&b));
        is_base64.then(|| Self(text.to_owned()))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn base64(bytes: &[u8]) -> String {
    let digits = bytes.chunks(3).flat_map(|three| {
        let word =
            three.iter().enumerate().fold(0u32, |word, (at, byte)| word | u32::from(*byte) << (16 - 8 * at));
        (0..=three.len()).map(move |at| char::from(BASE64[(word >> (18 - 6 * at) & 63) as usize]))
    });
    digits.collect()
}

/// The private key of a server. It is never shown.
#[derive(Clone)]
pub struct ServerKey {
    certified: Arc<CertifiedKey>,
    fingerprint: Fingerprint,
    /// In PKCS#8.
    private: Arc<[u8]>,
}

impl fmt::Debug for ServerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerKey").field("fingerprint", &self.fingerprint).finish_non_exhaustive()
    }
}

impl ServerKey {
    /// Makes a key.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn new() -> io::Result<Self> {
        let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).ok();
        let key = made.and_then(|private| Self::of(private.as_ref()));
        key.ok_or_else(|| io::Error::other("make a key: the system gives no random numbers"))
    }

    fn of(private: &[u8]) -> Option<Self> {
        let signing = any_eddsa_type(&PrivatePkcs8KeyDer::from(private)).ok()?;
        let public = signing.public_key()?;
        let fingerprint = Fingerprint::of(&public);
        let shown = CertificateDer::from(public.to_vec());
        let certified = Arc::new(CertifiedKey::new(vec![shown], signing));
        Some(Self { certified, fingerprint, private: private.into() })
    }

    /// Where a server that reads its token from `token_file` keeps its key: beside it, with `.key` behind its name.
    #[must_use]
    pub fn path_beside(token_file: &Path) -> PathBuf {
        let mut name = OsString::from(token_file);
        name.push(".key");
        name.into()
    }

    /// Reads the key in a file; `None` if there is no such file.
    ///
    /// # Errors
    /// The file cannot be read, or holds no Ed25519 key.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        let pem = match read_small(path, TOKEN) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let private = PrivatePkcs8KeyDer::from_pem_slice(&pem).ok();
        let hint = Hint(
            "remove the file, and a new key is made; clients that expect the old one then refuse this server",
        );
        let text = || format!("{} has no Ed25519 key in PEM (PKCS#8){hint}", path.display());
        let key = private.and_then(|private| Self::of(private.secret_pkcs8_der()));
        key.map(Some).ok_or_else(|| io::Error::new(ErrorKind::InvalidData, text()))
    }

    /// Writes the key to a new file that only its owner can read. Returns the key that is in the file: that of another program if it
    /// made one at the same moment.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn keep(self, path: &Path) -> io::Result<Self> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.new", process::id()));
        let temporary = path.with_file_name(name);
        let made = self.write(&temporary).and_then(|()| match std::fs::hard_link(&temporary, path) {
            // Another program was first.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            other => other,
        });
        let _ = std::fs::remove_file(&temporary);
        made.map_err(|error| failed("write", path, &error))?;
        Ok(Self::read(path)?.unwrap_or(self))
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let mut text = base64(&self.private);
        text.extend(std::iter::repeat_n('=', text.len().next_multiple_of(4) - text.len()));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        writeln!(file, "-----BEGIN PRIVATE KEY-----")?;
        for line in text.as_bytes().chunks(PEM_LINE_CHARS) {
            file.write_all(line)?;
            writeln!(file)?;
        }
        writeln!(file, "-----END PRIVATE KEY-----")?;
        file.sync_all()
    }

    /// Returns the fingerprint of its public half.
    #[must_use]
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    pub(crate) fn certified(&self) -> Arc<CertifiedKey> {
        self.certified.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn base64_is_that_of_the_standard() {
        let of = [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        of.iter().for_each(|(text, digits)| assert_eq!(base64(text.as_bytes()), *digits));
        assert_eq!(base64(&[0xfb, 0xef, 0xff]), "++//");
    }

    #[test]
    fn a_fingerprint_is_read_back_and_nothing_else_is() {
        let key = ServerKey::new().unwrap();
        let text = key.fingerprint().to_string();
        assert_eq!(Fingerprint::parse(&text).as_ref(), Some(key.fingerprint()));
        for wrong in
            ["", "SHA256:", &text[7..], &text[..49], &format!("{text}="), &text.replace("SHA256", "MD5")]
        {
            assert_eq!(Fingerprint::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_key_is_kept_for_its_owner_alone_and_found_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = ServerKey::path_beside(&directory.path().join("token"));
        assert!(path.ends_with("token.key") && ServerKey::read(&path).unwrap().is_none());
        let key = ServerKey::new().unwrap().keep(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(ServerKey::read(&path).unwrap().unwrap().fingerprint(), key.fingerprint());
        // The second of two programs takes the key of the first.
        let late = ServerKey::new().unwrap().keep(&path).unwrap();
        assert_eq!(late.fingerprint(), key.fingerprint());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left");
        std::fs::write(&path, "no key").unwrap();
        let said = ServerKey::read(&path).unwrap_err().to_string();
        assert!(said.contains("has no Ed25519 key in PEM (PKCS#8); hint: "), "{said}");
        assert!(ServerKey::new().unwrap().keep(&directory.path().join("none/key")).is_err());
        assert!(format!("{key:?}").starts_with("ServerKey { fingerprint: "), "{key:?}");
    }
}
