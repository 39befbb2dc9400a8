//! Certificates of clients, shown by curl: each with each use, and the code that must come.

use crate::rights::signer::Signer;
use crate::serve::Serving;
use crate::site::{Site, wait_for};
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a usual proxy says of itself (RFC 3820, 3.8): it has all rights of its issuer (1.3.6.1.5.5.7.21.1).
const INHERITS_ALL: [u8; 14] =
    [0x30, 0x0c, 0x30, 0x0a, 0x06, 0x08, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x15, 0x01];
const ISSUER: &str = "https://iam.example/";

/// A certificate with its key.
struct Pair {
    params: CertificateParams,
    key: KeyPair,
    pem: String,
}

fn named(names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "Uni");
    for (at, name) in names.iter().enumerate() {
        // One value of each type is kept; both are common names.
        let kind = if at == 0 { DnType::CommonName } else { DnType::CustomDnType(vec![2, 5, 4, 3]) };
        params.distinguished_name.push(kind, *name);
    }
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2100, 1, 1);
    change(&mut params);
    params
}

impl Pair {
    fn authority(name: &str) -> Self {
        let params = named(&[name], |params| {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        });
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { params, key, pem }
    }

    fn sign(&self, params: CertificateParams) -> Self {
        let key = KeyPair::generate().unwrap();
        let issuer = Issuer::from_params(&self.params, &self.key);
        let pem = params.signed_by(&key, &issuer).unwrap().pem();
        Self { params, key, pem }
    }

    /// A file with the certificate, its key, and those that signed it.
    fn write(&self, path: PathBuf, others: &[&Pair]) -> PathBuf {
        let others: String = others.iter().map(|other| other.pem.as_str()).collect();
        std::fs::write(&path, self.pem.clone() + &self.key.serialize_pem() + &others).unwrap();
        path
    }
}

/// A station that asks for certificates, and files with some.
struct Asking {
    serving: Serving,
    address: String,
    at: PathBuf,
    signer: Signer,
}

/// Each certificate; none is the first. Nobody but `good` has rights.
const CERTIFICATES: [(&str, &str); 8] = [
    ("", "the token is missing or wrong"),
    ("good", ""),
    ("expired", "it has expired"),
    ("other", "its authority is not trusted here"),
    ("rfc3820", "use a token"),
    ("legacy", "use a token"),
    ("server", "extended key usage"),
    ("bob", "no rights are given to its subject"),
];

fn asking(how: &str) -> Asking {
    let site = Site::new(1);
    let at = site.disks[0].parent().unwrap().to_owned();
    let (authority, other) = (Pair::authority("CA"), Pair::authority("CA2"));
    let client = |params: &mut CertificateParams| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    };
    let good = authority.sign(named(&["Ann"], client));
    let mut info = CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 14], INHERITS_ALL.to_vec());
    info.set_criticality(true);
    let file = |name: &str| at.join(format!("{name}.pem"));
    let here = |params: &mut CertificateParams| {
        params.subject_alt_names = vec![SanType::IpAddress([127, 0, 0, 1].into())];
    };
    authority.sign(named(&["mh"], here)).write(file("host"), &[]);
    std::fs::write(file("ca"), &authority.pem).unwrap();
    let expired = |params: &mut CertificateParams| params.not_after = date_time_ymd(2021, 1, 1);
    authority.sign(named(&["Ann"], expired)).write(file("expired"), &[]);
    authority.sign(named(&["Bob"], client)).write(file("bob"), &[]);
    other.sign(named(&["Ann"], client)).write(file("other"), &[&other]);
    let server = |params: &mut CertificateParams| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    };
    authority.sign(named(&["Ann"], server)).write(file("server"), &[]);
    let by_rfc = named(&["Ann", "123"], |params| params.custom_extensions = vec![info]);
    good.sign(by_rfc).write(file("rfc3820"), &[&good]);
    good.sign(named(&["Ann", "proxy"], |_| {})).write(file("legacy"), &[&good]);
    good.write(file("good"), &[]);

    let signer = Signer::new(ISSUER);
    std::fs::write(at.join("keys.json"), signer.keys().to_string()).unwrap();
    for name in ["a", "b"] {
        std::fs::create_dir_all(at.join("exp").join(name)).unwrap();
        std::fs::write(at.join("exp").join(name).join("f"), name).unwrap();
    }
    let here = at.display();
    let http = format!(
        "[http]\nlisten = '127.0.0.1:0'\ncertificate = '{here}/host.pem'\nkey = '{here}/host.pem'\n\
         [[http.root]]\nname = 'exp'\ndirectory = '{here}/exp'\nwrite = true\n\
         [[http.issuer]]\nurl = '{ISSUER}'\naudiences = ['x']\nkeys = '{here}/keys.json'\n\
         [http.own_tokens]\nissuer = 'https://mh.example'\nkey = '{here}/own-key'\n\
         [http.tls]\nclient_authorities = '{here}/ca.pem'\nclient_certificates = '{how}'\n\
         [[http.tls.client]]\nsubject = '/O=Uni/CN=Ann'\nissuer = 'CN=CA,O=Uni'\nscopes = ['storage.read:/exp/a', 'storage.create:/exp/a']\n"
    );
    let serving = Serving::start(site, &http);
    let address = wait_for("files to be served", || {
        Some(serving.job.stderr().split_once("files on https://")?.1.lines().next()?.to_owned())
    });
    Asking { serving, address, at, signer }
}

