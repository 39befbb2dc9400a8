//! The programs of others: where they are, and how to get them.

use super::super::options::wrong;
use serde::{Deserialize, Serialize};
use skyhaul_core::hint::Hint;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Receives heaps.
pub(super) const HEAP_RECEIVER: &str = "spead2_recv";
/// Sends heaps.
pub(super) const HEAP_SENDER: &str = "spead2_send";
/// Sends and receives a TCP flow.
pub(super) const IPERF3: &str = "iperf3";
/// Reassembles events.
pub(super) const EVENT_RECEIVER: &str = "packetBlasteeFastDirect";

/// Programs that are compared with Skyhaul, with the way to get them.
pub const PEER_PROGRAMS: [(&str, &str); 4] = [
    (HEAP_RECEIVER, HEAP_TOOLS_HINT),
    (HEAP_SENDER, HEAP_TOOLS_HINT),
    (IPERF3, "install the package iperf3, or give its path with --iperf3"),
    (
        EVENT_RECEIVER,
        "compile packetBlasteeFastDirect of JLab's esnet3 with g++ -O3, and give its path with --packet-blastee",
    ),
];

const HEAP_TOOLS_HINT: &str = "build the source distribution of spead2 4 with `meson setup build --buildtype=release -Dtools=enabled && \
ninja -C build`, and give the paths with --spead2-recv and --spead2-send";

/// A program beside which Skyhaul is measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerProgram {
    /// Its name.
    pub name: String,
    /// Where it was found.
    pub path: Option<PathBuf>,
    /// Its version as it reports it, or a checksum of its file.
    pub identity: Option<String>,
    /// Why it cannot be run, and how to get it.
    pub missing: Option<String>,
}

/// All of them.
pub(super) struct Tools(Vec<PeerProgram>);

impl Tools {
    /// Search those without a given path in `PATH`.
    pub(super) fn find(given: &[(&'static str, PathBuf)]) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self(PEER_PROGRAMS.iter().map(|&(name, hint)| find(name, hint, given, &path)).collect())
    }

    fn get(&self, name: &str) -> Option<&PeerProgram> {
        self.0.iter().find(|tool| tool.name == name)
    }

    /// Where a program is.
    pub(super) fn path(&self, name: &str) -> io::Result<&Path> {
        let path = self.get(name).and_then(|tool| tool.path.as_deref());
        path.ok_or_else(|| wrong(format_args!("{name} is missing")))
    }

    /// Why what needs these programs is not run.
    pub(super) fn missing(&self, needs: &[&str]) -> Option<String> {
        let why = needs.iter().find_map(|name| self.get(name)?.missing.as_ref())?;
        Some(format!("not run: {why}"))
    }

    pub(super) fn into_programs(self) -> Vec<PeerProgram> {
        self.0
    }
}

fn find(name: &str, hint: &str, given: &[(&'static str, PathBuf)], search: &std::ffi::OsStr) -> PeerProgram {
    let tool = PeerProgram { name: name.into(), ..PeerProgram::default() };
    let missing = |why: String| PeerProgram { missing: Some(format!("{why}{}", Hint(hint))), ..tool.clone() };
    let path = match given.iter().find(|(of, _)| *of == name) {
        Some((_, path)) if is_program(path) => path.clone(),
        Some((_, path)) => return missing(format!("{} is not a program", path.display())),
        None => match std::env::split_paths(search).map(|folder| folder.join(name)).find(|at| is_program(at))
        {
            Some(path) => path,
            None => return missing(format!("no {name} in PATH")),
        },
    };
    PeerProgram { identity: Some(identity(name, &path)), path: Some(path), ..tool }
}

fn is_program(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// The version that a program reports, or what tells its file from others.
fn identity(name: &str, path: &Path) -> String {
    // The others take `--version` for an error, or for nothing.
    if name == IPERF3 {
        let done = Command::new(path).arg("--version").stdin(Stdio::null()).output();
        let text = done.map(|done| String::from_utf8_lossy(&done.stdout).into_owned()).unwrap_or_default();
        if let Some(line) = text.lines().find(|line| !line.trim().is_empty()) {
            return line.trim().chars().take(200).collect();
        }
    }
    match std::fs::read(path) {
        Ok(bytes) => format!("{} bytes, CRC-32C {:08x}", bytes.len(), crc32c::crc32c(&bytes)),
        Err(error) => format!("cannot be read: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(folder: &Path, name: &str, text: &str) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn programs_are_given_or_searched_and_missing_ones_say_how_to_get_them() {
        let folder = tempfile::tempdir().unwrap();
        let search = folder.path().as_os_str();
        program(folder.path(), HEAP_RECEIVER, "#!/bin/sh\n");
        std::fs::write(folder.path().join(HEAP_SENDER), "no program").unwrap();
        let found = find(HEAP_RECEIVER, "h", &[], search);
        assert_eq!(found.path, Some(folder.path().join(HEAP_RECEIVER)));
        assert_eq!(
            found.identity.unwrap(),
            format!("10 bytes, CRC-32C {:08x}", crc32c::crc32c(b"#!/bin/sh\n"))
        );
        let missing = find(HEAP_SENDER, HEAP_TOOLS_HINT, &[], search);
        assert_eq!((missing.path, missing.identity), (None, None));
        let why = missing.missing.unwrap();
        assert!(why.starts_with("no spead2_send in PATH") && why.contains("hint: build the source"), "{why}");
        let given = [(IPERF3, folder.path().join("none"))];
        let tools = Tools(vec![find(IPERF3, "install it", &given, search)]);
        let why = tools.missing(&[HEAP_RECEIVER, IPERF3]).unwrap();
        assert!(
            why.starts_with("not run: /") && why.contains("none is not a program; hint: install"),
            "{why}"
        );
        assert!(tools.path(IPERF3).is_err() && tools.missing(&[]).is_none());
    }

    #[test]
    fn a_version_is_what_the_program_reports_unless_it_reports_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let told = program(folder.path(), "a", "#!/bin/sh\necho; echo ' iperf 3.99 '; echo more\n");
        assert_eq!(identity(IPERF3, &told), "iperf 3.99");
        let silent = program(folder.path(), "b", "#!/bin/sh\nexit 1\n");
        assert!(identity(IPERF3, &silent).contains("CRC-32C"));
    }
}
