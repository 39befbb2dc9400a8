//! The Debian package of the command: `target/deb/skyhaul_VERSION_ARCHITECTURE.deb`.
//!
//! ```text
//!   target/dist/skyhaul ─────────────────────────▶ /usr/bin/skyhaul                  stripped
//!   packaging/debian/skyhaul.service ────────────▶ /usr/lib/systemd/system/
//!                    sysusers.conf, 60-skyhaul.conf ▶ /usr/lib/sysusers.d/, sysctl.d/
//!                    station.toml ───────────────▶ /etc/skyhaul/                     kept when it was edited
//!                    postinst, prerm, postrm ────▶ what is done at installation and removal
//!   docs/reference/man, completions ─────────────▶ /usr/share/
//! ```
//!
//! The package of another command (`--command PATH`) is for tests: `target/suite/deb`, packed fast, as large as it is.
//!
//! The libraries that it depends on are read from the command: it needs the C library of the machine that it was built on, or an older
//! one where Zig has linked it for that ([`crate::manylinux`]).

use crate::workspace;
use anyhow::{Context, Result, bail, ensure};
use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const COMMAND: &str = "target/dist/skyhaul";
/// A package of what `make dist` built is smaller.
const MOST_BYTES: u64 = 16 << 20;
const SOURCES: &str = "packaging/debian";
/// Files of the package, and where they are installed.
const FILES: [(&str, &str); 7] = [
    ("packaging/debian/skyhaul.service", "usr/lib/systemd/system/skyhaul.service"),
    ("packaging/debian/sysusers.conf", "usr/lib/sysusers.d/skyhaul.conf"),
    ("packaging/debian/60-skyhaul.conf", "usr/lib/sysctl.d/60-skyhaul.conf"),
    (CONFIGURATION.0, CONFIGURATION.1),
    ("docs/reference/completions/skyhaul.bash", "usr/share/bash-completion/completions/skyhaul"),
    ("docs/reference/completions/_skyhaul", "usr/share/zsh/vendor-completions/_skyhaul"),
    ("docs/reference/completions/skyhaul.fish", "usr/share/fish/vendor_completions.d/skyhaul.fish"),
];
const CONFIGURATION: (&str, &str) = ("packaging/debian/station.toml", "etc/skyhaul/station.toml");
/// What dpkg runs.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];
/// Shared libraries of the command, and their packages; that of the C library follows from the versions of its symbols.
const LIBRARIES: [(&str, &str); 1] = [("libgcc_s.so.1", "libgcc-s1")];

/// Package the command that `make dist` built, or another one for tests; true if all went well.
pub(crate) fn run(other: Option<&Path>) -> Result<bool> {
    let root = workspace::root();
    let command = other.map_or_else(|| root.join(COMMAND), Path::to_owned);
    ensure!(command.is_file(), "no {} (make dist)", command.display());
    let (out, packing) = match other {
        None => ("target/deb", ["-Zxz", "-z2"]),
        Some(_) => ("target/suite/deb", ["-Zgzip", "-z1"]),
    };
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => bail!("no Debian architecture for {other}"),
    };
    let name = format!("skyhaul_{}_{architecture}", env!("CARGO_PKG_VERSION"));
    let (tree, package) = (root.join(out).join(&name), root.join(format!("{out}/{name}.deb")));
    if tree.exists() {
        std::fs::remove_dir_all(&tree).with_context(|| format!("remove {}", tree.display()))?;
    }
    let installed = tree.join("usr/bin/skyhaul");
    install(&command, &installed, 0o755)?;
    // A command with its symbols is as good, and twice as large.
    let _ = Command::new("strip").arg(&installed).status();
    for (from, to) in FILES {
        install(&root.join(from), &tree.join(to), 0o644)?;
    }
    documents(&root, &tree)?;
    for script in SCRIPTS {
        install(&root.join(SOURCES).join(script), &tree.join("DEBIAN").join(script), 0o755)?;
    }
    let asked = asked_for(&installed)?;
    write(&tree.join("DEBIAN/control"), &control(architecture, &asked, kibibytes(&tree)?))?;
    write(&tree.join("DEBIAN/conffiles"), &format!("/{}\n", CONFIGURATION.1))?;
    ran(Command::new("sh").current_dir(&tree).args([
        "-c",
        "find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum > DEBIAN/md5sums && chmod 644 DEBIAN/md5sums",
    ]))?;
    ran(Command::new("dpkg-deb")
        .arg("--root-owner-group")
        .args(packing)
        .arg("--build")
        .arg(&tree)
        .arg(&package))?;
    let bytes = std::fs::metadata(&package)?.len();
    ensure!(other.is_some() || bytes < MOST_BYTES, "{} has {bytes} bytes", package.display());
    println!("{}", package.display());
    Ok(true)
}

