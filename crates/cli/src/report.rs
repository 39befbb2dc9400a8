//! Reports that are looked at: pages and pictures. Verbs bring data; only this module draws.
//!
//! ```text
//!   data ─▶ Chart (lines, steps, bands, bars) · LossMap · Rows ───────────▶ inline in a Page, or a file (SVG, PNG)
//!        ─▶ HeatMap ──────────────────────────────────────────────────────▶ part of a Drawing
//!        ─▶ Table · Tile ─────────────────────────────────────────────────▶ Page ─▶ one HTML file
//! ```
//!
//! How a new page is made:
//!
//! ```text
//!   let mut page = Page::new("Skyhaul probe", "SKYHAUL PROBE");
//!   page.headline("9.4 Gb/s,", Some((true, "nothing lost")), &["to dtn2 for 10 s", "a machine"]);
//!   page.tiles(&[Tile::new("lost", number(lost), "of 10 000 packets")]);
//!   let chart = Chart::new("Rate by spacing")
//!       .x(Scale::log("spacing, µs"))
//!       .panel(Panel::new(220.0, Scale::linear("received, Gb/s")).series(Series::points("1472 B", points)));
//!   page.section("Rate", "What the receiver counted.", &chart.inline(WIDTH));
//!   page.section("Points", "", &Table::new(&["size", "#lost"]).row(&["1472", "0"]).html());
//!   page.source(&command, &json(&report));
//!   std::fs::write(path, page.finish())?;
//! ```
//!
//! A page needs no network and no other file, follows the reader's light or dark scheme, can be printed, and is complete
//! without its few lines of script, which only show values under the pointer. All text is escaped here: names, addresses
//! and errors may hold anything. Colours of pages and files come from one palette.
//!
//! Limits: nothing here fails. A value that is not a number is not drawn; one outside a scale is drawn at its end. A line
//! of more than 2048 points keeps the lowest and highest of each part.

pub(crate) mod chart;
pub(crate) mod drawing;
pub(crate) mod map;
pub(crate) mod page;
pub(crate) mod table;
pub(crate) mod words;
