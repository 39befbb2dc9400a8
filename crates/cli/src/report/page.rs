//! The frame of a page: headline, tiles, claims, sections, and the report it was made of.
//!
//! Pictures as files: SVG as it is drawn, PNG made from it.
//!
//! The letters of a PNG are those of a font in this program (DejaVu Sans, its Latin letters and digits), so that it looks
//! the same on every machine. Its licence is beside it.

use super::drawing::page_style;
use super::words::escape;
#[cfg(feature = "full")]
use anyhow::anyhow;
use anyhow::{Context, Result, bail};
#[cfg(feature = "full")]
#[cfg(feature = "full")]
use resvg::tiny_skia::{Pixmap, Transform};
#[cfg(feature = "full")]
use resvg::usvg::{self, fontdb};
use skyhaul::core::hint::Hint;
use skyhaul::io::file::replace;
use std::fmt::Write as _;
use std::path::Path;
#[cfg(feature = "full")]
use std::sync::Arc;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A number that stands out.
pub(crate) struct Tile {
    name: String,
    value: String,
    more: String,
}

impl Tile {
    pub(crate) fn new(name: impl Into<String>, value: impl Into<String>, more: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into(), more: more.into() }
    }
}

/// A page so far.
pub(crate) struct Page {
    out: String,
}

impl Page {
    /// One with a title, and a small line above its headline.
    pub(crate) fn new(title: &str, brand: &str) -> Self {
        let out = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" \
             content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
             <title>{}</title>\n<style>\n{}{STYLE}</style></head>\n<body><main>\n<p class=\"brand\">{}</p>\n",
            escape(title),
            page_style(),
            escape(brand)
        );
        Self { out }
    }

    /// The headline with its verdict, and lines below; the last of more than one is the soft one: the machine.
    pub(crate) fn headline(&mut self, text: &str, verdict: Option<(bool, &str)>, below: &[&str]) {
        let _ = write!(self.out, "<h1>{}", escape(text));
        if let Some((held, words)) = verdict {
            let class = if held { "held" } else { "broken" };
            let _ = write!(self.out, " <span class=\"{class}\">{}</span>", escape(words));
        }
        self.out.push_str("</h1>\n<p>");
        for (n, line) in below.iter().enumerate() {
            let soft = n > 0 && n + 1 == below.len();
            let _ = match soft {
                true => write!(self.out, "<br><span class=\"soft\">{}</span>", escape(line)),
                false => write!(self.out, "{}{}", if n > 0 { "<br>" } else { "" }, escape(line)),
            };
        }
        self.out.push_str("</p>\n");
    }

    /// The key numbers.
    pub(crate) fn tiles(&mut self, tiles: &[Tile]) {
        self.out.push_str("<div class=\"tiles\">\n");
        for tile in tiles {
            let _ = writeln!(
                self.out,
                "<div class=\"tile\"><span class=\"name\">{}</span><b>{}</b><span>{}</span></div>",
                escape(&tile.name),
                escape(&tile.value),
                escape(&tile.more)
            );
        }
        self.out.push_str("</div>\n");
    }

    /// A section of finished parts: charts, tables, lists.
    pub(crate) fn section(&mut self, title: &str, caption: &str, body: &str) {
        let _ = writeln!(
            self.out,
            "<section><h2>{}</h2>\n<p class=\"soft\">{}</p>\n{body}</section>",
            escape(title),
            escape(caption)
        );
    }

    /// What produced a report, and the report itself.
    pub(crate) fn source(&mut self, command: &str, json: &str) {
        let _ = write!(
            self.out,
            "<section><p>Produced by <code>{}</code></p>\n<details><summary>The whole report (JSON)</summary>\n\
             <pre>{}</pre></details></section>\n",
            escape(command),
            escape(json)
        );
    }

    /// The whole page.
    pub(crate) fn finish(mut self) -> String {
        let _ =
            write!(self.out, "</main><div id=\"tip\"></div>\n<script>\n{SCRIPT}</script>\n</body></html>\n");
        self.out
    }
}

/// Claims, whether they hold, and why.
pub(crate) fn claims<'a>(claims: impl IntoIterator<Item = (bool, &'a str, &'a str)>) -> String {
    let mut list = String::from("<ul class=\"proofs\">\n");
    for (held, claim, evidence) in claims {
        let (class, word) = if held { ("held", "✔ passed") } else { ("broken", "✘ failed") };
        let _ = writeln!(
            list,
            "<li><span class=\"{class}\">{word}</span><span>{}<br><span class=\"soft\">{}</span></span></li>",
            escape(claim),
            escape(evidence)
        );
    }
    list + "</ul>\n"
}

