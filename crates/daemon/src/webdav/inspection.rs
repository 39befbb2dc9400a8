//! What a token says, and whether a server would accept it, without asking anybody.

use super::WebDavOptions;
use super::issuers::Issuers;
use crate::tokens::{TokenError, parts};
use std::io;

/// What a token says, and whether it would be accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenInspection {
    /// How it is signed.
    pub head: serde_json::Value,
    /// What it claims.
    pub claims: serde_json::Value,
    /// Whether a server with these options accepts it now, or why not; `None` without options.
    pub verdict: Option<Result<(), String>>,
}

/// Reads a token, and judges it as a server with these options would, by the keys that are on the disk.
///
/// # Errors
/// The text is no JSON Web Token, or keys of the options cannot be read.
pub fn inspect_token(options: Option<&WebDavOptions>, text: &str) -> io::Result<TokenInspection> {
    let refused = |why: TokenError| io::Error::new(io::ErrorKind::InvalidData, format!("the token: {why}"));
    let (head, claims) = parts(text).map_err(refused)?;
    let judged = |options: &WebDavOptions| {
        let issuers = Issuers::open(&options.issuers, options.own_tokens.as_ref(), options.state.as_deref())?;
        Ok::<_, io::Error>(issuers.judge_by_known_keys(text).map(drop).map_err(|why| why.to_string()))
    };
    let verdict = options.map(judged).transpose()?;
    Ok(TokenInspection { head, claims, verdict })
}
