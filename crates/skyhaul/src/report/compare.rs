//! Two reports of the same kind, figure by figure.
//!
//! ```text
//!   A, B (JSON) ─▶ leaves by path ─▶ value A, value B, ratio ─▶ same, within the noise, worse, better, or different
//!                  points[rate=1000000000].whole      spread, tolerance       which way is better, by its name
//! ```
//!
//! Any report of this project can be compared: nothing here knows a kind. A figure with a spread (an object of `median`,
//! `min`, `max`) differs if the two ranges do not meet and the medians differ by more than the tolerance; one without, if it
//! differs by more than the tolerance. Elements of lists belong together by what they have in common (a rate, a size, a name),
//! wherever they stand in the list; without such fields, by their place.
//!
//! A figure of a single run has no spread, but one that swung within its run may say how far: `rtt_mean` with `rtt_mean_range` beside
//! it, the least and the largest. Two such figures differ only if these ranges do not meet, too. Of those that one late packet or another
//! program changes (the longest delay, jitter, CPU time), a factor of two is noise, and so is a millisecond; what the host's processors
//! did for others is never better or worse.
//!
//! ```
//! use skyhaul::report::compare::{Options, Verdict, compare};
//! let (a, b) = (serde_json::json!({"lost": 0, "seconds": 10.0}), serde_json::json!({"lost": 3, "seconds": 10.1}));
//! let comparison = compare(&a, &b, &Options::default())?;
//! assert_eq!(comparison.count(Verdict::Worse), 1);
//! # Ok::<(), skyhaul::report::compare::CompareError>(())
//! ```
//!
//! Limits: lists of numbers (timelines, histograms, maps of losses) and of moments (the trace of a flow) are not compared. Which way is better is known of rates,
//! losses, times and their like, by their names; other figures are only said to differ. Reports nest at most 32 deep and have
//! at most 100 000 leaves.

mod meaning;

use crate::report::compare::meaning::{Better, Noise};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// Why two reports cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CompareError {
    /// One is not an object, or a list of objects.
    #[error("{0} is no report: neither an object nor a list of objects")]
    NoReport(&'static str),
    /// They have too little in common.
    #[error("the reports are of different kinds: {shared} of {all} fields are in both")]
    OtherKind {
        /// Fields in both.
        shared: usize,
        /// Fields of the larger one.
        all: usize,
    },
    /// Versions of the format differ.
    #[error("the reports have different versions: {0} and {1}")]
    OtherVersion(u64, u64),
    /// One is larger than any report.
    #[error("{0} is too large or too deeply nested for a report")]
    TooLarge(&'static str),
}

/// How to compare.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Part by which figures may differ; 0.05 is 5 %.
    pub tolerance: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self { tolerance: 0.05 }
    }
}

/// How a figure of B stands to that of A.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It differs, in the wrong direction.
    Worse,
    /// It differs, in the right direction.
    Better,
    /// It differs, and nothing says which is better.
    Different,
    /// It differs by no more than its spread or the tolerance.
    Within,
    /// It is the same.
    Same,
}

/// A figure of both.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Where it stands in the reports.
    pub path: String,
    /// Its value in A: a number, or a word with an order (pass, warn, fail).
    pub a: Value,
    /// Its value in B.
    pub b: Value,
    /// B divided by A; none if A is 0, or a word.
    pub ratio: Option<f64>,
    /// How B stands to A.
    pub verdict: Verdict,
}

/// A text or switch that is not the same in both: another machine, another setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Where it stands in the reports.
    pub path: String,
    /// What A says.
    pub a: String,
    /// What B says.
    pub b: String,
}

/// Two reports compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// Part by which figures may differ.
    pub tolerance: f64,
    /// All figures that are in both, in the order of A.
    pub figures: Vec<Figure>,
    /// Texts that differ.
    pub changes: Vec<Change>,
    /// Paths of figures that only A has.
    pub only_a: Vec<String>,
    /// Paths of figures that only B has.
    pub only_b: Vec<String>,
}

