//! The files of the dashboard, and who may ask a station that has no token.
//!
//! The page runs only its own script, loads nothing from elsewhere, and cannot be framed by another site. It contains no secret: with a token,
//! the page asks for it and sends it with each call.

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, Method};
use axum::response::{IntoResponse, Response};

/// What the page may load and do.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file of the dashboard.
#[derive(Clone, Copy, Debug)]
pub(in crate::station) struct PageFile {
    pub(in crate::station) path: &'static str,
    content_type: &'static str,
    text: &'static str,
}

/// Every file.
pub(in crate::station) const PAGE_FILES: [PageFile; 4] = [
    PageFile { path: "/", content_type: "text/html; charset=utf-8", text: include_str!("page.html") },
    PageFile {
        path: "/dashboard.css",
        content_type: "text/css; charset=utf-8",
        text: include_str!("dashboard.css"),
    },
    PageFile {
        path: "/dashboard.js",
        content_type: "text/javascript; charset=utf-8",
        text: include_str!("dashboard.js"),
    },
    PageFile {
        path: "/parts.js",
        content_type: "text/javascript; charset=utf-8",
        text: include_str!("parts.js"),
    },
];

impl PageFile {
    /// The reply.
    pub(in crate::station) fn reply(&self) -> Response {
        let headers = [
            (CONTENT_TYPE, self.content_type),
            // After an upgrade, the page must be that of the service.
            (CACHE_CONTROL, "no-cache"),
            (CONTENT_SECURITY_POLICY, POLICY),
            (X_FRAME_OPTIONS, "DENY"),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (REFERRER_POLICY, "no-referrer"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
            (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        ];
        (headers, self.text).into_response()
    }
}

/// Whether a path is that of a file of the page.
pub(in crate::station) fn is_page(path: &str) -> bool {
    PAGE_FILES.iter().any(|file| file.path == path)
}

/// Whether a browser says that a page of another site makes this call, or sends what a form of any site could send.
///
/// Programs send neither header. Following a link to the page is no call.
pub(in crate::station) fn is_foreign(method: &Method, path: &str, headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let is_own = matches!(text("sec-fetch-site"), None | Some("same-origin" | "none"));
    let is_link = is_page(path) && *method == Method::GET;
    let is_json = |kind: &str| {
        kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
    };
    let is_form = *method == Method::POST && text("content-type").is_some_and(|kind| !is_json(kind));
    !(is_own || is_link) || is_form
}
