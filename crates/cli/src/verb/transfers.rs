//! `skyhaul transfers`: the queue of a station's copies to other hosts, and what is sent to jive5ab beside it.

use super::status::{REPLY_TIMEOUT, client, copy_line, transfer_line};
use crate::args::{AtStationArgs, TransfersAddArgs, TransfersArgs, TransfersOneArgs, TransfersWhat};
use crate::outcome::Outcome;
use crate::print::{self, bytes, rate};
use anyhow::{Result, bail};
use serde_json::{Value, json};
use skyhaul::core::hint::Hint;
use skyhaul::core::observation::delivery::DayWindow;
use skyhaul::io::say::escaped_name;
use skyhaul_transfer::copy::remote;
use std::fmt::Write as _;

pub(crate) fn run(args: &TransfersArgs) -> Result<Outcome> {
    match &args.what {
        None => list(&args.at),
        Some(TransfersWhat::Add(args)) => add(args),
        Some(TransfersWhat::Cancel(args)) => change(&args.at, args.number, "cancel", &json!({})),
        Some(TransfersWhat::Retry(args)) => change(&args.at, args.number, "retry", &json!({ "to": args.to })),
        Some(TransfersWhat::Rm(args)) => remove(args),
    }
}

fn list(at: &AtStationArgs) -> Result<Outcome> {
    let client = client(at, REPLY_TIMEOUT)?;
    let (queue, transfers) = (client.get("/api/v1/queue")?, client.get("/api/v1/transfers")?);
    if at.json {
        print::json(&json!({ "queue": queue, "transfers": transfers }))?;
        return Ok(Outcome::Done);
    }
    let mut out = lines(&queue);
    for transfer in transfers.as_array().into_iter().flatten() {
        let _ = writeln!(out, "{}", transfer_line(transfer));
    }
    if out.is_empty() {
        out.push_str("nothing is queued or sent\n");
    }
    print::page(&out)?;
    Ok(Outcome::Done)
}

fn lines(queue: &Value) -> String {
    let copies = queue.as_array().into_iter().flatten();
    copies.map(|copy| copy_line(copy) + "\n").collect()
}

/// Scans before the first word with a destination, directories from there on.
fn split(words: &[String], needs_scans: bool) -> Result<(&[String], &[String])> {
    let at = words.iter().position(|word| remote(word).is_some()).unwrap_or(words.len());
    let (scans, to) = words.split_at(at);
    if scans.is_empty() && needs_scans || to.is_empty() || to.iter().any(|word| remote(word).is_none()) {
        let hint = Hint(
            "such as 'n26c3_mh_*' correlator:/data, where the configuration has a destination correlator",
        );
        bail!("expected scans, then NAME:DIR{hint}");
    }
    Ok((scans, to))
}

fn add(args: &TransfersAddArgs) -> Result<Outcome> {
    let (scans, to) = split(&args.words, args.schedule.is_none())?;
    let (from, until) = ends(args.hours);
    let body = json!({
        "scans": scans,
        "to": to,
        "at": args.time,
        "rate_bits": args.rate.map(|rate| rate.bits_per_second()),
        "schedule": args.schedule,
        "from": from,
        "until": until,
        "priority": args.priority,
        "encrypt": args.encrypt,
    });
    let reply = client(&args.at, REPLY_TIMEOUT)?.post("/api/v1/queue", &body)?;
    if args.at.json {
        print::json(&reply)?;
        return Ok(Outcome::Done);
    }
    let path = &reply["path"];
    let free = path["free_bytes"].as_array().into_iter().flatten().filter_map(Value::as_u64).map(bytes);
    let mut out = format!(
        "path: {}, round trip {:.1} ms, {} free\n",
        rate(path["rate_bits"].as_f64().unwrap_or(0.0)),
        path["rtt_seconds"].as_f64().unwrap_or(0.0) * 1e3,
        free.collect::<Vec<_>>().join(", ")
    );
    out.push_str(&lines(&reply["copies"]));
    for left in reply["left_out"].as_array().into_iter().flatten() {
        let text = |key: &str| escaped_name(left[key].as_str().unwrap_or_default());
        let _ = writeln!(out, "left out: {}: {}", text("scan"), text("reason"));
    }
    print::page(&out)?;
    Ok(Outcome::Done)
}

/// Both ends of hours of the day, as the API has them.
pub(super) fn ends(hours: Option<DayWindow>) -> (Option<String>, Option<String>) {
    let text = |minute: u16| format!("{:02}:{:02}", minute / 60, minute % 60);
    hours.map(|hours| (text(hours.from_minute), text(hours.to_minute))).unzip()
}

fn change(at: &AtStationArgs, number: u64, how: &str, body: &Value) -> Result<Outcome> {
    let path = format!("/api/v1/queue/{number}/{how}");
    let copy = client(at, REPLY_TIMEOUT)?.post(&path, body)?;
    match at.json {
        true => print::json(&copy)?,
        false => print::page(&format!("{}\n", copy_line(&copy)))?,
    }
    Ok(Outcome::Done)
}

fn remove(args: &TransfersOneArgs) -> Result<Outcome> {
    let left = client(&args.at, REPLY_TIMEOUT)?.delete(&format!("/api/v1/queue/{}", args.number))?;
    match args.at.json {
        true => print::json(&left)?,
        false => print::page(&format!("copy {} is forgotten\n", args.number))?,
    }
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scans_come_before_directories() {
        let of = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            split(&words, true).map(|(scans, to)| (scans.len(), to.len())).map_err(|error| error.to_string())
        };
        assert_eq!(of("a_* b c:/d1 c:/d2"), Ok((2, 2)));
        for bad in ["a b", "c:/d1 a", "a c:/d1 b"] {
            assert!(of(bad).unwrap_err().contains("hint: "), "{bad}");
        }
    }
}
