//! Networks of the tests: a sender, a balancer and workers in namespaces of their own.
//!
//! ```text
//!   sender s0 ── b0 balancer b1 ── w0 workers
//! ```

#![allow(unreachable_pub)]

use skyhaul::io::namespace::Network;
use std::process::Command;

/// Gone when dropped.
pub struct Net {
    pub sender: String,
    pub balancer: String,
    pub worker: String,
}

impl Net {
    /// None, with a visible reason, where that is not allowed.
    pub fn new(tag: &str, mtu: u32) -> Option<Net> {
        let tag = format!("{tag}{}", std::process::id());
        let name = |what: &str| format!("skyx{what}{tag}");
        let net = Net { sender: name("s"), balancer: name("b"), worker: name("w") };
        let (s, b, w) = (&net.sender, &net.balancer, &net.worker);
        let mut steps: Vec<String> = [s, b, w].iter().map(|name| format!("ip netns add {name}")).collect();
        for (a, an, c, cn) in [(s, "s0", b, "b0"), (b, "b1", w, "w0")] {
            steps.push(format!(
                "ip link add {an} netns {a} mtu {mtu} type veth peer name {cn} netns {c} mtu {mtu}"
            ));
        }
        for (name, link, v4, v6) in [
            (s, "s0", "10.79.1.2", "fd79:1::2"),
            (b, "b0", "10.79.1.1", "fd79:1::1"),
            (b, "b1", "10.79.2.1", "fd79:2::1"),
            (w, "w0", "10.79.2.2", "fd79:2::2"),
        ] {
            steps.push(format!("ip -n {name} addr add {v4}/24 dev {link}"));
            steps.push(format!("ip -n {name} addr add {v6}/64 dev {link} nodad"));
            steps.push(format!("ip -n {name} link set {link} up"));
            steps.push(format!("ip -n {name} link set lo up"));
        }
        steps.push(format!("ip -n {w} route add 10.79.1.0/24 via 10.79.2.1"));
        steps.push(format!("ip -n {w} route add fd79:1::/64 via fd79:2::1"));
        // Checksums are whole when they leave the sender, as on a wire; who receives takes frames from programs.
        steps.push(setting(s, "s0", 0x17, 0));
        steps.push(setting(w, "w0", 0x2C, 1));
        for step in &steps {
            if !run(step) {
                eprintln!("SKIPPED: no such networks here ({step}; run as root, with iproute2 and python3)");
                return None;
            }
        }
        Some(net)
    }

    /// Run `work` inside one of them.
    pub fn inside<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                Network::named(name).unwrap().enter().unwrap();
                work()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Give the balancer's address to a bridge, whose driver has no place for programs. Whether there is one.
    pub fn bridge(&self) -> bool {
        let b = &self.balancer;
        let steps = [
            format!("ip -n {b} link add br0 type bridge"),
            format!("ip -n {b} addr flush dev b0"),
            format!("ip -n {b} link set b0 master br0"),
            format!("ip -n {b} link set br0 up"),
            format!("ip -n {b} addr add 10.79.1.1/24 dev br0"),
        ];
        let done = steps.iter().all(|step| run(step));
        if !done {
            eprintln!("SKIPPED: no bridge here");
        }
        done
    }

    /// Whether a program sees packets that come to the balancer.
    pub fn has_program(&self) -> bool {
        let shown = Command::new("ip").args(["-n", &self.balancer, "link", "show"]).output().unwrap();
        String::from_utf8_lossy(&shown.stdout).contains("xdp")
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for name in [&self.sender, &self.balancer, &self.worker] {
            run(&format!("ip netns del {name}"));
        }
    }
}

/// What `ethtool -K` does.
fn setting(name: &str, link: &str, number: u32, value: u32) -> String {
    let program = format!(
        "import(fcntl,socket,struct,ctypes);b=ctypes.create_string_buffer(struct.pack('II',{number},{value}));\
         fcntl.ioctl(socket.socket(),0x8946,struct.pack('16sP8x',b'{link}',ctypes.addressof(b)))"
    );
    let program =
        program.replace("import(fcntl,socket,struct,ctypes);", "import\tfcntl,socket,struct,ctypes;");
    format!("ip netns exec {name} python3 -c {program}")
}

pub fn run(command: &str) -> bool {
    let mut words = command.split(' ').filter(|word| !word.is_empty());
    let output = Command::new(words.next().unwrap()).args(words).output();
    let done = output.as_ref().is_ok_and(|o| o.status.success());
    if !done {
        eprintln!("{command}: {output:?}");
    }
    done
}
