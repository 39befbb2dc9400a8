//! Patterns for names of scans.

use skyhaul_core::hint::Hint;

/// A pattern for names: `*` stands for any characters, `?` for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanPattern(Vec<char>);

impl ScanPattern {
    /// Check `text`.
    ///
    /// # Errors
    /// It is empty, or contains a `/`.
    pub fn new(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.contains('/') {
            let hint = Hint("such as 'n26c3_mh_*'");
            return Err(format!(
                "expected the name of a scan, with * and ? for any characters, got '{text}'{hint}"
            ));
        }
        Ok(Self(text.chars().collect()))
    }

    /// Whether `name` is one of these.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let (pattern, name): (&[char], Vec<char>) = (&self.0, name.chars().collect());
        // Where the last `*` stands, and where in the name it ended so far.
        let (mut at, mut of, mut star) = (0, 0, None);
        while of < name.len() {
            match pattern.get(at) {
                Some('*') => {
                    star = Some((at, of));
                    at += 1;
                }
                Some(&c) if c == '?' || c == name[of] => (at, of) = (at + 1, of + 1),
                _ => {
                    let Some((before, ended)) = star else { return false };
                    star = Some((before, ended + 1));
                    (at, of) = (before + 1, ended + 1);
                }
            }
        }
        pattern[at..].iter().all(|&c| c == '*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_a_shell() {
        for (pattern, name, is) in [
            ("*", "", true),
            ("n26*_mh_*", "n26c3_mh_no0001", true),
            ("n26*_mh_*", "n26c3_on_no0001", false),
            ("no000?", "no0001", true),
            ("no000?", "no000", false),
            ("*a*b", "xaxbxb", true),
            ("a", "ab", false),
        ] {
            assert_eq!(ScanPattern::new(pattern).unwrap().matches(name), is, "{pattern} {name}");
        }
        assert!(ScanPattern::new("").is_err() && ScanPattern::new("a/b").unwrap_err().contains("hint: "));
    }
}