impl Comparison {
    /// Figures with this verdict.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        self.figures.iter().filter(|figure| figure.verdict == verdict).count()
    }

    /// Figures that differ, worse ones first, then by how much.
    #[must_use]
    pub fn different(&self) -> Vec<&Figure> {
        let mut all: Vec<&Figure> = self.figures.iter().filter(|f| f.verdict < Verdict::Within).collect();
        let size = |f: &Figure| f.ratio.map_or(f64::INFINITY, |ratio| ratio.max(1e-300).ln().abs());
        all.sort_by(|x, y| x.verdict.cmp(&y.verdict).then(size(y).total_cmp(&size(x))));
        all
    }
}

/// Compare two reports.
///
/// # Errors
///
/// They are no reports, or not of the same kind.
pub fn compare(a: &Value, b: &Value, options: &Options) -> Result<Comparison, CompareError> {
    same_kind(a, b)?;
    let (of_a, of_b) = leaves(a, b).map_err(|TooLarge(which)| CompareError::TooLarge(which))?;
    let by_path: BTreeMap<&str, &Leaf> = of_b.iter().map(|(path, leaf)| (path.as_str(), leaf)).collect();
    let mut comparison = Comparison { tolerance: options.tolerance, ..Comparison::default() };
    for (path, leaf) in &of_a {
        let Some(other) = by_path.get(path.as_str()) else {
            comparison.only_a.push(path.clone());
            continue;
        };
        match (leaf, *other) {
            (Leaf::Text(a), Leaf::Text(b)) if meaning::rank(a).is_some() && meaning::rank(b).is_some() => {
                comparison.figures.push(ranked(path, a, b));
            }
            (Leaf::Text(a), Leaf::Text(b)) if a == b => {}
            (Leaf::Number(a), Leaf::Number(b)) => {
                let verdict = judge(path, a, b, options.tolerance);
                let ratio = (a.value != 0.0).then(|| b.value / a.value);
                comparison.figures.push(Figure {
                    path: path.clone(),
                    a: a.value.into(),
                    b: b.value.into(),
                    ratio,
                    verdict,
                });
            }
            (a, b) => comparison.changes.push(Change { path: path.clone(), a: a.told(), b: b.told() }),
        }
    }
    let paths: BTreeSet<&str> = of_a.iter().map(|(path, _)| path.as_str()).collect();
    comparison.only_b =
        of_b.iter().map(|(path, _)| path).filter(|path| !paths.contains(path.as_str())).cloned().collect();
    Ok(comparison)
}

/// Whether they have at least half of their fields in common, and one version.
fn same_kind(a: &Value, b: &Value) -> Result<(), CompareError> {
    let fields = |value: &Value, which| -> Result<BTreeSet<String>, CompareError> {
        let objects = match value {
            Value::Object(_) => std::slice::from_ref(value),
            Value::Array(all) if all.iter().all(Value::is_object) => all.as_slice(),
            _ => return Err(CompareError::NoReport(which)),
        };
        Ok(objects.iter().filter_map(Value::as_object).flat_map(|o| o.keys().cloned()).collect())
    };
    let (of_a, of_b) = (fields(a, "A")?, fields(b, "B")?);
    let (shared, all) = (of_a.intersection(&of_b).count(), of_a.len().max(of_b.len()));
    if shared * 2 < all || a.is_array() != b.is_array() {
        return Err(CompareError::OtherKind { shared, all });
    }
    let version = |value: &Value| value.get("version").and_then(Value::as_u64);
    match (version(a), version(b)) {
        (Some(a), Some(b)) if a != b => Err(CompareError::OtherVersion(a, b)),
        _ => Ok(()),
    }
}

fn ranked(path: &str, a: &str, b: &str) -> Figure {
    let verdict = match meaning::rank(a).cmp(&meaning::rank(b)) {
        std::cmp::Ordering::Less => Verdict::Worse,
        std::cmp::Ordering::Greater => Verdict::Better,
        std::cmp::Ordering::Equal => Verdict::Same,
    };
    Figure { path: path.into(), a: a.into(), b: b.into(), ratio: None, verdict }
}