impl Asking {
    /// What curl is answered, code and body; 0 if the connection ends.
    fn ask(&self, certificate: &str, request: &str, more: &[&str]) -> (u16, String) {
        let (method, path) = request.split_once(' ').unwrap();
        let mut curl = Command::new("curl");
        curl.args([
            "--silent",
            "--show-error",
            "--max-time",
            "60",
            "--write-out",
            "\n%{http_code}",
            "--cacert",
        ]);
        curl.arg(self.at.join("ca.pem")).args(["--request", method]).args(more);
        if method == "PUT" {
            curl.args(["--data-binary", "put"]);
        }
        if !certificate.is_empty() {
            let file = self.at.join(format!("{certificate}.pem"));
            curl.arg("--cert").arg(&file).arg("--key").arg(&file);
        }
        let done = curl.arg(format!("https://{}{path}", self.address)).output().unwrap();
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        let (body, code) = text.rsplit_once('\n').unwrap();
        (code.parse().unwrap(), format!("{body}{}", String::from_utf8_lossy(&done.stderr)))
    }

    fn restore(&self) {
        std::fs::write(self.at.join("exp/a/f"), "a").unwrap();
        let _ = std::fs::remove_file(self.at.join("exp/a/new"));
    }
}

fn has_curl() -> bool {
    let has = Command::new("curl").arg("--version").output();
    let has = has.is_ok_and(|done| String::from_utf8_lossy(&done.stdout).contains("https"));
    if !has {
        println!("SKIPPED: no curl with TLS (apt install curl)");
    }
    has
}

/// Read, create, modify, and the same of another path.
const REQUESTS: [&str; 5] =
    ["GET /exp/a/f", "PUT /exp/a/new", "PUT /exp/a/f", "DELETE /exp/a/f", "GET /exp/b/f"];

#[test]
fn each_certificate_has_the_code_that_the_table_says() {
    if !has_curl() {
        return;
    }
    let all = asking("optional");
    // First, as not every refusal is noted.
    let (code, body) = all.ask("legacy", "GET /exp/a/f", &[]);
    assert_eq!(code, 403, "{body}");
    for version in ["1.2", "1.3"] {
        for (certificate, why) in CERTIFICATES {
            let codes = match certificate {
                "" => [401; 5],
                "good" => [200, 201, 403, 403, 403],
                _ => [403; 5],
            };
            for (request, expected) in REQUESTS.iter().zip(codes) {
                all.restore();
                let (code, body) = all.ask(certificate, request, &["--tls-max", version]);
                assert_eq!(code, expected, "{certificate}: TLS {version}: {request}: {body}");
                assert!(body.contains(why), "{certificate}: {request}: {body}");
                let is_there = Path::new(&all.at.join("exp/a/f")).exists();
                assert!(is_there && all.at.join("exp/a/new").exists() == (code == 201));
            }
        }
    }
    let (_, body) = all.ask("good", "DELETE /exp/a/f", &[]);
    assert!(body.contains("the subject of the certificate has no scope to replace or remove"), "{body}");
    let said = all.serving.job.stderr();
    assert!(said.contains("the certificate of /O=Uni/CN=Ann/CN=proxy: it is a proxy certificate"), "{said}");
}

