//! The text of a token (RFC 7515, compact serialization; RFC 7519). What it claims holds only when its signature was verified.

use super::error::TokenError;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// How a token is signed (RFC 7518, 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SigningAlgorithm {
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// ECDSA with P-256 and SHA-256.
    Es256,
}

/// How macaroons begin, in base64: the length of the first packet of version 1, and version 2.
const MACAROON_BEGINNINGS: [&str; 2] = ["MDA", "AgE"];

#[derive(Deserialize)]
struct TokenHead {
    alg: String,
    kid: Option<String>,
    crit: Option<serde_json::Value>,
}

/// What a token says. Names that occur twice are an error.
#[derive(Debug, Deserialize)]
pub(super) struct Claims {
    #[serde(rename = "iss")]
    pub(super) issuer: Option<String>,
    #[serde(rename = "sub")]
    pub(super) subject: Option<String>,
    #[serde(rename = "aud")]
    pub(super) audience: Option<Audience>,
    /// Seconds since 1970, possibly with a fraction.
    #[serde(rename = "exp")]
    pub(super) expires: Option<f64>,
    #[serde(rename = "nbf")]
    pub(super) not_before: Option<f64>,
    #[serde(rename = "iat")]
    pub(super) issued: Option<f64>,
    pub(super) scope: Option<String>,
    #[serde(rename = "wlcg.ver")]
    pub(super) wlcg_version: Option<String>,
    #[serde(rename = "ver")]
    pub(super) scitoken_version: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Audience {
    /// Its names. Rucio asks for several in one text.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let list = match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        };
        list.iter().flat_map(|text| text.split_whitespace())
    }
}

/// A token, read but not verified.
pub(crate) struct SignedToken<'a> {
    pub(super) algorithm: SigningAlgorithm,
    pub(super) key_id: Option<String>,
    pub(super) claims: Claims,
    /// What the signature is of.
    pub(super) message: &'a [u8],
    pub(super) signature: Vec<u8>,
}

/// The head and the claims of a token as they are, whatever signs it.
///
/// # Errors
/// It is not a JSON Web Token.
pub(crate) fn parts(text: &str) -> Result<(serde_json::Value, serde_json::Value), TokenError> {
    let mut parts = text.splitn(3, '.');
    let (Some(head), Some(claims), Some(_)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(TokenError::Form);
    };
    Ok((json(head)?, json(claims)?))
}

impl<'a> SignedToken<'a> {
    /// Reads the text of a token.
    pub(crate) fn parse(text: &'a str) -> Result<Self, TokenError> {
        let is_macaroon = MACAROON_BEGINNINGS.iter().any(|beginning| text.starts_with(beginning));
        let form = if is_macaroon { TokenError::Macaroon } else { TokenError::Form };
        let (message, signature) = text.rsplit_once('.').ok_or(form)?;
        let (head, claims) = message.split_once('.').ok_or(TokenError::Form)?;
        let head: TokenHead = json(head)?;
        let algorithm = match &*head.alg {
            "RS256" => SigningAlgorithm::Rs256,
            "ES256" => SigningAlgorithm::Es256,
            _ => return Err(TokenError::Algorithm),
        };
        // RFC 7515, 4.1.11: what must be understood, and is not, makes it invalid.
        if head.crit.is_some() {
            return Err(TokenError::Form);
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| TokenError::Form)?;
        let (key_id, message) = (head.kid, message.as_bytes());
        Ok(Self { algorithm, key_id, claims: json(claims)?, message, signature })
    }

    /// Who claims to have signed it.
    pub(crate) fn issuer(&self) -> &str {
        self.claims.issuer.as_deref().unwrap_or_default()
    }
}

fn json<T: DeserializeOwned>(part: &str) -> Result<T, TokenError> {
    let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Form)?;
    serde_json::from_slice(&bytes).map_err(|_| TokenError::Form)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(head: &str, claims: &str, signature: &str) -> Result<(), TokenError> {
        let parts = [head, claims].map(|part| URL_SAFE_NO_PAD.encode(part));
        SignedToken::parse(&format!("{}.{}.{signature}", parts[0], parts[1])).map(drop)
    }

    #[test]
    fn what_is_no_signed_token_is_refused() {
        use TokenError::{Algorithm, Form};
        let head = r#"{"alg":"ES256"}"#;
        assert_eq!(parse(head, r#"{"exp":1.5,"aud":["a","b"]}"#, "AA"), Ok(()));
        for (head, claims, signature, why) in [
            (r#"{"alg":"none"}"#, "{}", "", Algorithm),
            (r#"{"alg":"None"}"#, "{}", "AA", Algorithm),
            (r#"{"alg":"HS256"}"#, "{}", "AA", Algorithm),
            (r#"{"alg":"rs256"}"#, "{}", "AA", Algorithm),
            (r#"{"alg":"RS512"}"#, "{}", "AA", Algorithm),
            (r#"{"typ":"JWT"}"#, "{}", "AA", Form),
            (r#"{"alg":"ES256","crit":["b64"],"b64":false}"#, "{}", "AA", Form),
            (r#"{"alg":"ES256","alg":"none"}"#, "{}", "AA", Form),
            (head, "[]", "AA", Form),
            (head, "{} {}", "AA", Form),
            (head, r#"{"iss":"a","iss":"b"}"#, "AA", Form),
            (head, r#"{"exp":"1"}"#, "AA", Form),
            (head, r#"{"exp":1e999}"#, "AA", Form),
            (head, r#"{"aud":1}"#, "AA", Form),
            (head, "{}", "AB", Form),
            (head, "{}", "AA==", Form),
            (head, "{}", "A.A", Form),
        ] {
            assert_eq!(parse(head, claims, signature), Err(why), "{head} {claims} {signature}");
        }
        let macaroon = "MDAxY2xvY2F0aW9uIE9wdGlvbmFsLmVtcHR5CjAwMThpZGVudGlmaWVyIGlLb3hTVjZRCg";
        assert_eq!(SignedToken::parse(macaroon).err(), Some(TokenError::Macaroon));
        for text in ["", ".", "..", "...", "a.b.c", "e30.e30.e30"] {
            assert_eq!(SignedToken::parse(text).err(), Some(Form), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[A-Za-z0-9_.-]{0,80}", head in "[ -~]{0,40}", claims in "[ -~]{0,60}") {
            let _ = SignedToken::parse(&text);
            let _ = parse(&head, &claims, "AA");
            let _ = parse(r#"{"alg":"ES256"}"#, &claims, "AA");
        }
    }
}