/// Two parts beside each other, each under a title.
pub(crate) fn pair(left: (&str, &str), right: (&str, &str)) -> String {
    let figure = |(title, body): (&str, &str)| format!("<figure><h3>{}</h3>\n{body}</figure>", escape(title));
    format!("<div class=\"pair\">{}{}</div>\n", figure(left), figure(right))
}

/// A part under a title of its own.
pub(crate) fn titled(title: &str, body: &str) -> String {
    format!("<h3>{}</h3>{body}", escape(title))
}

#[cfg(feature = "full")]
const FONT: &[u8] = include_bytes!("picture/sans.ttf");
/// Pixels for each unit of a drawing.
#[cfg(feature = "full")]
const SCALE: f32 = 2.0;

const NO_PNG: &str = "this build of skyhaul draws no PNG";
const REMEDY: Hint<&str> = Hint("write .svg, or build everything with `make build`");

enum Kind {
    Svg,
    Png,
}

fn kind(path: &Path) -> Result<Kind> {
    match path.extension().and_then(|name| name.to_str()).map(str::to_ascii_lowercase).as_deref() {
        Some("svg") => Ok(Kind::Svg),
        Some("png") if !cfg!(feature = "full") => bail!("{NO_PNG}{REMEDY}"),
        Some("png") => Ok(Kind::Png),
        _ => bail!("{}: plots are written as .svg or .png", path.display()),
    }
}

/// Whether a picture can have this name.
pub(crate) fn check(path: &Path) -> Result<()> {
    kind(path).map(|_| ())
}

/// Write a drawing to a file.
pub(crate) fn save(path: &Path, svg: &str) -> Result<()> {
    let bytes = match kind(path)? {
        Kind::Svg => svg.as_bytes().to_vec(),
        Kind::Png => png(svg).with_context(|| path.display().to_string())?,
    };
    Ok(replace(path, bytes)?)
}

/// This build cannot write PNG.
#[cfg(not(feature = "full"))]
fn png(_: &str) -> Result<Vec<u8>> {
    bail!("{NO_PNG}{REMEDY}")
}

/// The pixels of a drawing.
#[cfg(feature = "full")]
fn png(svg: &str) -> Result<Vec<u8>> {
    let mut fonts = fontdb::Database::new();
    fonts.load_font_data(FONT.to_vec());
    fonts.set_sans_serif_family("DejaVu Sans");
    let options = usvg::Options {
        font_family: "DejaVu Sans".into(),
        fontdb: Arc::new(fonts),
        ..usvg::Options::default()
    };
    let tree = usvg::Tree::from_str(svg, &options)?;
    let size = tree.size().to_int_size().scale_by(SCALE).ok_or_else(|| anyhow!("a drawing without size"))?;
    let mut pixels =
        Pixmap::new(size.width(), size.height()).ok_or_else(|| anyhow!("a drawing without size"))?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    Ok(pixels.encode_png()?)
}

#[cfg(all(test, feature = "full"))]
mod tests {
    use super::*;
    use crate::report::drawing::Drawing;

    #[test]
    fn a_picture_shows_lines_and_letters() {
        let ink = |draw: &dyn Fn(&mut Drawing)| {
            let mut drawing = Drawing::new(100.0, 40.0, "test");
            draw(&mut drawing);
            let bytes = png(&drawing.into_file(100.0, 40.0)).unwrap();
            let pixels = Pixmap::decode_png(&bytes).unwrap();
            assert_eq!((pixels.width(), pixels.height()), (200, 80));
            pixels.pixels().iter().filter(|pixel| pixel.red() < 200).count()
        };
        assert_eq!(ink(&|_| {}), 0);
        assert!(ink(&|drawing| drawing.line((10.0, 20.0), (90.0, 20.0), "axis")) > 100);
        assert!(ink(&|drawing| drawing.text((10.0, 20.0), "start", "", "Letters 0123")) > 100);
        assert!(check(Path::new("x.pdf")).is_err() && check(Path::new("x")).is_err());
        assert!(check(Path::new("x.PNG")).is_ok());
    }
}
