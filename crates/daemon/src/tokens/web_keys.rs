//! The public keys of an issuer (RFC 7517), as far as they verify RS256 or ES256.

use super::MAX_KEYS_BYTES;
use super::error::TokenError;
use super::signed::SigningAlgorithm;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;

/// Most keys of an issuer.
const MAX_KEYS: usize = 64;
/// Length of a coordinate on P-256 in bytes.
const COORDINATE_BYTES: usize = 32;

#[derive(Deserialize)]
struct KeyList {
    keys: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct KeyEntry {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    alg: Option<String>,
    n: Option<String>,
    e: Option<String>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// Keys that verify tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WebKeys(Vec<WebKey>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct WebKey {
    id: Option<String>,
    public: PublicKey,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PublicKey {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// An uncompressed point.
    P256(Vec<u8>),
}

impl WebKeys {
    /// Reads a JSON Web Key Set. Keys of other types are left out.
    ///
    /// # Errors
    /// It is none, is too long, or has no key that can be used.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, &'static str> {
        if text.len() > MAX_KEYS_BYTES {
            return Err("the set of keys is longer than 256 KiB");
        }
        let list: KeyList = serde_json::from_slice(text).map_err(|_| "it is no JSON Web Key Set")?;
        if list.keys.len() > MAX_KEYS {
            return Err("the set has more than 64 keys");
        }
        let keys: Vec<WebKey> = list.keys.into_iter().filter_map(WebKey::read).collect();
        if keys.is_empty() { Err("the set has no RSA or P-256 key for signatures") } else { Ok(Self(keys)) }
    }

    /// Verifies a signature by the key with this id; without an id, by the only key of its type.
    pub(super) fn verify(
        &self,
        (algorithm, id): (SigningAlgorithm, Option<&str>),
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), TokenError> {
        let mut fitting = self.0.iter().filter(|key| match id {
            Some(id) => key.id.as_deref() == Some(id),
            None => key.public.is_for(algorithm),
        });
        let key = fitting.next().ok_or(TokenError::UnknownKey)?;
        if fitting.next().is_some() {
            return Err(TokenError::UnknownKey);
        }
        let is_valid = key.public.is_for(algorithm) && key.public.verifies(message, signature);
        if is_valid { Ok(()) } else { Err(TokenError::Signature) }
    }
}

impl WebKey {
    fn read(value: serde_json::Value) -> Option<Self> {
        let entry: KeyEntry = serde_json::from_value(value).ok()?;
        if entry.purpose.is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let decoded = |text: Option<String>| URL_SAFE_NO_PAD.decode(text?).ok();
        let alg = entry.alg.as_deref();
        let public = match &*entry.kty {
            "RSA" if alg.is_none_or(|alg| alg == "RS256") => {
                let number = |text| {
                    let bytes = decoded(text)?;
                    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
                    Some(bytes[zeros..].to_vec())
                };
                PublicKey::Rsa { modulus: number(entry.n)?, exponent: number(entry.e)? }
            }
            "EC" if entry.crv.as_deref() == Some("P-256") && alg.is_none_or(|alg| alg == "ES256") => {
                let (x, y) = (decoded(entry.x)?, decoded(entry.y)?);
                if x.len() != COORDINATE_BYTES || y.len() != COORDINATE_BYTES {
                    return None;
                }
                PublicKey::P256([&[4], &x[..], &y[..]].concat())
            }
            _ => return None,
        };
        Some(Self { id: entry.kid, public })
    }
}

impl PublicKey {
    fn is_for(&self, algorithm: SigningAlgorithm) -> bool {
        match self {
            Self::Rsa { .. } => algorithm == SigningAlgorithm::Rs256,
            Self::P256(_) => algorithm == SigningAlgorithm::Es256,
        }
    }

    fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Rsa { modulus, exponent } => {
                let key = RsaPublicKeyComponents { n: &modulus[..], e: &exponent[..] };
                key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature).is_ok()
            }
            Self::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature).is_ok()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The keys and signatures of RFC 7515, A.2 and A.3.
    const RSA: &str = r#"{"kty":"RSA","kid":"r","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ","e":"AQAB"}"#;
    const RSA_SIGNED: &str = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
    const EC: &str = r#"{"kty":"EC","kid":"e","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#;
    const EC_SIGNED: &str = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";

    fn keys(list: &[&str]) -> Result<WebKeys, &'static str> {
        WebKeys::parse(format!("{{\"keys\":[{}]}}", list.join(",")).as_bytes())
    }

    fn verify(
        keys: &WebKeys,
        algorithm: SigningAlgorithm,
        id: Option<&str>,
        text: &str,
    ) -> Result<(), TokenError> {
        let (message, signature) = text.rsplit_once('.').unwrap();
        keys.verify((algorithm, id), message.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap())
    }

    #[test]
    fn the_examples_of_the_standard_verify_by_their_own_key_alone() {
        use SigningAlgorithm::{Es256, Rs256};
        let both = keys(&[RSA, EC]).unwrap();
        for id in [None, Some("r")] {
            assert_eq!(verify(&both, Rs256, id, RSA_SIGNED), Ok(()));
        }
        for id in [None, Some("e")] {
            assert_eq!(verify(&both, Es256, id, EC_SIGNED), Ok(()));
        }
        assert_eq!(verify(&both, Rs256, Some("e"), RSA_SIGNED), Err(TokenError::Signature));
        assert_eq!(verify(&both, Es256, Some("r"), EC_SIGNED), Err(TokenError::Signature));
        assert_eq!(verify(&both, Rs256, Some("x"), RSA_SIGNED), Err(TokenError::UnknownKey));
        assert_eq!(verify(&both, Rs256, None, EC_SIGNED), Err(TokenError::Signature));
        let changed = RSA_SIGNED.replacen("eyJp", "eyJq", 1);
        assert_eq!(verify(&both, Rs256, None, &changed), Err(TokenError::Signature));
        // Which of two, nobody says.
        let two = keys(&[EC, &EC.replace("\"e\"", "\"f\"")]).unwrap();
        assert_eq!(verify(&two, Es256, None, EC_SIGNED), Err(TokenError::UnknownKey));
        assert_eq!(verify(&two, Es256, Some("f"), EC_SIGNED), Ok(()));
    }

    #[test]
    fn keys_that_cannot_be_used_are_left_out() {
        let out = [
            r#"{"kty":"oct","k":"AAAA"}"#.to_owned(),
            r#"{"kty":"OKP","crv":"Ed25519","x":"AAAA"}"#.to_owned(),
            RSA.replace("\"kty\"", "\"use\":\"enc\",\"kty\""),
            RSA.replace("\"kty\"", "\"alg\":\"RS512\",\"kty\""),
            EC.replace("P-256", "P-384"),
            EC.replace("f83O", ""),
            "7".to_owned(),
        ];
        for one in &out {
            assert!(keys(&[one]).is_err(), "{one}");
        }
        let all: Vec<&str> = out.iter().map(String::as_str).chain([EC]).collect();
        assert_eq!(keys(&all), keys(&[EC]));
        assert!(keys(&[]).is_err() && WebKeys::parse(b"{").is_err() && keys(&vec![EC; 65]).is_err());
    }
}
