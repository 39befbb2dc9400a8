//! What to say when nothing was received.

use super::words::{counted, rejects};
use skyhaul::report::ReceiveReport;

/// On standard error, whatever the format of the report: packets came and all were refused, or none came at all.
pub(crate) fn advise(report: &ReceiveReport, json: bool) {
    if report.is_refused() {
        say!("{}", refused(report));
    } else if report.ended == "nothing" && !json {
        say!("  hint: check that the sender is running and sends to this address, or use a longer --wait");
    }
}

/// That all packets were refused, and what to look at.
fn refused(report: &ReceiveReport) -> String {
    let unread: u64 = report.sources.iter().map(|s| s.truncated + s.malformed + s.fragments).sum();
    let mut reasons = report.rejects.clone();
    if unread > 0 {
        reasons.insert("truncated, malformed or in fragments".to_owned(), unread);
    }
    let most = report.rejects.iter().max_by_key(|(_, count)| **count).map_or("", |(why, _)| why.as_str());
    let hint = match most {
        "before_start" | "after_stop" => {
            "compare --start, --stop, --start-at and --stop-at with the times of the stream"
        }
        "not_allowed" => "check --from and the other filters",
        "no_buffer" => "use a larger --memory, or faster disks",
        _ => {
            "`skyhaul inspect` shows what the packets are; compare with --format, --place, --threads and --frame-rate"
        }
    };
    format!(
        "error: nothing was received: {} came, none was accepted ({})\nhint: {hint}",
        counted(report.packets.max(unread), "packet"),
        rejects(&reasons)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul::report::SourceReport;

    fn report(packets: u64, rejects: &[(&str, u64)]) -> ReceiveReport {
        let rejects = rejects.iter().map(|&(why, count)| (why.to_owned(), count)).collect();
        ReceiveReport { packets, rejects, ..ReceiveReport::default() }
    }

    #[test]
    fn a_session_in_which_all_was_refused_is_no_success_whatever_the_reason() {
        for why in skyhaul::core::placement::Reject::ALL {
            let all = report(7, &[(why.name(), 7)]);
            assert!(all.is_refused() && !all.is_whole(), "{why:?}");
            assert!(refused(&all).starts_with("error: nothing was received: 7 packets came"), "{why:?}");
        }
        let some = report(8, &[("unpaired", 7)]);
        assert!(!some.is_refused() && some.is_whole());
        assert!(!report(0, &[]).is_refused(), "nothing came");
    }

    #[test]
    fn what_could_not_be_read_came_too() {
        let source = SourceReport { fragments: 1, ..SourceReport::default() };
        let all = ReceiveReport { sources: vec![source], ..report(0, &[]) };
        let text = "error: nothing was received: 1 packet came, none was accepted (truncated, malformed or in fragments 1)";
        assert!(all.is_refused() && refused(&all).starts_with(text), "{}", refused(&all));
    }
}
