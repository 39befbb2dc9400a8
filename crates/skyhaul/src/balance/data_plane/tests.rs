use super::*;
use skyhaul_core::balance::AllowList;

/// Threads that end when told, and whether that is a fault.
fn fault_of(names: &[&str], ended: usize, sockets: usize) -> bool {
    let shared = Arc::new(Shared::new(names.len(), AllowList::default()));
    let (keep, wait) = std::sync::mpsc::channel::<()>();
    let wait = Arc::new(std::sync::Mutex::new(wait));
    let thread = |at: usize| {
        let wait = Arc::clone(&wait);
        std::thread::spawn(move || {
            if at != ended {
                let _ = wait.lock().map(|wait| wait.recv());
            }
        })
    };
    let threads: Vec<_> = (0..names.len()).map(thread).collect();
    while threads.get(ended).is_some_and(|thread| !thread.is_finished()) {
        std::thread::yield_now();
    }
    let plane = DataPlane { id: 0, shared, data: Vec::new(), threads, sockets };
    let fault = plane.fault().is_some();
    drop(keep);
    fault
}

#[test]
fn a_thread_of_a_socket_that_ended_is_a_fault_and_the_fast_path_is_not() {
    assert!(!fault_of(&["fast", "0", "1"], 9, 2), "all run");
    assert!(!fault_of(&["fast", "0", "1"], 0, 2), "sockets forward all then");
    assert!(fault_of(&["fast", "0", "1"], 1, 2) && fault_of(&["fast", "0", "1"], 2, 2));
    assert!(fault_of(&["0"], 0, 1));
}
