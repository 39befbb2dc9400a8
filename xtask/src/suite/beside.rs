//! A build beside tests: they mostly wait, and it takes what they leave of the processors.

use crate::workspace;
use std::process::{Child, Command, Stdio};

/// A build that has begun. What it has not built when it ends, the step that needs it builds, and tells of its errors.
pub(super) struct Beside(Option<Child>);

impl Beside {
    /// `program` with these words and this variable, only where nobody else wants to compute; nothing where there is no `chrt`
    /// (util-linux).
    pub(super) fn start(program: &str, words: &[&str], variable: (&str, &str)) -> Self {
        let mut command = Command::new("chrt");
        command.args(["--idle", "0", "nice", "-n", "19"]).arg(program).args(words);
        command.current_dir(workspace::root()).env(variable.0, variable.1);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        workspace::forget_cargo(&mut command);
        Self(command.spawn().ok())
    }

    /// Wait for its end.
    pub(super) fn finish(mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.wait();
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
