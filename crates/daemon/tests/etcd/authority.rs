//! Certificates of an etcd and of its clients.

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

/// An authority for certificates.
pub(crate) struct Authority {
    params: CertificateParams,
    key: KeyPair,
    pub(crate) pem: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("a certificate");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a certificate");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { params, key, pem }
    }

    /// A certificate of this host, for both roles, and its key.
    pub(crate) fn sign(&self) -> (String, String) {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a certificate");
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("a certificate");
        let signed =
            params.signed_by(&key, &Issuer::from_params(&self.params, &self.key)).expect("a certificate");
        (signed.pem(), key.serialize_pem())
    }
}