/// Man pages, licences, and what changed.
fn documents(root: &Path, tree: &Path) -> Result<()> {
    for page in std::fs::read_dir(root.join("docs/reference/man"))? {
        let page = page?.path();
        let name = page.file_name().unwrap_or_default();
        let to = tree.join("usr/share/man/man1").join(name);
        install(&page, &to, 0o644)?;
        ran(Command::new("gzip").arg("-9n").arg(to))?;
    }
    let documents = tree.join("usr/share/doc/skyhaul");
    install(&root.join("CHANGELOG.md"), &documents.join("changelog"), 0o644)?;
    ran(Command::new("gzip").arg("-9n").arg(documents.join("changelog")))?;
    let licences = ["LICENSE-MIT", "LICENSE-APACHE"].map(|name| std::fs::read_to_string(root.join(name)));
    let [mit, apache] = licences;
    write(
        &documents.join("copyright"),
        &format!(
            "Skyhaul is licensed under either of two licences, as you choose.\n\n{}\n\n{}",
            mit?, apache?
        ),
    )
}

/// The libraries and versions of symbols that a command asks for, a line each.
fn asked_for(command: &Path) -> Result<String> {
    let pattern =
        LIBRARIES.iter().fold(r"GLIBC_2\.[0-9]+".to_owned(), |all, (name, _)| format!("{all}|{name}"));
    ran(Command::new("grep")
        .env("LC_ALL", "C")
        .args(["--text", "--only-matching", "--extended-regexp", &pattern])
        .arg(command))
}

fn control(architecture: &str, asked: &str, kibibytes: u64) -> String {
    let minor = asked.lines().filter_map(|line| line.strip_prefix("GLIBC_2.")?.parse::<u32>().ok()).max();
    let mut depends = vec![format!("libc6 (>= 2.{})", minor.unwrap_or(0)), "passwd".to_owned()];
    let is_asked = |name: &str| asked.lines().any(|line| line == name);
    depends.extend(LIBRARIES.iter().filter(|(name, _)| is_asked(name)).map(|(_, of)| (*of).to_owned()));
    let mut text = String::new();
    let fields = [
        ("Package", "skyhaul"),
        ("Version", env!("CARGO_PKG_VERSION")),
        ("Architecture", architecture),
        ("Maintainer", "Skyhaul developers <developers@skyhaul.invalid>"),
        ("Section", "science"),
        ("Priority", "optional"),
        ("Homepage", env!("CARGO_PKG_REPOSITORY")),
        ("Installed-Size", &kibibytes.to_string()),
        ("Depends", &depends.join(", ")),
    ];
    for (field, value) in fields {
        let _ = writeln!(text, "{field}: {value}");
    }
    text + "Description: recorder and transfer tools for telescope and detector data\n \
            Receives, records, sends, balances and measures SPEAD, VDIF, Mark 5B,\n \
            LOFAR and EJFAT streams at the rate of the hardware. The service records\n \
            scans for an observatory: by schedule, over HTTP, or for the NASA Field\n \
            System.\n"
}

fn kibibytes(tree: &Path) -> Result<u64> {
    let mut sum = 0;
    let mut left = vec![tree.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                left.push(entry.path());
            } else {
                sum += entry.metadata()?.len().div_ceil(1024);
            }
        }
    }
    Ok(sum)
}

fn install(from: &Path, to: &Path, mode: u32) -> Result<()> {
    directory_of(to)?;
    std::fs::copy(from, to).with_context(|| format!("copy {} to {}", from.display(), to.display()))?;
    Ok(std::fs::set_permissions(to, std::fs::Permissions::from_mode(mode))?)
}

fn write(to: &Path, text: &str) -> Result<()> {
    directory_of(to)?;
    std::fs::write(to, text).with_context(|| format!("write {}", to.display()))?;
    Ok(std::fs::set_permissions(to, std::fs::Permissions::from_mode(0o644))?)
}

/// Make the directories of a file, readable by all whatever the umask.
fn directory_of(file: &Path) -> Result<()> {
    let missing: Vec<PathBuf> =
        file.ancestors().skip(1).take_while(|directory| !directory.exists()).map(Path::to_owned).collect();
    for directory in missing.iter().rev() {
        std::fs::create_dir(directory).with_context(|| format!("make {}", directory.display()))?;
        std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// Run a tool of every Debian system; what it printed.
fn ran(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done =
        command.output().with_context(|| format!("{name} (apt-get install dpkg gzip coreutils grep)"))?;
    ensure!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr).trim());
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_those_that_the_command_asks_for() {
        let text = control("amd64", "GLIBC_2.2\nGLIBC_2.34\nlibgcc_s.so.1\nGLIBC_2.28\n", 7);
        assert!(text.contains("\nDepends: libc6 (>= 2.34), passwd, libgcc-s1\n"), "{text}");
        assert!(!control("amd64", "GLIBC_2.28\n", 7).contains("libgcc"));
    }

    #[test]
    fn what_is_packaged_is_in_the_tree() {
        let root = workspace::root();
        let scripts = SCRIPTS.map(|script| format!("{SOURCES}/{script}"));
        for from in FILES.iter().map(|(from, _)| *from).chain(scripts.iter().map(String::as_str)) {
            assert!(root.join(from).is_file(), "{from}");
        }
    }
}
