//! The storage resource report of the WLCG (SRR, schema 4): what is served, and how much space there is, as one JSON document.
//!
//! A share for each root, and one for the recordings. Sizes are those of file systems, as quotas of directories are; the totals count each file
//! system once. URLs are those by which the client came.

use super::door::{Door, RECORDINGS};
use crate::http::Connection;
use crate::remote::failure::Failure;
use crate::remote::request_path::RequestPath;
use crate::served::space::Space;
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The name of the report next to the root.
const NAME: &str = "srr";
/// What the service and its endpoint can do, in the words of GLUE 2.
const CAPABILITIES: [&str; 2] = ["data.management.storage", "data.management.transfer"];

/// What is served under a name.
struct Share {
    name: String,
    /// The file systems that it is on.
    spaces: Vec<Space>,
    files: Option<u64>,
}

/// Whether a path is that of the report; a root of this name comes first.
pub(super) fn is_at(door: &Door, path: &RequestPath) -> bool {
    matches!(path.names(), [name] if name == NAME) && door.top().all(|name| name != NAME)
}

pub(super) async fn reply(
    door: &Arc<Door>,
    connection: &Connection,
    (uri, headers): (&Uri, &HeaderMap),
) -> Result<Response, Failure> {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = uri.authority().map(Authority::as_str).or(host).unwrap_or_default();
    let authority: Authority = host.parse().map_err(|_| Failure::bad("the request has no usable Host"))?;
    let of = Arc::clone(door);
    let shares = door.blocking(connection, move |_| shares(&of)).await?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let text = document(door.scheme, &authority, &shares, now).to_string();
    Ok((StatusCode::OK, [(CONTENT_TYPE, "application/json")], text).into_response())
}

fn shares(door: &Door) -> Result<Vec<Share>, Failure> {
    let mut shares = Vec::new();
    for root in &door.roots {
        let space = Space::of(root.tree.path()).map_err(|error| Failure::of(&error))?;
        shares.push(Share { name: root.name.clone(), spaces: vec![space], files: None });
    }
    if let Some(recordings) = &door.recordings {
        let files = recordings.list()?.len() as u64;
        shares.push(Share { name: RECORDINGS.to_owned(), spaces: recordings.spaces()?, files: Some(files) });
    }
    Ok(shares)
}

/// Total and used bytes of file systems, each counted once.
fn sum<'a>(spaces: impl IntoIterator<Item = &'a Space>) -> (u64, u64) {
    let each: BTreeMap<u64, &Space> = spaces.into_iter().map(|space| (space.device, space)).collect();
    each.values().fold((0, 0), |(total, used), space| {
        (u64::saturating_add(total, space.total_bytes), u64::saturating_add(used, space.used_bytes))
    })
}

fn document(scheme: &str, authority: &Authority, shares: &[Share], now: u64) -> Value {
    let (total, used) = sum(shares.iter().flat_map(|share| &share.spaces));
    let name = authority.host();
    let share = |share: &Share| {
        let (total, used) = sum(&share.spaces);
        let mut fields = json!({
            "name": share.name, "timestamp": now, "totalsize": total, "usedsize": used, "path": [format!("/{}", share.name)],
            "assignedendpoints": ["all"], "vos": [], "accesslatency": "online", "retentionpolicy": "replica", "servingstate": "open",
        });
        if let Some(files) = share.files {
            fields["numberoffiles"] = files.into();
        }
        fields
    };
    let endpoint = |interface: &str| {
        json!({
            "name": format!("{name} {interface}"), "endpointurl": format!("{interface}://{}:{}/", name, port(scheme, authority)),
            "interfacetype": interface, "interfaceversion": "1.1", "capabilities": CAPABILITIES, "qualitylevel": "production",
            "assignedshares": ["all"],
        })
    };
    // Both names of one port, as clients know them.
    let interfaces = if scheme == "https" { ["davs", "https"] } else { ["dav", "http"] };
    json!({ "storageservice": {
        "name": name, "id": name, "implementation": "skyhaul", "implementationversion": env!("CARGO_PKG_VERSION"),
        "qualitylevel": "production", "servicetype": "storage", "capabilities": CAPABILITIES, "latestupdate": now,
        "storagecapacity": { "online": { "totalsize": total, "usedsize": used, "reservedsize": 0 } },
        "storageendpoints": interfaces.map(endpoint), "storageshares": shares.iter().map(share).collect::<Vec<_>>(),
    } })
}

fn port(scheme: &str, authority: &Authority) -> u16 {
    authority.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(device: u64) -> Space {
        Space { device, total_bytes: 1000 * device, used_bytes: device }
    }

    #[test]
    fn file_systems_are_counted_once_in_the_totals() {
        let shares = [
            Share { name: "exp".into(), spaces: vec![space(1)], files: None },
            Share { name: "in".into(), spaces: vec![space(1)], files: None },
            Share { name: RECORDINGS.into(), spaces: vec![space(1), space(2), space(2)], files: Some(7) },
        ];
        let authority = "on.example:8443".parse().unwrap();
        let report = document("https", &authority, &shares, 1_800_000_000);
        let service = &report["storageservice"];
        let online = &service["storagecapacity"]["online"];
        assert_eq!((&online["totalsize"], &online["usedsize"]), (&json!(3000), &json!(3)));
        assert_eq!(
            (&service["name"], &service["latestupdate"]),
            (&json!("on.example"), &json!(1_800_000_000))
        );
        let of = &service["storageshares"];
        assert_eq!((&of[0]["totalsize"], &of[1]["usedsize"]), (&json!(1000), &json!(1)));
        assert_eq!((&of[2]["totalsize"], &of[2]["numberoffiles"]), (&json!(3000), &json!(7)));
        assert_eq!((&of[0]["path"], &of[0]["numberoffiles"]), (&json!(["/exp"]), &Value::Null));
        let urls = [0, 1].map(|at| service["storageendpoints"][at]["endpointurl"].clone());
        assert_eq!(urls, [json!("davs://on.example:8443/"), json!("https://on.example:8443/")]);
        let plain = document("http", &"[::1]".parse().unwrap(), &shares, 1);
        let endpoint = &plain["storageservice"]["storageendpoints"][1];
        assert_eq!(endpoint["endpointurl"], "http://[::1]:80/");
    }
}
