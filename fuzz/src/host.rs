//! Targets for what `skyhaul host` reads from files and from peers: snapshots and journals.

use skyhaul_measure::host::{
    Difference, HostReport, Role, Settings, Target, View, parse_journal, read_snapshot, undo,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;

/// A snapshot is judged and compared whatever it holds, and never differs from itself.
pub(crate) fn snapshot(bytes: &[u8]) {
    let Ok(facts) = read_snapshot(bytes) else { return };
    let target = Target::new(None, None, Role::Both, None, facts.link_rate());
    let view = View { facts: &facts, before: Some(&facts), peer: Some(&facts), target: &target };
    let report = HostReport::new(&view, &[]);
    assert!(!report.checks.is_empty());
    let same = Difference::new(&facts, &facts, &target, &[]);
    assert!(same.checks.is_empty() && same.facts.is_empty(), "a host differs from itself");
}

pub(crate) fn snapshot_seeds() -> Vec<Vec<u8>> {
    let facts = r#"{"version":1,"host":"dtn1","kernel":"6.1.0-18","interface":"eth1","facts":{
        "/proc/sys/net/core/rmem_max":"212992","/sys/class/net/eth1/mtu":"1500","/sys/class/net/eth1/speed":"100000",
        "ethtool/eth1/ring/rx":"512","ethtool/eth1/ring/rx-max":"8192","qdisc/root":"mq","qdisc/leaves":"fq fq",
        "/sys/devices/system/cpu/online":"0-7","/proc/net/softnet_stat":{"unreadable":"denied"},
        "path/mtu":"1500","count/net/rx_missed_errors":"7","host/virtual":"none"}}"#;
    vec![
        facts.as_bytes().to_vec(),
        br#"{"version":1,"host":"","kernel":"","interface":"","facts":{}}"#.to_vec(),
    ]
}

/// Settings in memory.
#[derive(Default)]
struct Kept(RefCell<BTreeMap<String, String>>);

impl Settings for Kept {
    fn read(&self, name: &str) -> io::Result<String> {
        self.0.borrow().get(name).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
    fn write(&self, name: &str, value: &str) -> io::Result<()> {
        self.0.borrow_mut().insert(name.to_owned(), value.to_owned());
        Ok(())
    }
}

/// What a journal says is taken back, and nothing else; what somebody changed since stays.
pub(crate) fn journal(bytes: &[u8]) {
    let Ok(changes) = parse_journal(bytes) else { return };
    let kept = Kept::default();
    for change in &changes {
        let shows = change.shown.clone().unwrap_or_else(|| change.new.clone());
        kept.0.borrow_mut().insert(change.name.clone(), shows);
    }
    kept.0.borrow_mut().insert("of somebody else".into(), "as it was".into());
    let before = kept.0.borrow().len();
    let done = undo(&changes, &kept);
    assert_eq!(done.len(), changes.len());
    let after = kept.0.borrow();
    assert_eq!(after.len(), before, "no setting is made");
    let named = changes.iter().any(|change| change.name == "of somebody else");
    assert!(named || after["of somebody else"] == "as it was");
}

pub(crate) fn journal_seeds() -> Vec<Vec<u8>> {
    let line = r#"{"check":"C1","name":"/proc/sys/net/core/rmem_max","old":"212992\n","new":"67108864"}
{"shown":"/proc/sys/net/core/rmem_max","text":"67108864\n"}
{"check":"B24","name":"qdisc/eth1/root","old":"default mq","new":"fq"}
{"shown":"qdisc/eth1/root","text":"fq 8001: 00"}
{"check":"D3","name":"/sys/block/sda/queue/scheduler","old":"none [mq-deadline]\n","new":"none"}
"#;
    vec![line.as_bytes().to_vec(), line.as_bytes()[..line.len() - 9].to_vec()]
}
