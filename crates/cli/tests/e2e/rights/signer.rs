//! Signs tokens: valid ones as an issuer would, and forgeries.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::rsa::{KeyPair as RsaKeyPair, PublicKeyComponents};
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// A key that no server but that of these tests trusts: ring makes none of RSA.
const RSA: &str = "\
    MIIEpAIBAAKCAQEAs5Ym+5R970ZpfJi1vQcsoRuwPbMHFHV586WPvuvQOSXmOYQwPNRCHMTbDa5t5oLiSOEbtBpU/agtQEJhahoZMkGL3KlKhi\
    lAcudk9DLknRgnXGifXt6GIu69QbZBZ3BLGWp44329uQrc5jRnzkBg9eYQ6qPQYjyY8wA2sQQ2DHNljG2qWEBs5e992v2BrM6KRnbqBjzF366m\
    z6LuJWvkmBPIVPJxMxq3Ncm487tRuPQusgj2EvYMSO2Z9FsTJg3NZFAvwCiPfNsk3qs8G8jFVKk+T+IzZX/ApBAcnCim/HklwkYH5ht1MFsSIu\
    B8yC2HQq27pgNQoHJKIj2BNpNIOwIDAQABAoIBACodV0z+WL4pLAm9IjmPGic6AA2oE0v39L5voBMs5+rO+XuZhVpuiIaIn7pIoptBLGHc8Is+\
    9Zl6vAnqxz+DmU8Q0gTQapqlx+hqXWFrIfO5O1nPazhrRNeiVx226QWh7uqp7mmjDj/7zSvrNEDJFjP0XRk5i1/OSCwMa8b9btNiQ2D+L9Q/A0\
    9zLvBzKyldvlEaONtfQSHXl+L2z5WbHtX0EYEJ2CIwZRVNYao/6usbvVsVQfyPBfBzsYUrHfjFasEP8gW+3anf8FDR9rutG4EeNV2zwtCe+uTx\
    36xtVYnZMT2mJs+Q8Qvjv0ZxLnARprhHDR45+Lm/rhT+HKD9l7ECgYEA7YymgbMHWO3/eFhUPvC4GEPmtf7hSTV99lAm8lJ0Errx20gNZkezME\
    guHoGXWYvGCMljTbxsJ/vC1zKhXVoPH9uOwhjRii3XdqsdGUNSmxX5LicMKy51tbT/e3SurHoXIHFZVIGPnBbgxz1/FAbTlhwz2ZT8Nn2wsUfu\
    WYt6mtkCgYEAwYj89qrfTf5TW1l7xvLGHUdltk8lk6qYMzII5Fj6T5sF2fn3dlslk+zzUbHTqee+SgpiPvPt+ZB71JT5b+gFnXPKHzApX75KBP\
    iilOJ938jlFzT1zgrvZlTgNthF04u3Gk5z7jaHAeDhh4HhlgqOlNJ+7Gwn+87mC5MH8/auhzMCgYEAtoJJq3yROJIipaO3lmP8DSieKVYaYNTo\
    YkZSpfsTkxBuobtKEDsmQQIz7NxEHFh3XmjcEu2ha1bS6+PKdp6q4B8gH6BR3Yg68sGlKbO/08eeGweFIeggJ+tYHtIXIgzrl9F+gJ7KZ3JsYK\
    eu6wQTrFEexRziajtHde1+Au5W1IECgYEAlyKOQWcBCZxBpkXEFoJCWl0GPg+izaVcRCafsQsXNpFeSXIeYQwe1V0mSrbvD3ENNi7TuEuvnMPL\
    ICDShiSQNfxVbHOk68LjdOxhspkJKXhuBuhxyFzbxXMkwU+1f9VMwTtg5zcnyTy/gp3X9974p5mWSrTPqKJTHdjNTiRm+OcCgYA/ILCq4PfFYU\
    oCC/6M8DpjgI0lxAdH7OwMJmFR4bw/OIO7nHLXnLJCvjUX4Zy38oqh8W3+cAMgvzQ7p2h6dW8RdAHHgNWuqvFCOkXeOVF2hzj2ARvMPZ6yrWRO\
    hCgFnRUZN8b2q2vP0crAfWruRRyfa8bk/Q34JORxvsGQFr6eIQ==";

