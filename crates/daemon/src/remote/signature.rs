//! URLs that are signed for one request, as object stores give them: which of them can be used here, what a store says, and texts without what
//! queries hold.
//!
//! ```text
//!   https://s3.example/bucket/f?X-Amz-Credential=…&X-Amz-SignedHeaders=host;content-type&X-Amz-Signature=…
//!                                                                      └ each must be sent, as it was signed
//! ```
//!
//! The signature covers a method, the host, the path, the query, and the headers that it names. So it gives the right to one request, and to no
//! other: not to HEAD beside GET, not to COPY.

use super::failure::Failure;
use super::url::RemoteUrl;
use axum::http::{HeaderMap, Method};
use percent_encoding::percent_decode_str;
use quick_xml::escape::unescape;
use skyhaul::core::hint::Hint;
use std::borrow::Cow;

/// Query parameters that hold the signature of a request and its method: Amazon S3 (signature versions 4 and 2), Google Cloud Storage.
const SIGNATURES: [&str; 3] = ["x-amz-signature", "x-goog-signature", "signature"];
/// Query parameters that name the headers which the signature covers.
const SIGNED_HEADERS: [&str; 2] = ["x-amz-signedheaders", "x-goog-signedheaders"];
/// Headers whose values a signature can cover here: those of every request, and those of one with a body.
const ALWAYS: &[&str] = &["host"];
const WITH_BODY: &[&str] = &["host", "content-length", "content-type"];
/// Shortest text that is taken to be a secret, and not a word.
const SECRET_BYTES: usize = 8;

impl RemoteUrl {
    /// Whether its query is the signature of one request, with one method, and gives the right to it: no other method is to be asked for, and
    /// no token to be sent.
    pub(crate) fn is_signed(&self) -> bool {
        self.parameter(&SIGNATURES).is_some()
    }

    /// The headers that its signature covers, in lower case.
    pub(crate) fn signed_headers(&self) -> Vec<String> {
        let list = self.parameter(&SIGNED_HEADERS).unwrap_or_default();
        let list = percent_decode_str(list).decode_utf8_lossy().to_ascii_lowercase();
        list.split(';').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }

    /// Checks that all headers that its signature covers are sent with a request of this method; `passed` are sent as well.
    ///
    /// # Errors
    /// Some are not, and are named.
    pub(crate) fn check_signed_headers(&self, method: &Method, passed: &HeaderMap) -> Result<(), Failure> {
        let sent = if method == Method::PUT { WITH_BODY } else { ALWAYS };
        let is_sent = |name: &String| sent.contains(&name.as_str()) || passed.contains_key(name.as_str());
        let mut missing = self.signed_headers();
        missing.retain(|name| !is_sent(name));
        if !self.is_signed() || missing.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = missing.iter().take(8).map(|name| name.escape_debug().to_string()).collect();
        let hint = Hint(format!("sign it for {method} with no headers but {}", sent.join(", ")));
        let text = format_args!(
            "the signature of {self} covers headers that are not sent with {method}: {}{hint}",
            names.join(", ")
        )
        .to_string();
        Err(Failure::bad(text))
    }

    /// The value of the first parameter with one of these names.
    fn parameter(&self, names: &[&str]) -> Option<&str> {
        let pairs = self.query().into_iter().flat_map(|query| query.split('&'));
        let mut pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs.find(|(name, _)| names.iter().any(|one| name.eq_ignore_ascii_case(one))).map(|(_, value)| value)
    }
}

/// A text without the values of these headers, and of the queries of these URLs, as they were sent and decoded.
pub(crate) fn without_secrets(text: String, passed: &[&HeaderMap], urls: &[&RemoteUrl]) -> String {
    let values = passed.iter().flat_map(|headers| headers.values());
    let words = values.filter_map(|value| value.to_str().ok()).flat_map(str::split_whitespace);
    let queries = urls.iter().filter_map(|url| url.query());
    let parts = queries.flat_map(|query| {
        query.split('&').filter_map(|pair| pair.split_once('=').map(|(_, value)| value)).chain([query])
    });
    let decoded = |part: &str| percent_decode_str(part).decode_utf8().ok().map(String::from);
    let mut secrets: Vec<String> = words.map(str::to_owned).collect();
    for part in parts {
        secrets.extend(decoded(part));
        secrets.push(part.to_owned());
    }
    secrets.retain(|secret| secret.len() >= SECRET_BYTES);
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.iter().fold(text, |text, secret| text.replace(secret, "…"))
}

