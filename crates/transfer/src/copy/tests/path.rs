//! Paths that are tried, and rates that change while a copy runs.

use super::*;

#[test]
fn a_path_is_tried_and_says_what_is_free_and_nothing_is_left() {
    let site = Site::new();
    let options = site.options(&["src"], &["in/new", "in"], false);
    let trial = try_path(&options, &token()).unwrap();
    assert!(trial.bits_per_second > 0.0 && trial.spaces.len() == 2, "{trial:?}");
    assert_eq!(trial.spaces[0].file_system, trial.spaces[1].file_system);
    assert_eq!(trial.spaces[0].file_system, std::fs::metadata(site.at("root")).unwrap().dev());
    assert!(trial.spaces[0].free_bytes > 0);
    assert_eq!(std::fs::read_dir(site.at("root")).unwrap().count(), 0);
}

#[test]
fn what_would_be_in_the_way_is_named() {
    let site = Site::new();
    std::fs::write(site.at("root/file"), "x").unwrap();
    let of = |site: &Site, into: &str, token: &Token| {
        try_path(&site.options(&["src"], &[into], false), token).unwrap_err().to_string()
    };
    let wrong = Token::new("another-token-of-16").unwrap();
    let said = of(&site, "in", &wrong);
    assert!(said.contains("token"), "{said}");
    let said = of(&site, "file/in", &token());
    assert!(said.contains("/file"), "{said}");
    let said = of(&site, "../in", &token());
    assert!(said.contains("outside the served directories"), "{said}");
    let said = of(&Site::read_only(), "in", &token());
    assert!(said.contains("read-only"), "{said}");
}

#[test]
fn a_limit_changes_while_a_copy_runs() {
    let site = Site::new();
    std::fs::write(site.at("src"), bytes(6, 8 << 20)).unwrap();
    let options = site.options(&["src"], &["in"], false);
    let live = options.tuning.live.clone();
    live.set(Some(0));
    let mut held = 0;
    let report = copy(&options, &token(), &mut |progress| {
        assert!(held >= 3 || progress.bytes == 0, "{progress:?}");
        held += 1;
        if held == 3 {
            live.set(None);
        }
    });
    assert!(report.unwrap().is_whole() && held >= 3);
    same(&site.at("src"), &site.at("root/in/src"));
}

#[test]
fn what_was_there_before_is_counted() {
    let site = Site::new();
    std::fs::create_dir(site.at("src")).unwrap();
    std::fs::write(site.at("src/kept"), bytes(7, 3 << 20)).unwrap();
    assert!(site.push().is_whole());
    std::fs::write(site.at("src/new"), bytes(8, 8 << 20)).unwrap();
    let mut options = site.options(&["src"], &["in"], false);
    options.tuning.limit = Some(100_000_000);
    let mut last = Progress::default();
    let report = copy(&options, &token(), &mut |progress| last = *progress);
    assert!(report.unwrap().is_whole());
    assert_eq!((last.there_bytes, last.all_bytes), (3 << 20, 8 << 20), "{last:?}");
}
