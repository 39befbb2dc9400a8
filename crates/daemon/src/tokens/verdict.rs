//! Whether a token is valid here and now, by the rules for its issuer.

use super::error::{Profile, TokenError};
use super::scope::Grants;
use super::signed::{Claims, SignedToken};
use super::web_keys::WebKeys;
use crate::remote::request_path::RequestPath;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How far clocks may differ.
const LEEWAY: Duration = Duration::from_secs(60);
/// The audience of tokens for everybody.
const ANY_WLCG: &str = "https://wlcg.cern.ch/jwt/v1/any";
const ANY_SCITOKENS: &str = "ANY";

/// The rules for tokens of an issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IssuerRules {
    /// Its URL, as its tokens have it.
    pub(crate) url: String,
    /// Names of this server in its tokens.
    audiences: Vec<String>,
    /// Where its paths begin.
    base: RequestPath,
}

/// Who shows a valid token, and what it grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) issuer: String,
    pub(crate) subject: String,
    pub(crate) grants: Grants,
}

impl IssuerRules {
    /// Of the issuer with this URL. An audience that is a URL also stands for its bare host, as Rucio names it.
    pub(crate) fn new(url: &str, audiences: &[String], base: RequestPath) -> Self {
        let bare = |name: &String| {
            let rest = name.strip_prefix("https://")?;
            let host =
                rest.split(['/', ':']).next().filter(|host| !host.is_empty() && !host.starts_with('['))?;
            Some(host.to_owned())
        };
        let audiences =
            audiences.iter().flat_map(|name| [Some(name.clone()), bare(name)]).flatten().collect();
        Self { url: url.to_owned(), audiences, base }
    }

    /// Judges a token that names this issuer, whose keys these are.
    pub(crate) fn judge(
        &self,
        token: &SignedToken<'_>,
        keys: &WebKeys,
        now: SystemTime,
    ) -> Result<Holder, TokenError> {
        if token.issuer() != self.url {
            return Err(TokenError::Issuer);
        }
        keys.verify((token.algorithm, token.key_id.as_deref()), token.message, &token.signature)?;
        self.judge_claims(&token.claims, now)
    }

    /// Judges what a token of this issuer says, once its signature is verified.
    pub(super) fn judge_claims(&self, claims: &Claims, now: SystemTime) -> Result<Holder, TokenError> {
        check_times(claims, now)?;
        let profile = profile(claims);
        self.check_audience(claims, profile)?;
        let profile = profile.ok_or(TokenError::Version)?;
        let subject = claims.subject.clone().filter(|subject| !subject.is_empty());
        let subject = subject.ok_or(TokenError::Missing("subject (sub)"))?;
        let grants = Grants::parse(claims.scope.as_deref().unwrap_or_default(), profile, &self.base)?;
        Ok(Holder { issuer: self.url.clone(), subject, grants })
    }

    fn check_audience(&self, claims: &Claims, profile: Option<Profile>) -> Result<(), TokenError> {
        let audience = claims.audience.as_ref().ok_or(TokenError::Missing("audience (aud)"))?;
        let is_own = |name: &str| {
            let any = if profile == Some(Profile::SciTokens) { ANY_SCITOKENS } else { ANY_WLCG };
            name == any || self.audiences.iter().any(|own| own == name)
        };
        if audience.names().any(is_own) { Ok(()) } else { Err(TokenError::Audience) }
    }
}

fn check_times(claims: &Claims, now: SystemTime) -> Result<(), TokenError> {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let leeway = LEEWAY.as_secs_f64();
    let expires = claims.expires.ok_or(TokenError::Missing("time of expiry (exp)"))?;
    if now >= expires + leeway {
        return Err(TokenError::Expired);
    }
    let begins = [claims.not_before, claims.issued].into_iter().flatten();
    if begins.into_iter().any(|begin| now + leeway < begin) { Err(TokenError::NotYetValid) } else { Ok(()) }
}

fn profile(claims: &Claims) -> Option<Profile> {
    match (claims.wlcg_version.as_deref(), claims.scitoken_version.as_deref()) {
        (Some(version), _) if version == "1" || version.starts_with("1.") => Some(Profile::Wlcg),
        (None, Some("scitoken:2.0")) => Some(Profile::SciTokens),
        _ => None,
    }
}
