//! The pages of the library made of what the tests were built of.
//!
//! `cargo doc` reads each of 140 dependencies again, as it takes no library that is built: 110 s of a processor. `cargo test --doc`
//! gives rustdoc those of the tests' build, with all words that the pages need too. So the suite has it run a script in the place of
//! rustdoc, which leaves out the words that ask for tests.

use super::step::{BEHIND, Step};
use super::tally::Tally;
use crate::docs::RUSTDOCFLAGS;
use crate::workspace;
use anyhow::{Context, Result};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// In the place of rustdoc, in the root. Asked for anything but tests, it is rustdoc.
const SCRIPT: &str = r#"#!/bin/sh
case " $* " in *" --test "*) ;; *) exec rustdoc "$@" ;; esac
is_value=
for word do
    shift
    if [ -n "$is_value" ]; then is_value=; continue; fi
    case $word in
        --test) ;;
        --test-*=*) ;;
        --test-*) is_value=yes ;;
        *) set -- "$@" "$word" ;;
    esac
done
exec rustdoc "$@" --out-dir "#;

/// Make the pages of all libraries and of this program. A link that leads nowhere is an error, as is what has no description: cargo tells
/// rustdoc of the lints of the manifests for tests too.
pub(super) fn run(tally: &mut Tally) -> Result<()> {
    Step::new("rustdoc: the pages of the library, without warnings", "cargo")
        .args(["test", "--quiet", "--workspace", "--locked", "--doc"])
        .env(RUSTDOCFLAGS.0, Path::new(RUSTDOCFLAGS.1))
        .env("RUSTDOC", &written(&workspace::root().join("target"))?)
        .under(&BEHIND)
        .run(tally)?;
    Step::new("rustdoc: the pages of the chores, without warnings", "cargo")
        .args(["doc", "--quiet", "--no-deps", "--locked", "--package", "xtask"])
        .env(RUSTDOCFLAGS.0, Path::new(RUSTDOCFLAGS.1))
        .under(&BEHIND)
        .run(tally)?;
    Ok(())
}

/// Write the script. Its pages lie beside those of `cargo doc`, which takes its own for current whatever has become of them.
fn written(target: &Path) -> Result<PathBuf> {
    let path = target.join("suite/rustdoc");
    let text = format!("{SCRIPT}'{}'\n", target.join("suite/doc").display());
    std::fs::create_dir_all(target.join("suite"))?;
    std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// What the script gives to a rustdoc that says its words.
    fn given(words: &[&str]) -> String {
        let directory =
            std::env::temp_dir().join(format!("skyhaul-pages-{}-{}", std::process::id(), words.len()));
        let script = written(&directory).unwrap();
        let rustdoc = directory.join("rustdoc");
        std::fs::write(&rustdoc, "#!/bin/sh\nfor word do echo \"$word\"; done\n").unwrap();
        std::fs::set_permissions(&rustdoc, std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap());
        let output = Command::new(script).args(words).env("PATH", path).output().unwrap();
        std::fs::remove_dir_all(&directory).unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        said.replace(&directory.display().to_string(), "")
    }

    #[test]
    fn pages_are_asked_for_in_the_place_of_tests() {
        let words = [
            "--test",
            "--cfg",
            "feature=\"a b\"",
            "--test-run-directory",
            "/x",
            "--test-args",
            "*",
            "src/lib.rs",
        ];
        assert_eq!(given(&words), "--cfg\nfeature=\"a b\"\nsrc/lib.rs\n--out-dir\n/suite/doc\n");
        assert_eq!(given(&["-vV"]), "-vV\n");
    }
}
