//! Certificates of clients (X.509): asked for in the TLS handshake, verified by rustls, and judged once for each connection.
//!
//! ```text
//!   handshake ─▶ certificate? ─ no ─▶ none; where one is required: alert
//!                     └ yes ─▶ a proxy? authority, times, use, revocation ─▶ holder │ refusal: with the request; where one is required: alert
//! ```
//!
//! Where certificates are optional, one that is refused does not end the handshake: programs of the grid send a proxy whenever they find one, also
//! beside a token, and the reason is of more use in a reply than as an alert. Such a certificate gives no right. The signature of the handshake is
//! verified of all but proxies, which rustls cannot read and which give no right.
//!
//! Authorities are a file or, as on the grid, a directory with hashed names (`/etc/grid-security/certificates`), whose revocation lists (`HASH.r0`)
//! are used, too. They are looked at every [`LOOK_INTERVAL`], and read again when they have changed.
//!
//! Limits: a list has at most 64 MiB. `signing_policy` and `namespaces`, which say which names an authority may sign, are not read: name the
//! `issuer` of a client where that matters.

mod name;

pub(crate) use name::SubjectName;

use crate::notes::Notes;
use crate::remote::authorities::Authorities;
use skyhaul::io::file::read_small;
use skyhaul::io::lock::lock;
use skyhaul::io::say;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_rustls::rustls::client::danger::HandshakeSignatureValid;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme,
};
use x509_parser::prelude::{FromDer, X509Certificate};

/// How often it is looked whether authorities have changed.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_secs(2);
/// Maximum size of a revocation list.
const MAX_LIST_BYTES: usize = 64 << 20;
/// Extensions that make a proxy of a certificate: that of RFC 3820 (3.8), and that of its drafts.
const PROXY_EXTENSIONS: [&str; 2] = ["1.3.6.1.5.5.7.1.14", "1.3.6.1.4.1.3536.1.222"];
/// Names that make a proxy of the certificate that signs it, from before there was an extension.
const PROXY_NAMES: [&str; 2] = ["proxy", "limited proxy"];

/// Who a client is, by its certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CertificateHolder {
    pub(crate) subject: SubjectName,
    /// Who signed the certificate.
    pub(crate) issuer: SubjectName,
    /// When the certificate expires.
    pub(crate) until: SystemTime,
}

/// Why a certificate is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CertificateRefusal {
    #[error(
        "it is a proxy certificate, which is not accepted here; use a token, or the certificate that it was made of"
    )]
    Proxy,
    #[error("it has expired")]
    Expired,
    #[error("it is not valid yet")]
    NotYetValid,
    #[error("its authority is not trusted here")]
    Authority,
    #[error("it was revoked")]
    Revoked,
    #[error("the revocation list of its authority has expired; the operator can fetch a new one")]
    OldList,
    #[error("its extended key usage does not allow it to authenticate a client")]
    Purpose,
    #[error("its signature is wrong")]
    Signature,
    #[error("it cannot be read, or has an extension that is not known here")]
    Form,
}

impl CertificateRefusal {
    /// What rustls says of a certificate; `None` if the error is not of one.
    fn of(error: &Error) -> Option<Self> {
        use CertificateError as E;
        let Error::InvalidCertificate(why) = error else { return None };
        Some(match why {
            E::ApplicationVerificationFailure => Self::Proxy,
            E::Expired | E::ExpiredContext { .. } => Self::Expired,
            E::NotValidYet | E::NotValidYetContext { .. } => Self::NotYetValid,
            E::UnknownIssuer => Self::Authority,
            E::Revoked => Self::Revoked,
            E::ExpiredRevocationList | E::ExpiredRevocationListContext { .. } => Self::OldList,
            E::InvalidPurpose | E::InvalidPurposeContext { .. } => Self::Purpose,
            E::BadSignature => Self::Signature,
            _ => Self::Form,
        })
    }
}

/// A certificate that was refused, and the name that it claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RefusedCertificate {
    pub(crate) why: CertificateRefusal,
    /// As the grid writes it; nobody has verified it.
    pub(crate) claimed: String,
}

/// What a connection showed.
pub(crate) type ShownCertificate = Result<CertificateHolder, RefusedCertificate>;

