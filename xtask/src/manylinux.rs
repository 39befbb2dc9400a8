//! Programs and modules that run with every glibc from 2.28 on (RHEL 8 and 9, Debian 10, Ubuntu 20.04), whatever this machine has.
//!
//! ```text
//!   cargo rustc … -- -C linker=target/python/cc-x86_64 ─▶ maturin zig cc -target x86_64-linux-gnu.2.28 ─▶ symbols of glibc 2.28
//! ```
//!
//! Zig knows the symbols of each glibc. Only the last step is another one: what is compiled is the same as without it. Zig and
//! maturin are Python packages of `tests/requirements.txt`; without Zig, the linker of this machine is used, and the wheel is for
//! machines with its glibc or a later one.

use crate::workspace;
use anyhow::{Context, Result, ensure};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The tag of such a wheel.
pub(crate) const TAG: &str = "manylinux_2_28";
const GLIBC: &str = "2.28";
const TOOLS: &str = "target/python";

/// Zig's tools for an architecture.
pub(crate) struct Tools {
    /// The linker, and the compiler of C.
    pub(crate) cc: PathBuf,
    /// The archiver.
    pub(crate) ar: PathBuf,
}

impl Tools {
    /// The words for rustc that link with it.
    pub(crate) fn linking(&self) -> Vec<String> {
        vec!["-C".to_owned(), format!("linker={}", self.cc.display())]
    }
}

/// The tools, if Zig is in the environment of this Python. `arch` is "x86_64" or "aarch64".
pub(crate) fn tools(python: &Path, arch: &str) -> Result<Option<Tools>> {
    let mut zig = Command::new(python);
    zig.args(["-m", "ziglang", "version"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if !zig.status().is_ok_and(|status| status.success()) {
        return Ok(None);
    }
    let programs = python.parent().context("the directory of Python")?.display().to_string();
    let script = |what: &str, first: &str, with: &str| {
        let text = format!(
            "#!/bin/sh\n{first}PATH=\"{programs}:$PATH\" exec \"{programs}/maturin\" zig {what} -- {with}\"$@\"\n"
        );
        let path = workspace::root().join(TOOLS).join(format!("{what}-{arch}"));
        std::fs::create_dir_all(workspace::root().join(TOOLS))?;
        std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
        Ok::<PathBuf, anyhow::Error>(path)
    };
    let of_target = match arch == std::env::consts::ARCH {
        true => unwinder(),
        false => Some(unwinder_of(python, arch)?),
    };
    let unwinder = of_target.map(|path| shared_unwinder(&path)).unwrap_or_default();
    let cc = script("cc", &unwinder, &format!("-g -target {arch}-linux-gnu.{GLIBC} "))?;
    Ok(Some(Tools { cc, ar: script("ar", "", "")? }))
}

/// The unwinder of this machine's compiler.
fn unwinder() -> Option<String> {
    let found = Command::new("cc").arg("-print-file-name=libgcc_s.so.1").output().ok()?;
    let path = String::from_utf8(found.stdout).ok()?.trim().to_owned();
    Path::new(&path).is_absolute().then_some(path)
}

/// What Rust and C call of an unwinder.
const UNWINDING: [&str; 16] = [
    "Backtrace",
    "DeleteException",
    "FindEnclosingFunction",
    "ForcedUnwind",
    "GetCFA",
    "GetDataRelBase",
    "GetGR",
    "GetIP",
    "GetIPInfo",
    "GetLanguageSpecificData",
    "GetRegionStart",
    "GetTextRelBase",
    "RaiseException",
    "Resume",
    "SetGR",
    "SetIP",
];

/// A library with the names of another architecture's unwinder, to link with: where the module runs, the real one is loaded.
fn unwinder_of(python: &Path, arch: &str) -> Result<String> {
    let folder = workspace::root().join(TOOLS).join(arch);
    std::fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let (source, library) = (folder.join("unwinder.c"), folder.join("libgcc_s.so.1"));
    let text: String = UNWINDING.iter().map(|name| format!("void _Unwind_{name}(void) {{}}\n")).collect();
    std::fs::write(&source, text).with_context(|| format!("write {}", source.display()))?;
    let mut zig = Command::new(python);
    zig.args([
        "-m",
        "ziglang",
        "cc",
        "-target",
        &format!("{arch}-linux-gnu.{GLIBC}"),
        "-shared",
        "-nostdlib",
    ]);
    zig.args(["-Wl,-soname,libgcc_s.so.1", "-o"]).arg(&library).arg(&source).stdin(Stdio::null());
    let status = zig.status().context("run Zig")?;
    ensure!(status.success(), "Zig cannot link {}", library.display());
    Ok(library.display().to_string())
}

/// Lines that link a module with the unwinder that the process has. Zig would put one of its own into it, which crashes when
/// Python ends daemon threads: `pthread_exit` unwinds them with the frames of the other.
fn shared_unwinder(path: &str) -> String {
    format!(
        "case \" $* \" in *\" -shared \"*)\nfor arg do shift; [ \"$arg\" = -lgcc_s ] && arg='{path}'; set -- \"$@\" \"$arg\"; done;;\nesac\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of its own would crash when Python ends daemon threads.
    #[test]
    fn a_module_of_another_architecture_has_the_unwinder_of_its_process() {
        let python = workspace::root().join(".venv/bin/python");
        let other = if std::env::consts::ARCH == "aarch64" { "x86_64" } else { "aarch64" };
        let Some(tools) = tools(&python, other).unwrap() else {
            println!("SKIPPED: no Zig in .venv (pip install ziglang)");
            return;
        };
        let folder = workspace::root().join(TOOLS).join(other);
        let (source, module) = (folder.join("module.c"), folder.join("module.so"));
        std::fs::write(&source, "void _Unwind_Resume(void *); void end(void *e) { _Unwind_Resume(e); }\n")
            .unwrap();
        let mut linked = Command::new(&tools.cc);
        linked.args(["-shared", "-fPIC"]).arg(&source).arg("-lgcc_s").arg("-o").arg(&module);
        assert!(linked.status().unwrap().success());
        let bytes = std::fs::read(&module).unwrap();
        assert!(bytes.windows(13).any(|name| name == b"libgcc_s.so.1"), "it has an unwinder of its own");
    }
}
