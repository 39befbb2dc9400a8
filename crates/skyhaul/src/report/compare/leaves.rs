//! The leaves of two reports, with paths that name the same thing in both.

use serde_json::{Map, Value};
use std::collections::BTreeSet;

const DEEPEST: usize = 32;
const MOST: usize = 100_000;
/// Lists of what was seen from moment to moment: one run's have no counterpart in another's.
const MOMENTS: [&str; 3] = ["trace", "intervals", "timeline"];

/// What stands at the end of a path.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Leaf {
    /// A number, with its spread.
    Number { value: f64, range: Option<(f64, f64)> },
    /// A text, or a switch.
    Text(String),
}

impl Leaf {
    pub(super) fn told(&self) -> String {
        match self {
            Self::Number { value, .. } => value.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

/// Which of the two has more leaves, or deeper ones, than any report.
pub(super) struct TooLarge(pub(super) &'static str);

type Leaves = Vec<(String, Leaf)>;

/// Those of both.
pub(super) fn leaves(a: &Value, b: &Value) -> Result<(Leaves, Leaves), TooLarge> {
    let mut out = (Vec::new(), Vec::new());
    walk("", Some(a), Some(b), 0, &mut out)?;
    Ok(out)
}

fn walk(
    path: &str,
    a: Option<&Value>,
    b: Option<&Value>,
    depth: usize,
    out: &mut (Leaves, Leaves),
) -> Result<(), TooLarge> {
    for (which, all) in [("A", &out.0), ("B", &out.1)] {
        if depth > DEEPEST || all.len() > MOST {
            return Err(TooLarge(which));
        }
    }
    if let Some(leaf) = a.and_then(leaf) {
        out.0.push((path.to_owned(), leaf));
    }
    if let Some(leaf) = b.and_then(leaf) {
        out.1.push((path.to_owned(), leaf));
    }
    let objects = (inner(a), inner(b));
    for key in keys(objects).into_iter().filter(|key| !MOMENTS.contains(&key.as_str())) {
        let at = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let of = |map: Option<&'_ Map<String, Value>>| map.and_then(|map| map.get(key)).cloned();
        // A report is small: a copy of what is looked at keeps the lifetimes of two trees apart.
        walk(&at, of(objects.0).as_ref(), of(objects.1).as_ref(), depth + 1, out)?;
    }
    for (name, a, b) in pairs(elements(a), elements(b)) {
        walk(&format!("{path}[{name}]"), a, b, depth + 1, out)?;
    }
    Ok(())
}

/// A scalar, or an object that is a spread.
fn leaf(value: &Value) -> Option<Leaf> {
    match value {
        Value::Number(number) => Some(Leaf::Number { value: number.as_f64()?, range: None }),
        Value::String(text) => Some(Leaf::Text(text.clone())),
        Value::Bool(on) => Some(Leaf::Text(on.to_string())),
        Value::Object(map) => {
            let (value, low, high) = spread(map)?;
            Some(Leaf::Number { value, range: Some((low, high)) })
        }
        Value::Null | Value::Array(_) => None,
    }
}

fn spread(map: &Map<String, Value>) -> Option<(f64, f64, f64)> {
    let number = |key: &str| map.get(key).and_then(Value::as_f64);
    (map.len() == 3).then_some(())?;
    Some((number("median")?, number("min")?, number("max")?))
}

/// What an object that is no leaf holds.
fn inner(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object).filter(|map| spread(map).is_none())
}

type Object<'a> = Option<&'a Map<String, Value>>;

fn keys<'a>((a, b): (Object<'a>, Object<'a>)) -> Vec<&'a String> {
    let of_a: Vec<&String> = a.into_iter().flat_map(Map::keys).collect();
    let more = b.into_iter().flat_map(Map::keys).filter(|key| !a.is_some_and(|a| a.contains_key(*key)));
    of_a.into_iter().chain(more).collect()
}

/// The elements of a list of objects.
fn elements(value: Option<&Value>) -> &[Value] {
    let all = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if all.iter().all(Value::is_object) { all } else { &[] }
}

type Pair<'a> = (String, Option<&'a Value>, Option<&'a Value>);

/// Elements that belong together, and the name of each pair.
fn pairs<'a>(a: &'a [Value], b: &'a [Value]) -> Vec<Pair<'a>> {
    if a.len().max(b.len()) > MOST {
        return Vec::new();
    }
    let fields = telling(a, b);
    if fields.is_empty() {
        return (0..a.len().max(b.len())).map(|n| (n.to_string(), a.get(n), b.get(n))).collect();
    }
    let name = |value: &Value| names(value, &fields);
    let of_b: std::collections::BTreeMap<String, &Value> =
        b.iter().map(|value| (name(value), value)).collect();
    let of_a: BTreeSet<String> = a.iter().map(name).collect();
    let first = a.iter().map(|value| {
        let name = name(value);
        let other = of_b.get(&name).copied();
        (name, Some(value), other)
    });
    let rest = b.iter().map(|value| (name(value), None, Some(value))).filter(|pair| !of_a.contains(&pair.0));
    first.chain(rest).collect()
}

/// The fields that tell the elements of both lists apart: those that hold the same in both, as few as do. None if there are
/// no such fields, or nothing to tell apart.
fn telling(a: &[Value], b: &[Value]) -> Vec<String> {
    let Some(first) = a.first().or(b.first()).and_then(Value::as_object) else { return Vec::new() };
    let scalar = |value: &&Value| value.is_string() || value.is_u64() || value.is_boolean();
    let values = |all: &[Value], key: &str| -> BTreeSet<String> {
        all.iter().filter_map(|value| value.get(key).filter(scalar)).map(Value::to_string).collect()
    };
    let stable = |key: &&String| {
        let (of_a, of_b) = (values(a, key), values(b, key));
        let everywhere = a.iter().chain(b).all(|value| value.get(key.as_str()).is_some_and(|v| scalar(&v)));
        everywhere && (of_a.is_subset(&of_b) || of_b.is_subset(&of_a))
    };
    let unique = |fields: &[String]| {
        let distinct =
            |all: &[Value]| all.iter().map(|v| names(v, fields)).collect::<BTreeSet<_>>().len() == all.len();
        distinct(a) && distinct(b)
    };
    let mut found: Vec<String> = Vec::new();
    let mut candidates: Vec<&String> = first.keys().filter(stable).collect();
    // Names before numbers, which may be the same by chance.
    let text = |key: &str| first.get(key).is_some_and(Value::is_string);
    candidates.sort_by_key(|key| (!text(key), key.as_str() != "name"));
    // A text that tells all apart by itself is their name. With others beside it, such as a verdict that turned, those that
    // belong together would be parted.
    if let Some(name) = candidates.iter().find(|key| text(key) && unique(std::slice::from_ref(**key))) {
        return vec![(*name).clone()];
    }
    for key in candidates {
        let mut with = found.clone();
        with.push(key.clone());
        let tells = |all: &[Value], fields: &[String]| {
            all.iter().map(|v| names(v, fields)).collect::<BTreeSet<_>>().len()
        };
        if tells(a, &with) + tells(b, &with) > tells(a, &found) + tells(b, &found) {
            found = with;
        }
        if unique(&found) {
            return found;
        }
    }
    Vec::new()
}

fn names(value: &Value, fields: &[String]) -> String {
    let each = fields.iter().map(|key| match value.get(key) {
        Some(Value::String(text)) => format!("{key}={text}"),
        Some(other) => format!("{key}={other}"),
        None => key.clone(),
    });
    each.collect::<Vec<_>>().join(",")
}
