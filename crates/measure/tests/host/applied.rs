//! Settings written and taken back: octet for octet, whenever it is killed.

use super::world::{World, server, target};
use skyhaul::io::namespace::Network;
use skyhaul::io::netlink::route::{Queue, Routes};
use skyhaul_measure::host::*;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Settings on which it is killed before the n-th step.
struct Killed<'a> {
    inner: &'a HostSettings,
    left: &'a Cell<usize>,
}

impl Killed<'_> {
    fn step(&self) {
        match self.left.get() {
            0 => std::panic::resume_unwind(Box::new("killed")),
            left => self.left.set(left - 1),
        }
    }
}

impl Settings for Killed<'_> {
    fn read(&self, name: &str) -> io::Result<String> {
        self.step();
        self.inner.read(name)
    }
    fn write(&self, name: &str, value: &str) -> io::Result<()> {
        self.step();
        self.inner.write(name, value)?;
        self.step();
        Ok(())
    }
}

/// A server with the defaults of a new installation.
fn untuned() -> World {
    let mut world = server();
    world.all(&[
        ("/proc/sys/net/core/rmem_max", "4194304"),
        ("/proc/sys/net/core/wmem_max", "4194304"),
        ("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456"),
        ("/proc/sys/net/ipv4/tcp_mtu_probing", "0"),
        ("/sys/block/nvme0n1/queue/scheduler", "none [mq-deadline]"),
        ("/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "powersave"),
    ]);
    world
}

fn plan(world: &World) -> (Vec<Change>, HostSettings) {
    let (facts, target) = (world.facts(), target());
    let report = HostReport::new(&View { facts: &facts, before: None, peer: None, target: &target }, &[]);
    let settings = HostSettings(world.tree());
    (planned(&report, &settings, &[]), settings)
}

/// Every file that is a setting.
fn contents(world: &World) -> BTreeMap<PathBuf, Vec<u8>> {
    fn walk(directory: &Path, all: &mut BTreeMap<PathBuf, Vec<u8>>) {
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, all);
            } else {
                all.insert(path.clone(), std::fs::read(&path).unwrap());
            }
        }
    }
    let mut all = BTreeMap::new();
    walk(&world.tree().at("/"), &mut all);
    all
}

#[test]
fn what_was_applied_is_taken_back_octet_for_octet() {
    let (world, directory) = (untuned(), tempfile::tempdir().unwrap());
    let before = contents(&world);
    let (changes, settings) = plan(&world);
    let names: Vec<&str> = changes.iter().map(|change| change.name.as_str()).collect();
    assert!(
        names.contains(&"/proc/sys/net/core/rmem_max")
            && names.contains(&"/sys/block/nvme0n1/queue/scheduler"),
        "{names:?}"
    );
    let path = directory.path().join("journal");
    let done = apply(&changes, &settings, &mut Journal::begin(&path).unwrap()).unwrap();
    assert!(done.iter().all(|done| done.failed.is_none()), "{done:?}");
    assert_ne!(contents(&world), before);
    assert_eq!(
        plan(&world).0.iter().filter(|change| !change.name.contains("scheduler")).count(),
        0,
        "nothing is left to do"
    );

    assert!(Journal::begin(&path).unwrap_err().to_string().contains("hint: skyhaul host --undo"));
    // The files of a made host do not choose from a list, as the kernel's do.
    world.tree().write("/sys/block/nvme0n1/queue/scheduler", "[none] mq-deadline\n").unwrap();
    let mut noted = read_journal(&path).unwrap();
    noted.retain(|change| !change.name.contains("scheduler"));
    let (applied, told) = (contents(&world), would_undo(&noted, &settings));
    assert_eq!(contents(&world), applied, "a dry run writes nothing");
    let undone = undo(&noted, &settings);
    assert!(undone.iter().all(|(_, how)| *how == Undone::Restored), "{undone:?}");
    assert_eq!(told, undone, "and says what is done, in the same order");
    world.tree().write("/sys/block/nvme0n1/queue/scheduler", "none [mq-deadline]\n").unwrap();
    assert_eq!(contents(&world), before);
    assert!(undo(&noted, &settings).iter().all(|(_, how)| *how == Undone::Unchanged), "twice does no harm");
    assert_eq!(would_undo(&noted, &settings), undo(&noted, &settings));
}

