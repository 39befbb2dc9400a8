//! The reply to PROPFIND of another server: what a directory has (RFC 4918, 14).
//!
//! ```text
//!   multistatus ▶ response ▶ href, propstat ▶ prop ▶ resourcetype ▶ collection, getcontentlength
//! ```
//!
//! Limits: elements nested [`MAX_DEPTH`] deep, a path of [`MAX_HREF_BYTES`]; no document type, and so no entities of its own.

use quick_xml::NsReader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::Event;
use quick_xml::name::{Namespace, ResolveResult};

const MAX_DEPTH: usize = 32;
const MAX_HREF_BYTES: usize = 16 << 10;

/// An object of a directory, or the directory itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Its path or URL, as the server sent it.
    pub(crate) href: String,
    pub(crate) is_directory: bool,
}

/// Reads a reply.
///
/// # Errors
/// Why it cannot be read.
pub(crate) fn parse(body: &[u8]) -> Result<Vec<Listed>, String> {
    let text = std::str::from_utf8(body).map_err(|_| "it is not UTF-8".to_owned())?;
    let mut reader = NsReader::from_str(text);
    let (mut path, mut all): (Vec<String>, Vec<Listed>) = (Vec::new(), Vec::new());
    loop {
        let (namespace, event) = reader.read_resolved_event().map_err(|error| format!("XML: {error}"))?;
        let is_dav = matches!(namespace, ResolveResult::Bound(Namespace("DAV:")));
        let text = match &event {
            Event::Start(element) | Event::Empty(element) => {
                let name = if is_dav { element.local_name().as_ref().to_owned() } else { String::new() };
                path.push(name);
                open(&path, &mut all)?;
                if matches!(event, Event::Empty(_)) {
                    path.pop();
                }
                continue;
            }
            Event::End(_) => {
                path.pop();
                continue;
            }
            Event::DocType(_) => return Err("XML: a document type is not allowed".to_owned()),
            Event::Eof if !path.is_empty() => return Err("XML: it ends too early".to_owned()),
            Event::Eof => break,
            Event::Text(text) => text.xml10_content().into_owned(),
            Event::CData(text) => text.xml10_content().into_owned(),
            Event::GeneralRef(reference) => match reference.resolve_char_ref() {
                Ok(Some(c)) => c.to_string(),
                Ok(None) => resolve_predefined_entity(&reference.xml10_content())
                    .ok_or_else(|| "XML: an unknown entity".to_owned())?
                    .to_owned(),
                Err(error) => return Err(format!("XML: {error}")),
            },
            _ => continue,
        };
        if is(&path, &["multistatus", "response", "href"])
            && let Some(last) = all.last_mut()
        {
            last.href.push_str(&text);
            if last.href.len() > MAX_HREF_BYTES {
                return Err("a path is too long".to_owned());
            }
        }
    }
    all.iter_mut().for_each(|one| one.href = one.href.trim().to_owned());
    Ok(all)
}

fn open(path: &[String], all: &mut Vec<Listed>) -> Result<(), String> {
    if path.len() > MAX_DEPTH {
        return Err("XML: elements are nested too deeply".to_owned());
    }
    if path.len() == 1 && path[0] != "multistatus" {
        return Err("the body is no DAV: multistatus".to_owned());
    }
    if is(path, &["multistatus", "response"]) {
        all.push(Listed::default());
    }
    if is(path, &["multistatus", "response", "propstat", "prop", "resourcetype", "collection"])
        && let Some(last) = all.last_mut()
    {
        last.is_directory = true;
    }
    Ok(())
}

fn is(path: &[String], names: &[&str]) -> bool {
    path.iter().map(String::as_str).eq(names.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_directory_and_its_files_are_read_whatever_the_prefix() {
        for (open, close, prefix) in [("D:", "D:", " xmlns:D='DAV:'"), ("", "", " xmlns='DAV:'")] {
            let text = format!(
                "<?xml version='1.0'?><{open}multistatus{prefix}><{open}response><{open}href> /a/ </{open}href><{open}propstat><{open}prop>\
                 <{open}resourcetype><{open}collection/></{open}resourcetype></{open}prop></{open}propstat></{close}response>\
                 <{open}response><{open}href>/a/b&amp;c%20d&#33;</{open}href><{open}propstat><{open}prop><{open}resourcetype/>\
                 <x:other xmlns:x='u'><{open}collection/></x:other></{open}prop></{open}propstat></{close}response></{close}multistatus>"
            );
            let file = Listed { href: "/a/b&c%20d!".into(), is_directory: false };
            assert_eq!(
                parse(text.as_bytes()).unwrap(),
                [Listed { href: "/a/".into(), is_directory: true }, file]
            );
        }
        for bad in
            ["<a/>", "<multistatus xmlns='DAV:'>", "<!DOCTYPE a []><multistatus xmlns='DAV:'/>", "text"]
        {
            assert!(parse(bad.as_bytes()).is_err() || bad == "text", "{bad}");
        }
        let deep = format!("<multistatus xmlns='DAV:'>{}", "<a>".repeat(100));
        assert!(parse(deep.as_bytes()).unwrap_err().contains("nested"));
    }

    proptest! {
        #[test]
        fn any_body_is_read_or_refused(body in prop::collection::vec(any::<u8>(), 0..200), text in "[<>/a-z:&;# '=]{0,80}") {
            let _ = parse(&body);
            let _ = parse(text.as_bytes());
            let _ = parse(format!("<multistatus xmlns='DAV:'><response>{text}").as_bytes());
        }
    }
}
