//! PROPFIND: which properties are asked for, and the reply (RFC 4918, 9.1 and 14; RFC 4331 for space).
//!
//! ```text
//!   <propfind xmlns="DAV:"><prop><getcontentlength/></prop></propfind> ─▶ multistatus ▶ response ▶ href, propstat ▶ prop, status
//! ```
//!
//! A directory's own response is the first. What an object has not is in a second `propstat` with 404. `quota-used-bytes` is given of
//! directories only: for a client in use it is the size of what it stands beside. A request of depth 0 without a body is the question of grid
//! clients for space: Rucio reads the quota from the reply, though `allprop` should have none (RFC 4331, 2).
//!
//! Limits: bodies of [`MAX_BODY_BYTES`], elements nested [`MAX_DEPTH`] deep, [`MAX_PROPERTIES`]; no document type, and so no entities.

use quick_xml::NsReader;
use quick_xml::escape::escape;
use quick_xml::events::Event;
use quick_xml::name::{Namespace, ResolveResult};
use std::fmt::Write as _;
use std::time::SystemTime;

/// Maximum size of a body in bytes.
pub(super) const MAX_BODY_BYTES: usize = 64 << 10;
/// Maximum depth of elements.
const MAX_DEPTH: usize = 16;
/// Maximum number of properties that are asked for by name.
const MAX_PROPERTIES: usize = 256;
const DAV: &str = "DAV:";

/// The properties of `allprop`; those of space are given only by name (RFC 4331, 2).
const ALL: [&str; 6] =
    ["resourcetype", "displayname", "getcontentlength", "getcontenttype", "getlastmodified", "getetag"];
const BY_NAME: [&str; 2] = ["quota-available-bytes", "quota-used-bytes"];

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All, without those of space.
    All,
    /// All, and those of space.
    AllAndSpace,
    /// Their names.
    Names,
    /// These, by namespace and name.
    These(Vec<(String, String)>),
}

impl Wanted {
    /// What is asked for by this body, and this depth.
    ///
    /// # Errors
    /// Why the body cannot be read.
    pub(super) fn read(body: &[u8], is_deep: bool) -> Result<Self, String> {
        match parse(body)? {
            Self::All if !is_deep && body.trim_ascii().is_empty() => Ok(Self::AllAndSpace),
            wanted => Ok(wanted),
        }
    }

    /// Whether it asks for space.
    pub(super) fn has_space(&self) -> bool {
        match self {
            Self::All => false,
            Self::AllAndSpace | Self::Names => true,
            Self::These(list) => list.iter().any(|(_, name)| BY_NAME.contains(&name.as_str())),
        }
    }
}

impl Wanted {
    /// The names of what is not asked for by name.
    fn listed(&self) -> impl Iterator<Item = &'static &'static str> {
        ALL.iter().chain(if self.has_space() { &BY_NAME[..] } else { &[] })
    }
}

/// An object of a reply.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) href: String,
    pub(super) name: String,
    pub(super) is_directory: bool,
    pub(super) size: u64,
    pub(super) modified: SystemTime,
    /// Empty: it has none.
    pub(super) etag: String,
    /// Available and used bytes.
    pub(super) space: Option<(u64, u64)>,
}

/// What a body asks for; an empty one for everything.
///
/// # Errors
/// Why it cannot be read.
pub(super) fn parse(body: &[u8]) -> Result<Wanted, String> {
    let text = std::str::from_utf8(body).map_err(|_| "the body is not UTF-8".to_owned())?;
    if text.trim().is_empty() {
        return Ok(Wanted::All);
    }
    let mut reader = NsReader::from_str(text);
    let (mut depth, mut wanted, mut has_root) = (0, None, false);
    loop {
        let (namespace, event) = reader.read_resolved_event().map_err(|error| format!("XML: {error}"))?;
        let (element, is_open) = match &event {
            Event::Start(element) => (element, true),
            Event::Empty(element) => (element, false),
            Event::End(_) => {
                depth -= 1;
                continue;
            }
            Event::DocType(_) => return Err("XML: a document type is not allowed".to_owned()),
            Event::Eof if depth > 0 || !has_root => return Err("XML: it ends too early".to_owned()),
            Event::Eof => break,
            _ => continue,
        };
        let namespace = match namespace {
            ResolveResult::Bound(Namespace(name)) => name.to_owned(),
            ResolveResult::Unbound => String::new(),
            ResolveResult::Unknown(prefix) => return Err(format!("XML: the prefix {prefix:?} is not bound")),
        };
        let name = element.local_name().as_ref().to_owned();
        if !is_name(&name) {
            return Err(format!("XML: {name:?} is no name"));
        }
        match (depth, namespace == DAV, name.as_str(), &mut wanted) {
            (0, true, "propfind", _) if !has_root => has_root = true,
            (0, ..) => return Err("the body is no DAV: propfind".to_owned()),
            (1, true, "allprop", None) => wanted = Some(Wanted::All),
            (1, true, "propname", None) => wanted = Some(Wanted::Names),
            (1, true, "prop", None) => wanted = Some(Wanted::These(Vec::new())),
            (2, _, _, Some(Wanted::These(list))) if list.len() < MAX_PROPERTIES => {
                list.push((namespace, name));
            }
            (2, _, _, Some(Wanted::These(_))) => {
                return Err(format!("more than {MAX_PROPERTIES} properties"));
            }
            _ => {}
        }
        depth += usize::from(is_open);
        if depth > MAX_DEPTH {
            return Err("XML: elements are nested too deeply".to_owned());
        }
    }
    wanted.ok_or_else(|| "the body asks for nothing".to_owned())
}

