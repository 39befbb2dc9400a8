//! The driver guided by coverage: libFuzzer on the target that `SKYHAUL_FUZZ` names.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static TARGET: LazyLock<skyhaul_fuzz::Target> = LazyLock::new(|| {
    let name = std::env::var("SKYHAUL_FUZZ").unwrap_or_default();
    skyhaul_fuzz::target(&name).unwrap_or_else(|| panic!("SKYHAUL_FUZZ={name}: no such target"))
});

fuzz_target!(|bytes: &[u8]| TARGET.run(bytes));
