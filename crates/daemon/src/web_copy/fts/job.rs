//! The document of a job, as FTS 3 takes it at `POST /jobs` (fts-rest-flask 3.13: `submit_schema.py`, `JobBuilder.py`).
//!
//! ```text
//!   https://a/x  https://c/y   https://b/d/      ─▶  {"files": [{"sources": ["https://a/x"], "destinations": ["https://b/d/x"], …}, …],
//!   source       source        destination           "params": {"verify_checksum": "both", "overwrite": false, …}}
//! ```
//!
//! URLs are passed on to the letter, with their scheme and query: FTS chooses its settings by them, and a query may be a signature.

use crate::remote::url::RemoteUrl;
use crate::scitags::SciTag;
use serde_json::{Map, Value, json};
use skyhaul::core::hint::Hint;
use std::collections::HashSet;

/// Most files of a job: what the server says of them at the end has to fit into a reply.
pub const MAX_JOB_FILES: usize = 10_000;
/// Longest URL and longest activity that FTS keeps, in characters (`model/file.py`).
const MAX_URL: usize = 1100;
const MAX_ACTIVITY: usize = 255;
/// Longest checksum that it keeps.
const MAX_CHECKSUM: usize = 100;

/// Whose checksum FTS compares after a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FtsChecksumMode {
    /// That of the source with that of the destination.
    #[default]
    Both,
    /// That of the source with the one that was given.
    Source,
    /// That of the destination with the one that was given.
    Target,
    /// None; only sizes are compared.
    Neither,
}

impl FtsChecksumMode {
    /// As FTS writes it.
    fn name(self) -> &'static str {
        match self {
            Self::Both => "both",
            Self::Source => "source",
            Self::Target => "target",
            Self::Neither => "none",
        }
    }
}

/// How FTS is to transfer the files of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FtsOptions {
    /// Whose checksum is compared.
    pub checksum_mode: FtsChecksumMode,
    /// An algorithm such as `ADLER32`, or that with the value of the one file: `ADLER32:03da0195`.
    pub checksum: String,
    /// Whether files at the destination are replaced.
    pub overwrite: bool,
    /// How often a file is tried again; `None`: as often as the server is configured to.
    pub retry: Option<u16>,
    /// From 1 to 5; jobs with 5 come first. `None`: the server's default.
    pub priority: Option<u8>,
    /// The share of the experiment's transfers to which it belongs; `None`: `default`.
    pub activity: Option<String>,
    /// Streams of each file.
    pub streams: usize,
    /// Whose traffic it is.
    pub tag: Option<SciTag>,
}

/// The bearer tokens that FTS shows to storage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StorageTokens {
    pub(super) source: String,
    pub(super) destination: String,
}

/// A file of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FtsPair {
    pub(super) source: String,
    pub(super) destination: String,
}

/// A URL as it was written: what stands before its path, the path, and the query with its `?`.
fn split(url: &str) -> Result<(&str, &str, &str), String> {
    let (before, query) = url.split_at(url.find('?').unwrap_or(url.len()));
    let (scheme, rest) = before.split_once("://").ok_or("it is no URL")?;
    if scheme.eq_ignore_ascii_case("file") {
        return Err("FTS cannot read local files".to_owned());
    }
    let is_plain = |c: char| c.is_ascii_graphic() && c != '#' && c != '"';
    if !url.chars().all(is_plain) || url.len() > MAX_URL {
        return Err(format!("expected at most {MAX_URL} printable ASCII characters; encode others as %XX"));
    }
    let at = rest.find('/').filter(|at| *at > 0).ok_or("it has no host, or no path")?;
    if rest[..at].contains('@') {
        return Err("it has a user name".to_owned());
    }
    let path = &rest[at..];
    Ok((&before[..before.len() - path.len()], path, query))
}

/// A URL of a server that speaks HTTP.
pub(super) fn is_web(url: &str) -> bool {
    RemoteUrl::parse(url).is_ok()
}

/// Whether it names a directory.
pub(super) fn is_directory(url: &str) -> bool {
    split(url).is_ok_and(|(_, path, _)| path.ends_with('/'))
}

/// The URL as it may be shown: a query may hold a key.
pub(super) fn without_query(url: &str) -> &str {
    url.split('?').next().unwrap_or_default()
}