/// Whether it can stand in a reply as the name of an element.
fn is_name(text: &str) -> bool {
    let is_begin = text.starts_with(|c: char| c.is_alphabetic() || c == '_');
    is_begin && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

/// The reply.
pub(super) fn multistatus(entries: &[Entry], wanted: &Wanted) -> String {
    let mut text =
        String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\">\n");
    for entry in entries {
        let _ = write!(text, "<D:response><D:href>{}</D:href>", escape(entry.href.as_str()));
        let (mut found, mut missing) = (String::new(), String::new());
        match wanted {
            Wanted::All | Wanted::AllAndSpace => wanted.listed().for_each(|name| {
                if let Some(value) = entry.value(name) {
                    let _ = write!(found, "<D:{name}>{value}</D:{name}>");
                }
            }),
            Wanted::Names => wanted.listed().for_each(|name| {
                if entry.value(name).is_some() {
                    let _ = write!(found, "<D:{name}/>");
                }
            }),
            Wanted::These(list) => {
                for (namespace, name) in list {
                    match entry.value(name).filter(|_| namespace == DAV) {
                        Some(value) => drop(write!(found, "<D:{name}>{value}</D:{name}>")),
                        None => drop(write!(missing, "<{name} xmlns=\"{}\"/>", escape(namespace.as_str()))),
                    }
                }
            }
        }
        if !found.is_empty() || missing.is_empty() {
            propstat(&mut text, &found, "200 OK");
        }
        if !missing.is_empty() {
            propstat(&mut text, &missing, "404 Not Found");
        }
        text.push_str("</D:response>\n");
    }
    text.push_str("</D:multistatus>\n");
    text
}

fn propstat(text: &mut String, properties: &str, status: &str) {
    let _ = write!(
        text,
        "<D:propstat><D:prop>{properties}</D:prop><D:status>HTTP/1.1 {status}</D:status></D:propstat>"
    );
}

