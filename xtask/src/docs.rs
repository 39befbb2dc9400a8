//! The documentation site: pages of the tree, man pages, both libraries' pages; `docs/site/build.py` puts them together.
//!
//! ```text
//!   command ─▶ docs/reference/man ─┐
//!   cargo doc ─▶ target/doc ───────┼─▶ docs/site/build.py ─▶ target/site/index.html
//!   .venv with the package ────────┘   (types the tutorials for their plots)
//! ```

use crate::suite::prepare;
use crate::{generated, workspace};
use anyhow::{Context, Result};
use std::process::{Command, Stdio};

/// What rustdoc is given: a link that leads nowhere is an error.
pub(crate) const RUSTDOC: [&str; 5] = ["doc", "--quiet", "--no-deps", "--workspace", "--locked"];
pub(crate) const RUSTDOCFLAGS: (&str, &str) = ("RUSTDOCFLAGS", "-D warnings");

/// Build the site; true if all went well. The package is in `.venv` already (`make python`).
pub(crate) fn run() -> Result<bool> {
    let python = match prepare::python() {
        Ok(python) => python,
        Err(why) => {
            println!("SKIPPED: the documentation site: {why}");
            return Ok(false);
        }
    };
    generated::run(false, generated::From::Sources)?;
    let mut rustdoc = workspace::cargo();
    rustdoc.args(RUSTDOC).env(RUSTDOCFLAGS.0, RUSTDOCFLAGS.1);
    if !rustdoc.current_dir(workspace::root()).status().context("run cargo doc")?.success() {
        return Ok(false);
    }
    let mut site = Command::new(python);
    site.args(["docs/site/build.py", "--rust", "target/doc"])
        .env("SKYHAUL_BIN", workspace::root().join("target/release/skyhaul"))
        .current_dir(workspace::root())
        .stdin(Stdio::null());
    prepare::keep_bytecode(&mut site);
    let status = site.status().context("run docs/site/build.py")?;
    Ok(status.success())
}
