//! Macaroons: clients of the grid ask for one by default, and are referred to tokens here.
//!
//! gfal2 and davix, when they have no token for an `https` server, send `POST` with `application/macaroon-request`; dCache, StoRM and XRootD answer with
//! a macaroon. A quick 405 makes them continue without; its text tells their user what to use instead.

use crate::remote::failure::Failure;
use axum::http::header::{ALLOW, CONTENT_TYPE};
use axum::http::{HeaderMap, Method};
use skyhaul::core::hint::Hint;

const MACAROON_REQUEST: &str = "application/macaroon-request";

/// The refusal of a request for a macaroon; `None` if it is another request.
pub(super) fn refusal(method: &Method, headers: &HeaderMap, methods: &str) -> Option<Failure> {
    let kind = headers.get(CONTENT_TYPE)?.to_str().ok()?.split(';').next()?.trim();
    if method != Method::POST || !kind.eq_ignore_ascii_case(MACAROON_REQUEST) {
        return None;
    }
    let hint = Hint(
        "use a bearer token (BEARER_TOKEN): of an issuer that this server trusts, or one that its operator makes with `skyhaul token create`",
    );
    Some(Failure::new(405, format_args!("macaroons are not issued here{hint}")).with(ALLOW, methods))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_for_macaroons_are_refused_here() {
        let of = |method: Method, kind: &str| {
            let headers = [(CONTENT_TYPE, kind.parse().unwrap())].into_iter().collect();
            refusal(&method, &headers, "GET").map(|failure| failure.text().to_owned())
        };
        for kind in ["application/macaroon-request", "Application/Macaroon-Request; charset=utf-8"] {
            let text = of(Method::POST, kind).unwrap();
            assert!(
                text.starts_with("macaroons are not issued here") && text.contains("skyhaul token create"),
                "{text}"
            );
        }
        assert_eq!(of(Method::PUT, "application/macaroon-request"), None);
        assert_eq!(of(Method::POST, "text/plain"), None);
        assert!(refusal(&Method::POST, &HeaderMap::new(), "GET").is_none());
    }
}
