//! Inputs that reach deep into SPEAD.

use crate::wire::spead::{
    BugCompat, Control, Descriptor, Flavour, id,
    packets::{HeapPackets, HeapShape, Split},
};

/// What is described.
fn descriptors() -> Vec<Descriptor> {
    let plain = Descriptor {
        id: 0x35,
        name: "gains".into(),
        description: "of all antennas".into(),
        shape: vec![Some(2), None],
        format: vec![('u', 4), ('i', 12), ('b', 1), ('f', 32), ('c', 8)],
        numpy: None,
    };
    let header = "{'descr': '<i2', 'fortran_order': False, 'shape': (3, 4)}".to_owned();
    let numpy =
        Descriptor { numpy: Some(header), shape: vec![Some(3), Some(4)], format: vec![], ..plain.clone() };
    vec![Descriptor { shape: vec![], format: vec![('u', 8)], ..plain.clone() }, plain, numpy]
}

/// Bug-compat bits and a nested packet.
pub(super) fn descriptor_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (bits, bug_compat) in [(40, 0), (48, 0), (48, 7), (56, 3), (16, 2)] {
        let Some(flavour) = Flavour::new(bits) else { continue };
        let written = descriptors().into_iter().filter_map(|d| d.write(flavour, BugCompat(bug_compat)).ok());
        seeds.extend(written.map(|nested| [&[bug_compat][..], &nested].concat()));
    }
    seeds
}

/// Whole packets of heaps with descriptors and stream control, one packet or several.
pub(super) fn packet_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (bits, packet_bytes, repeat_pointers) in [(40, 1472, false), (48, 200, true), (48, 1472, true)] {
        let Some(flavour) = Flavour::new(bits) else { continue };
        let (mut payload, mut pointers) = (Vec::new(), vec![Control::Start.pointer(flavour)]);
        for nested in descriptors().iter().filter_map(|d| d.write(flavour, BugCompat(0)).ok()) {
            pointers.push(flavour.addressed(id::DESCRIPTOR, payload.len() as u64));
            payload.extend(nested);
        }
        pointers.extend([flavour.immediate(0x35, 77), flavour.addressed(0x36, payload.len() as u64)]);
        payload.extend([0x55; 40]);
        let shape = HeapShape {
            flavour,
            counter: 3,
            pointers: &pointers,
            payload_bytes: payload.len() as u64,
            packet_bytes,
            repeat_pointers,
            split: Split::Even,
        };
        let Ok(packets) = HeapPackets::new(shape) else { continue };
        let mut head = vec![0; packets.head_bytes_max()];
        for n in 0..packets.count().min(3) {
            let part = packets.packet(n, &mut head);
            let payload = &payload[part.payload.start as usize..part.payload.end as usize];
            seeds.push([&head[..part.head], payload].concat());
        }
    }
    seeds
}

/// Flavour, heap size, pointers.
pub(super) fn items_seeds() -> Vec<Vec<u8>> {
    let Some(flavour) = Flavour::new(48) else { return Vec::new() };
    let pointers = [
        flavour.addressed(0x1000, 40),
        flavour.immediate(0x1001, 7),
        flavour.addressed(0x1002, 0),
        flavour.addressed(id::NULL, 90),
        flavour.addressed(0x1003, 40),
        flavour.addressed(0x1004, 900),
    ];
    let pointers: Vec<u8> = pointers.iter().flat_map(|pointer| pointer.to_be_bytes()).collect();
    vec![[&[5, 20][..], &pointers].concat(), [&[4, 255][..], &pointers].concat()]
}

/// Fields, then values.
pub(super) fn bits_seeds() -> Vec<Vec<u8>> {
    let values: Vec<u8> = (0..90).map(|n: u8| n.wrapping_mul(77)).collect();
    let formats: [&[u8]; 5] = [
        &[1, 0, 12],
        &[1, 0, 16],
        &[3, 0, 4, 1, 12, 2, 1],
        &[2, 1, 70, 0, 65],
        &[4, 3, 8, 4, 32, 4, 64, 2, 90],
    ];
    formats.iter().map(|format| [*format, &values].concat()).collect()
}

/// A heap's shape, then pointers.
pub(super) fn shape_seeds() -> Vec<Vec<u8>> {
    let pointers = &items_seeds()[0][2..];
    let shape = |choice, payload: [u8; 3], packet: [u8; 3]| {
        [&[5, choice][..], &payload, &packet, &[0, 0, 0, 9], pointers].concat()
    };
    (0..4).flat_map(|c| [shape(c, [0, 16, 0], [0, 5, 0xC0]), shape(c, [0, 0, 3], [0, 0, 120])]).collect()
}

/// Stored packets: heaps whole, with gaps, and again.
pub(super) fn table_seeds() -> Vec<Vec<u8>> {
    let all = packet_seeds();
    vec![
        all.concat(),
        all.iter().step_by(2).flatten().copied().collect(),
        [all.concat(), all.concat()].concat(),
    ]
}