/// An issuer with a key of each type, `e` and `r`.
pub(crate) struct Signer {
    pub(crate) url: String,
    ec: EcdsaKeyPair,
    rsa: RsaKeyPair,
    random: SystemRandom,
}

/// Seconds since 1970, `ahead` of now.
pub(crate) fn soon(ahead: i64) -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64 + ahead
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Signer {
    pub(crate) fn new(url: &str) -> Self {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let ec = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random).unwrap();
        let rsa = RsaKeyPair::from_der(&STANDARD.decode(RSA.replace(' ', "")).unwrap()).unwrap();
        Self { url: url.to_owned(), ec, rsa, random }
    }

    /// Its public keys.
    pub(crate) fn keys(&self) -> Value {
        let point = self.ec.public_key().as_ref();
        let PublicKeyComponents { n, e }: PublicKeyComponents<Vec<u8>> = self.rsa.public().into();
        json!({"keys": [
            {"kty": "EC", "crv": "P-256", "kid": "e", "use": "sig", "x": encoded(&point[1..33]), "y": encoded(&point[33..])},
            {"kty": "RSA", "kid": "r", "alg": "RS256", "n": encoded(n), "e": encoded(e)},
        ]})
    }

    /// The public point, which a server must not take for a secret.
    pub(crate) fn point(&self) -> &[u8] {
        self.ec.public_key().as_ref()
    }

    /// What a usual token of the WLCG profile claims.
    pub(crate) fn claims(&self, scope: &str) -> Value {
        json!({"iss": self.url, "sub": "observer", "aud": "https://wlcg.cern.ch/jwt/v1/any", "wlcg.ver": "1.0",
            "iat": soon(0), "nbf": soon(-5), "exp": soon(600), "jti": "1", "scope": scope})
    }

    /// The same, with one claim changed, or removed by `null`.
    pub(crate) fn changed(&self, name: &str, value: Value) -> String {
        let mut claims = self.claims("storage.read:/ storage.modify:/");
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
            value => claims[name] = value,
        }
        self.sign(&claims)
    }

    /// A token with these claims.
    pub(crate) fn sign(&self, claims: &Value) -> String {
        self.sign_as(&json!({"alg": "ES256", "typ": "JWT", "kid": "e"}), claims)
    }

    /// The same by the other key.
    pub(crate) fn sign_rsa(&self, claims: &Value) -> String {
        let message = message(&json!({"alg": "RS256", "kid": "r"}), claims);
        let mut signature = vec![0; self.rsa.public().modulus_len()];
        self.rsa.sign(&RSA_PKCS1_SHA256, &self.random, message.as_bytes(), &mut signature).unwrap();
        format!("{message}.{}", encoded(signature))
    }

    /// A token with any head.
    pub(crate) fn sign_as(&self, head: &Value, claims: &Value) -> String {
        let message = message(head, claims);
        let signature = self.ec.sign(&self.random, message.as_bytes()).unwrap();
        format!("{message}.{}", encoded(signature))
    }

    /// A token whose signature is an HMAC with a public key as its secret.
    pub(crate) fn confused(&self, head: &Value, secret: &[u8], claims: &Value) -> String {
        let message = message(head, claims);
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
        format!("{message}.{}", encoded(ring::hmac::sign(&key, message.as_bytes())))
    }
}

/// The signed part of a token.
pub(crate) fn message(head: &Value, claims: &Value) -> String {
    format!("{}.{}", encoded(head.to_string()), encoded(claims.to_string()))
}
