//! `docs/reference/rdma-wire.md` has the tables of the code.

use skyhaul_core::wire::Field;
use skyhaul_core::wire::rdma::RdmaRefusal;
use skyhaul_core::wire::rdma::ddp::{DdpTagged, DdpUntagged};
use skyhaul_core::wire::rdma::mpa::{MpaEnhanced, MpaFrame};
use skyhaul_core::wire::rdma::rdmap::{ImmediateData, RdmapOpcode, ReadRequest};
use skyhaul_core::wire::rdma::shim::{UcControl, UcKind, UcShim};
use skyhaul_core::wire::rdma::terminate::{TERMINATE_REASONS, TerminateControl};
use std::fmt::Write as _;

const BEGIN: &str = "<!-- tables: begin -->\n";
const END: &str = "<!-- tables: end -->\n";

fn table(out: &mut String, title: &str, bytes: usize, fields: &[Field]) {
    let _ =
        write!(out, "\n### {title}, {bytes} bytes\n\n| byte | bits | field | meaning |\n|---|---|---|---|\n");
    for field in fields {
        let bits = match field.bits {
            bits if bits as usize == field.width * 8 => format!("all {bits}"),
            1 => field.lsb.to_string(),
            bits => format!("{}..{}", field.lsb + bits - 1, field.lsb),
        };
        let last = field.byte + field.width - 1;
        let byte = if last == field.byte { last.to_string() } else { format!("{}..{last}", field.byte) };
        let _ = writeln!(out, "| {byte} | {bits} | `{}` | {} |", field.name, field.doc.trim());
    }
}

fn tables() -> String {
    let mut out = String::new();
    table(&mut out, "DDP, tagged", DdpTagged::LEN, DdpTagged::FIELDS);
    table(&mut out, "DDP, untagged", DdpUntagged::LEN, DdpUntagged::FIELDS);
    out.push_str(
        "\n### Operations\n\n| opcode | operation | kind | queue | handled |\n|---|---|---|---|---|\n",
    );
    for opcode in RdmapOpcode::ALL {
        let (kind, queue) = match opcode.queue() {
            None => ("tagged", "-".to_owned()),
            Some(queue) => ("untagged", queue.to_string()),
        };
        let is_atomic = matches!(opcode, RdmapOpcode::AtomicRequest | RdmapOpcode::AtomicResponse);
        let handled = if is_atomic { "refused" } else { "yes" };
        let _ = writeln!(out, "| {} | `{}` | {kind} | {queue} | {handled} |", opcode.code(), opcode.name());
    }
    table(&mut out, "Read Request", ReadRequest::LEN, ReadRequest::FIELDS);
    table(&mut out, "Immediate Data", ImmediateData::LEN, ImmediateData::FIELDS);
    table(&mut out, "Terminate", TerminateControl::LEN, TerminateControl::FIELDS);
    out.push_str("\n### Reasons of a Terminate\n\n| layer | type | code | meaning |\n|---|---|---|---|\n");
    for (layer, kind, code, meaning) in TERMINATE_REASONS {
        let _ = writeln!(out, "| {layer} | {kind} | {code:#04x} | {meaning} |");
    }
    table(&mut out, "MPA request and reply", MpaFrame::LEN, MpaFrame::FIELDS);
    table(&mut out, "MPA, enhanced", MpaEnhanced::LEN, MpaEnhanced::FIELDS);
    table(&mut out, "UC shim (our own)", UcShim::LEN, UcShim::FIELDS);
    table(&mut out, "UC control (our own)", UcControl::LEN, UcControl::FIELDS);
    out.push_str("\n### Kinds of UC control\n\n| kind | name |\n|---|---|\n");
    for kind in UcKind::ALL {
        let _ = writeln!(out, "| {} | `{}` |", kind.code(), kind.name());
    }
    out.push_str("\n### Refusals\n\nNames of the counters: ");
    let names: Vec<String> = RdmaRefusal::ALL.iter().map(|why| format!("`{}`", why.name())).collect();
    let _ = writeln!(out, "{}.\n", names.join(", "));
    out
}

/// `SKYHAUL_WRITE_REFERENCE=1 cargo test -p skyhaul-core --test rdma page` writes it.
#[test]
fn the_page_has_the_tables_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/rdma-wire.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (head, rest) = page.split_once(BEGIN).expect("the page has its mark");
    let (old, tail) = rest.split_once(END).expect("the page has its mark");
    if std::env::var_os("SKYHAUL_WRITE_REFERENCE").is_some() {
        std::fs::write(path, [head, BEGIN, &tables(), END, tail].concat()).unwrap();
        return;
    }
    assert_eq!(
        old,
        tables(),
        "write it: SKYHAUL_WRITE_REFERENCE=1 cargo test -p skyhaul-core --test rdma page"
    );
}
