use super::*;

fn value(text: &str) -> Option<i64> {
    let names = [7, 4096, 2, 10, 3, 64];
    let item = |id| match id {
        0x1600 => Some(1000),
        1 => Some(u64::MAX),
        _ => None,
    };
    Expr::parse(text, NAMES.len()).unwrap().value(&names, item)
}

#[test]
fn expressions_have_the_value_that_is_expected() {
    for (text, expected) in [
        ("1", 1),
        (" 0x10 ", 16),
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 3 - 2", 5),
        ("100 / 7 % 5", 4),
        ("-7 / 2", -3),
        ("- (2 - 5)", 3),
        ("1 << 4 | 1", 17),
        ("6 & 3 | 8", 10),
        ("1 + 1 << 2", 8),
        ("counter >> 1", 3),
        ("item(0x1600) / 256 + size", 4099),
        ("item ( 5632 )", 1000),
        ("chunk * 100 + index * 10 + offset + stream", 1096),
        ("--1", 1),
        ("(-0x7FFFFFFFFFFFFFFF - 1) % -1", 0),
        ("3 < 4", 1),
        ("3 >= 4", 0),
        ("counter & 3 == 3", 1),
        ("counter != 7 or size == 4096 and index<=3", 1),
        ("1 < 2 and 0", 0),
        ("(1 < 2) + (2 > 1) == 2", 1),
    ] {
        assert_eq!(value(text), Some(expected), "{text}");
    }
}

#[test]
fn what_has_no_value_has_none() {
    for text in [
        "1 / 0",
        "1 % (counter - 7)",
        "item(2)",
        "item(1)",
        "0x7FFFFFFFFFFFFFFF + 1",
        "1 << 64",
        "1 << -1",
        "1 << 63",
        "3 << 62",
        "-(-0x7FFFFFFFFFFFFFFF - 1)",
        "(-0x7FFFFFFFFFFFFFFF - 1) / -1",
    ] {
        assert_eq!(value(text), None, "{text}");
    }
}

#[test]
fn errors_say_where_and_what() {
    let deep = "(".repeat(40);
    let wide = format!("{}1{}", "1 + (".repeat(20), ")".repeat(20));
    assert_eq!(Expr::parse(&wide, 0).unwrap_err().wrong, Wrong::TooDeep);
    for (text, at, wrong) in [
        ("", 0, Wrong::NoValue),
        ("1 +", 3, Wrong::NoValue),
        ("1 2", 2, Wrong::NoOperator),
        ("(1 + 2", 6, Wrong::NotClosed),
        ("(1 2)", 3, Wrong::NoOperator),
        ("1)", 1, Wrong::NoOperator),
        ("0xZZ", 0, Wrong::Number),
        ("5 + 18446744073709551615", 24, Wrong::Number),
        ("99999999999999999999", 0, Wrong::Number),
        ("nothing * 2", 0, Wrong::Name),
        ("item 5", 5, Wrong::NoOperator),
        ("item(x)", 5, Wrong::NoValue),
        ("item(5", 6, Wrong::NotClosed),
        ("1 ü", 2, Wrong::NoOperator),
        ("0 <= counter < 4", 13, Wrong::Chained),
        ("1 andy", 2, Wrong::NoOperator),
        ("1 = 1", 2, Wrong::NoOperator),
        (&deep, 32, Wrong::TooDeep),
    ] {
        let error = Expr::parse(text, IN_RULE).unwrap_err();
        assert_eq!((error.at, error.wrong), (at, wrong), "{text}");
        assert!(error.to_string().contains("hint: "));
    }
    assert_eq!(Expr::parse("index", IN_RULE).unwrap_err().wrong, Wrong::Name);
    assert_eq!(Expr::parse(&"1+".repeat(3000), 0).unwrap_err().wrong, Wrong::TooLong);
}

#[test]
fn no_text_panics() {
    let tokens = ["(", ")", "1", "item(", "counter", "<<", ">=", "-", "%", "/", "or", " ", "0x", "é", "=="];
    let mut seed = 5u64;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..12 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.push_str(tokens[(seed >> 33) as usize % tokens.len()]);
        }
        if let Ok(expr) = Expr::parse(&text, NAMES.len()) {
            let _ = expr.value(&[1, -1, 0, i64::MAX, i64::MIN, 3], Some);
        }
    }
}