impl Entry {
    /// The content of a property in `DAV:`.
    fn value(&self, name: &str) -> Option<String> {
        let of_file = |text: String| (!self.is_directory).then_some(text);
        match name {
            "resourcetype" => Some(if self.is_directory { "<D:collection/>".into() } else { String::new() }),
            "displayname" => Some(escape(self.name.as_str()).into_owned()),
            "getcontentlength" => of_file(self.size.to_string()),
            "getcontenttype" => of_file("application/octet-stream".into()),
            "getlastmodified" => Some(httpdate::fmt_http_date(self.modified)),
            "getetag" => of_file(escape(self.etag.as_str()).into_owned()).filter(|etag| !etag.is_empty()),
            "quota-available-bytes" => self.space.map(|(available, _)| available.to_string()),
            "quota-used-bytes" => self.space.map(|(_, used)| used.to_string()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::UNIX_EPOCH;

    fn entry(name: &str, is_directory: bool) -> Entry {
        let space = is_directory.then_some((5, 7));
        let etag = "\"a&b\"".to_owned();
        Entry {
            href: format!("/{name}"),
            name: name.into(),
            is_directory,
            size: 3,
            modified: UNIX_EPOCH,
            etag,
            space,
        }
    }

    #[test]
    fn bodies_of_clients_are_read() {
        let these = |list: &[(&str, &str)]| {
            Wanted::These(list.iter().map(|(space, name)| ((*space).into(), (*name).into())).collect())
        };
        for (body, wanted) in [
            ("", Wanted::All),
            ("  \n", Wanted::All),
            ("<propfind xmlns='DAV:'><allprop/></propfind>", Wanted::All),
            ("<?xml version='1.0'?><D:propfind xmlns:D='DAV:'><D:propname/></D:propfind>", Wanted::Names),
            (
                "<D:propfind xmlns:D=\"DAV:\" xmlns:L=\"LCGDM:\"><D:prop><D:getetag/><L:mode/><x xmlns=''/></D:prop></D:propfind>",
                these(&[("DAV:", "getetag"), ("LCGDM:", "mode"), ("", "x")]),
            ),
            // What is not known is ignored (RFC 4918, 17).
            (
                "<propfind xmlns='DAV:'><x><prop/></x><prop><a><b/></a></prop><allprop/></propfind>",
                these(&[("DAV:", "a")]),
            ),
        ] {
            assert_eq!(parse(body.as_bytes()), Ok(wanted), "{body}");
        }
    }

    #[test]
    fn bodies_that_are_none_are_refused() {
        let deep = format!("<propfind xmlns='DAV:'>{}", "<a>".repeat(100));
        let many = format!("<propfind xmlns='DAV:'><prop>{}</prop></propfind>", "<a/>".repeat(300));
        for body in [
            "x",
            "<propfind xmlns='DAV:'><allprop/>",
            "<propfind xmlns='DAV:'></propfind>",
            "<propfind><allprop/></propfind>",
            "<propfind xmlns='DAV:'><allprop/></propfin>",
            "<D:propfind><D:allprop/></D:propfind>",
            "<propfind xmlns='DAV:'><allprop/></propfind><propfind xmlns='DAV:'/>",
            "<!DOCTYPE a [<!ENTITY b 'c'>]><propfind xmlns='DAV:'><allprop/></propfind>",
            "<propertyupdate xmlns='DAV:'/>",
            &deep,
            &many,
        ] {
            assert!(parse(body.as_bytes()).is_err(), "{body}");
        }
        assert!(parse(b"\xff\xfe<\0").is_err());
    }

    #[test]
    fn a_reply_says_what_there_is_and_what_not() {
        let wanted =
            parse(b"<propfind xmlns='DAV:'><prop><getcontentlength/><quota-used-bytes/></prop></propfind>")
                .unwrap();
        let text = multistatus(&[entry("d&", true), entry("f", false)], &wanted);
        let (directory, file) = text.split_once("<D:href>/f</D:href>").unwrap();
        assert!(directory.contains("<D:href>/d&amp;</D:href>"), "{text}");
        assert!(
            directory
                .contains("<D:quota-used-bytes>7</D:quota-used-bytes></D:prop><D:status>HTTP/1.1 200 OK"),
            "{text}"
        );
        assert!(
            directory.contains("<getcontentlength xmlns=\"DAV:\"/></D:prop><D:status>HTTP/1.1 404"),
            "{text}"
        );
        assert!(
            file.contains("<D:getcontentlength>3</D:getcontentlength></D:prop><D:status>HTTP/1.1 200 OK"),
            "{text}"
        );
        assert!(file.contains("<quota-used-bytes xmlns=\"DAV:\"/></D:prop><D:status>HTTP/1.1 404"), "{text}");
    }

    /// Rucio asks for space by a request of depth 0 without a body, and reads the first `propstat`.
    #[test]
    fn a_request_of_depth_0_without_a_body_is_answered_with_space() {
        let body = b"<propfind xmlns='DAV:'><allprop/></propfind>";
        for (body, is_deep, has_space) in
            [(&b""[..], false, true), (b" \n", false, true), (b"", true, false), (body, false, false)]
        {
            let wanted = Wanted::read(body, is_deep).unwrap();
            assert_eq!(wanted.has_space(), has_space);
            let text = multistatus(&[entry("d", true), entry("f", false)], &wanted);
            let (directory, file) = text.split_once("<D:href>/f</D:href>").unwrap();
            let space = "<D:quota-available-bytes>5</D:quota-available-bytes><D:quota-used-bytes>7</D:quota-used-bytes>";
            assert_eq!(
                directory.contains(&format!("{space}</D:prop><D:status>HTTP/1.1 200")),
                has_space,
                "{text}"
            );
            assert!(!file.contains("quota") && file.contains("getcontentlength"), "{text}");
        }
        assert!(Wanted::read(b"x", false).is_err());
    }

    proptest! {
        #[test]
        fn any_body_is_read_and_any_reply_is_xml(body in any::<Vec<u8>>(), xml in "[<>/a-zD:='\"&; !\\[\\]-]{0,80}", name in any::<String>()) {
            let _ = parse(&body);
            if let Ok(wanted) = parse(xml.as_bytes()) {
                let _ = multistatus(&[], &wanted);
            }
            let name: String = name.chars().filter(|c| !c.is_control()).collect();
            let wanted = Wanted::These(vec![("x'\"<&".into(), "a".into()), (DAV.into(), "displayname".into())]);
            let text = multistatus(&[entry(&name, true)], &wanted);
            let mut reader = quick_xml::Reader::from_str(&text);
            while !matches!(reader.read_event().unwrap(), Event::Eof) {}
        }
    }
}