/// The authorities whose certificates are accepted from clients.
#[derive(Debug)]
pub(crate) struct ClientAuthorities {
    path: PathBuf,
    is_required: bool,
    known: Mutex<Known>,
    notes: Notes,
}

#[derive(Debug)]
struct Known {
    stamps: Vec<Stamp>,
    verifier: Arc<dyn ClientCertVerifier>,
}

/// Name, number, size and time of a file.
type Stamp = (PathBuf, (u64, u64, i64, i64));

impl ClientAuthorities {
    /// Reads the authorities in a file or a directory.
    ///
    /// # Errors
    /// The file or directory cannot be read, or has no authority.
    pub(crate) fn open(path: &Path, is_required: bool) -> io::Result<Arc<Self>> {
        let known = Mutex::new(Known { stamps: stamps(path), verifier: verifier(path)? });
        Ok(Arc::new(Self { path: path.to_owned(), is_required, known, notes: Notes::default() }))
    }

    /// What asks for certificates in handshakes.
    pub(crate) fn asking(self: &Arc<Self>) -> Arc<dyn ClientCertVerifier> {
        Arc::new(AskedCertificates(Arc::clone(self)))
    }

    fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::clone(&lock(&self.known).verifier)
    }

    fn verify(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Result<(), Error> {
        let Some((own, others)) = chain.split_first() else {
            return Err(CertificateError::BadEncoding.into());
        };
        if is_proxy(own) {
            return Err(CertificateError::ApplicationVerificationFailure.into());
        }
        self.verifier().verify_client_cert(own, others, now).map(drop)
    }

    /// Judges the certificate chain of a connection, the client's own first.
    pub(crate) fn judge(&self, chain: &[CertificateDer<'_>]) -> ShownCertificate {
        let holder = chain.first().and_then(|own| holder(own));
        let verified = self.verify(chain, UnixTime::now());
        match (verified, holder) {
            (Ok(()), Some(holder)) => Ok(holder),
            (verified, holder) => {
                let why = verified.err().and_then(|error| CertificateRefusal::of(&error));
                let claimed = holder.map(|holder| holder.subject.slashes()).unwrap_or_default();
                Err(RefusedCertificate { why: why.unwrap_or(CertificateRefusal::Form), claimed })
            }
        }
    }

    /// Notes that a handshake failed because of the client's certificate.
    pub(crate) fn note_failure(&self, from: IpAddr, error: &io::Error) {
        let error = error.get_ref().and_then(|error| error.downcast_ref::<Error>());
        let Some(error) = error else { return };
        let why = match (error, CertificateRefusal::of(error)) {
            (_, Some(why)) => format!("its certificate: {why}"),
            (Error::NoCertificatesPresented, _) => "it shows no certificate".to_owned(),
            _ => return,
        };
        self.notes.note(|| format!("refused a connection from {from}: {why}"));
    }

    /// Reads authorities and lists again when they have changed. It does not end.
    pub(crate) async fn keep_fresh(self: Arc<Self>) {
        loop {
            sleep(LOOK_INTERVAL).await;
            let of = Arc::clone(&self);
            let _ = spawn_blocking(move || of.look()).await;
        }
    }

    fn look(&self) {
        // Before they are read: what changes meanwhile is seen the next time.
        let stamps = stamps(&self.path);
        if lock(&self.known).stamps == stamps {
            return;
        }
        let read = verifier(&self.path);
        let mut known = lock(&self.known);
        known.stamps = stamps;
        match read {
            Ok(verifier) => known.verifier = verifier,
            Err(error) => {
                drop(known);
                say!("the authorities of clients that were read before stay in use: {error}");
            }
        }
    }
}

/// Asks for certificates, and ends handshakes only where one is required.
#[derive(Debug)]
struct AskedCertificates(Arc<ClientAuthorities>);

impl ClientCertVerifier for AskedCertificates {
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.is_required
    }

    /// None: clients send the certificate that they have, and learn why it is refused.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if self.0.is_required {
            let chain: Vec<_> = std::iter::once(own).chain(others).cloned().collect();
            self.0.verify(&chain, now)?;
        }
        // Otherwise it is judged when the handshake is over.
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match is_proxy(own) {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => self.0.verifier().verify_tls12_signature(message, own, signature),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match is_proxy(own) {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => self.0.verifier().verify_tls13_signature(message, own, signature),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.verifier().supported_verify_schemes()
    }
}

