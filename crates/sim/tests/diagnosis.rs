//! The diagnosis names the faults of simulated paths, and nothing where there is none.

use skyhaul_sim::traces::matrix::{Matrix, Pairs};

/// Fewer seeds than the page has, and others than those with which thresholds were chosen (0 to 49).
#[test]
fn causes_are_named_and_nothing_is_on_clean_paths() {
    let matrix = Matrix::play(2000..2008, 40);
    let table = matrix.table();
    assert!(matrix.right_in_all() >= 0.95, "{table}");
    let worst = matrix.named.keys().map(|&cause| matrix.right(cause)).fold(1.0, f64::min);
    assert!(worst >= 0.6, "8 seeds each: {table}");
    assert!(matrix.alarms.is_empty(), "{table}");
}

/// One measurement of every two causes.
#[test]
fn both_of_two_causes_are_mostly_named() {
    let pairs = Pairs::play(2000..2001);
    let (both, one) = pairs.right();
    assert!(both >= 0.7 && one >= 0.95, "{}", pairs.table());
}
