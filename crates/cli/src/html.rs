//! The demo's report as one HTML page that needs nothing else.

use crate::verb::demo::DemoReport;

/// The page.
pub(crate) fn page(report: &DemoReport) -> String {
    let json = serde_json::to_string_pretty(report).unwrap_or_default();
    format!(
        "<!doctype html><meta charset=utf-8><title>skyhaul demo</title><pre>{}</pre>",
        json.replace('<', "&lt;")
    )
}