/// Where a source goes; `below`: its path in a directory that was listed.
pub(super) fn pair(source: &str, below: Option<&str>, destination: &str) -> Result<FtsPair, String> {
    let wrong = |url: &str, why: String| format!("{}: {why}", without_query(url));
    let (_, path, _) = split(source).map_err(|why| wrong(source, why))?;
    let (before, base, query) = split(destination).map_err(|why| wrong(destination, why))?;
    let name = below.unwrap_or_else(|| path.rsplit('/').next().unwrap_or_default());
    let destination = match base.ends_with('/') {
        true if name.is_empty() => return Err(wrong(source, "it has no name of a file".to_owned())),
        true => format!("{before}{base}{name}{query}"),
        false => destination.to_owned(),
    };
    if destination.len() > MAX_URL {
        return Err(wrong(&destination, format!("longer than {MAX_URL} characters")));
    }
    Ok(FtsPair { source: source.to_owned(), destination })
}

/// Whether the files make a job; an error says why not.
pub(super) fn check(files: &[FtsPair], options: &FtsOptions) -> Result<(), String> {
    if files.is_empty() {
        return Err("there are no files to copy".to_owned());
    }
    if files.len() > MAX_JOB_FILES {
        let hint = Hint("copy parts of the directory, or use --third-party");
        return Err(format!("{} files, more than the {MAX_JOB_FILES} of a job{hint}", files.len()));
    }
    let mut seen = HashSet::new();
    if let Some(twice) = files.iter().find(|file| !seen.insert(without_query(&file.destination))) {
        let url = without_query(&twice.destination);
        let hint = Hint(
            "several sources need a directory as destination, with `/` at its end, and names of their own",
        );
        return Err(format!("two files would become {url}{hint}"));
    }
    let (algorithm, value) =
        options.checksum.split_once(':').map_or((&*options.checksum, None), |(a, v)| (a, Some(v)));
    let is_word =
        |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if !is_word(algorithm)
        || value.is_some_and(|value| !is_word(value))
        || options.checksum.len() > MAX_CHECKSUM
    {
        let hint = Hint("such as ADLER32, MD5 or ADLER32:03da0195");
        return Err(format!("expected ALGORITHM or ALGORITHM:VALUE; got {}{hint}", options.checksum));
    }
    if value.is_some() && files.len() > 1 {
        let hint = Hint("give the algorithm alone");
        return Err(format!("a checksum is of one file, and there are {}{hint}", files.len()));
    }
    let needs_value = matches!(options.checksum_mode, FtsChecksumMode::Source | FtsChecksumMode::Target);
    if needs_value && value.is_none() {
        let mode = options.checksum_mode.name();
        let hint = Hint("--checksum ADLER32:VALUE, or --checksum-mode both");
        return Err(format!(
            "--checksum-mode {mode} compares with a checksum that is given, and none is{hint}"
        ));
    }
    if let Some(activity) = &options.activity
        && (activity.is_empty()
            || activity.chars().count() > MAX_ACTIVITY
            || activity.chars().any(char::is_control))
    {
        return Err(format!("the activity must have 1 to {MAX_ACTIVITY} printable characters"));
    }
    Ok(())
}

