//! Tokens that a server signs for itself: a key of its own, and tokens of the WLCG profile that hold at it alone.
//!
//! ```text
//!   key file (PKCS#8, P-256, mode 0600; made at first use) ─▶ public key ─▶ the server, which verifies by it as by those of issuers
//!                                                         └─▶ tokens, signed with ES256
//! ```
//!
//! There is no list of tokens, so none can be revoked alone: a new key ends all of them.

use super::error::Profile;
use super::scope::Grants;
use crate::remote::request_path::RequestPath;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};
use skyhaul::auth::{hex, random};
use skyhaul::core::hint::Hint;
use skyhaul::io::file::{TOKEN, failed, read_small};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

/// Longest time for which a token of our own holds: it cannot be revoked.
pub const MAX_LIFETIME: Duration = Duration::from_secs(30 * 86_400);
/// Characters in a line of PEM (RFC 7468, 2).
const PEM_LINE: usize = 64;

/// A key that signs tokens.
pub struct TokenKey {
    pair: EcdsaKeyPair,
    system: SystemRandom,
}

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenKey(..)")
    }
}

/// What a token of our own says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenClaims {
    /// Who signs it, and where it holds.
    pub issuer: String,
    /// For whom it is: all with the same subject share the limits of a user.
    pub subject: String,
    /// What it allows, such as `storage.read:/exp`.
    pub scopes: Vec<String>,
    /// How long it holds.
    pub lifetime: Duration,
}