fn judge(path: &str, of_a: &Number, of_b: &Number, tolerance: f64) -> Verdict {
    let (a, b) = (of_a.value, of_b.value);
    if a == b {
        return Verdict::Same;
    }
    let meet = match (of_a.range, of_b.range) {
        (Some(x), Some(y)) => x.0 <= y.1 && y.0 <= x.1,
        _ => false,
    };
    let Noise { factor, floor } = meaning::noise(path);
    let floor = floor * of_a.scale.max(of_b.scale);
    let (low, high) = (a.abs().min(b.abs()), a.abs().max(b.abs()));
    // The spread of several runs says by itself how noisy a figure is.
    let single = of_a.single && of_b.single;
    let noisy = single && ((b - a).abs() <= floor || factor > 1.0 && a * b > 0.0 && high <= factor * low);
    if meet || noisy || (b - a).abs() <= tolerance * a.abs() {
        return Verdict::Within;
    }
    match (meaning::better(path), b > a) {
        (Better::Unknown, _) => Verdict::Different,
        (Better::High, true) | (Better::Low, false) => Verdict::Better,
        (Better::High, false) | (Better::Low, true) => Verdict::Worse,
    }
}

const DEEPEST: usize = 32;
const MOST: usize = 100_000;
/// Lists of what was seen from moment to moment: one run's have no counterpart in another's.
const MOMENTS: [&str; 3] = ["trace", "intervals", "timeline"];

/// A number, with its spread.
#[derive(Clone, Debug, PartialEq)]
struct Number {
    value: f64,
    range: Option<(f64, f64)>,
    /// It is of a single run.
    single: bool,
    /// Its unit in that of its noise: CPU time per gigabyte of a run that moved a tenth of one swings ten times as far as the time.
    scale: f64,
}

/// What stands at the end of a path.
#[derive(Clone, Debug, PartialEq)]
enum Leaf {
    Number(Number),
    /// A text, or a switch.
    Text(String),
}

impl Leaf {
    fn told(&self) -> String {
        match self {
            Self::Number(number) => number.value.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

/// Which of the two has more leaves, or deeper ones, than any report.
struct TooLarge(&'static str);

type Leaves = Vec<(String, Leaf)>;

/// Those of both.
fn leaves(a: &Value, b: &Value) -> Result<(Leaves, Leaves), TooLarge> {
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
    let objects = (inner(a), inner(b));
    for key in keys(objects).into_iter().filter(|key| !MOMENTS.contains(&key.as_str())) {
        let at = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        out.0.extend(objects.0.and_then(|map| leaf(map, key)).map(|leaf| (at.clone(), leaf)));
        out.1.extend(objects.1.and_then(|map| leaf(map, key)).map(|leaf| (at.clone(), leaf)));
        let of = |map: Option<&'_ Map<String, Value>>| map.and_then(|map| map.get(key)).cloned();
        // A report is small: a copy of what is looked at keeps the lifetimes of two trees apart.
        walk(&at, of(objects.0).as_ref(), of(objects.1).as_ref(), depth + 1, out)?;
    }
    for (name, a, b) in pairs(elements(a), elements(b)) {
        walk(&format!("{path}[{name}]"), a, b, depth + 1, out)?;
    }
    Ok(())
}

/// A scalar of an object, or what in it is a spread.
fn leaf(of: &Map<String, Value>, key: &str) -> Option<Leaf> {
    match of.get(key)? {
        Value::Number(number) => {
            let range = of.get(&format!("{key}_range")).and_then(range);
            let bytes = of.get("bytes").and_then(Value::as_f64).filter(|_| key.ends_with("_per_gb"));
            let scale = bytes.map_or(1.0, |bytes| (1e9 / bytes.max(1.0)).max(1.0));
            Some(Leaf::Number(Number { value: number.as_f64()?, range, single: true, scale }))
        }
        Value::String(text) => Some(Leaf::Text(text.clone())),
        Value::Bool(on) => Some(Leaf::Text(on.to_string())),
        Value::Object(map) => {
            let (value, low, high) = spread(map)?;
            Some(Leaf::Number(Number { value, range: Some((low, high)), single: false, scale: 1.0 }))
        }
        Value::Null | Value::Array(_) => None,
    }
}

/// The least and the largest value that a figure had within its run.
fn range(value: &Value) -> Option<(f64, f64)> {
    let [low, high] = value.as_array()?.as_slice() else { return None };
    Some((low.as_f64()?, high.as_f64()?))
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

#[cfg(test)]
mod tests;