#[test]
fn whenever_it_is_killed_everything_is_taken_back() {
    let (world, directory) = (untuned(), tempfile::tempdir().unwrap());
    let before = contents(&world);
    let (mut changes, settings) = plan(&world);
    changes.retain(|change| !change.name.contains("scheduler"));
    let mut kills = 0;
    loop {
        let path = directory.path().join(format!("journal{kills}"));
        let left = Cell::new(kills);
        let killed = Killed { inner: &settings, left: &left };
        let ran = catch_unwind(AssertUnwindSafe(|| {
            apply(&changes, &killed, &mut Journal::begin(&path).unwrap()).unwrap();
        }));
        let noted = std::fs::read(&path).unwrap();
        // Taking back may be killed as well, at every step, and is then done again.
        let changes = parse_journal(&noted).unwrap();
        for step in 0.. {
            let left = Cell::new(step);
            let killed = Killed { inner: &settings, left: &left };
            if catch_unwind(AssertUnwindSafe(|| undo(&changes, &killed))).is_ok() {
                break;
            }
        }
        assert_eq!(contents(&world), before, "killed before step {kills}");
        if ran.is_ok() {
            break;
        }
        kills += 1;
    }
    assert!(kills >= 4 * changes.len(), "{kills} steps of {} changes", changes.len());
}

#[test]
fn a_line_that_was_cut_short_was_never_followed_by_a_write() {
    let (world, directory) = (untuned(), tempfile::tempdir().unwrap());
    let before = contents(&world);
    let (changes, settings) = plan(&world);
    let path = directory.path().join("journal");
    let mut journal = Journal::begin(&path).unwrap();
    apply(&changes[..1], &settings, &mut journal).unwrap();
    let whole = std::fs::metadata(&path).unwrap().len();
    journal.note(&changes[1]).unwrap();
    let octets = std::fs::read(&path).unwrap();
    let applied = contents(&world);
    for cut in (whole as usize..octets.len()).step_by(7) {
        let noted = parse_journal(&octets[..cut]).unwrap();
        assert_eq!(noted.len(), 1, "{cut}");
        undo(&noted, &settings);
        assert_eq!(contents(&world), before);
        for (path, text) in applied.iter().filter(|(path, text)| before[*path] != **text) {
            std::fs::write(path, text).unwrap();
        }
    }
}

#[test]
fn what_somebody_else_changed_since_is_left() {
    let (world, directory) = (untuned(), tempfile::tempdir().unwrap());
    let (changes, settings) = plan(&world);
    let path = directory.path().join("journal");
    apply(&changes, &settings, &mut Journal::begin(&path).unwrap()).unwrap();
    let name = "/proc/sys/net/ipv4/tcp_mtu_probing";
    world.tree().write(name, "2\n").unwrap();
    let undone = undo(&read_journal(&path).unwrap(), &settings);
    let (_, how) = undone.iter().find(|(change, _)| change.name == name).unwrap();
    assert_eq!(*how, Undone::ChangedSince("2".into()));
    assert_eq!(world.tree().read(name).unwrap(), "2\n");
}