#[test]
fn a_token_decides_alone_whatever_certificate_is_shown() {
    if !has_curl() {
        return;
    }
    let all = asking("optional");
    let header = |token: &str| format!("Authorization: Bearer {token}");
    let narrow = header(&all.signer.sign(&all.signer.claims("storage.read:/exp/b")));
    let bad = header("letmein-letmein-letmein");
    for certificate in CERTIFICATES.map(|(name, _)| name) {
        let ask = |request: &str, header: &str| all.ask(certificate, request, &["--header", header]).0;
        assert_eq!(ask("GET /exp/b/f", &narrow), 200, "{certificate}: the token allows it");
        assert_eq!(ask("GET /exp/a/f", &narrow), 403, "{certificate}: the certificate adds nothing");
        assert_eq!(ask("GET /exp/a/f", &bad), 401, "{certificate}: nor does it replace a token");
        assert_eq!(ask("GET /exp/a/f", "Authorization: Basic YTpi"), 401, "{certificate}");
    }
}

#[test]
fn where_a_certificate_is_required_others_end_in_the_handshake() {
    if !has_curl() {
        return;
    }
    let all = asking("required");
    let token = format!("Authorization: Bearer {}", all.signer.sign(&all.signer.claims("storage.read:/")));
    for (certificate, _) in CERTIFICATES {
        let codes = ["GET /exp/a/f", "GET /exp/b/f"].map(|request| all.ask(certificate, request, &[]).0);
        let with_token = all.ask(certificate, "GET /exp/b/f", &["--header", &token]).0;
        let expected = match certificate {
            "good" => ([200, 403], 200),
            "bob" => ([403, 403], 200),
            _ => ([0, 0], 0),
        };
        assert_eq!((codes, with_token), expected, "{certificate}");
    }
    let said = all.serving.job.stderr();
    for why in
        ["it shows no certificate", "its certificate: it has expired", "its certificate: it is a proxy"]
    {
        assert!(said.contains(why), "{why}: {said}");
    }
}

/// A request for a macaroon, with this body.
fn macaroon(all: &Asking, certificate: &str, path: &str, body: &str) -> (u16, String) {
    let more = ["--header", "Content-Type: application/macaroon-request", "--data", body];
    all.ask(certificate, &format!("POST {path}"), &more)
}

#[test]
fn a_certificate_gets_a_token_that_another_server_may_use() {
    if !has_curl() {
        return;
    }
    let all = asking("optional");
    all.restore();
    let token = |path: &str, activities: &str| {
        let body = format!(r#"{{"caveats":["activity:{activities}"],"validity":"PT60M"}}"#);
        let (code, said) = macaroon(&all, "good", path, &body);
        assert_eq!(code, 200, "{said}");
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!(said["expires_in"], 3600);
        format!("Authorization: Bearer {}", said["macaroon"].as_str().unwrap())
    };
    let codes = |token: &str| {
        REQUESTS.map(|request| {
            all.restore();
            all.ask("", request, &["--header", token]).0
        })
    };
    // It reads the file, and does nothing else.
    assert_eq!(codes(&token("/exp/a/f", "DOWNLOAD,LIST")), [200, 403, 403, 403, 403]);
    // The certificate may not remove anything, and so its token may not, whatever was asked for.
    assert_eq!(codes(&token("/exp/a/new", "MANAGE,UPLOAD,DELETE,LIST")), [403, 201, 403, 403, 403]);
    for (path, body, expected) in [
        ("/exp/a/f", r#"{"caveats":["activity:DELETE"]}"#, 403),
        ("/exp/b/f", r#"{"caveats":["activity:DOWNLOAD"]}"#, 403),
        ("/", r#"{"caveats":["activity:DOWNLOAD"]}"#, 403),
        ("/exp/a/f", r#"{"caveats":["before:2030-01-01T00:00:00Z"]}"#, 400),
        ("/exp/a/f", r#"{"validity":"an hour"}"#, 400),
        ("/exp/a/f", "<xml/>", 400),
    ] {
        let (code, said) = macaroon(&all, "good", path, body);
        assert_eq!(code, expected, "{path} {body}: {said}");
    }
    // Holders without rights get the hint at once.
    for (certificate, _) in CERTIFICATES.into_iter().filter(|(name, _)| *name != "good") {
        let (code, said) = macaroon(&all, certificate, "/exp/a/f", r#"{"caveats":["activity:DOWNLOAD"]}"#);
        assert!(code == 405 && said.contains("use a bearer token"), "{certificate}: {code} {said}");
    }
}
