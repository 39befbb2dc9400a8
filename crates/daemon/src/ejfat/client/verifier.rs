//! Certificate verifiers other than that of the system's authorities.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{self, WebPkiSupportedAlgorithms};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme};
use std::fmt;
use std::sync::Arc;
use tokio_rustls::rustls;

/// Accepts any certificate. The server must hold its private key, but its identity is not checked.
#[derive(Debug)]
pub(super) struct Anyone(WebPkiSupportedAlgorithms);

impl Default for Anyone {
    fn default() -> Self {
        Self(crypto::ring::default_provider().signature_verification_algorithms)
    }
}

/// Accepts the certificates in a file, and those signed by them, while they are valid. The usual way to make one
/// (`openssl req -x509`) creates a certificate authority without a host name, which cannot be the end of a chain of
/// certificates.
#[derive(Debug)]
pub(crate) struct Pinned {
    own: Vec<CertificateDer<'static>>,
    /// Judges certificates that the file does not have, and the times of those that it has.
    signed: Option<Arc<WebPkiServerVerifier>>,
    any: Anyone,
}

/// The certificate in the file that signed the server's is out of its time, which is not part of a chain's verification.
#[derive(Debug)]
struct SignerOutOfTime(CertificateError);

impl fmt::Display for SignerOutOfTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            CertificateError::ExpiredContext { not_after, .. } => {
                write!(f, "the certificate that signed its certificate expired at {}", moment(*not_after))
            }
            CertificateError::NotValidYetContext { not_before, .. } => {
                let from = moment(*not_before);
                write!(f, "the certificate that signed its certificate is not valid before {from}")
            }
            other => write!(f, "the certificate that signed its certificate: {other}"),
        }
    }
}

impl std::error::Error for SignerOutOfTime {}

/// What is wrong with a server's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateProblem {
    /// It, or the one that signed it, has expired.
    Expired,
    /// It, or the one that signed it, is not valid yet.
    NotYetValid,
    /// It is another host's, or no trusted authority signed it.
    NotTrusted,
}

impl CertificateProblem {
    fn of(why: &CertificateError) -> Self {
        use CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
        match why {
            Expired | ExpiredContext { .. } => Self::Expired,
            NotValidYet | NotValidYetContext { .. } => Self::NotYetValid,
            CertificateError::Other(OtherError(other)) => {
                other.downcast_ref().map_or(Self::NotTrusted, |SignerOutOfTime(why)| Self::of(why))
            }
            _ => Self::NotTrusted,
        }
    }
}

/// What is wrong with a server's certificate, also in words, if that is what ended the handshake.
pub(crate) fn wrong_with(error: &Error) -> Option<(CertificateProblem, String)> {
    let why = match error {
        Error::InvalidCertificate(why) => why,
        Error::NoCertificatesPresented => return Some((CertificateProblem::NotTrusted, error.to_string())),
        _ => return None,
    };
    let text = match why {
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("its certificate expired at {}", moment(*not_after))
        }
        CertificateError::NotValidYetContext { time, not_before } => format!(
            "its certificate is not valid before {}; the time here is {}",
            moment(*not_before),
            moment(*time)
        ),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is not for this host name".to_owned()
        }
        CertificateError::UnknownIssuer => UNTRUSTED.to_owned(),
        CertificateError::Other(OtherError(other)) if other.is::<SignerOutOfTime>() => other.to_string(),
        // A self-signed one that names itself an authority, as `openssl req -x509` makes them.
        CertificateError::Other(OtherError(other))
            if matches!(other.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity)) =>
        {
            UNTRUSTED.to_owned()
        }
        other => format!("its certificate is not accepted: {other}"),
    };
    Some((CertificateProblem::of(why), text))
}

/// The error of TLS behind one cause of a failed connection, if there is one. It is inside of an error of the transport, whose source is
/// that of what it contains.
pub(crate) fn tls_error<'a>(cause: &'a (dyn std::error::Error + 'static)) -> Option<&'a Error> {
    let inside = cause.downcast_ref::<std::io::Error>().and_then(|io| io.get_ref()?.downcast_ref());
    inside.or(cause.downcast_ref())
}

const UNTRUSTED: &str = "its certificate is not signed by a trusted authority";

fn moment(time: UnixTime) -> String {
    skyhaul::time::format(i64::try_from(time.as_secs()).unwrap_or(i64::MAX))
}

impl Pinned {
    /// From a file in PEM format; `None` if it contains no certificates.
    pub(crate) fn new(pem: &[u8]) -> Option<Self> {
        let own: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().ok()?;
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(own.iter().cloned());
        let provider = Arc::new(crypto::ring::default_provider());
        let signed = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().ok();
        (!own.is_empty()).then(|| Self { own, signed, any: Anyone::default() })
    }

    /// Why a certificate of the file is not valid now, if it is not. Chains are verified only up to their anchors, whose times
    /// are not asked, so each is judged as if it were a server's: its time comes first.
    fn out_of_time(
        &self,
        own: &CertificateDer<'_>,
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Option<CertificateError> {
        match self.signed.as_ref()?.verify_server_cert(own, &[], name, &[], now) {
            Err(Error::InvalidCertificate(why))
                if CertificateProblem::of(&why) != CertificateProblem::NotTrusted =>
            {
                Some(why)
            }
            _ => None,
        }
    }

    /// Those of the file that are valid now as authorities; why one is not, if one is not.
    fn authorities(&self, name: &ServerName<'_>, now: UnixTime) -> (RootCertStore, Option<CertificateError>) {
        let (mut roots, mut expired) = (RootCertStore::empty(), None);
        for own in &self.own {
            match self.out_of_time(own, name, now) {
                None => drop(roots.add_parsable_certificates([own.clone()])),
                Some(why) => expired = Some(why),
            }
        }
        (roots, expired)
    }
}

/// Whether a certificate is valid for this host; one without names is valid for any.
fn named(certificate: &CertificateDer<'_>, name: &ServerName<'_>) -> Result<(), Error> {
    match verify_server_name(&ParsedCertificate::try_from(certificate)?, name) {
        Err(Error::InvalidCertificate(CertificateError::NotValidForNameContext { presented, .. }))
            if presented.is_empty() =>
        {
            Ok(())
        }
        checked => checked,
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.own.iter().any(|own| own == end) {
            return match self.out_of_time(end, name, now) {
                Some(why) => Err(why.into()),
                None => named(end, name).map(|()| ServerCertVerified::assertion()),
            };
        }
        let signed = self.signed.as_ref().ok_or(CertificateError::UnknownIssuer)?;
        let verified = signed.verify_server_cert(end, between, name, ocsp, now)?;
        let (roots, expired) = self.authorities(name, now);
        let Some(why) = expired else { return Ok(verified) };
        // It must do without the one that has expired.
        let refused = || Error::from(CertificateError::Other(OtherError(Arc::new(SignerOutOfTime(why)))));
        let provider = Arc::new(crypto::ring::default_provider());
        let signed = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let verified = signed.ok().and_then(|s| s.verify_server_cert(end, between, name, ocsp, now).ok());
        verified.ok_or_else(refused)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.any.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.any.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.any.supported_verify_schemes()
    }
}

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        crypto::verify_tls12_signature(message, certificate, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        crypto::verify_tls13_signature(message, certificate, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