/// What a server says with a refusal: of the XML of an object store, its code and message.
pub(crate) fn said_by(text: &str) -> String {
    let element = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        let (inner, _) = rest.split_once(&format!("</{name}>"))?;
        unescape(inner).ok().map(Cow::into_owned)
    };
    let Some(code) = element("Code").filter(|_| text.contains("<Error>")) else { return text.to_owned() };
    match element("Message").filter(|message| !message.is_empty()) {
        Some(message) => format!("{code}: {message}"),
        None => code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use axum::http::header::{AUTHORIZATION, HeaderName};

    fn url(query: &str) -> RemoteUrl {
        RemoteUrl::parse(&format!("https://s3.example/b/f?{query}")).unwrap()
    }

    #[test]
    fn signed_urls_are_told_from_others_and_kept_to_the_letter() {
        let signed =
            "https://s3.example/b/a%2Fb?X-Amz-Credential=AKIA%2F20261130&X-Amz-Signature=%2b0&x-id=GetObject";
        let of = RemoteUrl::parse(signed).unwrap();
        assert!(of.is_signed() && of.text() == signed && !of.to_string().contains('?'));
        for (query, is) in [
            ("X-Goog-Signature=1", true),
            ("AWSAccessKeyId=a&Signature=b&Expires=1", true),
            ("authz=X-Amz-Signature", false),
            ("copy_mode=push", false),
        ] {
            assert_eq!(url(query).is_signed(), is, "{query}");
        }
        assert!(!RemoteUrl::parse("https://a/f").unwrap().is_signed());
    }

    #[test]
    fn headers_of_a_signature_that_are_not_sent_are_named() {
        let none = HeaderMap::new();
        let passed: HeaderMap = [(HeaderName::from_static("x-amz-acl"), HeaderValue::from_static("private"))]
            .into_iter()
            .collect();
        for (headers, method, passed, missing) in [
            ("host", Method::GET, &none, ""),
            ("host", Method::PUT, &none, ""),
            ("Content-Type%3bhost", Method::PUT, &none, ""),
            ("host;range", Method::GET, &none, "range"),
            ("content-md5%3Bhost%3Bx-amz-acl", Method::PUT, &none, "content-md5, x-amz-acl"),
            ("content-md5;host;x-amz-acl", Method::PUT, &passed, "content-md5"),
            ("host;x-amz-acl", Method::GET, &passed, ""),
        ] {
            for kind in ["Amz", "Goog"] {
                let query = format!("X-{kind}-SignedHeaders={headers}&X-{kind}-Signature=5ec7e75ec7e7");
                let checked = url(&query).check_signed_headers(&method, passed);
                let said = checked.err().map(|failure| failure.text().to_owned()).unwrap_or_default();
                assert_eq!(said.is_empty(), missing.is_empty(), "{query}: {said}");
                assert!(said.contains(missing) && !said.contains("5ec7e7"), "{query}: {said}");
            }
        }
        // Names without a signature are a query like any other.
        assert!(url("X-Amz-SignedHeaders=range").check_signed_headers(&Method::GET, &none).is_ok());
    }

    #[test]
    fn secrets_are_left_out_as_they_were_sent_and_decoded() {
        let of = url("AWSAccessKeyId=AKIA0000&Expires=1795900000&Signature=vjbyPxybdZaNmGa%2ByT272YEAiv4%3D");
        let mut passed = HeaderMap::new();
        passed.insert(AUTHORIZATION, HeaderValue::from_static("Bearer aaaabbbbcccc"));
        let said = "Signature: vjbyPxybdZaNmGa+yT272YEAiv4=, sent: vjbyPxybdZaNmGa%2ByT272YEAiv4%3D, token aaaabbbbcccc";
        let shown = without_secrets(said.to_owned(), &[&passed], &[&of]);
        assert_eq!(shown, "Signature: …, sent: …, token …");
    }

    #[test]
    fn of_the_xml_of_an_object_store_its_code_and_message_are_shown() {
        let head = "<?xml version=\"1.0\"?><Error><Code>SignatureDoesNotMatch</Code>";
        for (text, said) in [
            (
                format!("{head}<Message>It does not &lt;match&gt;</Message><StringToSign>x"),
                "SignatureDoesNotMatch: It does not <match>",
            ),
            (format!("{head}<Message></Message></Error>"), "SignatureDoesNotMatch"),
            (format!("{head}<Message>cut off"), "SignatureDoesNotMatch"),
            ("<Code>1</Code>".to_owned(), "<Code>1</Code>"),
            ("No such file".to_owned(), "No such file"),
        ] {
            assert_eq!(said_by(&text), said, "{text}");
        }
    }
}
