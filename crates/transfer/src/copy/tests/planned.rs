//! Plans, and that nothing is left of them.

use super::{Site, bytes, same, token, tree};
use crate::copy::{Bounds, CopyOptions, Exists, Plan, copy};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn plan(options: &CopyOptions) -> std::io::Result<Plan> {
    let options = CopyOptions { plan: true, ..options.clone() };
    Ok(copy(&options, &token(), &mut |_| {})?.plan.unwrap())
}

/// Names in a directory, hidden ones too.
fn names(path: &Path) -> usize {
    std::fs::read_dir(path).unwrap().count()
}

/// A plan makes no directory.
fn is_missing(path: &Path) -> bool {
    path.symlink_metadata().is_err()
}

#[test]
fn files_are_copied_in_small_and_compared_and_nothing_but_the_copy_is_left() {
    let site = Site::new();
    tree(&site.at("src"));
    for n in 0..200u64 {
        std::fs::write(site.at(&format!("src/a/b/n{n}")), bytes(n, 1000)).unwrap();
    }
    std::fs::set_permissions(site.at("src/a/b"), std::fs::Permissions::from_mode(0o750)).unwrap();
    for pull in [false, true] {
        let options = match pull {
            false => site.options(&["src"], &["in"], false),
            true => site.options(&["in/src"], &["back"], true),
        };
        let report = copy(&CopyOptions { plan: true, ..options }, &token(), &mut |_| {}).unwrap();
        let plan = report.plan.clone().unwrap();
        let rates = [plan.read, plan.network, plan.write].map(|part| part.bits_per_second);
        assert!(rates.iter().all(|rate| *rate > 0.0), "{plan:?}");
        assert_eq!((plan.files, plan.bytes), (Some(211), Some(report.bytes)), "{plan:?}");
        assert!(plan.tried_files > 0 && plan.fixed_seconds >= 0.0 && plan.file_seconds >= 0.0, "{plan:?}");
        assert!(plan.seconds.unwrap() > 0.0 && plan.bits_per_second > 0.0, "{plan:?}");
        assert!(plan.bound.is_some() && plan.ratio.is_some() && report.is_whole(), "{report:?}");
        assert_eq!(plan.measured_seconds, Some(report.seconds));
        let copied = site.at(if pull { "back" } else { "root/in" });
        assert_eq!(names(&copied), 1);
        same(&site.at("src"), &copied.join("src"));
    }
}

#[test]
fn of_a_long_file_only_the_beginning_is_copied_and_its_bytes_are_tried() {
    let site = Site::new();
    std::fs::write(site.at("src"), bytes(9, 8 << 20)).unwrap();
    for pull in [false, true] {
        std::fs::copy(site.at("src"), site.at("root/src")).unwrap();
        let mut options = site.options(&["src"], &[if pull { "back" } else { "in" }], pull);
        options.dry_run = true;
        // A second carries a mebibyte.
        options.tuning.limit = Some(8_000_000);
        let plan = plan(&options).unwrap();
        assert!(plan.trial.bytes > 0 && plan.trial.bits_per_second > 0.0, "{plan:?}");
        assert_eq!((plan.files, plan.bytes, plan.tried_files), (Some(1), Some(8 << 20), 1), "{plan:?}");
        assert_eq!((plan.bound, plan.ratio), (Some(Bounds::Limit), None), "{plan:?}");
        assert!(is_missing(&site.at(if pull { "back" } else { "root/in" })));
        assert_eq!(names(&site.at("root")), 1);
    }
}

#[test]
fn a_plan_for_a_full_disk_says_so_and_leaves_nothing() {
    let site = Site::with("enospc=1MiB");
    std::fs::write(site.at("src"), bytes(10, 4 << 20)).unwrap();
    let error = plan(&site.options(&["src"], &["in"], false)).unwrap_err().to_string();
    assert!(error.contains("space") && error.contains("hint: "), "{error}");
    assert_eq!(names(&site.at("root")), 0);
}

#[test]
fn a_file_that_cannot_be_copied_ends_no_plan_and_a_missing_destination_does() {
    let site = Site::new();
    std::fs::create_dir(site.at("src")).unwrap();
    for n in 0..10u64 {
        std::fs::write(site.at(&format!("src/{n}")), bytes(n, 100)).unwrap();
    }
    let options = CopyOptions { exists: Exists::Skip, ..site.options(&["src"], &["in"], false) };
    std::fs::write(site.at("root/in"), "a file").unwrap();
    let error = plan(&options).unwrap_err().to_string();
    assert!(error.contains("copy into") && error.contains("hint: "), "{error}");
    std::fs::remove_file(site.at("root/in")).unwrap();
    assert_eq!(plan(&options).unwrap().files, Some(10));
}
