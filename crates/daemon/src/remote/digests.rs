//! Digests of whole objects: what is asked for (`Want-Digest`, RFC 3230), what is answered (`Digest`), what a client expects of an upload.
//!
//! | name | in `Digest` | in `Repr-Digest` (RFC 9530) |
//! |---|---|---|
//! | `adler32` | 8 hexadecimal digits | `adler`, its 4 bytes, most significant first, as base64 between colons |
//! | `crc32c` | its 4 bytes, most significant first, as base64 | the same between colons |
//! | `md5`, `sha-256` | base64 | base64 between colons |
//!
//! One algorithm is answered: some clients cannot read a list. A client that asks in the form of RFC 9530 alone (`Want-Repr-Digest`) is answered
//! in that form; one that asks in both is answered with `Digest`, because some know fewer algorithms in the other.

use axum::http::HeaderMap;
use axum::http::header::HeaderName;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::digest::{Context as Sha, SHA256};
use skyhaul::auth::{hex, unhex};
use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

const DIGEST: HeaderName = HeaderName::from_static("digest");
const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");

/// An algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Algorithm {
    Adler32,
    Crc32c,
    Md5,
    Sha256,
}

impl Algorithm {
    /// Cheapest first.
    pub(crate) const ALL: [Algorithm; 4] =
        [Algorithm::Adler32, Algorithm::Crc32c, Algorithm::Md5, Algorithm::Sha256];
    /// Those of every upload: together they cost less than the copy to the page cache.
    pub(crate) const ALWAYS: [Algorithm; 2] = [Algorithm::Adler32, Algorithm::Crc32c];

    /// Its name in headers.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Adler32 => "adler32",
            Self::Crc32c => "crc32c",
            Self::Md5 => "md5",
            Self::Sha256 => "sha-256",
        }
    }

    /// Its name in the fields of RFC 9530.
    pub(crate) fn field_name(self) -> &'static str {
        if self == Self::Adler32 { "adler" } else { self.name() }
    }

    fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name().eq_ignore_ascii_case(name.trim()))
    }

    fn bytes(self) -> usize {
        match self {
            Self::Adler32 | Self::Crc32c => 4,
            Self::Md5 => 16,
            Self::Sha256 => 32,
        }
    }
}

/// Digests of one object, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DigestSet(Vec<(Algorithm, Vec<u8>)>);

impl DigestSet {
    pub(crate) fn get(&self, algorithm: Algorithm) -> Option<&[u8]> {
        self.0.iter().find(|(of, _)| *of == algorithm).map(|(_, value)| value.as_slice())
    }

    pub(crate) fn set(&mut self, algorithm: Algorithm, value: &[u8]) {
        self.0.retain(|(of, _)| *of != algorithm);
        self.0.push((algorithm, value.to_vec()));
    }

    pub(crate) fn merge(&mut self, other: &DigestSet) {
        other.0.iter().for_each(|(algorithm, value)| self.set(*algorithm, value));
    }

    pub(crate) fn algorithms(&self) -> impl Iterator<Item = Algorithm> + '_ {
        self.0.iter().map(|(algorithm, _)| *algorithm)
    }

    /// The value of a header `Digest`.
    pub(crate) fn header(&self, algorithm: Algorithm) -> Option<String> {
        let value = self.get(algorithm)?;
        let text = if algorithm == Algorithm::Adler32 { hex(value) } else { BASE64.encode(value) };
        Some(format!("{}={text}", algorithm.name()))
    }

    /// The first of these that another set has with another value.
    pub(crate) fn differs_from(&self, other: &DigestSet) -> Option<Algorithm> {
        let differs = |of: &Algorithm| other.get(*of).is_some_and(|value| Some(value) != self.get(*of));
        self.algorithms().find(differs)
    }

    /// As text that is kept beside a file, valid while its size and time are these.
    pub(crate) fn kept(&self, size: u64, modified: SystemTime) -> String {
        let mut text = format!("1 {size} {}", stamp(modified));
        for (algorithm, value) in &self.0 {
            let _ = write!(text, " {}={}", algorithm.name(), hex(value));
        }
        text
    }

    /// What was kept; nothing if the file is another by now, or the text is not ours.
    pub(crate) fn of_kept(text: &[u8], size: u64, modified: SystemTime) -> Self {
        let mut set = Self::default();
        let Ok(text) = std::str::from_utf8(text) else { return set };
        let mut words = text.split(' ');
        let head = [Some("1".to_owned()), Some(size.to_string()), Some(stamp(modified))];
        if head.iter().any(|expected| words.next() != expected.as_deref()) {
            return set;
        }
        for (name, value) in words.filter_map(|word| word.split_once('=')) {
            let Some(algorithm) = Algorithm::of(name) else { continue };
            let value = match algorithm.bytes() {
                4 => unhex::<4>(value).map(Vec::from),
                16 => unhex::<16>(value).map(Vec::from),
                _ => unhex::<32>(value).map(Vec::from),
            };
            if let Some(value) = value {
                set.set(algorithm, &value);
            }
        }
        set
    }
}

