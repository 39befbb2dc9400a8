//! The page that describes the checks, written from their table: `docs/reference/host.md`.

use super::check::{Gain, SOURCES, Severity};
use super::checks::{GROUPS, all};
use std::fmt::Write as _;

const HEAD: &str = "\
# Checks of a host

What `skyhaul host` checks. This page is written from the table in `crates/measure/src/host/checks`; `cargo xtask host` writes it
again, and a test compares them. What the other verbs' reports say of a host: [tune a host](../tutorials/tune-a-host.md).

```text
skyhaul host --rate 100Gbps --rtt 20ms       what is not as wanted, why, and the commands that mend it
skyhaul host --watch -- COMMAND              which counters rose while a command ran
skyhaul host --apply --dry-run               what --apply would write; --undo takes back what it wrote
skyhaul host --save FILE                     keep what was read: --load FILE judges it, --diff A B compares
skyhaul host --peer HOST --token-file FILE   both ends; HOST runs skyhaul probe serve
```

| verdict | means |
|---|---|
| fail | a counter rose during `--watch`: something was lost |
| warn | a rule is broken |
| info | the sources disagree, or it is worth knowing |
| pass | as wanted |
| unknown | it could not be read; some files are readable by root only |
| not applicable | it means nothing on this host, such as the speed of a slot in a virtual machine |

What is wanted follows from `--rate` (R), `--rtt` (T), `--role` and `--flows` (N). R·T/8 bytes are on the way. A TCP buffer should
hold twice its flow's share of that, 2·R·T/8/N, up to the largest window, 1 073 725 440 bytes. A UDP receiver's buffer should
bridge a tenth of a second, R/8·0.1 s.

Reading needs no root, and no other program. `--apply` needs root, and asks before it writes (`--yes` does not ask). It writes sysctls,
files in `/proc/irq` and `/sys`, a card's interrupt moderation, offloads and hash, and the queueing discipline at the root of an
interface. Each old value is first noted in a journal (`/var/lib/skyhaul/host-journal`, or `--journal FILE`), from which `--undo`
restores it. Rings are written only with `--only B5`, because the link goes down for a moment. Queues, the MTU, options of mounts and
services are advised, not written. What is written lasts until the next start; the lines marked `always` are for every start.
";

/// The page.
#[must_use]
pub fn reference() -> String {
    let mut out = HEAD.to_owned();
    for (letter, title) in GROUPS {
        let _ = writeln!(out, "\n## {letter}: {title}\n");
        out.push_str("| check | what | why | cost if left | for | kernels | sources |\n|---|---|---|---|---|---|---|\n");
        for check in all().filter(|check| check.id.starts_with(letter)) {
            let severity = match check.severity {
                Severity::High => "high",
                Severity::Medium => "medium",
                Severity::Low => "low",
            };
            let gain = match check.gain {
                Gain::Rate => "rate",
                Gain::Loss => "losses",
                Gain::Jitter => "jitter",
                Gain::Cpu => "CPU",
                Gain::Evidence => "evidence",
            };
            let _ = writeln!(
                out,
                "| {} | {} | {} | {severity} | {gain} | {} | {} |",
                check.id, check.title, check.why, check.kernels, check.sources
            );
        }
    }
    out.push_str("\n## Sources\n\n| letter | is |\n|---|---|\n");
    for (letter, name) in SOURCES {
        let _ = writeln!(out, "| {letter} | {name} |");
    }
    out
}