/// Whom a certificate names, and until when.
fn holder(certificate: &CertificateDer<'_>) -> Option<CertificateHolder> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let seconds = u64::try_from(parsed.validity().not_after.timestamp()).unwrap_or(0);
    Some(CertificateHolder {
        subject: SubjectName::of(parsed.subject()),
        issuer: SubjectName::of(parsed.issuer()),
        until: UNIX_EPOCH + Duration::from_secs(seconds),
    })
}

/// Whether a certificate is a proxy: by its extension, or by its name.
fn is_proxy(certificate: &CertificateDer<'_>) -> bool {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else { return false };
    let has_extension = parsed
        .iter_extensions()
        .any(|extension| PROXY_EXTENSIONS.contains(&extension.oid.to_id_string().as_str()));
    let (subject, issuer) = (SubjectName::of(parsed.subject()), SubjectName::of(parsed.issuer()));
    has_extension || subject.extends(&issuer, &PROXY_NAMES)
}

/// Any bytes as a certificate that nobody has verified yet, and as a subject that an operator writes. What is shown of a name is plain and, by
/// RFC 4514, reads back as the same name.
#[doc(hidden)]
pub fn fuzz_certificates(input: &[u8]) {
    let certificate = CertificateDer::from(input);
    let _ = is_proxy(&certificate);
    let written = std::str::from_utf8(input).ok().and_then(|text| SubjectName::parse(text).ok());
    let shown = holder(&certificate).map(|of| [of.subject, of.issuer]).into_iter().flatten();
    for name in shown.chain(written) {
        let (text, slashes) = (name.to_string(), name.slashes());
        assert!(!text.chars().chain(slashes.chars()).any(char::is_control), "{text:?}");
        if name.is_written() {
            assert_eq!(SubjectName::parse(&text).as_ref(), Ok(&name), "{text:?}");
        }
    }
}

/// What tells the files from others of their names.
fn stamps(path: &Path) -> Vec<Stamp> {
    let stamp = |path: PathBuf| {
        let status = std::fs::metadata(&path).ok()?;
        Some((path, (status.ino(), status.len(), status.mtime(), status.mtime_nsec())))
    };
    let mut all: Vec<PathBuf> = vec![path.to_owned()];
    all.extend(entries(path));
    let mut all: Vec<Stamp> = all.into_iter().filter_map(stamp).collect();
    all.sort();
    all
}

fn entries(path: &Path) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// The verifier by these authorities, and the revocation lists beside them.
fn verifier(path: &Path) -> io::Result<Arc<dyn ClientCertVerifier>> {
    let roots = Authorities::InPlaceOfSystem(Some(path)).roots()?;
    let provider = Arc::new(ring::default_provider());
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .with_crls(lists(path))
        // An authority without a list revokes nothing.
        .allow_unknown_revocation_status()
        // An old list says nothing of what was revoked since.
        .enforce_revocation_expiration()
        .build()
        .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))
}

/// The revocation lists of a directory; those that cannot be used are named.
fn lists(path: &Path) -> Vec<CertificateRevocationListDer<'static>> {
    let is_list = |path: &PathBuf| {
        let kind = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
        kind.strip_prefix('r')
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let mut all: Vec<CertificateRevocationListDer<'static>> = Vec::new();
    for path in entries(path).filter(is_list) {
        let read = read_small(&path, MAX_LIST_BYTES).map_err(|error| error.to_string()).and_then(|bytes| {
            let pem: Option<CertificateRevocationListDer<'static>> =
                CertificateRevocationListDer::from_pem_slice(&bytes).ok();
            let list = pem.unwrap_or_else(|| CertificateRevocationListDer::from(bytes));
            // Signature and time are verified when it is used.
            let parsed = webpki::OwnedCertRevocationList::from_der(&list).map(drop);
            parsed.map(|()| list).map_err(|error| format!("{}: {error}", path.display()))
        });
        match read {
            Ok(list) if !all.contains(&list) => all.push(list),
            Ok(_) => {}
            Err(why) => say!("a revocation list of an authority of clients is not used: {why}"),
        }
    }
    all
}

#[cfg(test)]
mod tests;