#[test]
fn a_journal_writes_nothing_but_settings() {
    let settings = HostSettings(server().tree());
    for name in ["/etc/passwd", "/proc/sys/../../etc/passwd", "etc", "ethtool/eth1", "/sys/../etc/x"] {
        assert_eq!(settings.write(name, "x").unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name}");
        assert_eq!(settings.read(name).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name}");
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    assert!(read_journal(&path).unwrap_err().to_string().contains("hint: "));
    std::fs::write(&path, "root:x:0:0\n").unwrap();
    let said = read_journal(&path).unwrap_err().to_string();
    assert!(said.contains("line 1 is none of a journal") && said.contains("hint: only a journal"), "{said}");
}

#[test]
fn a_setting_that_is_refused_is_said_and_the_rest_goes_on() {
    let (mut world, directory) = (untuned(), tempfile::tempdir().unwrap());
    let (changes, settings) = plan(&world);
    let gone = changes[1].name.clone();
    world.set(&gone, "-");
    let done =
        apply(&changes, &settings, &mut Journal::begin(&directory.path().join("journal")).unwrap()).unwrap();
    let failed: Vec<&str> =
        done.iter().filter(|d| d.failed.is_some()).map(|d| d.change.name.as_str()).collect();
    assert_eq!(failed, [gone.as_str()]);
    assert_eq!(done.len(), changes.len());
}

/// A change as a plan has it.
fn change(name: &str, new: &str) -> Change {
    Change { check: "B24".into(), name: name.into(), old: String::new(), new: new.into(), shown: None }
}

#[test]
fn a_queueing_discipline_comes_back_whenever_it_is_killed() {
    let (near, far) = match Network::new().and_then(|near| Ok((near, Network::new()?))) {
        Ok(both) => both,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            println!("SKIPPED: {error} (run as root)");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    near.inside(|| {
        let mut routes = Routes::open().unwrap();
        routes.veth("sky0", ("sky1", far.as_fd()), 1500).unwrap();
        let (index, directory) = (routes.index("sky0").unwrap(), tempfile::tempdir().unwrap());
        routes.up(index).unwrap();
        let (name, settings) = ("qdisc/sky0/root", HostSettings(server().tree()));
        // What the kernel chose, and what somebody has set.
        for before in [None, Some(Queue::Packets(77))] {
            before.map_or(Ok(()), |queue| routes.queue(index, queue)).unwrap();
            let before = settings.read(name).unwrap();
            for kill in 0.. {
                let path = directory.path().join(format!("{}{kill}", before.len()));
                let left = Cell::new(kill);
                let killed = Killed { inner: &settings, left: &left };
                let ran = catch_unwind(AssertUnwindSafe(|| {
                    apply(&[change(name, "bfifo")], &killed, &mut Journal::begin(&path).unwrap()).unwrap()
                }));
                if let Ok(done) = &ran {
                    assert_eq!(done[0].failed, None);
                    assert!(settings.read(name).unwrap().starts_with("bfifo "), "{kill}");
                }
                undo(&read_journal(&path).unwrap(), &settings);
                assert_eq!(settings.read(name).unwrap(), before, "killed before step {kill}");
                if ran.is_ok() {
                    break;
                }
            }
        }
        // What could not come back is left as it is.
        routes.queue(index, Queue::TokenBucket { rate: 1 << 20, burst: 1 << 16, limit: 1 << 20 }).unwrap();
        let bucket = settings.read(name).unwrap();
        assert!(
            settings.write(name, "bfifo").unwrap_err().to_string().contains("tbf has settings of its own")
        );
        assert_eq!(settings.read(name).unwrap(), bucket);
        assert_eq!(settings.read("qdisc/none/root").unwrap_err().raw_os_error(), Some(19), "ENODEV");
        assert_eq!(settings.write(name, "b fifo x").unwrap_err().kind(), io::ErrorKind::InvalidInput);
    })
    .unwrap();
}

#[test]
fn the_kernel_chooses_again_by_the_default_that_is_back() {
    /// Settings that note what is written.
    struct Noted(RefCell<Vec<(String, String)>>);
    impl Settings for Noted {
        fn read(&self, name: &str) -> io::Result<String> {
            let all = self.0.borrow();
            let last = all.iter().rev().find(|(of, _)| of == name).map(|(_, value)| value.clone());
            Ok(last.unwrap_or_else(|| {
                if name.starts_with("qdisc") { "default mq" } else { "pfifo_fast\n" }.into()
            }))
        }
        fn write(&self, name: &str, value: &str) -> io::Result<()> {
            self.0.borrow_mut().push((name.into(), value.into()));
            Ok(())
        }
    }
    let (directory, noted) = (tempfile::tempdir().unwrap(), Noted(RefCell::default()));
    let path = directory.path().join("journal");
    let default = "/proc/sys/net/core/default_qdisc";
    let changes = [change(default, "fq"), change("qdisc/eth1/root", "mq")];
    apply(&changes, &noted, &mut Journal::begin(&path).unwrap()).unwrap();
    let undone = undo(&read_journal(&path).unwrap(), &noted);
    assert!(undone.iter().all(|(_, how)| *how == Undone::Restored), "{undone:?}");
    let names: Vec<String> = noted.0.borrow().iter().map(|(name, value)| format!("{name}={value}")).collect();
    let [back, root] = [format!("{default}=pfifo_fast\n"), "qdisc/eth1/root=default mq".to_owned()];
    assert_eq!(names[2..], [back, root]);
}

#[test]
fn a_ring_is_set_only_if_its_check_was_named() {
    let mut world = untuned();
    world.set("ethtool/eth1/ring/rx", "512");
    let (facts, target) = (world.facts(), target());
    let view = View { facts: &facts, before: None, peer: None, target: &target };
    /// Every setting can be read.
    struct Any;
    impl Settings for Any {
        fn read(&self, _: &str) -> io::Result<String> {
            Ok("512".into())
        }
        fn write(&self, _: &str, _: &str) -> io::Result<()> {
            Ok(())
        }
    }
    let rings = |only: &[String]| {
        let all = planned(&HostReport::new(&view, only), &Any, only);
        all.into_iter().filter(|change| change.name == "ethtool/eth1/ring/rx").count()
    };
    assert_eq!((rings(&[]), rings(&["B5".to_owned()])), (0, 1));
}
