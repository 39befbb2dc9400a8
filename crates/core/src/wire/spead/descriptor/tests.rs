use super::*;
use crate::wire::spead::Item;
use proptest::prelude::*;

fn bytes(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// Written by spead2 4.5.1, and by us, and read again.
#[track_caller]
fn golden(bits: u8, bug_compat: u8, descriptor: &Descriptor, hex: &str) {
    let (flavour, bug_compat) = (Flavour::new(bits).unwrap(), BugCompat(bug_compat));
    assert_eq!(descriptor.write(flavour, bug_compat).unwrap(), bytes(hex));
    assert_eq!(&Descriptor::read(&bytes(hex), bug_compat).unwrap(), descriptor);
}

fn plain(shape: &[Option<u64>], format: &[(char, u32)]) -> Descriptor {
    Descriptor {
        id: 0x12,
        name: "ab".into(),
        description: "text".into(),
        shape: shape.to_vec(),
        format: format.to_vec(),
        numpy: None,
    }
}

#[test]
#[rustfmt::skip]
fn descriptors_are_those_of_spead2() {
    let variable = plain(&[None, Some(2)], &[('u', 8), ('i', 16)]);
    let scalar = plain(&[], &[('b', 1)]);
    assert_eq!(Descriptor::array(0x12, "ab", "text", "<i2", &[5]).numpy.unwrap(), "{'descr': '<i2', 'fortran_order': False, 'shape': (5,)}");
    let array = Descriptor {
        numpy: Some("{'descr': '<i2', 'fortran_order': True, 'shape': (3, 4)}".into()),
        ..plain(&[Some(3), Some(4)], &[])
    };
    golden(40, 0, &variable, "53040305000000098000010000000001800002000000001a8000030000000000800004000000001a8000140000000012000010000000000000001100000000020000130000000006000012000000000e6162746578747500000869000010010000000000000000000002");
    golden(48, 0, &variable, "53040206000000098001000000000001800200000000001a8003000000000000800400000000001a8014000000000012001000000000000000110000000000020013000000000006001200000000000c6162746578747500086900100100000000000000000000000002");
    golden(56, 0, &variable, "53040107000000098100000000000001820000000000001a8300000000000000840000000000001a9400000000000012100000000000000011000000000000021300000000000006120000000000000a6162746578747508691001000000000000000000000000000002");
    golden(32, 0, &variable, "53040404000000098000000100000001800000020000001a8000000300000000800000040000001a800000140000001200000010000000000000001100000002000000130000000600000012000000106162746578747500000008690000001001000000000000000002");
    golden(40, 1, &variable, "53040305000000098000010000000001800002000000001e8000030000000000800004000000001e8000140000000012000010000000000000001100000000020000130000000006000012000000000e616274657874750000086900001001000000000000000000000000000002");
    golden(48, 1, &variable, "53040206000000098001000000000001800200000000001e8003000000000000800400000000001e8014000000000012001000000000000000110000000000020013000000000006001200000000000e616274657874750000086900001001000000000000000000000000000002");
    golden(48, 2, &variable, "53040206000000098001000000000001800200000000001a8003000000000000800400000000001a8014000000000012001000000000000000110000000000020013000000000006001200000000000c6162746578747500086900100200000000000000000000000002");
    golden(48, 4, &variable, "53040206000000098001000000000001800200000000001a8003000000000000800400000000001a8014000000000012001000000000000000110000000000020013000000000006001200000000000c6162746578747500086900100100000000000000000000000002");
    golden(48, 7, &variable, "53040206000000098001000000000001800200000000001e8003000000000000800400000000001e8014000000000012001000000000000000110000000000020013000000000006001200000000000e616274657874750000086900001002000000000000000000000000000002");
    golden(40, 7, &variable, "53040305000000098000010000000001800002000000001e8000030000000000800004000000001e8000140000000012000010000000000000001100000000020000130000000006000012000000000e616274657874750000086900001002000000000000000000000000000002");
    golden(56, 7, &variable, "53040107000000098100000000000001820000000000001e8300000000000000840000000000001e9400000000000012100000000000000011000000000000021300000000000006120000000000000e616274657874750000086900001002000000000000000000000000000002");
    golden(48, 0, &scalar, "5304020600000009800100000000000180020000000000098003000000000000800400000000000980140000000000120010000000000000001100000000000200130000000000060012000000000009616274657874620001");
    golden(40, 0, &array, "530403050000000a8000010000000001800002000000004a8000030000000000800004000000004a8000140000000012000010000000000000001100000000020000130000000006000012000000000600001500000000126162746578740000000000030000000000047b276465736372273a20273c6932272c2027666f727472616e5f6f72646572273a20547275652c20277368617065273a2028332c2034297d");
}

/// A descriptor's packet of these items: an immediate value, or bytes.
fn packet(bits: u8, items: &[(u64, Result<u64, &[u8]>)]) -> Vec<u8> {
    let flavour = Flavour::new(bits).unwrap();
    let (mut pointers, mut payload) = (Vec::new(), Vec::new());
    for &(id, ref value) in items {
        pointers.push(match *value {
            Ok(value) => flavour.immediate(id, value),
            Err(octets) => {
                let pointer = flavour.addressed(id, payload.len() as u64);
                payload.extend_from_slice(octets);
                pointer
            }
        });
    }
    alone(flavour, &pointers, &payload).unwrap()
}

fn read(bits: u8, items: &[(u64, Result<u64, &[u8]>)]) -> Result<Descriptor, DescriptorError> {
    Descriptor::read(&packet(bits, items), BugCompat(0))
}

const ID: (u64, Result<u64, &[u8]>) = (id::ID, Ok(0x12));

#[test]
fn items_may_be_immediate() {
    let seen =
        read(48, &[ID, (id::NAME, Ok(0x6162)), (id::TYPE, Ok(0x75_0008)), (id::DESCRIPTION, Err(b"text"))]);
    assert_eq!(seen.unwrap(), plain(&[], &[('u', 8)]));
    let seen = read(40, &[ID, (id::TYPE, Ok(0x7500_0008)), (id::DESCRIPTION, Ok(0))]).unwrap();
    assert_eq!((seen.format, seen.description.as_str()), (vec![('u', 8)], ""));
}

#[test]
fn what_is_odd_is_read_like_spead2_reads_it() {
    let shape = |octets: &[u8]| read(48, &[ID, (id::SHAPE, Err(octets))]).map(|d| d.shape);
    assert_eq!(shape(&[0, 0, 0, 0, 0, 0, 5, 0, 0]), Ok(vec![Some(5)]), "a rest");
    assert_eq!(shape(&[0, 0, 0]), Ok(vec![]));
    assert_eq!(shape(&[3, 0, 0, 0, 0, 0, 5]), Ok(vec![None]));
    assert_eq!(shape(&[0xFE, 0, 0, 0, 0, 0, 5]), Ok(vec![Some(5)]));
    assert_eq!(shape(&[[1, 0, 0, 0, 0, 0, 0]; 2].concat()), Err(DescriptorError::TwoVariable));
    assert_eq!(read(48, &[(id::NAME, Err(b"name"))]), Err(DescriptorError::NoId));
    assert_eq!(read(48, &[(id::ID, Err(b"name"))]), Err(DescriptorError::NoId));
    let twice = read(48, &[ID, (id::NAME, Err(b"one")), (id::NAME, Err(b"two"))]).unwrap();
    assert_eq!(twice.name, "two");
    for (octets, text) in [(&b"n\xe9"[..], "né"), ("delay, µs".as_bytes(), "delay, µs")] {
        let read = read(48, &[ID, (id::NAME, Err(octets)), (id::DESCRIPTION, Err(octets))]).unwrap();
        assert_eq!((&*read.name, &*read.description), (text, text));
    }
    let header = read(48, &[ID, (id::DTYPE, Err(b"{'\xe9': 1}"))]);
    assert!(matches!(header, Err(DescriptorError::NotAscii { item: id::DTYPE, .. })));
    let format = read(48, &[ID, (id::TYPE, Err(b"\xe9\0\x01"))]);
    assert!(matches!(format, Err(DescriptorError::NotAscii { item: id::TYPE, .. })));
    let format = read(8, &[(id::ID, Ok(0x34)), (id::TYPE, Err(b"u\x01\0\0\0\0\0\0"))]);
    assert!(matches!(format, Err(DescriptorError::TooWide { what: "bits", .. })));
    let good = packet(48, &[ID]);
    let longer = Descriptor::read(&[&good[..], &[1, 2]].concat(), BugCompat(0));
    assert_eq!((longer.as_ref().map(|d| d.id), &longer), (Ok(0x12), &Descriptor::read(&good, BugCompat(0))));
    let refused = |packet: &[u8]| Descriptor::read(packet, BugCompat(7)).unwrap_err();
    assert_eq!(refused(&good[..good.len() - 1]), Reject::Truncated.into());
    assert_eq!(refused(&good[..20]), Reject::Truncated.into());
    assert_eq!(refused(b"no packet at all"), Reject::BadMagic.into());
    let mut part = good;
    part[23] += 1;
    assert_eq!(refused(&part), Reject::WrongSize.into());
    assert_eq!(refused(&vec![0; Descriptor::LONGEST + 1]), DescriptorError::TooLong);
}

#[test]
fn what_does_not_fit_is_not_written() {
    let write = |bits, descriptor: Descriptor| {
        let error = descriptor.write(Flavour::new(bits).unwrap(), BugCompat(0)).unwrap_err();
        assert!(error.to_string().contains("; hint: "), "{error}");
        error
    };
    let wide = |what, value, most| DescriptorError::TooWide { what, value, most };
    assert_eq!(write(56, Descriptor { id: 0x1234, ..plain(&[], &[]) }), wide("id", 0x1234, 127));
    assert_eq!(write(48, plain(&[], &[('u', 70_000)])), wide("bits", 70_000, 65_535));
    assert_eq!(write(40, plain(&[Some(1 << 40)], &[])), wide("size", 1 << 40, (1 << 40) - 1));
    assert_eq!(write(48, plain(&[None, None], &[])), DescriptorError::TwoVariable);
    let named = |name: &str| Descriptor { name: name.into(), ..plain(&[], &[]) };
    assert!(matches!(write(48, named("é")), DescriptorError::NotAscii { item: id::NAME, .. }));
    assert_eq!(write(48, named(&"x".repeat(Descriptor::LONGEST))), DescriptorError::TooLong);
    assert_eq!(write(16, named(&"x".repeat(65_536))), wide("length", 65_540, 65_535));
    assert_eq!(
        write(48, plain(&[], &[('\u{e9}', 8)])),
        DescriptorError::NotAscii { item: id::TYPE, octets: "\u{e9}".into() }
    );
    assert!(write(8, Descriptor { id: 0x80, ..named(&"x".repeat(300)) }).to_string().contains("hint"));
    assert!(
        DescriptorError::NoId.to_string().contains("hint")
            && DescriptorError::Packet(Reject::BadMagic).to_string().contains("hint")
    );
}

proptest! {
    #[test]
    fn what_is_written_is_read(width in 2u8..8, bug in 0u8..8, id in 0u64..128, name in "[ -~]{0,20}", description in "[ -~]{0,20}",
            sizes in proptest::collection::vec(0u64..0x10000, 0..5), variable in proptest::option::of(0usize..5),
            format in proptest::collection::vec((prop_oneof![Just('u'), Just('0'), Just('c')], 1u32..256), 0..5), numpy in proptest::option::of("[ -~]{1,40}")) {
        let mut shape: Vec<Option<u64>> = sizes.into_iter().map(Some).collect();
        if let Some(size) = variable.and_then(|at| shape.get_mut(at)) { *size = None; }
        let descriptor = Descriptor { id, name, description, shape, format, numpy };
        let octets = descriptor.write(Flavour::new(width * 8).unwrap(), BugCompat(bug)).unwrap();
        prop_assert_eq!(Descriptor::read(&octets, BugCompat(bug)).unwrap(), descriptor);
    }

    #[test]
    fn any_octets_are_read(raw in proptest::collection::vec(any::<u8>(), 0..200), bug: u8, width in 1u8..8,
            items in proptest::collection::vec((0x10u64..0x17, any::<bool>(), 0u64..60), 0..9), made: bool) {
        let mut octets = raw.clone();
        if made {
            let flavour = Flavour::new(width * 8).unwrap();
            let own = [(1, 1), (2, raw.len() as u64), (3, 0), (4, raw.len() as u64)].map(|(id, value)| (id, true, value));
            octets = vec![0x53, 4, 8 - width, width, 0, 0, 0, 4 + items.len() as u8];
            for (id, immediate, value) in own.into_iter().chain(items) {
                octets.extend(flavour.write(Item { immediate, id, value }));
            }
            octets.extend(raw);
        }
        if let Ok(descriptor) = Descriptor::read(&octets, BugCompat(bug)) {
            // Characters: those of Latin-1 take two bytes each in UTF-8.
            let characters = descriptor.name.chars().count();
            prop_assert!(characters + descriptor.shape.len() + descriptor.format.len() <= octets.len());
        }
    }
}

#[test]
fn headers_are_those_of_numpy() {
    for (shape, text) in [
        (vec![], "{'descr': '<i2', 'fortran_order': False, 'shape': ()}"),
        (vec![3], "{'descr': '<i2', 'fortran_order': False, 'shape': (3,)}"),
        (vec![3, 4], "{'descr': '<i2', 'fortran_order': False, 'shape': (3, 4)}"),
    ] {
        let header = NumpyHeader::array("<i2", &shape);
        assert_eq!(header.to_string(), text);
        assert_eq!(NumpyHeader::read(text), Some(header));
    }
    let header = NumpyHeader::read(
        "{ \"shape\" : (3L , 4L,), 'descr':[('a', '<i2'), (\"b,}\", '>f4', (2,))],'fortran_order':True , }  ",
    )
    .unwrap();
    assert_eq!(header.descr, "[('a', '<i2'), (\"b,}\", '>f4', (2,))]");
    assert_eq!((header.fortran_order, header.elements(), header.simple()), (true, Some(12), None));
}

#[test]
fn types_are_told() {
    let simple = |name: &str| NumpyHeader::array(name, &[]).simple();
    assert_eq!(simple("<i2"), Some(SimpleType { order: '<', kind: 'i', size: 2 }));
    assert_eq!(simple("|S10"), Some(SimpleType { order: '|', kind: 'S', size: 10 }));
    assert_eq!(["", "<", "<i", "i2", "<i+2", "<2", "<i99999999999"].map(simple), [None; 7]);
    assert_eq!(NumpyHeader::array("<i2", &[u64::MAX, 2]).elements(), None);
    assert_eq!(NumpyHeader::array("<i2", &[u64::MAX, 2, 0]).elements(), Some(0));
}

#[test]
fn what_is_no_header() {
    for text in [
        "",
        "{}",
        "{'descr': '<i2', 'fortran_order': False}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (3)}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (-3,)}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (3,)} + 1",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (3,), 'more': 1}",
        "{'descr': '<i2', 'descr': '<i2', 'fortran_order': False, 'shape': (3,)}",
        "{'descr': , 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '<i2' 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '<i2', 'fortran_order': 0, 'shape': (3,)}",
        "{'descr': ')]', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': ), 'fortran_order': False, 'shape': (3,)}",
    ] {
        assert_eq!(NumpyHeader::read(text), None, "{text}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read(text in "[{}()\\[\\]'\",: a-zL0-9]{0,80}", shape in proptest::collection::vec(any::<u64>(), 0..5), fortran_order: bool) {
        let _ = NumpyHeader::read(&text);
        let header = NumpyHeader { fortran_order, ..NumpyHeader::array(">u8", &shape) };
        prop_assert_eq!(NumpyHeader::read(&header.to_string()), Some(header));
    }
}
