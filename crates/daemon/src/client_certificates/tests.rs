use super::*;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CustomExtension, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevocationReason,
    RevokedCertParams, SerialNumber, date_time_ymd,
};
use tempfile::TempDir;

/// An authority, or who signs proxies.
struct Signer {
    params: CertificateParams,
    key: KeyPair,
    own: CertificateDer<'static>,
}

fn params(names: &[(DnType, &str)]) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    names.iter().for_each(|(kind, value)| params.distinguished_name.push(kind.clone(), *value));
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2100, 1, 1);
    params
}

impl Signer {
    fn authority(name: &str) -> Self {
        let mut params = params(&[(DnType::OrganizationName, "Grid"), (DnType::CommonName, name)]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let own = params.self_signed(&key).unwrap().der().clone();
        Self { params, key, own }
    }

    fn issuer(&self) -> Issuer<'_, &KeyPair> {
        Issuer::from_params(&self.params, &self.key)
    }

    fn sign(&self, params: &CertificateParams) -> Vec<CertificateDer<'static>> {
        let key = KeyPair::generate().unwrap();
        vec![params.signed_by(&key, &self.issuer()).unwrap().der().clone(), self.own.clone()]
    }

    /// One with a user's certificate, whose key signs proxies.
    fn user(&self, change: impl FnOnce(&mut CertificateParams)) -> Self {
        let mut params = ann();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let own = params.signed_by(&key, &self.issuer()).unwrap().der().clone();
        Self { params, key, own }
    }

    fn revoke(&self, serial: u64, until: (i32, u8, u8)) -> Vec<u8> {
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(until.0, until.1, until.2),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: vec![RevokedCertParams {
                serial_number: SerialNumber::from(serial),
                revocation_time: date_time_ymd(2021, 1, 1),
                reason_code: Some(RevocationReason::KeyCompromise),
                invalidity_date: None,
            }],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer()).unwrap().pem().unwrap().into_bytes()
    }
}

fn ann() -> CertificateParams {
    let mut params = params(&[(DnType::OrganizationName, "Uni"), (DnType::CommonName, "Ann")]);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}

fn proxy(name: &str) -> CertificateParams {
    let mut params = ann();
    // rcgen keeps one value of each type.
    params.distinguished_name.push(DnType::CustomDnType(vec![2, 5, 4, 3]), name);
    params
}

fn pem(der: &CertificateDer<'_>) -> String {
    use base64::Engine;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
}

/// A directory with this authority, as those of the grid are.
fn directory(authority: &Signer) -> TempDir {
    let here = tempfile::tempdir().unwrap();
    std::fs::write(here.path().join("5fca1cb1.0"), pem(&authority.own)).unwrap();
    std::fs::write(here.path().join("5fca1cb1.signing_policy"), "access_id_CA X509 '/O=Grid/CN=CA'").unwrap();
    here
}

fn why(shown: &ShownCertificate) -> Option<CertificateRefusal> {
    shown.as_ref().err().map(|refused| refused.why)
}

