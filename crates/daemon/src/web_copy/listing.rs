//! What there is below a URL: PROPFIND, one directory after the other.
//!
//! A server names what it has, and those names become paths here. So each must be one name directly below the directory that was asked for;
//! anything else ends the copy.

use super::{MAX_DEPTH, MAX_LISTING_BYTES, WebClient, fetch_error};
use crate::remote::failure::Failure;
use crate::remote::multistatus::{Listed, parse};
use crate::remote::request_path::RequestPath;
use crate::remote::session::{MakeBody, RemoteSession};
use crate::remote::url::RemoteUrl;
use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use axum::http::{HeaderMap, Method, StatusCode};
use skyhaul::core::hint::Hint;
use skyhaul_transfer::copy::{FetchError, is_temporary};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

/// Most names of a copy.
const MAX_NAMES: usize = 1 << 20;
/// Time for a directory.
const LIST_TIMEOUT: Duration = Duration::from_secs(300);
const DEPTH: HeaderName = HeaderName::from_static("depth");
const QUESTION: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:propfind xmlns:D=\"DAV:\"><D:prop><D:resourcetype/></D:prop></D:propfind>\n";

/// What is to be copied, and where it goes below the destination.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) files: Vec<(RemoteUrl, PathBuf)>,
    pub(super) directories: Vec<PathBuf>,
    /// Names of unfinished copies of this program, which are left out.
    pub(super) temporary_names: usize,
}

