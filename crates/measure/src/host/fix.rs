//! What mends something: settings that can be written while the host runs, each with the commands that do the same; and advice
//! where there is no such setting.
//!
//! | setting | now | for every start |
//! |---|---|---|
//! | `/proc/sys/net/core/rmem_max` | `sysctl -w net.core.rmem_max=…` | a line in `/etc/sysctl.d` |
//! | `/sys/…` | `echo … > /sys/…` | a line in `/etc/tmpfiles.d` |
//! | `ethtool/X/feature/…`, `coalesce`, `hash`, `ring` | `ethtool -K`, `-C`, `-N`, `-G` | a rule of udev |
//! | `qdisc/X/root` | `tc qdisc replace dev X root …` | a rule of udev |

use serde::{Deserialize, Serialize};

/// Commands listed for one fix; many processors make many.
const MOST: usize = 4;

/// Something that can be written while the host runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Its name among the facts.
    pub name: String,
    /// What to write.
    pub value: String,
}

/// What mends it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fix {
    /// Settings, in order.
    pub settings: Vec<Setting>,
    now: Vec<String>,
    persistent: Vec<String>,
}

impl Fix {
    pub(super) fn set(&mut self, name: String, value: String) {
        self.settings.push(Setting { name, value });
    }

    pub(super) fn advise(&mut self, now: String, persistent: String) {
        self.now.extend(Some(now).filter(|text| !text.is_empty()));
        self.persistent.extend(Some(persistent).filter(|text| !text.is_empty()));
    }

    /// Commands that do it now.
    #[must_use]
    pub fn now(&self) -> Vec<String> {
        listed(&self.settings, now).chain(self.now.iter().cloned()).collect()
    }

    /// Commands that do it for every start of the host.
    #[must_use]
    pub fn persistent(&self) -> Vec<String> {
        listed(&self.settings, persistent).chain(self.persistent.iter().cloned()).collect()
    }
}

fn listed(settings: &[Setting], command: fn(&Setting) -> String) -> impl Iterator<Item = String> {
    let more = settings.len().saturating_sub(MOST);
    let shown = settings.iter().take(MOST).map(command);
    shown
        .chain((more > 0).then(|| format!("# and {more} more of the same: --json lists all")))
        .collect::<Vec<_>>()
        .into_iter()
}

/// The command that writes a setting.
fn now(setting: &Setting) -> String {
    let (name, value) = (&setting.name, &setting.value);
    match sysctl(name) {
        Some(sysctl) => format!("sysctl -w {sysctl}={}", quoted(value)),
        None => device(setting).unwrap_or_else(|| format!("echo {} > {name}", quoted(value))),
    }
}

/// The command after which every start of the host writes it.
fn persistent(setting: &Setting) -> String {
    let (name, value) = (&setting.name, &setting.value);
    if let Some(sysctl) = sysctl(name) {
        return format!("echo '{sysctl} = {value}' >> /etc/sysctl.d/90-skyhaul.conf");
    }
    match device(setting) {
        Some(command) => {
            let interface = name.split('/').nth(1).unwrap_or_default();
            let program =
                command.replacen("ethtool", "/usr/sbin/ethtool", 1).replacen("tc ", "/usr/sbin/tc ", 1);
            let rule =
                format!("ACTION==\"add\", SUBSYSTEM==\"net\", NAME==\"{interface}\", RUN+=\"{program}\"");
            format!("echo '{rule}' >> /etc/udev/rules.d/90-skyhaul.rules")
        }
        None => format!("echo 'w {name} - - - - {value}' >> /etc/tmpfiles.d/skyhaul.conf"),
    }
}

/// The name that `sysctl` has for a file; a dot in a part of it is written as a slash.
fn sysctl(name: &str) -> Option<String> {
    let parts = name.strip_prefix("/proc/sys/")?.split('/');
    Some(parts.map(|part| part.replace('.', "/")).collect::<Vec<_>>().join("."))
}

/// The command for a setting of a device.
fn device(setting: &Setting) -> Option<String> {
    let value = &setting.value;
    let parts: Vec<&str> = setting.name.split('/').collect();
    Some(match parts[..] {
        ["ethtool", x, "feature", name] => format!("ethtool -K {x} {name} {value}"),
        ["ethtool", x, "coalesce", name] => format!("ethtool -C {x} {name} {value}"),
        ["ethtool", x, "ring", name] => format!("ethtool -G {x} {name} {value}"),
        ["ethtool", x, "hash", flow] => format!("ethtool -N {x} rx-flow-hash {flow} {value}"),
        ["qdisc", x, "root"] => format!("tc qdisc replace dev {x} root {value}"),
        _ => return None,
    })
}

/// Text of several words in quotes, for a shell.
fn quoted(value: &str) -> String {
    if value.contains(char::is_whitespace) { format!("'{value}'") } else { value.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(name: &str, value: &str) -> [String; 2] {
        let mut fix = Fix::default();
        fix.set(name.into(), value.into());
        [fix.now().join("\n"), fix.persistent().join("\n")]
    }

    #[test]
    fn each_setting_has_its_commands() {
        assert_eq!(
            commands("/proc/sys/net/ipv4/tcp_rmem", "4096 131072 33554432"),
            [
                "sysctl -w net.ipv4.tcp_rmem='4096 131072 33554432'",
                "echo 'net.ipv4.tcp_rmem = 4096 131072 33554432' >> /etc/sysctl.d/90-skyhaul.conf"
            ]
        );
        assert_eq!(
            commands("/proc/sys/net/ipv4/conf/eth0.7/rp_filter", "2")[0],
            "sysctl -w net.ipv4.conf.eth0/7.rp_filter=2"
        );
        assert_eq!(
            commands("/sys/block/sda/queue/scheduler", "none"),
            [
                "echo none > /sys/block/sda/queue/scheduler",
                "echo 'w /sys/block/sda/queue/scheduler - - - - none' >> /etc/tmpfiles.d/skyhaul.conf"
            ]
        );
        let [now, persistent] = commands("ethtool/eth0/feature/rx-gro", "on");
        assert_eq!(now, "ethtool -K eth0 rx-gro on");
        assert!(
            persistent.contains("NAME==\"eth0\", RUN+=\"/usr/sbin/ethtool -K eth0 rx-gro on\""),
            "{persistent}"
        );
        assert_eq!(commands("ethtool/eth0/hash/udp4", "sdfn")[0], "ethtool -N eth0 rx-flow-hash udp4 sdfn");
        assert_eq!(commands("qdisc/eth0/root", "fq")[0], "tc qdisc replace dev eth0 root fq");
    }

    #[test]
    fn many_settings_are_summed_up() {
        let mut fix = Fix::default();
        for cpu in 0..64 {
            fix.set(format!("/sys/cpu{cpu}/scaling_governor"), "performance".into());
        }
        fix.advise("cpupower frequency-set -g performance".into(), String::new());
        let now = fix.now();
        assert_eq!((now.len(), now[4].as_str()), (6, "# and 60 more of the same: --json lists all"));
        assert_eq!(fix.persistent().len(), 5);
    }
}