#[test]
fn each_certificate_has_the_verdict_that_its_holder_reads() {
    use CertificateRefusal as R;
    let (authority, other) = (Signer::authority("CA"), Signer::authority("CA2"));
    let here = directory(&authority);
    let authorities = ClientAuthorities::open(here.path(), false).unwrap();
    let with = |change: &dyn Fn(&mut CertificateParams)| {
        let mut params = ann();
        change(&mut params);
        authority.sign(&params)
    };
    let user = authority.user(|_| {});
    let mut by_rfc3820 = proxy("1234567");
    let mut info = CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 14], vec![0x30, 0x00]);
    info.set_criticality(true);
    by_rfc3820.custom_extensions = vec![info.clone()];
    let mut by_draft = proxy("1234567");
    by_draft.custom_extensions =
        vec![CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 3536, 1, 222], vec![0x30, 0x00])];
    let mut unknown = ann();
    info = CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![0x30, 0x00]);
    info.set_criticality(true);
    unknown.custom_extensions = vec![info];
    for (name, chain, expected) in [
        ("good", with(&|_| {}), None),
        ("without any use named", with(&|params| params.extended_key_usages.clear()), None),
        ("expired", with(&|params| params.not_after = date_time_ymd(2021, 1, 1)), Some(R::Expired)),
        (
            "not yet valid",
            with(&|params| params.not_before = date_time_ymd(2099, 1, 1)),
            Some(R::NotYetValid),
        ),
        ("other authority", other.sign(&ann()), Some(R::Authority)),
        (
            "for servers",
            with(&|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]),
            Some(R::Purpose),
        ),
        ("RFC 3820", user.sign(&by_rfc3820), Some(R::Proxy)),
        ("legacy", user.sign(&proxy("proxy")), Some(R::Proxy)),
        ("limited", user.sign(&proxy("limited proxy")), Some(R::Proxy)),
        ("draft", user.sign(&by_draft), Some(R::Proxy)),
        ("unknown critical extension", authority.sign(&unknown), Some(R::Form)),
        ("nothing", vec![CertificateDer::from(vec![1, 2, 3])], Some(R::Form)),
        ("none", Vec::new(), Some(R::Form)),
    ] {
        let shown = authorities.judge(&chain);
        assert_eq!(why(&shown), expected, "{name}: {shown:?}");
        match shown {
            Ok(holder) => {
                assert_eq!(holder.subject.to_string(), "CN=Ann,O=Uni", "{name}");
                assert_eq!(holder.issuer.slashes(), "/O=Grid/CN=CA", "{name}");
            }
            Err(refused) => {
                assert!(refused.claimed.starts_with("/O=Uni") || refused.claimed.is_empty(), "{name}");
            }
        }
    }
    // The reason says what to do.
    assert!(R::Proxy.to_string().contains("use a token"));
}

#[test]
fn revoked_certificates_are_refused_and_new_lists_are_seen() {
    use CertificateRefusal as R;
    let authority = Signer::authority("CA");
    let here = directory(&authority);
    let authorities = ClientAuthorities::open(here.path(), false).unwrap();
    let mut params = ann();
    params.serial_number = Some(SerialNumber::from(7));
    let revoked = authority.sign(&params);
    params.serial_number = Some(SerialNumber::from(8));
    let other = authority.sign(&params);
    assert_eq!(why(&authorities.judge(&revoked)), None);
    for (list, expected) in [
        (authority.revoke(7, (2100, 1, 1)), [Some(R::Revoked), None]),
        (authority.revoke(9, (2100, 1, 1)), [None, None]),
        // What was revoked since is not known.
        (authority.revoke(9, (2021, 1, 1)), [Some(R::OldList); 2]),
        (b"no list".to_vec(), [None, None]),
    ] {
        std::fs::write(here.path().join("5fca1cb1.r0"), &list).unwrap();
        authorities.look();
        assert_eq!([&revoked, &other].map(|chain| why(&authorities.judge(chain))), expected);
    }
    // Authorities that have gone stay in use.
    std::fs::remove_file(here.path().join("5fca1cb1.0")).unwrap();
    authorities.look();
    assert_eq!(why(&authorities.judge(&other)), None);
    assert!(ClientAuthorities::open(here.path(), false).is_err());
}

#[test]
fn where_a_certificate_is_required_it_is_judged_in_the_handshake() {
    let (authority, other) = (Signer::authority("CA"), Signer::authority("CA2"));
    let here = directory(&authority);
    let verify = |is_required, chain: &[CertificateDer<'static>]| {
        let asking = ClientAuthorities::open(here.path(), is_required).unwrap().asking();
        assert_eq!((asking.offer_client_auth(), asking.client_auth_mandatory()), (true, is_required));
        assert!(asking.root_hint_subjects().is_empty());
        asking.verify_client_cert(&chain[0], &chain[1..], UnixTime::now()).map(drop)
    };
    let (good, bad) = (authority.sign(&ann()), other.sign(&ann()));
    assert_eq!([verify(true, &good), verify(false, &good), verify(false, &bad)], [Ok(()), Ok(()), Ok(())]);
    assert_eq!(CertificateRefusal::of(&verify(true, &bad).unwrap_err()), Some(CertificateRefusal::Authority));
}
