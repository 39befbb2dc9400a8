//! A reader of the output that has enough, as `head` does.

use std::process::{Command, Stdio};

/// Text and JSON, more than a pipe holds.
#[test]
fn a_reader_that_has_enough_is_no_error() {
    for line in ["host --json", "host", "receive --show-config"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_skyhaul"))
            .args(line.split(' '))
            .env("SKYHAUL_CONFIG", "/dev/null")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success() && !said.contains("ipe"), "{line}: {}: {said}", ended.status);
    }
}
