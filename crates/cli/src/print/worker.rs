//! The lines about a worker's session in a summary.

use super::words::{count, counted};
use skyhaul::report::SessionReport;
use std::fmt::Write as _;

/// What became of a worker, if there was one.
pub(super) fn lines(out: &mut String, worker: Option<&SessionReport>) {
    let Some(w) = worker else { return };
    let _ = writeln!(
        out,
        "  worker {} of balancer {} ({}): {} arrived, {} taken; {} reported, {} not",
        w.name,
        w.balancer,
        w.control_plane,
        counted(w.events, "event"),
        count(w.taken),
        counted(w.reports, "state"),
        count(w.reports_failed)
    );
    let times = |n: u64| if n == 1 { "once".to_owned() } else { format!("{} times", count(n)) };
    if w.registrations > 1 {
        let _ =
            writeln!(out, "    registered {}: the control plane had forgotten it", times(w.registrations));
    }
    if w.times_away > 0 {
        let _ =
            writeln!(out, "    control plane away {}, {:.1} s in all", times(w.times_away), w.seconds_away);
    }
    let _ = match &w.error {
        _ if w.removed => writeln!(out, "    removed by an operator of the balancer"),
        _ if w.has_left => writeln!(out, "    left after {:.1} s", w.seconds_leaving),
        Some(error) => writeln!(out, "    did not leave in order: {error}"),
        None => writeln!(out, "    did not leave in order"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_told_in_few_lines() {
        let mut w = SessionReport {
            name: "w".into(),
            balancer: "1".into(),
            has_left: true,
            ..SessionReport::default()
        };
        let text = |w: &SessionReport| {
            let mut out = String::new();
            lines(&mut out, Some(w));
            out
        };
        assert_eq!(text(&w).lines().count(), 2);
        (w.registrations, w.times_away, w.has_left, w.error) = (3, 1, false, Some("gone".into()));
        let text = text(&w);
        assert!(text.contains("registered 3 times") && text.contains("away once"), "{text}");
        assert!(text.contains("did not leave in order: gone"), "{text}");
        let mut none = String::new();
        lines(&mut none, None);
        assert!(none.is_empty());
    }
}
