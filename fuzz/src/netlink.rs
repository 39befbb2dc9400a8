//! Target for what the kernel answers: messages and attributes end within their octets.

use skyhaul_io::netlink::route::read_interface;
use skyhaul_io::netlink::{Attributes, Messages, Request};

pub(crate) fn run(bytes: &[u8]) {
    let mut inside = 0;
    for message in Messages::new(bytes) {
        inside += message.body.len();
        let all = message.attributes(16);
        for (kind, value) in all {
            let again = Request::new(message.kind).attribute(kind, value);
            assert_eq!(Attributes::new(again.body()).find(kind), Some(value), "it reads back");
            let _ = (all.nested(kind).count(), all.number(kind), all.text(kind));
        }
        drop(read_interface(message.body));
    }
    assert!(inside <= bytes.len());
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let link = Request::new(16)
        .fixed(&[0, 0, 1, 0, 2, 0, 0, 0, 0x43, 0x10, 0, 0, 0, 0, 0, 0])
        .text(3, "eth0")
        .number(4, 1500u32)
        .attribute(1, &[2, 0, 0, 0, 0, 1])
        .nested(18, |info| info.text(1, "veth"));
    let head = |body: &[u8]| {
        let mut message = (16 + body.len() as u32).to_ne_bytes().to_vec();
        message.extend([16, 0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        message.extend(body);
        message
    };
    let one = head(link.body());
    vec![one.clone(), [one, head(&[0; 4])].concat()]
}
