//! The rule of a chunk stream, from what Python gives: expressions or a compiled function, notes, counters.

use crate::config::unknown;
use crate::place::PlaceFunction;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use skyhaul::core::hint::Hint;
use skyhaul::spead::receive::chunk::{BATCH, ChunkRule, EXTRA, ExprError, Tally};

/// Where heaps go.
#[derive(FromPyObject)]
pub(crate) enum Rule {
    Declared(String, String, String),
    Compiled(Py<PlaceFunction>),
}

/// A note: (expression, bytes). A counter: (name, "sum" or "max", expression; None: the function counts).
pub(crate) type Note = (String, usize);
pub(crate) type Counter = (String, String, Option<String>);

/// The whole rule.
pub(crate) fn of(
    rule: Rule,
    wanted: Option<&str>,
    extra_at: Option<&str>,
    extra: &[Note],
    counters: &[Counter],
) -> PyResult<ChunkRule> {
    if extra_at.is_none() && !extra.is_empty() {
        return Err(PyValueError::new_err(format!(
            "extra without extra_at{}",
            Hint("extra_at gives the place of the notes")
        )));
    }
    let noted: usize = extra.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes));
    if noted > EXTRA || extra.iter().any(|(_, bytes)| !(1..=8).contains(bytes)) {
        let text = format!(
            "notes of {noted} bytes{}",
            Hint(format_args!("1 to 8 for each, {EXTRA} for all of a heap"))
        );
        return Err(PyValueError::new_err(text));
    }
    let mut placed = match rule {
        Rule::Declared(chunk, index, offset) => {
            ChunkRule::declared(&chunk, &index, &offset).map_err(wrong)?
        }
        Rule::Compiled(function) => ChunkRule::code(function.get().rule()),
    };
    if let Some(wanted) = wanted {
        placed = placed.with_filter(wanted).map_err(wrong)?;
    }
    if let Some(at) = extra_at {
        let values: Vec<(&str, usize)> = extra.iter().map(|(value, bytes)| (&**value, *bytes)).collect();
        placed = placed.with_extra(at, &values).map_err(wrong)?;
    }
    counted(placed, counters)
}

/// The rule with its counters.
fn counted(mut rule: ChunkRule, counters: &[Counter]) -> PyResult<ChunkRule> {
    let own = counters.iter().filter(|(.., value)| value.is_none()).count();
    if own > BATCH {
        let text = format!("{own} counters of a place function{}", Hint(format_args!("{BATCH} at most")));
        return Err(PyValueError::new_err(text));
    }
    for (n, (name, tally, value)) in counters.iter().enumerate() {
        if counters[..n].iter().any(|(other, ..)| other == name) {
            let text = format!("two counters are named {name:?}{}", Hint("give each a name of its own"));
            return Err(PyValueError::new_err(text));
        }
        let tally = match &**tally {
            "sum" => Tally::Sum,
            "max" => Tally::Max,
            other => return Err(unknown("a counter", other, "(name, 'sum' or 'max', expression)")),
        };
        rule = match value {
            Some(value) => rule.with_counter(name, tally, value).map_err(wrong)?,
            None => rule.with_batch_counter(name, tally),
        };
    }
    Ok(rule)
}

fn wrong(error: ExprError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
