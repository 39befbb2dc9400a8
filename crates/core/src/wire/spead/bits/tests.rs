use super::*;
use proptest::prelude::*;

/// A value of a field.
enum V {
    U(u64),
    I(i64),
    F(f64),
    B(bool),
    C(u8),
}
use V::*;

impl V {
    fn native(&self, field: &Field) -> Vec<u8> {
        let low = |octets: [u8; 8]| {
            let at = if cfg!(target_endian = "big") { 8 - field.width } else { 0 };
            octets[at..at + field.width].to_vec()
        };
        match *self {
            U(value) => low(value.to_ne_bytes()),
            I(value) => low(value.to_ne_bytes()),
            F(value) if field.width == 4 => (value as f32).to_ne_bytes().to_vec(),
            F(value) => value.to_ne_bytes().to_vec(),
            B(value) => vec![u8::from(value)],
            C(value) => vec![value],
        }
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// Elements as spead2 4.5.1 (`Item.to_buffer`) writes them.
#[track_caller]
fn golden(format: &[(char, u32)], elements: &[&[V]], hex: &str) {
    let format = BitFormat::new(format).unwrap();
    let element = |values: &&[V]| -> Vec<u8> {
        values.iter().zip(format.fields()).flat_map(|(value, field)| value.native(field)).collect()
    };
    let native: Vec<u8> = elements.iter().flat_map(element).collect();
    let mut wire = vec![0xEE; format.wire_bytes(elements.len() as u64).unwrap() as usize];
    format.pack(&native, elements.len(), &mut wire).unwrap();
    assert_eq!(wire, bytes(hex));
    let mut back = vec![0xEE; native.len()];
    format.unpack(&wire, elements.len(), &mut back).unwrap();
    assert_eq!(back, native);
}

#[test]
#[rustfmt::skip]
fn values_are_those_of_spead2() {
    golden(&[('u', 1)], &[&[U(0)], &[U(1)], &[U(0)], &[U(1)], &[U(1)]], "58");
    golden(&[('u', 12)], &[&[U(1269)], &[U(738)], &[U(544)], &[U(162)], &[U(3289)]], "4f52e22200a2cd90");
    golden(&[('i', 12)], &[&[I(322)], &[I(-1566)], &[I(-230)], &[I(903)], &[I(218)]], "1429e2f1a3870da0");
    golden(&[('i', 3), ('u', 5)], &[&[I(-2), U(6)], &[I(0), U(13)], &[I(-4), U(16)], &[I(0), U(12)], &[I(-2), U(19)]], "c60d900cd3");
    golden(&[('u', 4), ('i', 12), ('b', 1)], &[&[U(9), I(1002), B(true)], &[U(10), I(1129), B(false)], &[U(5), I(-22), B(true)], &[U(2), I(411), B(true)], &[U(9), I(505), B(false)]], "93ead23497faa433791f90");
    golden(&[('u', 7), ('f', 32)], &[&[U(49), F(0.625)], &[U(108), F(6.625)], &[U(73), F(1.250)], &[U(115), F(-7.375)], &[U(59), F(-2.750)]], "627e400001b10350000249fd0000073c0ec000077806000000");
    golden(&[('b', 3), ('f', 64), ('c', 8)], &[&[B(true), F(-11.125), C(b'c')], &[B(true), F(7.500), C(b'i')], &[B(false), F(8.125), C(b'p')], &[B(false), F(-7.875), C(b'v')], &[B(true), F(0.625), C(b'g')]], "3804c800000000000c650078000000000001a42010200000000000380c01f8000000000007627fc8000000000000ce");
    golden(&[('i', 63), ('u', 2), ('i', 33)], &[&[I(485238569408878001), U(1), I(1528281446)], &[I(-946093009857166992), U(2), I(982986752)], &[I(-2358501020934906050), U(2), I(-280973522)], &[I(3855715558753960709), U(0), I(183872647)], &[I(-3087794359970449272), U(2), I(4122599925)]], "0d77d3d0e1deab6296c5ee59b96f66b5c77de0b843a973000be89d7a2798ebe7d7bd02bcb9ac1206fa53d018280af5ac87aa4be6c7650371113d6e787d40");
    golden(&[('u', 24)], &[&[U(610272)], &[U(10831715)], &[U(9697112)], &[U(10793659)], &[U(5130795)]], "094fe0a5476393f758a4b2bb4e4a2b");
    golden(&[('u', 64), ('i', 64), ('u', 1)], &[&[U(12025849414984013674), I(7269560752954971684), U(1)], &[U(4612559950368838535), I(8518957695909992215), U(1)], &[U(173334213829199829), I(-834063351402736582), U(1)], &[U(14837621558610202235), I(-7127485526600709681), U(0)], &[U(13597490220238255920), I(1964900899512833927), U(1)]], "a6e46653c676176a64e2aafd31009624a0018d6b1176c9c3bb1cb571cca5cb8bc099f3a324ad81f57d1b33f342ddf50eb9bd3a46391471cf73a2c2b5a6a74139ebcb3fd500e2637301b44baf5264ed7878");
}

#[test]
fn formats_that_cannot_be() {
    let refused = |format: &[(char, u32)]| {
        let error = BitFormat::new(format).unwrap_err();
        assert!(error.to_string().contains("; hint: "));
        error
    };
    assert_eq!(refused(&[]), FormatError::Empty);
    for (code, bits) in [('u', 0), ('f', 16), ('c', 7), ('0', 8), ('\0', 0), ('x', 8)] {
        assert_eq!(refused(&[('u', 8), (code, bits)]), FormatError::Field { code, bits });
    }
    assert_eq!(refused(&[('u', u32::MAX); 9]), FormatError::TooLarge);
}

#[test]
fn shapes_end_with_the_octets() {
    let format = BitFormat::new(&[('u', 12)]).unwrap();
    assert_eq!(format.shape(&[None, Some(2)], 10), Ok(vec![3, 2]));
    assert_eq!(format.shape(&[Some(5)], 8), Ok(vec![5]));
    assert_eq!(format.shape(&[Some(5)], 7), Err(FormatError::Short { needed: 8, had: 7 }));
    assert_eq!(format.shape(&[], 1), Err(FormatError::Short { needed: 2, had: 1 }));
    assert_eq!(format.shape(&[], 2), Ok(vec![]));
    assert_eq!(format.shape(&[None, Some(0)], 10), Ok(vec![0, 0]));
    assert_eq!(format.shape(&[Some(u64::MAX), Some(0), Some(9)], 0), Ok(vec![u64::MAX, 0, 9]));
    assert_eq!(format.shape(&[Some(u64::MAX), Some(9), None], 10), Err(FormatError::TooLarge));
    assert_eq!(format.shape(&[Some(u64::MAX)], 10), Err(FormatError::TooLarge));
    assert_eq!(format.shape(&[None, None], 10), Err(FormatError::TwoVariable));
    for error in [FormatError::TwoVariable, FormatError::TooLarge, FormatError::Short { needed: 1, had: 0 }] {
        assert!(error.to_string().contains("; hint: "));
    }
}

#[test]
fn room_is_checked() {
    for format in [[('u', 12)], [('u', 16)]] {
        let format = BitFormat::new(&format).unwrap();
        let short = |needed, had| Err(FormatError::Short { needed, had });
        let needed = format.wire_bytes(3).unwrap();
        assert_eq!(format.unpack(&[0; 4], 3, &mut [0; 6]), short(needed, 4));
        assert_eq!(format.unpack(&[0; 6], 3, &mut [0; 5]), short(6, 5));
        assert_eq!(format.pack(&[0; 5], 3, &mut [0; 6]), short(6, 5));
        assert_eq!(format.pack(&[0; 6], 3, &mut [0; 4]), short(needed, 4));
        assert!(format.unpack(&[0; 6], usize::MAX / 2, &mut [0; 6]).is_err());
    }
}

#[test]
fn values_that_do_not_fit() {
    let pack =
        |code, bits, native: &[u8]| BitFormat::new(&[(code, bits)]).unwrap().pack(native, 1, &mut [0; 16]);
    let wide = Err(FormatError::OutOfRange { element: 0, field: 0 });
    let i16 = |value: i16| value.to_ne_bytes();
    assert_eq!(pack('u', 7, &[127]), Ok(()));
    assert_eq!(pack('u', 7, &[128]), wide);
    assert_eq!([pack('i', 12, &i16(2047)), pack('i', 12, &i16(-2048))], [Ok(()); 2]);
    assert_eq!([pack('i', 12, &i16(2048)), pack('i', 12, &i16(-2049))], [wide; 2]);
    let high = |octet| [&[1, 2, 3, 4, 5, 6, 7, 8][..], &[octet]].concat();
    assert_eq!([pack('u', 70, &high(63)), pack('i', 70, &high(31)), pack('i', 70, &high(0xE0))], [Ok(()); 3]);
    assert_eq!([pack('u', 70, &high(64)), pack('i', 70, &high(32)), pack('i', 70, &high(0xA0))], [wide; 3]);
    assert!(FormatError::OutOfRange { element: 0, field: 0 }.to_string().contains("; hint: "));
}

#[test]
fn numpy_names() {
    let formats = [('u', 1), ('u', 9), ('u', 24), ('u', 33), ('i', 8), ('i', 16), ('i', 32), ('i', 64)];
    let format = BitFormat::new(&formats).unwrap();
    let names: Vec<_> = format.fields().iter().filter_map(Field::numpy).collect();
    assert_eq!(names, ["u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8"]);
    assert_eq!((format.bits(), format.stride()), (187, 30));
    let others = BitFormat::new(&[('f', 32), ('f', 64), ('c', 8), ('b', 99), ('u', 65), ('i', 128)]).unwrap();
    let names: Vec<_> = others.fields().iter().map(Field::numpy).collect();
    assert_eq!(names, [Some("f4"), Some("f8"), Some("S1"), Some("?"), None, None]);
    assert_eq!(others.stride(), 4 + 8 + 1 + 1 + 9 + 16);
}

fn any_format() -> impl Strategy<Value = Vec<(char, u32)>> {
    let whole = prop_oneof![Just(8u32), Just(16), Just(32), Just(64)];
    let field = prop_oneof![
        (prop_oneof![Just('u'), Just('i')], prop_oneof![1u32..65, 1u32..200, whole.clone()]),
        (Just('u'), whole),
        Just(('c', 8)),
        Just(('f', 32)),
        Just(('f', 64)),
    ];
    proptest::collection::vec(field, 1..6)
}

proptest! {
    /// The bits of the wire, in order, are those of the fields; and what was read is written again.
    #[test]
    fn bits_are_where_they_belong(format in any_format(), raw in proptest::collection::vec(any::<u8>(), 0..300)) {
        let format = BitFormat::new(&format).unwrap();
        let elements = (raw.len() as u64 * 8 / format.bits()) as usize;
        let wire = &raw[..format.wire_bytes(elements as u64).unwrap() as usize];
        let mut native = vec![0xEE; elements * format.stride()];
        format.unpack(wire, elements, &mut native).unwrap();
        let bit = |at: u64| wire[at as usize / 8] >> (7 - at % 8) & 1;
        let mut at = 0;
        for element in native.chunks(format.stride()) {
            for field in format.fields() {
                let mut octets = element[field.offset..field.offset + field.width].to_vec();
                if cfg!(target_endian = "big") && field.bits <= 64 { octets.reverse(); }
                for n in 0..octets.len() as u32 * 8 {
                    let sign = if field.code == Code::Signed { bit(at) } else { 0 };
                    let want = if n < field.bits { bit(at + u64::from(field.bits - 1 - n)) } else { sign };
                    prop_assert_eq!(octets[n as usize / 8] >> (n % 8) & 1, want);
                }
                at += u64::from(field.bits);
            }
        }
        let mut back = vec![0xEE; wire.len()];
        format.pack(&native, elements, &mut back).unwrap();
        if let Some(last) = back.last_mut() { *last |= wire[wire.len() - 1] & 0xFFu8.checked_shr((at % 8) as u32 + 8 * u32::from(at % 8 == 0)).unwrap_or(0); }
        prop_assert_eq!(back, wire);
    }

    /// Booleans are read as spead2 reads them: any bit is true.
    #[test]
    fn booleans(bits in 1u32..200, raw in proptest::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 1..100)) {
        let format = BitFormat::new(&[('b', bits)]).unwrap();
        let elements = raw.len() * 8 / bits as usize;
        let mut native = vec![9; elements];
        format.unpack(&raw, elements, &mut native).unwrap();
        let bit = |at: usize| raw[at / 8] >> (7 - at % 8) & 1 == 1;
        for (n, &value) in native.iter().enumerate() {
            prop_assert_eq!(value == 1, (n * bits as usize..(n + 1) * bits as usize).any(bit));
            prop_assert!(value <= 1);
        }
    }

    #[test]
    fn any_format_is_refused_or_used(format in proptest::collection::vec((any::<char>(), 0u32..99), 0..4), shape in proptest::collection::vec(proptest::option::of(0u64..9), 0..4), raw in proptest::collection::vec(any::<u8>(), 0..60)) {
        let Ok(format) = BitFormat::new(&format) else { return Ok(()) };
        let Ok(shape) = format.shape(&shape, raw.len() as u64) else { return Ok(()) };
        let elements = shape.iter().product::<u64>() as usize;
        prop_assert!(elements * format.stride() <= 9 * raw.len());
        let mut native = vec![0; elements * format.stride()];
        prop_assert_eq!(format.unpack(&raw, elements, &mut native), Ok(()));
    }
}
