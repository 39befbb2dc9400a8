//! Colours of drawings, once for pages and for files.
//!
//! Series are apart for most eyes, on white and on black (Okabe and Ito's colours, and two more).

use std::fmt::Write as _;

/// Colours of series.
pub(super) const COLOURS: usize = 8;
/// Name of a variable, its colour on white, and on black.
const PALETTE: [(&str, &str, &str); 20] = [
    ("ink", "#16181d", "#eceef1"),
    ("soft", "#5b6068", "#a0a6af"),
    ("rule", "#dcdcd8", "#343941"),
    ("grid", "#ebebe7", "#2a2e35"),
    ("card", "#ffffff", "#1b1e23"),
    ("q0", "#f0f1ee", "#24282f"),
    ("q1", "#c9ddf2", "#1d3f63"),
    ("q2", "#95bde6", "#23588e"),
    ("q3", "#5d97d3", "#2f78bd"),
    ("q4", "#2f70b4", "#5a9fdc"),
    ("q5", "#164c88", "#97c6ee"),
    ("q6", "#08284f", "#e2f1fd"),
    ("s0", "#0072b2", "#3a9ad9"),
    ("s1", "#e69f00", "#e69f00"),
    ("s2", "#009e73", "#009e73"),
    ("s3", "#cc79a7", "#cc79a7"),
    ("s4", "#56b4e9", "#56b4e9"),
    ("s5", "#d55e00", "#e8743b"),
    ("s6", "#8b4513", "#b5794f"),
    ("s7", "#555555", "#9a9a9a"),
];
const STYLE: &str = include_str!("chart.css");

/// The rules of drawings in a page, whose colours follow the reader's scheme.
pub(super) fn page_style() -> String {
    let variables = |of: fn(&(&str, &'static str, &'static str)) -> &'static str| {
        PALETTE.iter().fold(String::new(), |mut out, entry| {
            let _ = write!(out, " --{}: {};", entry.0, of(entry));
            out
        })
    };
    format!(
        ":root {{{} }}\n@media screen and (prefers-color-scheme: dark) {{ :root {{{} }} }}\n{STYLE}{}",
        variables(|entry| entry.1),
        variables(|entry| entry.2),
        series()
    )
}

/// The rules of a drawing in a file of its own, on white.
pub(super) fn file_style() -> String {
    PALETTE.iter().fold(
        format!("svg text {{ font-family: sans-serif; }}\n{STYLE}{}", series()),
        |style, (name, light, _)| style.replace(&format!("var(--{name})"), light),
    )
}

fn series() -> String {
    (0..COLOURS).fold(String::new(), |mut out, n| {
        let _ = writeln!(
            out,
            "path.s{n}, line.s{n} {{ stroke: var(--s{n}); }} \
             circle.s{n}, rect.s{n}, path.area.s{n}, path.band.s{n} {{ fill: var(--s{n}); }}"
        );
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_no_variable_and_a_page_defines_each() {
        assert!(!file_style().contains("var("));
        let page = page_style();
        for used in page.split("var(--").skip(1).filter_map(|rest| rest.split(')').next()) {
            assert_eq!(page.matches(&format!(" --{used}: #")).count(), 2, "{used}");
        }
    }
}
