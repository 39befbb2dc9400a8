//! Why tokens are refused, and the profiles that they may follow.

/// Why a token is refused. None of the texts has anything of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenError {
    #[error("it is not a signed JSON Web Token")]
    Form,
    #[error("it is a macaroon, and only signed JSON Web Tokens are accepted")]
    Macaroon,
    #[error("it is not signed with RS256 or ES256")]
    Algorithm,
    #[error("its issuer is not trusted here")]
    Issuer,
    #[error("its issuer has no such key")]
    UnknownKey,
    #[error("the keys of its issuer are not known")]
    NoKeys,
    #[error("its signature is wrong")]
    Signature,
    #[error("it has expired")]
    Expired,
    #[error("it is not valid yet")]
    NotYetValid,
    #[error("it is for another audience")]
    Audience,
    #[error("it has neither wlcg.ver 1 nor ver scitoken:2.0")]
    Version,
    #[error("it has no {0}")]
    Missing(&'static str),
    #[error("a scope has no valid path")]
    Scope,
}

/// What a token follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Profile {
    Wlcg,
    SciTokens,
}
