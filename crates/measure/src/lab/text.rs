//! A lab as text: its path, and what the kernels of its ends do.
//!
//! ```
//! use skyhaul_measure::lab::LabText;
//! let text: LabText = "rate=1Gbps,delay=15ms; near: pfifo=100; far: rps=0,tcp-rmem=64KiB".parse()?;
//! assert_eq!(text.path, "rate=1Gbps,delay=15ms".parse()?);
//! assert_eq!(text.far, "rps=0,tcp-rmem=64KiB".parse()?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Limits: what a kernel does, it does from the beginning to the end; `at=` is for the path.

use super::End;
use skyhaul_io::fault::path::Path;
use std::fmt;
use std::io;
use std::str::FromStr;

/// A path, and what the kernels of the ends do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabText {
    /// What happens between the ends.
    pub path: Path,
    /// Of the section `near:`.
    pub near: End,
    /// Of the section `far:`.
    pub far: End,
}

impl FromStr for LabText {
    type Err = io::Error;

    fn from_str(text: &str) -> io::Result<Self> {
        let (mut path, mut near, mut far) = (Vec::new(), Vec::new(), Vec::new());
        for section in text.split(';') {
            match section.split_once(':').map(|(head, rest)| (head.trim(), rest)) {
                Some(("near", rest)) => near.push(rest),
                Some(("far", rest)) => far.push(rest),
                _ => path.push(section),
            }
        }
        let path =
            path.join(";").parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        Ok(Self { path, near: near.join(",").parse()?, far: far.join(",").parse()? })
    }
}

impl fmt::Display for LabText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path)?;
        for (name, end) in [("near", &self.near), ("far", &self.far)] {
            if *end != End::default() {
                write!(f, ";{name}:{end}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_of_the_ends_stand_anywhere_and_are_read_back() {
        let text =
            "far: rps=1 ; rate=1Gbps,seed=3; rev: loss=0.1; near:pfifo=3;far:tcp-wmem=8KiB; at=1s: delay=1ms";
        let read: LabText = text.parse().unwrap();
        assert_eq!(read.path, "rate=1Gbps,seed=3; rev: loss=0.1; at=1s: delay=1ms".parse().unwrap());
        assert_eq!(
            (read.near.to_string(), read.far.to_string()),
            ("pfifo=3".into(), "rps=1,tcp-wmem=8KiB".into())
        );
        assert_eq!(read.to_string().parse::<LabText>().unwrap(), read);
        let clean: LabText = "".parse().unwrap();
        assert_eq!(clean.to_string(), Path::CLEAN.to_string());
    }

    #[test]
    fn what_is_wrong_is_told_with_a_hint() {
        for text in ["rate=1", "near: red=1", "far: rmem=1MiB", "at=1s: near: pfifo=1", "nowhere: loss=1"] {
            let said = text.parse::<LabText>().unwrap_err().to_string();
            assert!(said.contains("hint: "), "{text}: {said}");
        }
    }
}
