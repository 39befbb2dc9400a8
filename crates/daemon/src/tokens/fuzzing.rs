//! Tokens of any content, for the fuzzer.

use super::error::Profile;
use super::scope::{Grants, Use};
use super::signed::{SignedToken, parts};
use super::verdict::IssuerRules;
use super::web_keys::WebKeys;
use crate::remote::request_path::RequestPath;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::time::{Duration, UNIX_EPOCH};

/// Public keys whose private keys nobody here has: those of RFC 7515, A.3 and A.2.
const KEYS: &str = r#"{"keys":[{"kty":"EC","kid":"e","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"},{"kty":"RSA","kid":"r","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ","e":"AQAB"}]}"#;
/// When tokens are judged, seconds since 1970.
const NOW: u64 = 1_790_000_000;

/// Any bytes as a token, as the parts of one (head, claims and signature, a line each), as scopes, and as the keys of an issuer. Nothing holds that
/// nobody has signed, and nothing is granted outside the path of the issuer.
#[doc(hidden)]
pub fn fuzz(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let _ = parts(&text);
    token(&text);
    let mut lines = input.splitn(3, |byte| *byte == b'\n').map(|line| URL_SAFE_NO_PAD.encode(line));
    let [head, claims, signature] = std::array::from_fn(|_| lines.next().unwrap_or_default());
    token(&format!("{head}.{claims}.{signature}"));
    for profile in [Profile::Wlcg, Profile::SciTokens] {
        Grants::parse(&text, profile, &base()).iter().for_each(check);
    }
    let _ = WebKeys::parse(input);
}

fn base() -> RequestPath {
    RequestPath::parse("/exp").unwrap_or_default()
}

fn token(text: &str) {
    let Ok(token) = SignedToken::parse(text) else { return };
    let keys = WebKeys::parse(KEYS.as_bytes()).unwrap_or_default();
    let rules = IssuerRules::new(token.issuer(), &["https://a.example:8443".to_owned()], base());
    let now = UNIX_EPOCH + Duration::from_secs(NOW);
    assert!(rules.judge(&token, &keys, now).is_err(), "nobody has signed {text}");
    if let Ok(holder) = rules.judge_claims(&token.claims, now) {
        assert!(!holder.subject.is_empty());
        check(&holder.grants);
    }
}

/// What is granted is below the path of the issuer, and each right has those that it contains.
fn check(grants: &Grants) {
    const USES: [Use; 6] = [Use::Stat, Use::List, Use::Read, Use::Create, Use::Modify, Use::MakeDirectory];
    let path = |text: &str| RequestPath::parse(text).unwrap_or_default();
    for outside in ["/", "/expo", "/other/exp", "/exp2/a", "/recordings/a"] {
        let outside = path(outside);
        let granted = USES.into_iter().filter(|how| grants.allow(*how, &outside));
        // That the directory exists in which its paths begin is no secret.
        assert!(
            granted
                .eq((outside.names().is_empty() && grants.allow(Use::Stat, &outside)).then_some(Use::Stat))
        );
    }
    for inside in ["/exp", "/exp/a", "/exp/a/b", "/exp/scan.vdif"].map(path) {
        let may = |how| grants.allow(how, &inside);
        assert!(!may(Use::Modify) || may(Use::Create));
        assert!(USES.into_iter().all(|how| !may(how) || may(Use::Stat)));
    }
}
