//! Tables of a page.

use super::words::escape;
use std::fmt::Write as _;

/// A table; the heading of a column of numbers begins with `#`, which is not shown.
pub(crate) struct Table {
    numbers: Vec<bool>,
    out: String,
}

impl Table {
    pub(crate) fn new<S: AsRef<str>>(headings: &[S]) -> Self {
        let mut table = Self { numbers: Vec::new(), out: String::from("<table><tr>") };
        for heading in headings {
            let (number, name) =
                heading.as_ref().strip_prefix('#').map_or((false, heading.as_ref()), |name| (true, name));
            table.numbers.push(number);
            let class = if number { " class=\"n\"" } else { "" };
            let _ = write!(table.out, "<th{class}>{}</th>", escape(name));
        }
        table.out.push_str("</tr>\n");
        table
    }

    /// A row of texts.
    pub(crate) fn row<S: AsRef<str>>(mut self, cells: &[S]) -> Self {
        self.add(cells, "", "");
        self
    }

    /// Add a row of a class of its own (may be empty), with a remark that something is wrong (may be empty) after its last cell.
    pub(crate) fn add<S: AsRef<str>>(&mut self, cells: &[S], class: &str, wrong: &str) {
        self.out.push_str(&if class.is_empty() { "<tr>".into() } else { format!("<tr class=\"{class}\">") });
        for (n, cell) in cells.iter().enumerate() {
            let class = if self.numbers.get(n) == Some(&true) { " class=\"n\"" } else { "" };
            let _ = write!(self.out, "<td{class}>{}", escape(cell.as_ref()));
            if n + 1 == cells.len() && !wrong.is_empty() {
                let _ = write!(self.out, " <span class=\"broken\">{}</span>", escape(wrong));
            }
            self.out.push_str("</td>");
        }
        self.out.push_str("</tr>\n");
    }

    /// The finished table.
    pub(crate) fn html(&self) -> String {
        format!("{}</table>\n", self.out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_escaped_and_numbers_stand_right() {
        let mut table = Table::new(&["size", "#lost"]).row(&["<b>", "1"]);
        table.add(&["x", "2"], "branch", "no & no");
        let html = table.html();
        assert!(html.contains("<th>size</th><th class=\"n\">lost</th>"), "{html}");
        assert!(html.contains("<td>&lt;b&gt;</td><td class=\"n\">1</td>"), "{html}");
        assert!(html.contains(
            "<tr class=\"branch\"><td>x</td><td class=\"n\">2 <span class=\"broken\">no &amp; no</span></td>"
        ));
    }
}
