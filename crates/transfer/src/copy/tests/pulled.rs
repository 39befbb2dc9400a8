//! A hostile server and a client that pulls from it; plans, which leave nothing behind.

use super::super::message::{Entry, Message, Name, Origin, Side, What};
use super::super::{Bounds, CopyOptions, CopyReport, Exists, Plan};
use super::{Site, bytes, copy, same, token, tree};
use serde_json::Value;
use skyhaul::peer::{Admission, Limits, PeerError, Server, ServerOptions, Service, Session, connect_any};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);

/// Serves these entries, whatever was asked for.
struct Liar(Vec<Entry>);

impl Service for Liar {
    fn name(&self) -> &'static str {
        "copy"
    }

    fn admit(&self, _: &Value, _: &Limits) -> Result<Admission, String> {
        Ok(Admission::aside(SOON))
    }

    fn run(&self, session: &mut Session<'_>, body: Value) -> Result<(), PeerError> {
        let flows = body["flows"].as_u64().unwrap() as usize;
        let connections = session.data_connections(flows, false)?;
        session.connection.send(&Message::Ready { cookie: connections.cookie() })?;
        let _flows: Vec<_> = (0..flows).filter_map(|_| connections.next(SOON)).collect();
        session.connection.send(&Message::Clock((0, 0)))?;
        session.connection.send(&Message::Entries(self.0.clone()))?;
        session.connection.send(&Message::AllEntries)?;
        loop {
            if let Message::Finished(_) = session.connection.receive(SOON)? {
                return session.connection.send(&Message::Finished(Box::<Side>::default()));
            }
        }
    }
}

fn entry(path: &str, what: What, mode: u32) -> Entry {
    Entry { to: 0, path: Name::Text(path.into()), what, mode, modified: (1, 0), origin: Origin::default() }
}

fn empty(path: &str) -> Entry {
    entry(path, What::File { size: 0, sparse: false }, 0o644)
}

/// Pull `asked` from a server that sends these entries.
fn pull(site: &Site, asked: &str, entries: Vec<Entry>) -> CopyReport {
    let options = ServerOptions::default();
    let server =
        Server::start("127.0.0.1:0".parse().unwrap(), token(), options, vec![Box::new(Liar(entries))])
            .unwrap();
    let options = site.options(&[asked], &["home"], true);
    copy(&CopyOptions { server: vec![server.local()], ..options }, &token(), &mut |_| {}).unwrap()
}

fn names(path: &Path) -> Vec<String> {
    let names =
        std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn what_was_not_asked_for_is_not_made_and_the_destination_stays_as_it_is() {
    let site = Site::new();
    std::fs::create_dir(site.at("home")).unwrap();
    std::fs::set_permissions(site.at("home"), std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::create_dir(site.at("outside")).unwrap();
    let link = What::Link(Name::Text(site.at("outside").to_str().unwrap().into()));
    let bad = [
        entry("", What::Directory, 0o777),
        entry(".", What::Directory, 0o777),
        empty(".profile"),
        entry(".ssh", What::Directory, 0o700),
        empty(".ssh/authorized_keys"),
        empty("other"),
        empty("exp/../.profile"),
        empty("/tmp/skyhaul-pulled"),
        empty("exp/.ok.skyhaul-journal"),
        empty("exp/link/through"),
        empty("exp/ok"),
    ];
    let mut entries =
        vec![entry("exp", What::Directory, 0o750), empty("exp/ok"), entry("exp/link", link, 0o777)];
    entries.extend(bad.clone());
    let report = pull(&site, "data/exp", entries);
    assert_eq!((report.failed.len(), report.files, report.is_whole()), (bad.len(), 1, false), "{report:?}");
    assert_eq!(names(&site.at("home")), ["exp"]);
    assert_eq!(names(&site.at("home/exp")), ["link", "ok"]);
    assert!(names(&site.at("outside")).is_empty());
    let mode = |path: &str| site.at(path).metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("home"), mode("home/exp")), (0o700, 0o750));
}

/// All that a server has was asked for: no name is known, but hidden ones are not meant.
#[test]
fn a_whole_root_brings_no_hidden_names() {
    let site = Site::new();
    let report =
        pull(&site, "", vec![empty("data"), empty(".profile"), entry(".ssh", What::Directory, 0o700)]);
    assert_eq!((report.failed.len(), report.files), (2, 1), "{report:?}");
    assert_eq!(names(&site.at("home")), ["data"]);
    // By its name it is.
    assert!(pull(&site, ".profile", vec![empty(".profile")]).is_whole());
}

#[test]
fn text_of_a_peer_does_not_control_the_terminal_and_special_bits_are_told() {
    let site = Site::new();
    let setuid = entry("exp", What::File { size: 0, sparse: false }, 0o4755);
    let report = pull(&site, "exp", vec![setuid]);
    assert_eq!(report.dropped_bits, [site.at("home/exp")], "{report:?}");
    assert_eq!(site.at("home/exp").metadata().unwrap().permissions().mode() & 0o7777, 0o755);
}

/// A host has several addresses, and does not listen on all of them.
#[test]
fn all_addresses_of_a_name_are_tried() {
    let site = Site::new();
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let addresses: [SocketAddr; 3] = [closed, "[::1]:1".parse().unwrap(), site.server.local()];
    assert_eq!(connect_any(&addresses, &token(), SOON).unwrap().peer(), site.server.local());
    let error = connect_any(&addresses[..2], &token(), SOON).unwrap_err().to_string();
    assert!(error.contains(&closed.to_string()) && error.contains("[::1]:1"), "{error}");
    std::fs::write(site.at("src"), "x").unwrap();
    let options = CopyOptions { server: addresses.to_vec(), ..site.options(&["src"], &["in"], false) };
    assert!(copy(&options, &token(), &mut |_| {}).unwrap().is_whole());
}

fn plan(options: &CopyOptions) -> std::io::Result<Plan> {
    let options = CopyOptions { plan: true, ..options.clone() };
    Ok(copy(&options, &token(), &mut |_| {})?.plan.unwrap())
}

/// Names in a directory, hidden ones too.
fn names_in(path: &Path) -> usize {
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
        assert_eq!(names_in(&copied), 1);
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
        assert_eq!(names_in(&site.at("root")), 1);
    }
}

#[test]
fn a_plan_for_a_full_disk_says_so_and_leaves_nothing() {
    let site = Site::with("enospc=1MiB");
    std::fs::write(site.at("src"), bytes(10, 4 << 20)).unwrap();
    let error = plan(&site.options(&["src"], &["in"], false)).unwrap_err().to_string();
    assert!(error.contains("space") && error.contains("hint: "), "{error}");
    assert_eq!(names_in(&site.at("root")), 0);
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