/// The header in which a digest is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DigestField {
    /// `Digest` (RFC 3230).
    Instance,
    /// `Repr-Digest` (RFC 9530).
    Representation,
}

/// The digests that a client would take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The one that it wants most first.
    pub(crate) algorithms: Vec<Algorithm>,
    field: DigestField,
}

impl Wanted {
    /// Reads what a client asks for.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        if headers.contains_key("want-digest") {
            return Self { algorithms: wanted(headers), field: DigestField::Instance };
        }
        Self { algorithms: wanted_of_representation(headers), field: DigestField::Representation }
    }

    /// The header that answers it with this algorithm.
    pub(crate) fn header(&self, set: &DigestSet, algorithm: Algorithm) -> Option<(HeaderName, String)> {
        Some(match self.field {
            DigestField::Instance => (DIGEST, set.header(algorithm)?),
            DigestField::Representation => {
                let value = BASE64.encode(set.get(algorithm)?);
                (REPR_DIGEST, format!("{}=:{value}:", algorithm.field_name()))
            }
        })
    }
}

/// The algorithms of `Want-Repr-Digest`: a dictionary of weights from 0 to 10; 0 means "not" (RFC 9530, 4).
fn wanted_of_representation(headers: &HeaderMap) -> Vec<Algorithm> {
    let mut found: Vec<(Algorithm, u8)> = Vec::new();
    for one in list(headers, "want-repr-digest") {
        let member = one.split(';').next().unwrap_or_default();
        // A key without a value is `true`, which is no weight.
        let Some((name, weight)) = member.split_once('=') else { continue };
        let of_name = |one: &Algorithm| one.field_name() == name.trim();
        let Some(algorithm) = Algorithm::ALL.into_iter().find(of_name) else { continue };
        let Some(weight) = weight.trim().parse().ok().filter(|weight| *weight <= 10) else { continue };
        // The last one of a name counts (RFC 8941, 3.2).
        found.retain(|(of, _)| *of != algorithm);
        found.push((algorithm, weight));
    }
    found.retain(|(_, weight)| *weight > 0);
    found.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
    found.into_iter().map(|(algorithm, _)| algorithm).collect()
}

fn stamp(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}.{:09}", since.as_secs(), since.subsec_nanos())
}

/// The algorithms that a client would take, the one that it wants most first.
fn wanted(headers: &HeaderMap) -> Vec<Algorithm> {
    let mut found: Vec<(Algorithm, u32)> = Vec::new();
    for one in list(headers, "want-digest") {
        let mut parts = one.split(';');
        let Some(algorithm) = parts.next().and_then(Algorithm::of) else { continue };
        let weight = parts.find_map(|part| part.trim().strip_prefix("q=")?.parse::<f32>().ok());
        let weight = (weight.unwrap_or(1.0).clamp(0.0, 1.0) * 1000.0) as u32;
        if weight > 0 && found.iter().all(|(of, _)| *of != algorithm) {
            found.push((algorithm, weight));
        }
    }
    found.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
    found.into_iter().map(|(algorithm, _)| algorithm).collect()
}

