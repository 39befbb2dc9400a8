//! `skyhaul scans`: the scans on a station's disks and their copies, as the station knows them.

use super::status::{REPLY_TIMEOUT, client, escaped};
use crate::args::ScansArgs;
use crate::outcome::Outcome;
use crate::print::{self, bytes, counted, lost_frames};
use anyhow::Result;
use serde_json::{Value, json};
use skyhaul::io::say::escaped_name;
use skyhaul_daemon::station::client::StationClient;
use std::fmt::Write as _;

/// Scans of a reply.
const PAGE: usize = 1000;

pub(crate) fn run(args: &ScansArgs) -> Result<Outcome> {
    let client = client(&args.at, REPLY_TIMEOUT)?;
    if args.rebuild {
        let reply = client.post("/api/v1/catalogue/rebuild", &json!({}))?;
        match args.at.json {
            true => print::json(&reply)?,
            false => {
                let unread = counted(reply["unread"].as_u64().unwrap_or(0), "scan");
                print::page(&format!("{unread} to read; each is unknown until then\n"))?;
            }
        }
        return Ok(Outcome::Done);
    }
    let (scans, catalogue) = list(&client, &args.scans)?;
    if args.at.json {
        print::json(&json!({ "scans": scans, "catalogue": catalogue }))?;
    } else {
        print::page(&text(&scans, &catalogue))?;
    }
    Ok(Outcome::Done)
}

/// All scans of these patterns, page by page, and what the last reply said of the list.
fn list(client: &StationClient, patterns: &[String]) -> Result<(Vec<Value>, Value)> {
    let matches: String = patterns.iter().map(|pattern| format!("&match={}", escaped(pattern))).collect();
    let mut scans: Vec<Value> = Vec::new();
    loop {
        let after = scans.last().and_then(|one| one["scan"].as_str()).map(escaped).unwrap_or_default();
        let mut reply = client.get(&format!("/api/v1/catalogue?after={after}&limit={PAGE}{matches}"))?;
        let page = match reply["scans"].take() {
            Value::Array(page) => page,
            _ => Vec::new(),
        };
        let is_last = page.len() < PAGE;
        scans.extend(page);
        if is_last {
            return Ok((scans, reply["catalogue"].take()));
        }
    }
}

fn text(scans: &[Value], catalogue: &Value) -> String {
    let mut out = String::new();
    let width = scans.iter().filter_map(|one| one["scan"].as_str()).map(str::len).max().unwrap_or(0).min(40);
    for scan in scans {
        line(&mut out, scan, width);
    }
    if scans.is_empty() {
        out.push_str("no scans\n");
    }
    for disk in catalogue["unanswered_disks"].as_array().into_iter().flatten() {
        let text = |key: &str| escaped_name(disk[key].as_str().unwrap_or_default());
        let _ =
            writeln!(out, "{} {}: scans that are only there may be missing", text("path"), text("reason"));
    }
    match catalogue["unread"].as_u64() {
        Some(unread) if unread > 0 => {
            let _ = writeln!(out, "{} to read", counted(unread, "scan"));
        }
        _ if catalogue["is_complete"] == false
            && catalogue["unanswered_disks"].as_array().is_none_or(Vec::is_empty) =>
        {
            out.push_str("the disks have not been looked at yet: scans may be missing\n");
        }
        _ => {}
    }
    if let Some(why) = catalogue["file_problem"].as_str() {
        let _ = writeln!(out, "not kept for a restart: {}", escaped_name(why));
    }
    out
}

fn line(out: &mut String, scan: &Value, width: usize) {
    let text = |value: &Value| escaped_name(value.as_str().unwrap_or_default()).into_owned();
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let index = &scan["index"];
    let formats = index["formats"].as_array().into_iter().flatten().map(&text).collect::<Vec<_>>().join(", ");
    let formats = if formats.is_empty() { "-".to_owned() } else { formats };
    let disks = scan["disks"].as_array().into_iter().flatten().map(|disk| text(&disk["path"]));
    let _ = write!(
        out,
        "{:<width$}  {:<11}  {:>10}  {formats}  {}",
        text(&scan["scan"]),
        text(&scan["state"]),
        bytes(number(&scan["file_bytes"])),
        disks.collect::<Vec<_>>().join(" "),
    );
    if let (Some(begin), Some(end)) = (index["data_begin"].as_str(), index["data_end"].as_str()) {
        let _ = write!(out, "  {} to {}", escaped_name(begin), escaped_name(end));
    }
    match number(&index["frames_lost"]) {
        0 => {}
        lost => {
            let _ = write!(out, ", {} lost", lost_frames(lost, index["lost_is_lower_bound"] == true));
        }
    }
    if let Some(why) = scan["reason"].as_str() {
        let _ = write!(out, ": {}", escaped_name(why));
    }
    out.push('\n');
    for copy in scan["copies"].as_array().into_iter().flatten() {
        let directories = copy["directories"].as_array().into_iter().flatten().map(&text);
        let of = match copy["of_these_files"].as_bool() {
            Some(true) => "",
            Some(false) => ", of OTHER files than these",
            None => ", not known to be of these files",
        };
        let _ = writeln!(
            out,
            "{:<width$}  copy {} to {} ({}): {}, {}{of}",
            "",
            number(&copy["copy"]),
            text(&copy["destination"]),
            directories.collect::<Vec<_>>().join(", "),
            if copy["verified"] == true { "verified" } else { "NOT verified" },
            text(&copy["ended_at"]),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_is_a_line_and_each_copy_another() {
        let copy = json!({
            "copy": 3, "destination": "correlator", "directories": ["d1"], "verified": true,
            "ended_at": "2026-11-27T13:00:00Z", "of_these_files": false,
        });
        let index = json!({
            "formats": ["vdif"], "data_begin": "2026-11-27T12:00:00Z", "data_end": "2026-11-27T12:05:00Z",
            "frames_lost": 7,
        });
        let scans = [
            json!({
                "scan": "exp_mh_no0001", "state": "damaged", "reason": "chunk 3 is missing", "file_bytes": 5_000_000_u64,
                "disks": [{ "path": "/data/d0" }, { "path": "/data/d1" }], "index": index, "copies": [copy],
            }),
            json!({ "scan": "other", "state": "unknown", "reason": "not read yet", "file_bytes": 1, "index": null }),
        ];
        let catalogue = json!({
            "unread": 1, "is_complete": false, "file_problem": "disk I/O error",
            "unanswered_disks": [{ "path": "/data/d2", "reason": "does not respond" }],
        });
        assert_eq!(
            text(&scans, &catalogue),
            "exp_mh_no0001  damaged         5.00 MB  vdif  /data/d0 /data/d1  2026-11-27T12:00:00Z to 2026-11-27T12:05:00Z, 7 frames lost: chunk 3 is missing\n\
             \x20              copy 3 to correlator (d1): verified, 2026-11-27T13:00:00Z, of OTHER files than these\n\
             other          unknown             1 B  -  : not read yet\n\
             /data/d2 does not respond: scans that are only there may be missing\n\
             1 scan to read\n\
             not kept for a restart: disk I/O error\n"
        );
        let none = json!({ "unread": 0, "is_complete": false, "unanswered_disks": [] });
        assert_eq!(
            text(&[], &none),
            "no scans\nthe disks have not been looked at yet: scans may be missing\n"
        );
    }
}
