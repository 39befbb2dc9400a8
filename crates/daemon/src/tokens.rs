//! Bearer tokens that others sign: JSON Web Tokens (RFC 7519) of trusted issuers, as the WLCG profile 1.3 and SciTokens 2.0 say.
//!
//! ```text
//!   text ─▶ signed: head, claims ─▶ issuer trusted? ─▶ web_keys: signature ─▶ verdict: times, audience, version ─▶ scope: which paths
//! ```
//!
//! Everything here is a function of its arguments, the time included; where keys come from is `webdav::issuers`. RS256 and ES256 alone are
//! accepted, each with keys of its own type, so a public key is never a secret of HMAC and `none` verifies nothing.
//!
//! Limits: a token is part of a head of 16 KiB; [`MAX_KEYS_BYTES`] and 64 keys of an issuer; 256 scopes.

mod error;
mod fuzzing;
mod own;
mod scope;
mod signed;
mod verdict;
mod web_keys;

pub(crate) use error::TokenError;
pub use fuzzing::fuzz;
pub use own::{MAX_LIFETIME, TokenClaims, TokenKey};
pub(crate) use scope::{Grants, Use};
pub(crate) use signed::{SignedToken, parts};
pub(crate) use verdict::{Holder, IssuerRules};
pub(crate) use web_keys::WebKeys;

/// Maximum size of the keys of an issuer, and of what it says of itself.
pub const MAX_KEYS_BYTES: usize = 256 << 10;
