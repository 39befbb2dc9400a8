//! The mount of a station's scans in its status.

use crate::print::counted;
use serde_json::Value;
use skyhaul::io::say::escaped_name;

/// The mount of the scans in one line.
pub(super) fn line(mount: &Value) -> String {
    let text = |key: &str| escaped_name(mount[key].as_str().unwrap_or_default());
    let point = text("point");
    match &*text("state") {
        "mounted" => {
            format!("scans on {point}: mounted, {}", counted(mount["files"].as_u64().unwrap_or(0), "file"))
        }
        "failed" => format!("scans on {point}: NOT MOUNTED since {}: {}", text("since"), text("reason")),
        state => format!("scans on {point}: {state}"),
    }
}