impl TokenKey {
    /// Reads the key in a file, or makes one there, which only its owner reads.
    ///
    /// # Errors
    /// The file cannot be read or made, or has no such key.
    pub fn read_or_make(path: &Path) -> io::Result<Self> {
        let system = SystemRandom::new();
        match read_small(path, TOKEN) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                make(path, &system).map_err(|error| failed("make the key of tokens in", path, &error))?;
            }
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        let pem = read_small(path, TOKEN)?;
        let pair = PrivatePkcs8KeyDer::from_pem_slice(&pem).ok().and_then(|der| {
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.secret_pkcs8_der(), &system).ok()
        });
        let hint = Hint("remove the file, and a new key is made; tokens of the old one hold no longer");
        let text = format!("{} has no P-256 key in PEM (PKCS#8){hint}", path.display());
        let pair = pair.ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, text))?;
        Ok(Self { pair, system })
    }

    /// Its public half, as a JSON Web Key Set (RFC 7517).
    #[must_use]
    pub fn public_keys(&self) -> Value {
        let (x, y) = self.point();
        json!({"keys": [{"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": self.id(), "x": x, "y": y}]})
    }

    fn point(&self) -> (String, String) {
        // 4, x, y.
        let (x, y) = self.pair.public_key().as_ref()[1..].split_at(32);
        (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y))
    }

    /// The thumbprint of the key (RFC 7638).
    fn id(&self) -> String {
        let (x, y) = self.point();
        let text = format!("{{\"crv\":\"P-256\",\"kty\":\"EC\",\"x\":\"{x}\",\"y\":\"{y}\"}}");
        URL_SAFE_NO_PAD.encode(digest(&SHA256, text.as_bytes()))
    }

    /// Signs a token.
    ///
    /// # Errors
    /// A scope is none that grants anything here, the lifetime is not up to [`MAX_LIFETIME`], or the system gives no random numbers.
    pub fn sign(&self, token: &TokenClaims) -> io::Result<String> {
        let invalid = |text: String| io::Error::new(ErrorKind::InvalidInput, text);
        for scope in &token.scopes {
            if !is_scope(scope) {
                let hint = Hint(
                    "such as storage.read:/exp; the names are storage.read, storage.create, storage.modify",
                );
                return Err(invalid(format!("`{scope}` is not a scope with a path{hint}")));
            }
        }
        if token.lifetime.as_secs() == 0 || token.lifetime > MAX_LIFETIME {
            return Err(invalid(format!("a token holds from 1s to 30d{}", Hint("it cannot be revoked"))));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let head = json!({"alg": "ES256", "typ": "JWT", "kid": self.id()});
        let claims = json!({
            "iss": token.issuer, "aud": token.issuer, "sub": token.subject, "wlcg.ver": "1.0",
            "iat": now, "nbf": now, "exp": now + token.lifetime.as_secs(), "jti": hex(&random::<16>()?),
            "scope": token.scopes.join(" "),
        });
        let [head, claims] = [head, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let message = format!("{head}.{claims}");
        let signature = self.pair.sign(&self.system, message.as_bytes());
        let signature =
            signature.map_err(|_| io::Error::other("sign a token: the system has no random numbers"))?;
        Ok(format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

/// Whether a text is one scope that grants something here.
fn is_scope(text: &str) -> bool {
    let grants = Grants::parse(text, Profile::Wlcg, &RequestPath::default());
    !text.contains(char::is_whitespace) && grants.is_ok_and(|grants| !grants.is_empty())
}

/// Makes a key. Of two programs that make it at the same time, one does.
fn make(path: &Path, system: &SystemRandom) -> io::Result<()> {
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, system);
    let pkcs8 = pkcs8.map_err(|_| io::Error::other("the system has no random numbers"))?;
    let text = STANDARD.encode(pkcs8.as_ref());
    let mut pem = "-----BEGIN PRIVATE KEY-----\n".to_owned();
    for line in text.as_bytes().chunks(PEM_LINE) {
        pem += &String::from_utf8_lossy(line);
        pem.push('\n');
    }
    pem += "-----END PRIVATE KEY-----\n";
    // Whole before it has its name: the other program must not read a part of it.
    let new = path.with_extension(format!("new-{}", hex(&random::<8>()?)));
    let made = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(pem.as_bytes())?;
        file.sync_all()?;
        match std::fs::hard_link(&new, path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        }
    };
    let done = made();
    // What is left is a key that nobody uses.
    let _ = std::fs::remove_file(&new);
    done?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::{IssuerRules, SignedToken, TokenError, Use, WebKeys};
    use std::os::unix::fs::PermissionsExt;

    const URL: &str = "https://mh.example:8443";

    fn token(scopes: &[&str], lifetime: u64) -> TokenClaims {
        TokenClaims {
            issuer: URL.to_owned(),
            subject: "observer".to_owned(),
            scopes: scopes.iter().map(|&scope| scope.to_owned()).collect(),
            lifetime: Duration::from_secs(lifetime),
        }
    }

    #[test]
    fn a_token_holds_by_the_key_that_signed_it_until_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        let key = TokenKey::read_or_make(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        // The same key is read again.
        let again = TokenKey::read_or_make(&path).unwrap();
        assert_eq!(key.public_keys(), again.public_keys());
        let text = key.sign(&token(&["storage.read:/exp", "storage.create:/exp/new"], 60)).unwrap();
        let rules = IssuerRules::new(URL, &[URL.to_owned()], RequestPath::default());
        let keys = |key: &TokenKey| WebKeys::parse(key.public_keys().to_string().as_bytes()).unwrap();
        let read = SignedToken::parse(&text).unwrap();
        let now = SystemTime::now();
        let holder = rules.judge(&read, &keys(&again), now).unwrap();
        assert_eq!((&*holder.subject, &*holder.issuer), ("observer", URL));
        let path_of = |text: &str| RequestPath::parse(text).unwrap();
        assert!(holder.grants.allow(Use::Create, &path_of("/exp/new/f")));
        assert!(!holder.grants.allow(Use::Create, &path_of("/exp/f")));
        let later = now + Duration::from_secs(121);
        assert_eq!(rules.judge(&read, &keys(&key), later), Err(TokenError::Expired));
        let other = TokenKey::read_or_make(&directory.path().join("other")).unwrap();
        assert_eq!(rules.judge(&read, &keys(&other), now), Err(TokenError::UnknownKey));
    }

    #[test]
    fn scopes_and_files_that_are_wrong_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        let key = TokenKey::read_or_make(&path).unwrap();
        for scope in [
            "storage.read",
            "storage.write:/a",
            "read:/a",
            "storage.read:a",
            "storage.read:/..",
            "storage.read:/a storage.modify:/",
            "",
        ] {
            assert!(key.sign(&token(&[scope], 60)).is_err(), "{scope}");
        }
        for lifetime in [0, 31 * 86_400] {
            assert!(key.sign(&token(&["storage.read:/"], lifetime)).is_err(), "{lifetime}");
        }
        std::fs::write(&path, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n").unwrap();
        let error = TokenKey::read_or_make(&path).unwrap_err().to_string();
        assert!(error.contains("has no P-256 key in PEM"), "{error}");
    }
}
