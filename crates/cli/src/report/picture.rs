//! Pictures as files: SVG as it is drawn, PNG made from it.
//!
//! The letters of a PNG are those of a font in this program (DejaVu Sans, its Latin letters and digits), so that it looks
//! the same on every machine. Its licence is beside it.

#[cfg(feature = "png")]
use anyhow::anyhow;
use anyhow::{Context, Result, bail};
#[cfg(feature = "png")]
use resvg::tiny_skia::{Pixmap, Transform};
#[cfg(feature = "png")]
use resvg::usvg::{self, fontdb};
use skyhaul::io::file::failed;
use std::path::Path;
#[cfg(feature = "png")]
use std::sync::Arc;

#[cfg(feature = "png")]
const FONT: &[u8] = include_bytes!("picture/sans.ttf");
/// Pixels for each unit of a drawing.
#[cfg(feature = "png")]
const SCALE: f32 = 2.0;

const NO_PNG: &str = "this build of skyhaul draws no PNG\nhint: write .svg, or build all of it: make build";

enum Kind {
    Svg,
    Png,
}

fn kind(path: &Path) -> Result<Kind> {
    match path.extension().and_then(|name| name.to_str()).map(str::to_ascii_lowercase).as_deref() {
        Some("svg") => Ok(Kind::Svg),
        Some("png") if !cfg!(feature = "png") => bail!(NO_PNG),
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
    let octets = match kind(path)? {
        Kind::Svg => svg.as_bytes().to_vec(),
        Kind::Png => png(svg).with_context(|| path.display().to_string())?,
    };
    std::fs::write(path, octets).map_err(|error| failed("write", path, &error).into())
}

/// There are none in this build.
#[cfg(not(feature = "png"))]
fn png(_: &str) -> Result<Vec<u8>> {
    bail!(NO_PNG)
}

/// The pixels of a drawing.
#[cfg(feature = "png")]
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

#[cfg(all(test, feature = "png"))]
mod tests {
    use super::*;
    use crate::report::drawing::Drawing;

    #[test]
    fn a_picture_shows_lines_and_letters() {
        let ink = |draw: &dyn Fn(&mut Drawing)| {
            let mut drawing = Drawing::new(100.0, 40.0, "test");
            draw(&mut drawing);
            let octets = png(&drawing.into_file(100.0, 40.0)).unwrap();
            let pixels = Pixmap::decode_png(&octets).unwrap();
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