impl WebClient {
    /// Everything below these URLs. `name`: that of the one file, instead of its own.
    pub(super) fn list(
        &self,
        urls: &[RemoteUrl],
        name: Option<&OsStr>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Listing, FetchError> {
        let mut all = Listing::default();
        for url in urls {
            let names = url.names().map_err(|why| FetchError::Final(format!("{url}: {why}")))?;
            let to = PathBuf::from(name.unwrap_or_else(|| OsStr::new(names.last())));
            // A signature is for GET, of a file.
            let found = if url.is_signed() { None } else { self.directory(url, is_over)? };
            match found {
                Some(found) if name.is_none() => self.tree((url.clone(), to), found, &mut all, is_over)?,
                Some(_) => {
                    let hint = Hint("give an existing directory, or one with `/` at its end");
                    return Err(FetchError::Final(format!(
                        "{url} is a directory, and the destination is a file{hint}"
                    )));
                }
                None if url.is_directory() => {
                    let hint = Hint("give the URL of a file");
                    return Err(FetchError::Final(format!("the server does not list {url}{hint}")));
                }
                None => all.files.push((url.clone(), to)),
            }
        }
        Ok(all)
    }

    fn tree(
        &self,
        (url, to): (RemoteUrl, PathBuf),
        found: Vec<(String, bool)>,
        all: &mut Listing,
        is_over: &dyn Fn() -> bool,
    ) -> Result<(), FetchError> {
        let mut open = VecDeque::from([(url, to, Some(found), 0)]);
        while let Some((url, to, found, depth)) = open.pop_front() {
            let found = match found {
                Some(found) => found,
                None => self.directory(&url, is_over)?.ok_or_else(|| {
                    FetchError::Final(format!("the server lists {url} as a directory, and not what it has"))
                })?,
            };
            if !to.as_os_str().is_empty() {
                all.directories.push(to.clone());
            }
            if depth > MAX_DEPTH {
                return Err(FetchError::Final(format!(
                    "{url}: directories are nested more than {MAX_DEPTH} deep"
                )));
            }
            let names = url.names().map_err(|why| FetchError::Final(format!("{url}: {why}")))?;
            for (name, is_directory) in found {
                if is_temporary(OsStr::new(&name)) {
                    all.temporary_names += 1;
                    continue;
                }
                let (child, path) = (url.at(&names.child(&name), is_directory), to.join(&name));
                match is_directory {
                    true => open.push_back((child, path, None, depth + 1)),
                    false => all.files.push((child, path)),
                }
            }
            if all.files.len() + all.directories.len() + open.len() > MAX_NAMES {
                return Err(FetchError::Final(format!("the server lists more than {MAX_NAMES} names")));
            }
        }
        Ok(())
    }

    /// The names in a directory, and whether each is one; `None`: it is a file, or the server does not say.
    fn directory(
        &self,
        url: &RemoteUrl,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Option<Vec<(String, bool)>>, FetchError> {
        self.members((url, "source"), "1", is_over)
    }

    /// Whether there is a directory, and the server says so.
    pub(super) fn is_directory(
        &self,
        url: &RemoteUrl,
        is_over: &dyn Fn() -> bool,
    ) -> Result<bool, FetchError> {
        self.members((url, "destination"), "0", is_over).map(|found| found.is_some())
    }

    fn members(
        &self,
        (url, side): (&RemoteUrl, &'static str),
        depth: &'static str,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Option<Vec<(String, bool)>>, FetchError> {
        self.retried(is_over, &mut || {
            let mut session = self.session(url, side);
            let asked = self.wait(ask(&mut session, depth), LIST_TIMEOUT, is_over)?;
            let answered = asked.map_err(|failure| fetch_error(&failure))?;
            self.put_back(session);
            match answered {
                None => Ok(None),
                Some((from, listed)) => members(&from, listed).map_err(FetchError::Final),
            }
        })
    }
}

/// The reply to PROPFIND, and who sent it; `None`: the server does not list it.
async fn ask(
    session: &mut RemoteSession,
    depth: &'static str,
) -> Result<Option<(RemoteUrl, Vec<Listed>)>, Failure> {
    let method = Method::from_bytes(b"PROPFIND").map_err(|_| Failure::bad("PROPFIND"))?;
    let headers: HeaderMap = [
        (DEPTH, HeaderValue::from_static(depth)),
        (CONTENT_TYPE, HeaderValue::from_static("application/xml")),
    ]
    .into_iter()
    .collect();
    let body: MakeBody<'_> = &mut || Box::pin(async { Ok(Body::from(QUESTION)) });
    let mut reply = session.send(method, &headers, body, &|_| {}).await?;
    if reply.status == StatusCode::SERVICE_UNAVAILABLE || reply.status == StatusCode::TOO_MANY_REQUESTS {
        return Err(session.refusal(reply).await);
    }
    if reply.status != StatusCode::MULTI_STATUS {
        return Ok(None);
    }
    let text = reply.beginning(MAX_LISTING_BYTES + 1).await;
    if text.len() > MAX_LISTING_BYTES {
        return Err(Failure::new(502, format_args!("the list of {} is too long", reply.from)));
    }
    let listed = parse(&text)
        .map_err(|why| Failure::new(502, format_args!("the list of {} cannot be read: {why}", reply.from)))?;
    let from = reply.from.clone();
    session.keep(reply);
    Ok(Some((from, listed)))
}

/// The names directly below a directory. `None`: it is a file.
fn members(url: &RemoteUrl, listed: Vec<Listed>) -> Result<Option<Vec<(String, bool)>>, String> {
    let own = url.names().map_err(|why| format!("{url}: {why}"))?;
    let (mut members, mut is_directory) = (Vec::new(), false);
    for one in listed {
        let shown: String =
            one.href.chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect();
        let wrong = || format!("{url}: the server lists `{shown}`, which is not below it");
        let path = path(&one.href).ok_or_else(wrong)?;
        if path == own {
            is_directory |= one.is_directory;
            continue;
        }
        let (name, above) = path.names().split_last().ok_or_else(wrong)?;
        if above != own.names() {
            return Err(wrong());
        }
        members.push((name.clone(), one.is_directory));
    }
    Ok((is_directory || !members.is_empty()).then_some(members))
}

/// The path of an href, which may be a URL.
fn path(href: &str) -> Option<RequestPath> {
    if href.contains("://") && !href.starts_with('/') {
        return RemoteUrl::parse(href).ok()?.names().ok();
    }
    RequestPath::parse(href).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(hrefs: &[(&str, bool)]) -> Result<Option<Vec<(String, bool)>>, String> {
        let listed = hrefs
            .iter()
            .map(|(href, is_directory)| Listed { href: (*href).to_owned(), is_directory: *is_directory });
        members(&RemoteUrl::parse("https://a.example/exp/d").unwrap(), listed.collect())
    }

    #[test]
    fn names_are_below_what_was_asked_for_or_the_list_is_refused() {
        let own = ("/exp/d/", true);
        let all = of(&[own, ("/exp/d/f%20g", false), ("https://a.example/exp/d/sub/", true)]).unwrap();
        assert_eq!(all, Some(vec![("f g".to_owned(), false), ("sub".to_owned(), true)]));
        assert_eq!(of(&[("/exp/d", false)]), Ok(None));
        assert_eq!(of(&[own]), Ok(Some(Vec::new())));
        for bad in [
            "/exp",
            "/exp/e",
            "/exp/d/a/b",
            "/exp/d/../x",
            "/exp/d/%2e%2e",
            "/exp/d/a%2fb",
            "x",
            "",
            "/",
            "/exp/d/%00",
        ] {
            assert!(of(&[own, (bad, false)]).unwrap_err().contains("not below it"), "{bad}");
        }
    }
}
