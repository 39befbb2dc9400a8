//! Tables of `top`: rows of cells, each with its style, in columns of equal width.

use crate::print::at_least;
use serde_json::Value;
use skyhaul::io::say::escaped_name;
use skyhaul::io::terminal::{StyledLine, TextStyle};

/// A cell of a table: whether it stands at the right, its style, its text.
pub(super) type Cell = (bool, TextStyle, String);

pub(super) fn left(style: TextStyle, text: String) -> Cell {
    (false, style, text)
}

pub(super) fn right(style: TextStyle, text: String) -> Cell {
    (true, style, text)
}

pub(super) fn soft(text: &str) -> Cell {
    (false, TextStyle::Soft, text.to_owned())
}

/// Titles; `>` marks columns of numbers.
pub(super) fn head(titles: &[&str]) -> Vec<Cell> {
    let title = |title: &&str| match title.strip_prefix('>') {
        Some(title) => (true, TextStyle::Soft, title.to_owned()),
        None => (false, TextStyle::Soft, (*title).to_owned()),
    };
    titles.iter().map(title).collect()
}

pub(super) fn losses(value: &Value, is_lower_bound: bool, bad: TextStyle) -> Cell {
    let lost = value.as_u64().unwrap_or(0);
    right(if lost == 0 { TextStyle::Soft } else { bad }, at_least(lost, is_lower_bound))
}

/// Text of the station; as it is drawn, so that columns are aligned.
pub(super) fn text(value: &Value) -> String {
    escaped_name(value.as_str().unwrap_or_default()).into_owned()
}

/// The time of day of a time of the API.
pub(super) fn clock(time: &Value) -> String {
    time.as_str().and_then(|time| time.get(11..19)).unwrap_or("-").to_owned()
}

pub(super) fn level(value: &Value) -> TextStyle {
    match value.as_str() {
        Some("error") => TextStyle::Bad,
        Some("warning") => TextStyle::Warning,
        _ => TextStyle::Soft,
    }
}

/// Rows with columns of equal width.
pub(super) fn aligned(rows: &[Vec<Cell>]) -> Vec<StyledLine> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.2.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let piece = |((is_right, style, text), width): (&Cell, &usize)| {
        let free = " ".repeat(width.saturating_sub(text.chars().count()));
        let padded = if *is_right { format!("{free}{text}  ") } else { format!("{text}{free}  ") };
        (*style, padded)
    };
    rows.iter().map(|row| row.iter().zip(&widths).map(piece).collect()).collect()
}
