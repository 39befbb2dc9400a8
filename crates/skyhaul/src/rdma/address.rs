//! Addresses of regions, and what `--region` says.

use skyhaul_core::rdma::RegionRights;
use skyhaul_io::address::{Endpoint, Transport};
use skyhaul_io::quantity::Size;
use std::fmt;
use std::str::FromStr;

/// What precedes the scheme of the endpoint.
const PREFIX: &str = "rdma+";
/// The longest name of a region, bytes.
const MAX_NAME_BYTES: usize = 255;

/// The address of an endpoint, and of a region there: `rdma+udp://10.0.0.1:7000/vis`, or `rdma+tcp://10.0.0.1:7000/vis`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RdmaAddress {
    /// Where it is, with the options of an endpoint, such as `?rcvbuf=64MiB`.
    pub endpoint: Endpoint,
    /// The region's name.
    pub region: Option<String>,
}

impl fmt::Display for RdmaAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}://{}", self.endpoint.transport.scheme(), self.endpoint.address)?;
        self.region.iter().try_for_each(|region| write!(f, "/{region}"))
    }
}

impl FromStr for RdmaAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<RdmaAddress, String> {
        let of = |transport: Transport| {
            let rest = text.strip_prefix(PREFIX)?.strip_prefix(transport.scheme())?.strip_prefix("://")?;
            Some((transport, rest))
        };
        let Some((transport, rest)) = of(Transport::Udp).or_else(|| of(Transport::Tcp)) else {
            return Err(
                "not an address of RDMA: write rdma+udp://10.0.0.1:7000/REGION, or rdma+tcp://…".to_owned()
            );
        };
        let (place, options) = rest.split_once('?').map_or((rest, None), |(place, o)| (place, Some(o)));
        let (address, region) = place.split_once('/').unwrap_or((place, ""));
        let options = options.map(|options| format!("?{options}")).unwrap_or_default();
        let endpoint: Endpoint = format!("{}://{address}{options}", transport.scheme())
            .parse()
            .map_err(|error| format!("{error}"))?;
        let region = (!region.is_empty()).then(|| named(region)).transpose()?;
        Ok(RdmaAddress { endpoint, region })
    }
}

/// A name that can stand in an address, a report and a file name.
fn named(name: &str) -> Result<String, String> {
    let is_usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.chars().all(is_usual) {
        let shown: String = name.chars().take(40).collect();
        return Err(format!(
            "'{}' is no name of a region: use letters, digits, . _ and -",
            shown.escape_debug()
        ));
    }
    Ok(name.to_owned())
}

/// A region to be exposed: `vis:64MiB:read,write`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionSpec {
    /// Its name.
    pub name: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// What its peers may do.
    pub rights: RegionRights,
}

impl FromStr for RegionSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<RegionSpec, String> {
        let mut parts = text.splitn(3, ':');
        let (Some(name), Some(size), Some(rights)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("not a region: write NAME:SIZE:RIGHTS, such as vis:64MiB:read,write".to_owned());
        };
        let bytes = size.parse::<Size>().map_err(|error| error.to_string())?.bytes();
        if bytes == 0 {
            return Err("a region needs at least one byte: write its size, such as 64MiB".to_owned());
        }
        let mut allowed = RegionRights::default();
        for right in rights.split(',') {
            match right {
                "read" => allowed.read = true,
                "write" => allowed.write = true,
                "invalidate" => allowed.invalidate = true,
                other => {
                    return Err(format!(
                        "'{}' is no right: write read, write and invalidate, with commas between",
                        other.escape_debug()
                    ));
                }
            }
        }
        Ok(RegionSpec { name: named(name)?, bytes, rights: allowed })
    }
}

/// Rights as they are written.
pub(super) fn rights_text(rights: RegionRights) -> String {
    let all = [(rights.read, "read"), (rights.write, "write"), (rights.invalidate, "invalidate")];
    let said: Vec<&str> = all.into_iter().filter_map(|(is, name)| is.then_some(name)).collect();
    said.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        for text in [
            "rdma+udp://127.0.0.1:7000/vis",
            "rdma+tcp://127.0.0.1:7000/vis",
            "rdma+udp://[::1]:7000",
            "rdma+udp://10.0.0.1:1/a.b-c_9",
        ] {
            assert_eq!(text.parse::<RdmaAddress>().unwrap().to_string(), text);
        }
        let with = "rdma+udp://127.0.0.1:7000/vis?rcvbuf=4MiB".parse::<RdmaAddress>().unwrap();
        assert_eq!(with.endpoint.rcvbuf.map(|size| size.bytes()), Some(4 << 20));
        for wrong in [
            "udp://127.0.0.1:7000/vis",
            "rdma+udp://127.0.0.1/vis",
            "rdma+udp://127.0.0.1:7000/a/b",
            "rdma+udp://127.0.0.1:7/\u{1b}",
        ] {
            assert!(wrong.parse::<RdmaAddress>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn regions_are_read() {
        let region = "vis:64MiB:read,write".parse::<RegionSpec>().unwrap();
        assert_eq!((region.name.as_str(), region.bytes), ("vis", 64 << 20));
        assert_eq!(rights_text(region.rights), "read,write");
        let region = "vis:1KiB:invalidate,read".parse::<RegionSpec>().unwrap();
        assert_eq!(rights_text(region.rights), "read,invalidate");
        for wrong in [
            "vis",
            "vis:64MiB",
            "vis:0:read",
            "vis:x:read",
            "vis:1KiB:execute",
            ":1KiB:read",
            "a/b:1KiB:read",
        ] {
            assert!(wrong.parse::<RegionSpec>().is_err(), "{wrong}");
        }
    }
}