/// The document. `sid`: the text from which the server makes the number of the job, so that a second submission is known as one.
pub(super) fn document(
    files: &[FtsPair],
    options: &FtsOptions,
    tokens: Option<&StorageTokens>,
    sid: Option<&str>,
) -> Value {
    let file = |pair: &FtsPair| {
        let mut file = Map::new();
        let mut put = |name: &str, value: Value| drop(file.insert(name.to_owned(), value));
        put("sources", json!([pair.source]));
        put("destinations", json!([pair.destination]));
        put("checksum", json!(options.checksum));
        if let Some(activity) = &options.activity {
            put("activity", json!(activity));
        }
        if let Some(tag) = options.tag {
            put("scitag", json!(tag.number()));
        }
        if let Some(tokens) = tokens {
            put("source_tokens", json!([tokens.source]));
            put("destination_tokens", json!([tokens.destination]));
        }
        Value::Object(file)
    };
    let mut params = Map::new();
    let mut put = |name: &str, value: Value| drop(params.insert(name.to_owned(), value));
    put("verify_checksum", json!(options.checksum_mode.name()));
    put("overwrite", json!(options.overwrite));
    put("nostreams", json!(options.streams));
    if let Some(retry) = options.retry {
        // 0 is the server's own number there, and less than that is none.
        put("retry", if retry == 0 { json!(-1) } else { json!(retry) });
    }
    if let Some(priority) = options.priority {
        put("priority", json!(priority));
    }
    if let Some(sid) = sid {
        put("id_generator", json!("deterministic"));
        put("sid", json!(sid));
    }
    json!({ "files": files.iter().map(file).collect::<Vec<_>>(), "params": params })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> FtsOptions {
        FtsOptions { checksum: "ADLER32".to_owned(), streams: 4, ..FtsOptions::default() }
    }

    #[test]
    fn a_file_goes_into_a_directory_or_gets_the_name_that_is_given() {
        let to = |source, below, destination| pair(source, below, destination).map(|pair| pair.destination);
        for (source, below, destination, is) in [
            ("https://a/d/x", None, "https://b/e/", "https://b/e/x"),
            (
                "davs://a:8443/d/x%20y?k=1",
                None,
                "davs://b/e/?copy_mode=push",
                "davs://b/e/x%20y?copy_mode=push",
            ),
            ("https://a/d/x", None, "https://b/e", "https://b/e"),
            ("https://a/d/x", Some("d/x"), "https://b/e/", "https://b/e/d/x"),
            ("root://a//eos/x", None, "https://b/", "https://b/x"),
        ] {
            assert_eq!(to(source, below, destination).as_deref(), Ok(is), "{source}");
        }
        let signed = "https://s3.example/b/x?X-Amz-Signature=0123&a=%2F";
        assert_eq!(pair(signed, None, "https://b/e/").unwrap().source, signed);
        for (source, destination, why) in [
            ("https://a/d/", "https://b/e/", "no name"),
            ("file:///etc/passwd", "https://b/e/", "local files"),
            ("https://a", "https://b/e/", "no host, or no path"),
            ("https:///x", "https://b/e/", "no host, or no path"),
            ("https://u:p@a/x", "https://b/e/", "user name"),
            ("https://a/x y", "https://b/e/", "printable ASCII"),
            ("https://a/ä", "https://b/e/", "printable ASCII"),
            ("x", "https://b/e/", "no URL"),
            ("https://a/x?key=1\n", "https://b/e/", "printable ASCII"),
        ] {
            let said = to(source, None, destination).unwrap_err();
            assert!(said.contains(why) && !said.contains("key"), "{source}: {said}");
        }
    }

    #[test]
    fn what_is_no_job_is_refused_with_the_reason() {
        let file = |name: &str| pair(&format!("https://a/{name}"), None, "https://b/").unwrap();
        let two = [file("x"), file("y")];
        let with = |change: fn(&mut FtsOptions)| {
            let mut options = options();
            change(&mut options);
            options
        };
        assert_eq!(check(&two, &options()), Ok(()));
        assert_eq!(
            check(&two[..1], &with(|o| o.checksum = "md5:d41d8cd98f00b204e9800998ecf8427e".into())),
            Ok(())
        );
        let many = vec![file("x"); MAX_JOB_FILES + 1];
        for (files, options, why) in [
            (&[][..], options(), "no files"),
            (&[file("x"), file("x")], options(), "two files would become https://b/x"),
            (&many, options(), "more than the 10000"),
            (&two, with(|o| o.checksum = "ADLER32:03da0195".into()), "a checksum is of one file"),
            (&two, with(|o| o.checksum = "ADLER32:".into()), "expected ALGORITHM"),
            (&two, with(|o| o.checksum = String::new()), "expected ALGORITHM"),
            (&two, with(|o| o.checksum_mode = FtsChecksumMode::Target), "none is"),
            (&two, with(|o| o.activity = Some(String::new())), "activity"),
        ] {
            let said = check(files, &options).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn the_document_has_the_fields_of_fts_and_no_others() {
        let files = [pair("davs://a/x", None, "https://b/").unwrap()];
        assert_eq!(
            document(&files, &options(), None, None),
            json!({
                "files": [{"sources": ["davs://a/x"], "destinations": ["https://b/x"], "checksum": "ADLER32"}],
                "params": {"verify_checksum": "both", "overwrite": false, "nostreams": 4},
            })
        );
        let all = FtsOptions {
            checksum_mode: FtsChecksumMode::Neither,
            checksum: "MD5".to_owned(),
            overwrite: true,
            retry: Some(3),
            priority: Some(5),
            activity: Some("Data Challenge".to_owned()),
            streams: 8,
            tag: SciTag::from_number(449),
        };
        let tokens = StorageTokens { source: "s".to_owned(), destination: "d".to_owned() };
        assert_eq!(
            document(&files, &all, Some(&tokens), Some("00ff")),
            json!({
                "files": [{
                    "sources": ["davs://a/x"], "destinations": ["https://b/x"], "checksum": "MD5", "activity": "Data Challenge",
                    "scitag": 449, "source_tokens": ["s"], "destination_tokens": ["d"],
                }],
                "params": {
                    "verify_checksum": "none", "overwrite": true, "nostreams": 8, "retry": 3, "priority": 5,
                    "id_generator": "deterministic", "sid": "00ff",
                },
            })
        );
        let none = document(&files, &FtsOptions { retry: Some(0), ..options() }, None, None);
        assert_eq!(none["params"]["retry"], -1);
    }
}
