//! Names of files, their numbers, and the patterns that choose among them.

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Bytes of the longest name, as on other file systems.
pub(crate) const MAX_NAME_BYTES: usize = 255;

/// A valid file name for `name`, which comes from an index and may be anything: bytes that a name cannot have, and `%`
/// before two hexadecimal digits, become `%XX`. Valid names stay as they are, but for `%`, which stands for the empty name; two
/// names stay different, unless they are longer than a name can be.
pub(crate) fn escaped(name: &str) -> String {
    let bytes = name.as_bytes();
    let mut text = String::with_capacity(bytes.len());
    for (at, c) in name.char_indices() {
        let is_hexadecimal = |two: &[u8]| two.iter().all(u8::is_ascii_hexdigit);
        let is_escape = c == '%' && (name == "%" || bytes.get(at + 1..at + 3).is_some_and(is_hexadecimal));
        let is_dot = c == '.' && matches!(name, "." | "..");
        if c == '/' || c.is_control() || is_escape || is_dot {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                let _ = write!(text, "%{byte:02X}");
            }
        } else {
            text.push(c);
        }
    }
    if text.is_empty() {
        return "%".to_owned();
    }
    if text.len() > MAX_NAME_BYTES {
        // The end distinguishes datastreams: a hash of all of it stays.
        let end = format!("%{:016X}", hash(name, ""));
        let most = (0..=MAX_NAME_BYTES - end.len()).rev().find(|&at| text.is_char_boundary(at));
        text.truncate(most.unwrap_or_default());
        text.push_str(&end);
    }
    text
}

/// FNV-1a of two texts.
fn hash(first: &str, second: &str) -> u64 {
    let bytes = first.bytes().chain([0]).chain(second.bytes());
    bytes.fold(0xCBF2_9CE4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}

/// The number of the root directory.
pub(crate) const ROOT: u64 = 1;

/// The file's number: the same for the same recording each time it is mounted, and none that is `taken`.
pub(crate) fn inode(name: &str, session: &str, taken: &BTreeSet<u64>) -> u64 {
    let mut number = hash(name, session);
    while number <= ROOT || taken.contains(&number) {
        number = number.wrapping_add(1);
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn usual_names_stay_and_others_are_escaped() {
        for name in ["n26c3_mh_no0001", "n26c3_mh_no0001_ds1", "a b", "Metsähovi", "100%", "..."] {
            assert_eq!(escaped(name), name);
        }
        for (name, file) in [
            ("a/b", "a%2Fb"),
            ("..", "%2E%2E"),
            ("", "%"),
            ("a\nb", "a%0Ab"),
            ("a%2Fb", "a%252Fb"),
            ("%", "%25"),
        ] {
            assert_eq!(escaped(name), file);
        }
    }

    /// All names of up to five of the characters that escapes are made of.
    #[test]
    fn two_names_stay_different() {
        const LETTERS: [&str; 7] = ["%", "/", ".", "2", "5", "F", "\u{85}"];
        let (mut names, mut longest) = (vec![String::new()], vec![String::new()]);
        for _ in 0..5 {
            longest =
                longest.iter().flat_map(|name| LETTERS.map(|letter| format!("{name}{letter}"))).collect();
            names.extend_from_slice(&longest);
        }
        let files: BTreeSet<_> = names.iter().map(|name| escaped(name)).collect();
        assert_eq!(files.len(), names.len());
    }

    proptest! {
        #[test]
        fn every_name_becomes_one_that_a_file_can_have(name in any::<String>(), other in ".{0,40}", long in "[a-z/]{0,600}") {
            for name in [&name, &other, &long] {
                let file = escaped(name);
                prop_assert!(!file.is_empty() && file.len() <= MAX_NAME_BYTES && file != "." && file != "..");
                prop_assert!(!file.contains(['/', '\0']));
            }
            prop_assert!(name == other || escaped(&name) != escaped(&other) || name.len() > 80);
        }

        #[test]
        fn numbers_are_stable_and_different(names in prop::collection::btree_set("[a-z]{1,6}", 1..50)) {
            let mut taken = BTreeSet::new();
            for name in &names {
                let number = inode(name, "s", &taken);
                prop_assert!(number > ROOT && taken.insert(number));
            }
            let first = names.first().unwrap();
            prop_assert_eq!(inode(first, "s", &BTreeSet::new()), inode(first, "s", &BTreeSet::new()));
        }
    }
}
