//! The workers, and what becomes of them.

/// Number of workers.
pub(super) const WORKERS: usize = 4;
/// The one that is killed, and the one that is slow, from 0.
pub(super) const KILLED: usize = 1;
pub(super) const SLOW: usize = 2;

/// What a worker is called.
pub(super) fn name(n: usize) -> String {
    let how = match n {
        KILLED => ", killed",
        SLOW => ", slow",
        _ => "",
    };
    format!("worker {}{how}", n + 1)
}
