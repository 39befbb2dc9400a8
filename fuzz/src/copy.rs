//! What a peer sends during a copy: heads of ranges, messages, and the journal that lies on a disk.

use skyhaul_transfer::copy::RangeHead;

/// Any bytes as each of them.
pub(crate) fn run(input: &[u8]) {
    skyhaul_transfer::copy::fuzz(input);
}

/// One of each.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let head = RangeHead { file: 3, offset: 8 << 20, size: 9 << 20, length: 1 << 20, ..RangeHead::default() };
    let lines = ["skyhaul-copy 1 1073741824 4194304 1760000000.000000005", "0 9d3e1f77", "255 00000000"];
    let journal: String =
        lines.iter().map(|line| format!("{:08x} {line}\n", crc32c::crc32c(line.as_bytes()))).collect();
    let messages = [
        r#"{"ready":{"cookie":"00ff"}}"#,
        r#"{"entries":[{"to":0,"path":"a/b","what":{"file":{"size":5,"sparse":false}},"mode":420,"modified":[1,2]}]}"#,
        r#"{"entries":[{"to":0,"path":[255,47],"what":{"link":"../x"},"mode":420,"modified":[-1,2]}]}"#,
        r#""all_entries""#,
        r#"{"wanted":[{"file":3,"ranges":[[0,5],[7,1]]}]}"#,
        r#"{"again":{"file":3,"range":5}}"#,
        r#"{"sent":[{"file":3,"digest":5,"error":null}]}"#,
        r#"{"done":[{"file":3,"digest":5,"kept":false,"error":"No space left"}]}"#,
        r#"{"stop":{"why":"interrupted"}}"#,
        r#"{"version":1,"way":"push","paths":["d1"],"flows":4,"range":4194304,"direct":true}"#,
    ];
    let messages = messages.iter().map(|text| text.as_bytes().to_vec());
    [head.octets().to_vec(), journal.into_bytes()].into_iter().chain(messages).collect()
}
