//! What a peer sends by etransfer: lines of either side of the command channel, heads of the data channel, paths and patterns.

use skyhaul_core::etransfer::{
    DataHeader, EtransferAddress, EtransferLines, EtransferPath, EtransferReply, EtransferRequest,
    MAX_DATA_HEADER_BYTES, MAX_ETRANSFER_LINE_BYTES, matches_wildcards,
};

/// The first byte says how the others are cut.
pub(crate) fn run(bytes: &[u8]) {
    let Some((&cut, bytes)) = bytes.split_first() else { return };
    if let Ok(Some((head, end))) = DataHeader::parse(bytes) {
        assert!(end <= MAX_DATA_HEADER_BYTES && bytes[end - 1] == b'}');
        let text = head.to_string();
        if !head.uuid.contains(['"', ',', '}', ':']) {
            assert_eq!(DataHeader::parse(text.as_bytes()), Ok(Some((head, text.len()))));
        }
    }
    let (mut lines, mut found) = (EtransferLines::default(), Vec::new());
    bytes.chunks(usize::from(cut) + 1).for_each(|piece| lines.push(piece, |line| found.push(line)));
    for line in found.into_iter().flatten() {
        assert!(line.len() <= MAX_ETRANSFER_LINE_BYTES);
        drop(EtransferReply::parse(&line));
        if let Ok(request) = EtransferRequest::parse(&line) {
            assert_eq!(EtransferRequest::parse(request.to_string().as_bytes()), Ok(request));
        }
        let Ok(text) = std::str::from_utf8(&line) else { continue };
        if let Some(address) = EtransferAddress::parse(text) {
            assert_eq!(EtransferAddress::parse(&address.to_string()), Some(address));
        }
        if let Ok(path) = EtransferPath::parse(text) {
            assert!(path.names.iter().all(|name| name != ".." && !name.contains('/')));
        }
        let (pattern, name) = text.split_once(' ').unwrap_or((text, text));
        let _ = matches_wildcards(pattern, name);
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    [
        "\0protocol-version\nlist /data/n26c3_mh_*\ndata-channel-addr-ext\ndata-channel-addr\r\n",
        "\u{3}write-file-New /data/x\nwrite-file-overwrite /a\nwrite-file-Resume /a\nremove-uuid abc\ncancel abc\n",
        "\u{1}read-file 17 /recordings/n26c3_mh_no0001\nsend-file a b 12 <tcp/h:1/mss=0,max-bw=0>,<tcp6/[::1]:2>\n",
        "\u{7f}AlreadyHave:5\nRemain:-1\nUUID:abc\nOK\nOK <tcp/0.0.0.0:8008>\nOK,5,0.5\nERR,5,1e-3 why\nERR File exists\n",
        "\0{ uuid:abc, sz:12}hello",
        "\0{ uuid:abc, push:1, sz:12}",
        "\0/a/../b\n~/x\n*[!a-z]?\\x aZbx\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
