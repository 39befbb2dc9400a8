//! Datastreams: which frames of a recording go to files of their own.
//!
//! `datastream = add : NAME : SPEC`, where a spec is `[[host][@port]/][station.]threads`:
//!
//! | spec | frames |
//! |---|---|
//! | `*` | all |
//! | `192.168.1.32/ke.*` | of station `ke`, from this sender |
//! | `@46227/0-3,8` | of threads 0 to 3 and 8, from a sender's port 46227 |
//!
//! `{thread}` and `{station}` in a name stand for those of the frame, so that one definition makes a file for each thread.

use super::mode::digits;

/// Maximum number of datastreams.
pub const MAX_DATASTREAMS: usize = 64;
/// Maximum number of specs of one.
const MAX_SPECS: usize = 64;
/// Maximum thread: it has 10 bits.
const MAX_THREAD: u64 = 1023;

/// Frames that go to files of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VsiDatastream {
    /// Its name, the suffix of its files.
    pub name: String,
    /// Its specs as they were given.
    pub specs: Vec<String>,
    /// The same, understood: a frame that one of them matches is of this datastream.
    pub matches: Vec<VsiMatch>,
}

/// Which frames a spec matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VsiMatch {
    /// The sender's address or name; empty: any.
    pub host: String,
    /// The sender's port.
    pub port: Option<u16>,
    /// The station of the frame; empty: any.
    pub station: String,
    /// Threads, first and last; empty: all.
    pub threads: Vec<(u16, u16)>,
}

impl VsiDatastream {
    /// Returns a datastream of a name and specs.
    ///
    /// # Errors
    /// What is wrong with the name or a spec.
    pub fn new<'a>(name: &str, specs: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let without = name.replace("{thread}", "").replace("{station}", "");
        let legal = |b: u8| b.is_ascii_alphanumeric() || b"_.+-".contains(&b);
        if name.is_empty() || name.len() > 64 || !without.bytes().all(legal) {
            return Err(format!("invalid name {name}, expected a name such as ds{{thread}}"));
        }
        let specs: Vec<String> = specs.filter(|spec| !spec.is_empty()).map(str::to_owned).collect();
        if specs.is_empty() || specs.len() > MAX_SPECS {
            return Err("expected 1 to 64 specs such as * or 192.168.1.32/ke.*".into());
        }
        let matches = specs.iter().map(|spec| VsiMatch::parse(spec)).collect::<Result<_, _>>()?;
        Ok(Self { name: name.to_owned(), specs, matches })
    }
}

impl VsiMatch {
    /// Reads a spec.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(spec: &str) -> Result<Self, String> {
        let invalid = || format!("invalid spec {spec}, expected [[host][@port]/][station.]threads");
        let (sender, frames) = spec.rsplit_once('/').unwrap_or(("", spec));
        let (host, port) = sender.split_once('@').map_or((sender, None), |(host, port)| (host, Some(port)));
        let legal = |b: u8| b.is_ascii_alphanumeric() || b".-".contains(&b);
        let port = match port {
            Some(port) => Some(digits(port).and_then(|n| u16::try_from(n).ok()).ok_or_else(invalid)?),
            None => None,
        };
        let (station, threads) = frames.rsplit_once('.').unwrap_or(("", frames));
        if !host.bytes().all(legal)
            || !station.bytes().all(|b| b.is_ascii_alphanumeric())
            || station.len() > 5
        {
            return Err(invalid());
        }
        let threads = threads.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(threads);
        let threads = match threads {
            "*" => Vec::new(),
            list => list.split(',').map(threads_of).collect::<Option<_>>().ok_or_else(invalid)?,
        };
        Ok(Self { host: host.to_owned(), port, station: station.to_owned(), threads })
    }
}

fn threads_of(text: &str) -> Option<(u16, u16)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (digits(first)?, digits(last)?);
    let valid = first <= last && last <= MAX_THREAD;
    valid.then(|| Some((u16::try_from(first).ok()?, u16::try_from(last).ok()?))).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_of_the_field() {
        let of = |spec| VsiMatch::parse(spec);
        assert_eq!(of("*"), Ok(VsiMatch::default()));
        assert_eq!(
            of("192.168.1.32/ke.*"),
            Ok(VsiMatch { host: "192.168.1.32".into(), station: "ke".into(), ..VsiMatch::default() })
        );
        assert_eq!(
            of("@46227/0-3,8"),
            Ok(VsiMatch { port: Some(46227), threads: vec![(0, 3), (8, 8)], ..VsiMatch::default() })
        );
        assert_eq!(of("[0,1]").unwrap().threads, [(0, 0), (1, 1)]);
        for bad in ["", "x", "0-", "3-0", "1024", "a b/*", "@70000/*", "a@/*", "k!.*", "toolong.*", "/"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_may_have_replacement_fields() {
        let of = |name: &str, specs: &[&str]| VsiDatastream::new(name, specs.iter().copied());
        assert_eq!(of("ds{thread}", &["*", ""]).unwrap().specs, ["*"]);
        assert!(of("a.vdif", &["*"]).is_ok());
        for (name, specs) in
            [("", &["*"][..]), ("a/b", &["*"]), ("{x}", &["*"]), ("a", &[]), ("a", &[""]), ("a", &["x"])]
        {
            assert!(of(name, specs).is_err(), "{name} {specs:?}");
        }
    }
}
