//! What holders of certificates may do: the scopes that the configuration gives to their subjects.

use crate::client_certificates::{CertificateHolder, SubjectName};
use crate::tokens::Grants;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Certificates of clients, and what they allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificates {
    /// A file with the authorities that sign them, or a directory with hashed names.
    pub authorities: PathBuf,
    /// Whether a client without one is not served, whatever token it has.
    pub required: bool,
    /// Who may do what.
    pub clients: Vec<CertificateClient>,
}

/// A subject of certificates, and what its holder may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateClient {
    /// Its name, as RFC 4514 or the grid write it.
    pub subject: String,
    /// The authority that must have signed, written in the same ways; any of them if there is none.
    pub issuer: Option<String>,
    /// Scopes of the WLCG profile, with paths from `/`.
    pub scopes: Vec<String>,
}

impl CertificateClient {
    /// Checks names and scopes.
    ///
    /// # Errors
    /// One of them is none.
    pub fn check(&self) -> Result<(), String> {
        self.read().map(drop)
    }

    fn read(&self) -> Result<(SubjectName, Given), String> {
        let name = |key: &str, text: &str| SubjectName::parse(text).map_err(|why| format!("{key}: {why}"));
        let issuer = self.issuer.as_deref().map(|issuer| name("issuer", issuer)).transpose()?;
        if self.scopes.is_empty() {
            return Err("scopes: none is given".to_owned());
        }
        let grants = Grants::of_scopes(&self.scopes).map_err(|why| format!("scopes: {why}"))?;
        Ok((name("subject", &self.subject)?, Given { issuer, grants: Arc::new(grants) }))
    }
}

/// What a subject is given.
#[derive(Debug)]
struct Given {
    issuer: Option<SubjectName>,
    grants: Arc<Grants>,
}

/// All subjects.
#[derive(Debug)]
pub(super) struct Subjects(HashMap<SubjectName, Given>);

impl Subjects {
    /// Reads them.
    pub(super) fn read(clients: &[CertificateClient]) -> Result<Self, String> {
        let mut all = HashMap::new();
        for client in clients {
            let (subject, given) = client.read()?;
            let is_again = all.insert(subject, given).is_some();
            if is_again {
                return Err(format!("two clients have the subject {}", client.subject));
            }
        }
        Ok(Self(all))
    }

    /// What a holder may do; `None` if its subject is not named, or another authority signed.
    pub(super) fn of(&self, holder: &CertificateHolder) -> Option<Arc<Grants>> {
        let given = self.0.get(&holder.subject)?;
        let is_signed = given.issuer.as_ref().is_none_or(|issuer| *issuer == holder.issuer);
        is_signed.then(|| Arc::clone(&given.grants))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::request_path::RequestPath;
    use crate::tokens::Use;
    use std::time::SystemTime;

    fn client(subject: &str, issuer: Option<&str>, scopes: &[&str]) -> CertificateClient {
        let scopes = scopes.iter().map(|&scope| scope.to_owned()).collect();
        CertificateClient { subject: subject.to_owned(), issuer: issuer.map(str::to_owned), scopes }
    }

    fn holder(subject: &str, issuer: &str) -> CertificateHolder {
        let name = |text| SubjectName::parse(text).unwrap();
        CertificateHolder { subject: name(subject), issuer: name(issuer), until: SystemTime::now() }
    }

    #[test]
    fn a_subject_has_its_scopes_however_it_is_written() {
        let clients = [
            client("CN=Ann,O=Uni", None, &["storage.read:/exp", "storage.create:/exp/in"]),
            client("/O=Uni/CN=Bob", Some("CN=CA,O=Uni"), &["storage.modify:/"]),
        ];
        let subjects = Subjects::read(&clients).unwrap();
        let may = |who: &CertificateHolder, how, path: &str| {
            subjects.of(who).is_some_and(|grants| grants.allow(how, &RequestPath::parse(path).unwrap()))
        };
        let ann = holder("/O=Uni/CN=Ann", "CN=any");
        assert!(may(&ann, Use::Read, "/exp/a") && may(&ann, Use::Create, "/exp/in/a"));
        assert!(
            !may(&ann, Use::Create, "/exp/a")
                && !may(&ann, Use::Modify, "/exp/in/a")
                && !may(&ann, Use::Read, "/b")
        );
        let bob = |issuer| holder("CN=Bob,O=Uni", issuer);
        assert!(may(&bob("/O=Uni/CN=CA"), Use::Modify, "/a"));
        assert!(subjects.of(&bob("CN=CA2,O=Uni")).is_none(), "another authority signed");
        assert!(subjects.of(&holder("CN=Ann,OU=x,O=Uni", "CN=any")).is_none());
    }

    #[test]
    fn mistakes_are_named() {
        for (client, why) in [
            (client("Ann", None, &["storage.read:/"]), "subject: `Ann` has no `=`"),
            (client("CN=Ann", Some("x"), &["storage.read:/"]), "issuer: `x` has no `=`"),
            (client("CN=Ann", None, &[]), "scopes: none"),
            (client("CN=Ann", None, &["read:/"]), "`read:/` is no scope"),
            (client("CN=Ann", None, &["storage.read"]), "`storage.read` is no scope"),
            (client("CN=Ann", None, &["storage.read:/a storage.read:/b"]), "is no scope"),
        ] {
            assert!(client.check().is_err_and(|error| error.contains(why)), "{client:?}");
        }
        let twice =
            [client("CN=a,O=b", None, &["storage.read:/"]), client("/O=b/CN=a", None, &["storage.read:/"])];
        assert!(
            Subjects::read(&twice).is_err_and(|why| why.contains("two clients have the subject /O=b/CN=a"))
        );
    }
}
