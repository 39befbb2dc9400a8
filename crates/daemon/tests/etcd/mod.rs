//! An etcd of one or three members for tests, on loopback or in a network of its own.

pub(crate) mod authority;

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A running etcd; its processes end with it.
pub(crate) struct Etcd {
    _directory: TempDir,
    members: Vec<Process>,
}

struct Process {
    url: String,
    words: Vec<String>,
    child: Option<Child>,
}

/// Free ports, all different.
fn free_ports(count: usize) -> Vec<u16> {
    let listeners: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    listeners.iter().map(|listener| listener.local_addr().expect("bound").port()).collect()
}

impl Etcd {
    /// Starts an etcd; `None`, and a line that says so, if it is not installed.
    pub(crate) fn start(count: usize, scheme: &str, more: &[String]) -> Option<Self> {
        Self::start_at("127.0.0.1", &["etcd".to_owned()], count, scheme, more)
    }

    /// The same at another address, which the words that start a member make its own.
    pub(crate) fn start_at(
        host: &str,
        words: &[String],
        count: usize,
        scheme: &str,
        more: &[String],
    ) -> Option<Self> {
        if Command::new("etcd").arg("--version").output().is_err() {
            eprintln!("SKIPPED: etcd is not installed (apt-get install etcd-server)");
            return None;
        }
        let directory = tempfile::tempdir().expect("a directory");
        let ports = free_ports(2 * count);
        let (clients, peers) = ports.split_at(count);
        let cluster: Vec<_> = (0..count).map(|n| format!("m{n}=http://{host}:{}", peers[n])).collect();
        let members = (0..count)
            .map(|n| {
                let url = format!("{scheme}://{host}:{}", clients[n]);
                let peer = format!("http://{host}:{}", peers[n]);
                let data = directory.path().join(format!("m{n}"));
                let options = [
                    ("name", format!("m{n}")),
                    ("data-dir", data.display().to_string()),
                    ("listen-client-urls", url.clone()),
                    ("advertise-client-urls", url.clone()),
                    ("listen-peer-urls", peer.clone()),
                    ("initial-advertise-peer-urls", peer),
                    ("initial-cluster", cluster.join(",")),
                    ("heartbeat-interval", "50".to_owned()),
                    ("election-timeout", "500".to_owned()),
                    ("log-level", "error".to_owned()),
                ];
                let options = options.into_iter().map(|(name, value)| format!("--{name}={value}"));
                let words = words.iter().cloned().chain(options).chain(more.iter().cloned()).collect();
                Process { url, words, child: None }
            })
            .collect();
        let mut etcd = Self { _directory: directory, members };
        (0..count).for_each(|member| etcd.start_member(member));
        Some(etcd)
    }

    pub(crate) fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(|member| member.url.clone()).collect()
    }

    pub(crate) fn start_member(&mut self, member: usize) {
        let member = &mut self.members[member];
        let mut command = Command::new(&member.words[0]);
        let command = command.args(&member.words[1..]).stdout(Stdio::null()).stderr(Stdio::null());
        member.child = Some(command.spawn().expect("etcd starts"));
    }

    /// Ends a member as a power failure does.
    pub(crate) fn kill_member(&mut self, member: usize) {
        if let Some(mut child) = self.members[member].child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(crate) fn kill_all(&mut self) {
        (0..self.members.len()).for_each(|member| self.kill_member(member));
    }

    pub(crate) fn start_all(&mut self) {
        (0..self.members.len()).for_each(|member| self.start_member(member));
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill_all();
    }
}