/// The digests that a client or server states of an object (`Digest`, `Content-MD5`, `Repr-Digest`).
///
/// # Errors
/// One of a known algorithm cannot be read: it could not be compared.
pub(crate) fn expected(headers: &HeaderMap) -> Result<DigestSet, String> {
    let mut set = DigestSet::default();
    let md5 = list(headers, "content-md5").map(|value| format!("md5={value}"));
    for one in list(headers, "digest").chain(md5) {
        let Some((name, value)) = one.split_once('=') else { continue };
        let Some(algorithm) = Algorithm::of(name) else { continue };
        let value = value.trim();
        let bytes = match algorithm {
            // Leading zeros are often left out.
            Algorithm::Adler32 => digits(value),
            Algorithm::Crc32c => digits(value).filter(|_| value.len() == 8).or_else(|| encoded(value, 4)),
            of => encoded(value, of.bytes()),
        };
        let bytes = bytes.ok_or_else(|| format!("the digest {} cannot be read", algorithm.name()))?;
        set.set(algorithm, &bytes);
    }
    for one in list(headers, "repr-digest") {
        // Parameters may follow.
        let Some((name, value)) = one.split(';').next().and_then(|member| member.split_once('=')) else {
            continue;
        };
        let of_name = |one: &Algorithm| one.field_name() == name.trim();
        let Some(algorithm) = Algorithm::ALL.into_iter().find(of_name) else { continue };
        let value = value.trim().strip_prefix(':').and_then(|value| value.strip_suffix(':'));
        let bytes = value.and_then(|value| encoded(value, algorithm.bytes()));
        let bytes = bytes.ok_or_else(|| format!("the digest {} cannot be read", algorithm.field_name()))?;
        if set.get(algorithm).is_some_and(|other| other != bytes) {
            return Err(format!("two different digests {} are stated", algorithm.name()));
        }
        set.set(algorithm, &bytes);
    }
    Ok(set)
}

fn digits(text: &str) -> Option<Vec<u8>> {
    let is_number = (1..=8).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_number.then(|| u32::from_str_radix(text, 16).ok()).flatten().map(|value| value.to_be_bytes().to_vec())
}

fn encoded(text: &str, bytes: usize) -> Option<Vec<u8>> {
    BASE64.decode(text).ok().filter(|value| value.len() == bytes)
}

fn list(headers: &HeaderMap, name: &'static str) -> impl Iterator<Item = String> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    let all: Vec<String> =
        values.flat_map(|value| value.split(',')).map(|one| one.trim().to_owned()).collect();
    all.into_iter()
}

/// Computes digests of bytes in order.
pub(crate) struct Digester {
    adler32: Option<simd_adler32::Adler32>,
    crc32c: Option<u32>,
    md5: Option<md5::Context>,
    sha256: Option<Sha>,
}

impl Digester {
    /// Of these.
    pub(crate) fn new(algorithms: impl IntoIterator<Item = Algorithm>) -> Self {
        let mut all = Self { adler32: None, crc32c: None, md5: None, sha256: None };
        for algorithm in algorithms {
            match algorithm {
                Algorithm::Adler32 => all.adler32 = Some(simd_adler32::Adler32::new()),
                Algorithm::Crc32c => all.crc32c = Some(0),
                Algorithm::Md5 => all.md5 = Some(md5::Context::new()),
                Algorithm::Sha256 => all.sha256 = Some(Sha::new(&SHA256)),
            }
        }
        all
    }

    /// Of [`Algorithm::ALWAYS`], behind bytes with these digests.
    pub(crate) fn continuing(so_far: &DigestSet) -> Self {
        let mut all = Self::new(Algorithm::ALWAYS);
        let value = |algorithm| Some(u32::from_be_bytes(so_far.get(algorithm)?.try_into().ok()?));
        if let Some(value) = value(Algorithm::Adler32) {
            all.adler32 = Some(simd_adler32::Adler32::from_checksum(value));
        }
        if let Some(value) = value(Algorithm::Crc32c) {
            all.crc32c = Some(value);
        }
        all
    }

