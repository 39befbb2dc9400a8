//! Builds beside tests: they mostly wait, and a build takes what they leave of the processors.

use crate::workspace;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Builds that have begun, one after another. What they have not built when they end, the step that needs it builds, and tells of its
/// errors.
pub(super) struct Beside {
    stop: Arc<AtomicBool>,
    builds: Option<JoinHandle<()>>,
}

impl Beside {
    /// These, only where nobody else wants to compute; nothing where there is no `chrt` (util-linux).
    pub(super) fn start(builds: Vec<Command>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let run_all = move || builds.iter().for_each(|build| run(idle(build), &stopped));
        Self { stop, builds: Some(std::thread::spawn(run_all)) }
    }

    /// Wait for their end.
    pub(super) fn finish(mut self) {
        self.join();
    }

    fn join(&mut self) {
        if let Some(builds) = self.builds.take() {
            let _ = builds.join();
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.join();
    }
}

/// The same command, where nobody else wants to compute.
fn idle(build: &Command) -> Command {
    let mut command = Command::new("chrt");
    command.args(["--idle", "0", "nice", "-n", "19"]).arg(build.get_program()).args(build.get_args());
    command.current_dir(workspace::root());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    for (name, value) in build.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// Run it to its end, or until all shall end.
fn run(mut command: Command, stopped: &AtomicBool) {
    if stopped.load(Ordering::Relaxed) {
        return;
    }
    let Ok(mut child) = command.spawn() else { return };
    while let Ok(None) = child.try_wait() {
        if stopped.load(Ordering::Relaxed) {
            let _ = child.kill();
            let _ = child.wait();
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn builds_run_one_after_another_and_one_that_fails_holds_up_none() {
        let directory = tempdir("order");
        let log = directory.join("log");
        let line = |script: &str| {
            let mut command = shell(script);
            command.env("LOG", &log);
            command
        };
        Beside::start(vec![
            line("sleep 0.1; echo $LOG >\"$LOG\""),
            line("exit 3"),
            line("echo end >>\"$LOG\""),
        ])
        .finish();
        assert_eq!(std::fs::read_to_string(&log).unwrap(), format!("{}\nend\n", log.display()));
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn what_is_dropped_ends_and_begins_nothing() {
        let directory = tempdir("dropped");
        let (begun, next) = (directory.join("begun"), directory.join("next"));
        let first = shell(&format!("echo >'{}'; exec sleep 60", begun.display()));
        let beside = Beside::start(vec![first, shell(&format!("echo >'{}'", next.display()))]);
        while !begun.exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let dropped = std::time::Instant::now();
        drop(beside);
        assert!(dropped.elapsed() < Duration::from_secs(30) && !next.exists());
        std::fs::remove_dir_all(&directory).unwrap();
    }

    fn tempdir(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("skyhaul-beside-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        path
    }
}
