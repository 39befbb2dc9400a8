//! What a token allows, as it is written on a command line: `register:reservation/3`.

use std::str::FromStr;

/// A level on a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Allowed {
    /// How much, as the protocol numbers it: 0 to look, to 3 to change everything.
    pub(crate) level: i32,
    /// On what; without, on the reservation of who asks.
    pub(crate) resource: Option<Resource>,
}

/// What a token is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    /// Its kind, as the protocol numbers it.
    pub(crate) kind: i32,
    /// Its number; empty for all.
    pub(crate) id: String,
}

/// Levels by their number.
pub(crate) const LEVELS: [&str; 4] = ["read", "register", "reserve", "update"];
/// Kinds of resources by their number.
pub(crate) const RESOURCES: [&str; 4] = ["all", "lb", "reservation", "session"];
/// That of reservations.
pub(crate) const RESERVATION: i32 = 2;

impl FromStr for Allowed {
    type Err = String;

    fn from_str(text: &str) -> Result<Allowed, String> {
        let (level, resource) =
            text.split_once(':').map_or((text, None), |(level, resource)| (level, Some(resource)));
        let number = |names: [&str; 4], name: &str| names.iter().position(|one| *one == name);
        let level = number(LEVELS, level)
            .ok_or_else(|| format!("`{level}` is no level\nhint: {}", LEVELS.join(", ")))?;
        let resource = resource.map(|resource| {
            let (kind, id) = resource.split_once('/').unwrap_or((resource, ""));
            let found = number(RESOURCES, kind).filter(|kind| match kind {
                0 => id.is_empty(),
                _ => id.parse::<u64>().is_ok_and(|id| id > 0),
            });
            let wrong =
                || format!("`{resource}` is no resource\nhint: all, lb/1, reservation/1 or session/1");
            found.map(|kind| Resource { kind: kind as i32, id: id.to_owned() }).ok_or_else(wrong)
        });
        Ok(Allowed { level: level as i32, resource: resource.transpose()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_on_resources() {
        let on = |kind, id: &str| Some(Resource { kind, id: id.to_owned() });
        for (text, level, resource) in [
            ("read", 0, None),
            ("register:reservation/7", 1, on(2, "7")),
            ("reserve:lb/1", 2, on(1, "1")),
            ("update:all", 3, on(0, "")),
            ("read:session/9", 0, on(3, "9")),
        ] {
            assert_eq!(text.parse(), Ok(Allowed { level, resource }), "{text}");
        }
        for text in ["", "write", "read:", "read:lb", "read:lb/0", "read:lb/x", "read:all/1", "read:lb/1/2"] {
            let why = text.parse::<Allowed>().unwrap_err();
            assert!(why.contains("\nhint: "), "{text}: {why}");
        }
    }
}
