//! What others have written into the store of a fleet: keys, and their values as JSON.

use skyhaul_core::fleet::{FleetName, FleetRoot};
use skyhaul_daemon::fleet_json::{decode, encode};

/// The first line is a key below the root, the rest its value. A key that was read is printed as it was, and a value that was read reads back.
pub(crate) fn run(bytes: &[u8]) {
    let at = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let Ok(key) = std::str::from_utf8(&bytes[..at]) else { return };
    let Ok(fleet) = FleetName::new("evn") else { return };
    let root = FleetRoot::new(&fleet);
    let whole = format!("{}{key}", root.prefix());
    let Ok(key) = root.parse(&whole) else { return };
    assert_eq!(root.key(&key), whole);
    let Ok(value) = decode(&key, bytes.get(at + 1..).unwrap_or_default()) else { return };
    // It may be longer when it is written again, and is refused then.
    let Ok(written) = encode(&value) else { return };
    let again = decode(&key, &written).unwrap_or_else(|why| panic!("{key}: {why}"));
    assert_eq!(encode(&again).as_ref(), Ok(&written), "{key}");
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    [
        "stations/On\n{\"v\":1,\"name\":\"Onsala\",\"vex_id\":\"On\",\"position\":[3370605.9,711917.5,5349830.8],\"contact\":\"a@b\",\"issuer\":null,\"endpoints\":[\"https://on\"]}",
        "recorders/On/rec1/info\n{\"v\":1,\"build\":\"skyhaul 0.1.0\",\"disks\":[\"/d0\"],\"interfaces\":[],\"webdav_url\":\"https://on:8443\",\"srr_url\":null}",
        "recorders/On/rec1/live\n{\"v\":1,\"activity\":\"recording\",\"scans\":[\"a\"],\"rate_bits\":1,\"lost_frames\":0,\"free_bytes\":5,\"disk_lag_ms\":3,\"clock_offset_ns\":-7,\"schedule\":{\"experiment\":\"n26c3\",\"revision\":4},\"unpublished_scans\":0,\"sequence\":9,\"at\":\"2026-11-29T12:00:00.123Z\"}",
        "schedules/n26c3/meta\n{\"v\":1,\"sha256\":\"00\",\"bytes\":1,\"parts\":1,\"author\":\"s\",\"at\":\"2026-11-29T12:00:00Z\"}",
        "schedules/n26c3/vex/0\nVEX_rev = 2.0;",
        "current/On\n{\"v\":1,\"experiment\":\"n26c3\",\"revision\":4}",
        "desired/On/rec1/no0001\n{\"v\":1,\"action\":\"start\",\"experiment\":\"n26c3\",\"start\":\"2026-11-29T12:00:00Z\",\"stop\":null,\"source\":\"3C84\",\"mode\":\"\",\"deadline\":null}",
        "acks/On/rec1/no0001\n{\"v\":1,\"desired_revision\":4,\"state\":\"ended\",\"reason\":null,\"recording\":\"n26c3_on_no0001\"}",
        "scans/n26c3/no0001/On\n{\"v\":1,\"recorder\":\"rec1\",\"recording\":\"n26c3_on_no0001\",\"bytes\":9,\"start\":\"2026-11-29T12:00:00Z\",\"stop\":\"2026-11-29T12:01:00Z\",\"valid_fraction\":0.5,\"lost_frames\":1,\"missing_sha256\":null,\"adler32\":\"00000102\",\"crc32c\":\"deadbeef\",\"outcome\":\"gaps\"}",
        "replicas/n26c3/no0001/On/JIVE\n{\"v\":1,\"url\":\"https://j/f\",\"state\":\"copying\",\"bytes\":9,\"digest\":\"adler32:00000102\",\"at\":\"2026-11-29T12:00:00Z\",\"token\":7}",
        "transfers/t1\n{\"v\":1,\"source\":\"a\",\"destination\":\"b\",\"engine\":\"fts\",\"fts_job\":\"1\",\"attempts\":2,\"last_failure\":null}",
        "claims/link/On-JIVE\n{\"v\":1,\"holder\":\"m\",\"purpose\":\"p\"}",
        "alarms/On/rec1/disk\n{\"v\":1,\"text\":\"full\",\"since\":\"2026-11-29T12:00:00Z\"}",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
