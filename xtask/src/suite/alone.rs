//! One run at a time in one clone: a second one waits, and says so in a line.
//!
//! Two would write the same logs, install two wheels into one `.venv`, and load each other's live tests.

use crate::workspace;
use anyhow::{Context, Result};
use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};

/// Held as long as this lives, and no longer than the process.
#[must_use]
#[derive(Debug)]
pub(crate) struct Alone {
    _lock: File,
}

/// Wait until no other process of this clone holds the lock `name`.
pub(crate) fn wait(name: &str) -> Result<Alone> {
    let directory = workspace::root().join("target/suite");
    std::fs::create_dir_all(&directory).with_context(|| format!("create {}", directory.display()))?;
    let path = directory.join(format!("{name}.lock"));
    let file = File::options().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = file.with_context(|| format!("open {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let _ = file.read_to_string(&mut holder);
            println!("   waiting for another run in this clone (process {})", holder.trim());
            file.lock().with_context(|| format!("lock {}", path.display()))?;
        }
        // A file system without locks: nothing is lost by going on.
        Err(TryLockError::Error(error)) => println!("   no lock on {}: {error}", path.display()),
    }
    file.rewind()?;
    file.set_len(0)?;
    writeln!(file, "{}", std::process::id())?;
    Ok(Alone { _lock: file })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_second_run_waits_for_the_first() {
        let name = format!("test-{}", std::process::id());
        let (first, over) = (wait(&name).unwrap(), AtomicBool::new(false));
        std::thread::scope(|threads| {
            let second = threads.spawn(|| {
                let _second = wait(&name).unwrap();
                assert!(over.load(Ordering::SeqCst), "it did not wait");
            });
            std::thread::sleep(std::time::Duration::from_millis(50));
            over.store(true, Ordering::SeqCst);
            drop(first);
            second.join().unwrap();
        });
        std::fs::remove_file(workspace::root().join(format!("target/suite/{name}.lock"))).unwrap();
    }
}