    /// Those of [`Algorithm::ALWAYS`] of the bytes so far, as far as it computes them.
    pub(crate) fn so_far(&self) -> DigestSet {
        let (adler32, crc32c) = (self.adler32.clone(), self.crc32c);
        Self { adler32, crc32c, md5: None, sha256: None }.finish()
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        if let Some(adler32) = &mut self.adler32 {
            adler32.write(bytes);
        }
        if let Some(crc) = &mut self.crc32c {
            *crc = crc32c::crc32c_append(*crc, bytes);
        }
        if let Some(md5) = &mut self.md5 {
            md5.consume(bytes);
        }
        if let Some(sha256) = &mut self.sha256 {
            sha256.update(bytes);
        }
    }

    pub(crate) fn finish(self) -> DigestSet {
        let mut set = DigestSet::default();
        if let Some(adler32) = self.adler32 {
            set.set(Algorithm::Adler32, &adler32.finish().to_be_bytes());
        }
        if let Some(crc) = self.crc32c {
            set.set(Algorithm::Crc32c, &crc.to_be_bytes());
        }
        if let Some(md5) = self.md5 {
            set.set(Algorithm::Md5, &md5.finalize().0);
        }
        if let Some(sha256) = self.sha256 {
            set.set(Algorithm::Sha256, sha256.finish().as_ref());
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        [(HeaderName::from_static(name), value.parse().unwrap())].into_iter().collect()
    }

    fn of(bytes: &[u8]) -> DigestSet {
        let mut digester = Digester::new(Algorithm::ALL);
        bytes.chunks(3).for_each(|part| digester.update(part));
        digester.finish()
    }

    #[test]
    fn digests_are_those_of_the_standards() {
        // RFC 3720, B.4: CRC-32C of "123456789" is 0xe3069283; the others are those of zlib and coreutils.
        let set = of(b"123456789");
        for (algorithm, text) in [
            (Algorithm::Adler32, "adler32=091e01de"),
            (Algorithm::Crc32c, "crc32c=4waSgw=="),
            (Algorithm::Md5, "md5=JfnnlPI7RThbNtx00rSh3Q=="),
            (Algorithm::Sha256, "sha-256=FeKw0wDDKDa6TlXuKy8zP9VB6Onvv1ANU3ThAFZ8+yU="),
        ] {
            if algorithm == Algorithm::Adler32 || algorithm == Algorithm::Crc32c {
                assert_eq!(set.header(algorithm).unwrap(), text);
            }
            let header = set.header(algorithm).unwrap();
            let stated = expected(&headers("digest", &header)).unwrap();
            assert_eq!(stated.get(algorithm), set.get(algorithm), "{header}");
        }
        assert_eq!(of(b"").header(Algorithm::Md5).unwrap(), "md5=1B2M2Y8AsgTpgAmY7PhCfg==");
        let empty = "sha-256=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
        assert_eq!(of(b"").header(Algorithm::Sha256).unwrap(), empty);
    }

    #[test]
    fn what_is_wanted_most_comes_first() {
        use Algorithm::{Adler32, Md5, Sha256};
        for (value, found) in [
            ("adler32", vec![Adler32]),
            ("ADLER32;q=0.5, sha-256;q=1", vec![Sha256, Adler32]),
            ("unixsum, md5;q=0.3,adler32;q=0", vec![Md5]),
            ("", vec![]),
        ] {
            assert_eq!(wanted(&headers("want-digest", value)), found, "{value}");
        }
    }

    #[test]
    fn what_is_wanted_of_the_representation_is_answered_in_that_form() {
        use Algorithm::{Adler32, Crc32c, Md5, Sha256};
        for (value, found) in [
            ("adler=5", vec![Adler32]),
            ("sha-512=10, md5=3, sha-256=9;a=1", vec![Sha256, Md5]),
            ("adler=0, crc32c=1", vec![Crc32c]),
            ("adler=5, adler=0", vec![]),
            ("adler32=5, adler, adler=11, adler=x, ADLER=1", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(Wanted::of(&headers("want-repr-digest", value)).algorithms, found, "{value}");
        }
        let set = of(b"123456789");
        let wanted = Wanted::of(&headers("want-repr-digest", "adler=1"));
        for (algorithm, text) in [
            (Adler32, "adler=:CR4B3g==:"),
            (Crc32c, "crc32c=:4waSgw==:"),
            (Sha256, "sha-256=:FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=:"),
        ] {
            let (name, value) = wanted.header(&set, algorithm).unwrap();
            assert_eq!((name.as_str(), value.as_str()), ("repr-digest", text));
            // What is answered here is read here.
            let stated = expected(&headers("repr-digest", &value)).unwrap();
            assert_eq!(stated.get(algorithm), set.get(algorithm));
        }
        // In both forms, as dCache asks.
        let both = [headers("want-digest", "md5"), headers("want-repr-digest", "adler=9")];
        let both = both.into_iter().flatten().map(|(name, value)| (name.unwrap(), value)).collect();
        let (name, _) = Wanted::of(&both).header(&set, Md5).unwrap();
        assert_eq!((name.as_str(), Wanted::of(&both).algorithms), ("digest", vec![Md5]));
    }

    #[test]
    fn what_a_client_states_is_compared_or_refused() {
        let set = of(b"123456789");
        for (value, is) in [
            ("adler32=91e01de", true),
            ("adler32=091E01DE", true),
            ("adler32=091e01df", false),
            ("crc32c=e3069283", true),
            ("crc32c=4waSgw==", true),
            ("unixsum=5", true),
        ] {
            let stated = expected(&headers("digest", value)).unwrap();
            assert_eq!(stated.differs_from(&set).is_none(), is, "{value}");
        }
        for (value, is) in [
            ("adler=:CR4B3g==:", true),
            ("adler=:CR4B3w==:", false),
            ("unixsum=5, sha-256=:FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=:;a=1", true),
            ("sha-512=:AAAA:, crc32c=:4waSgw==:", true),
            ("md5=:AAAAAAAAAAAAAAAAAAAAAA==:", false),
        ] {
            let stated = expected(&headers("repr-digest", value)).unwrap();
            assert_eq!(stated.algorithms().count(), 1, "{value}");
            assert_eq!(stated.differs_from(&set).is_none(), is, "{value}");
        }
        for value in ["adler=CR4B3g==", "adler=:CR4B3g==", "md5=:AAAA:", "sha-256=::"] {
            assert!(expected(&headers("repr-digest", value)).is_err(), "{value}");
        }
        let both = [headers("repr-digest", "adler=:CR4B3g==:"), headers("digest", "adler32=1")];
        assert!(
            expected(&both.into_iter().flatten().map(|(name, value)| (name.unwrap(), value)).collect())
                .is_err()
        );
        for value in ["adler32=xyz", "adler32=123456789", "md5=abc", "sha-256=AAAA"] {
            assert!(expected(&headers("digest", value)).is_err(), "{value}");
        }
    }

    proptest! {
        #[test]
        fn what_is_kept_is_read_while_the_file_is_the_same(bytes in prop::collection::vec(any::<u8>(), 0..50), seconds in 0u64..1 << 34, nanos in 0u32..1_000_000_000) {
            let modified = UNIX_EPOCH + std::time::Duration::new(seconds, nanos);
            let (set, size) = (of(&bytes), bytes.len() as u64);
            let text = set.kept(size, modified);
            prop_assert_eq!(&DigestSet::of_kept(text.as_bytes(), size, modified), &set);
            for other in [
                DigestSet::of_kept(text.as_bytes(), size + 1, modified),
                DigestSet::of_kept(text.as_bytes(), size, modified + std::time::Duration::from_nanos(1)),
            ] {
                prop_assert_eq!(other, DigestSet::default());
            }
        }

        #[test]
        fn any_kept_text_is_read(text in prop::collection::vec(any::<u8>(), 0..60), header in "[a-z0-9=,;. -]{0,40}") {
            let _ = DigestSet::of_kept(&text, 1, UNIX_EPOCH);
            if let Ok(value) = header.parse() {
                let map: HeaderMap = [(HeaderName::from_static("want-digest"), value)].into_iter().collect();
                prop_assert!(wanted(&map).len() <= 4);
            }
        }
    }
}
