use super::*;
use proptest::prelude::*;

fn lines(pieces: &[&[u8]]) -> (Vec<Result<Vec<u8>, LineTooLong>>, EtransferLines) {
    let (mut reader, mut found) = (EtransferLines::default(), Vec::new());
    pieces.iter().for_each(|piece| reader.push(piece, |line| found.push(line)));
    (found, reader)
}

fn request(line: &str) -> Result<EtransferRequest, &'static str> {
    EtransferRequest::parse(line.as_bytes()).map_err(|why| why.0)
}

#[test]
fn lines_end_with_either_character_and_long_ones_are_skipped() {
    let (found, rest) = lines(&[b"a\r\n\nb", b"c\rd"]);
    assert_eq!(found, [Ok(b"a".to_vec()), Ok(b"bc".to_vec())]);
    assert!(rest.is_inside());
    let long = vec![b'x'; MAX_ETRANSFER_LINE_BYTES];
    assert_eq!(lines(&[&long, b"\n"]).0, [Ok(long.clone())]);
    let (found, rest) = lines(&[&long, b"xx", b"y\nlist /\n"]);
    assert_eq!(found, [Err(LineTooLong), Ok(b"list /".to_vec())]);
    assert!(!rest.is_inside());
}

#[test]
fn requests_of_etc_are_read() {
    use EtransferRequest as R;
    assert_eq!(request("protocol-version"), Ok(R::Version));
    assert_eq!(request("LIST  /data/a b*"), Ok(R::List { path: "/data/a b*".into() }));
    let write = R::Write { mode: UploadMode::OverWrite, path: "/d/f".into() };
    assert_eq!(request("write-file-OverWrite /d/f"), Ok(write));
    assert_eq!(request("read-file 17 /d/f"), Ok(R::Read { have: 17, path: "/d/f".into() }));
    assert_eq!(request("data-channel-addr-ext"), Ok(R::DataAddresses { with_options: true }));
    let Ok(R::Send { to, bytes: 5, .. }) =
        request("send-file s d 5 <udt/h:1/mss=1500,max-bw=0>,<tcp6/[::1]:8008>")
    else {
        panic!()
    };
    assert_eq!(to.iter().map(ToString::to_string).collect::<Vec<_>>(), ["<udt/h:1>", "<tcp6/[::1]:8008>"]);
}

#[test]
fn what_is_no_request_is_refused_with_its_reason() {
    for (line, why) in [
        ("", "unknown command"),
        ("lists /", "unknown command"),
        ("list", "expected a path"),
        ("protocol-version 2", "unexpected words"),
        ("write-file-Append /f", "the modes are New, OverWrite, Resume, SkipExisting"),
        ("read-file -1 /f", "expected a number of bytes"),
        ("read-file +1 /f", "expected a number of bytes"),
        ("read-file 9223372036854775808 /f", "expected a number of bytes"),
        ("read-file 1", "expected a path"),
        ("remove-uuid a b", "expected a UUID"),
        ("cancel ", "expected a UUID"),
        ("send-file a b 1 tcp/h:1", "expected data channels"),
        ("send-file a b 1", "expected data channels"),
        ("list /a\u{1b}[2J", "the line has control characters"),
    ] {
        assert_eq!(request(line), Err(why), "{line:?}");
    }
    assert!(EtransferRequest::parse(b"list /\xff").is_err());
}

#[test]
fn addresses_that_are_none() {
    for text in
        ["<tcp/:1>", "<tcp/h:70000>", "<tcp/h>", "tcp/h:1", "<sctp/h:1>", "<tcp/h h:1>", "<tcp6/[::1:8>"]
    {
        assert_eq!(EtransferAddress::parse(text), None, "{text}");
    }
    let many = "<tcp/h:1>".repeat(MAX_DATA_ADDRESSES + 1);
    assert_eq!(EtransferAddress::parse_list(&many), None);
    assert_eq!(EtransferAddress::parse_list(&many[9..]).unwrap().len(), MAX_DATA_ADDRESSES);
}

#[test]
fn heads_of_data_channels() {
    let head = |text: &str| DataHeader::parse(text.as_bytes());
    let of = |is_push| DataHeader { uuid: "aB3".into(), bytes: 12, is_push };
    for is_push in [false, true] {
        let text = of(is_push).to_string();
        assert_eq!(head(&format!("{text}data}}")), Ok(Some((of(is_push), text.len()))));
        for end in 0..text.len() {
            assert_eq!(head(&text[..end]), Ok(None), "{end}");
        }
    }
    assert_eq!(head("{sz : 12 , UUID: \"aB3\", later:1}").unwrap().unwrap().0, of(false));
    for text in [
        "x",
        "{ uuid:a }",
        "{ sz:1 }",
        "{uuid:a, sz:-1}",
        "{uuid:a, sz:1, push:2}",
        "{uuid:a,uuid:b,sz:1}",
        "{}",
    ] {
        assert!(head(text).is_err(), "{text}");
    }
    let long = format!("{{{}", " ".repeat(MAX_DATA_HEADER_BYTES));
    assert!(head(&long).is_err() && head(&long[..MAX_DATA_HEADER_BYTES - 1]) == Ok(None));
}

#[test]
fn paths_stay_where_they_are() {
    let path = |text| EtransferPath::parse(text).map(|path| path.to_string());
    assert_eq!(path("//data/./n26c3//f"), Ok("/data/n26c3/f".into()));
    assert_eq!(path("/data/..f/"), Ok("/data/..f/".into()));
    assert_eq!(path("/"), Ok("/".into()));
    for text in ["", "f", "~/f", "~x", "/a/../b", "/..", "/a/..", "../a", "/a\0"] {
        assert!(path(text).is_err(), "{text}");
    }
}

#[test]
fn wildcards_match_as_glob_does() {
    for (pattern, name, does) in [
        ("*", "a", true),
        ("*", ".a", false),
        (".*", ".a", true),
        ("?a", ".a", false),
        ("[.]a", ".a", false),
        ("\\.a", ".a", true),
        ("n26c3_*_no000[1-3]", "n26c3_mh_no0002", true),
        ("n26c3_*_no000[!1-3]", "n26c3_mh_no0002", false),
        ("*_ds*x", "a_ds_dsx", true),
        ("a?c", "abc", true),
        ("a?c", "ac", false),
        ("a\\*", "a*", true),
        ("a\\*", "ab", false),
        ("[", "[", true),
        ("[]a]", "]", true),
        ("[a-]", "-", true),
        ("", "", true),
        ("", "a", false),
    ] {
        assert_eq!(matches_wildcards(pattern, name), does, "{pattern} {name}");
    }
    // A pattern that would take for ever by trying all ways.
    assert!(!matches_wildcards(&"*a".repeat(60), &"a".repeat(59)));
}

#[test]
fn replies_are_read() {
    use EtransferReply as R;
    let reply = |text: &str| R::parse(text.as_bytes());
    assert_eq!(reply("OK"), Ok(R::Ok(String::new())));
    assert_eq!(reply("OK /a/b c"), Ok(R::Ok("/a/b c".into())));
    assert_eq!(reply("OK /a:b"), Ok(R::Ok("/a:b".into())));
    assert_eq!(reply("ERR File exists"), Ok(R::Err("File exists".into())));
    assert_eq!(reply("AlreadyHave:12"), Ok(R::AlreadyHave(12)));
    assert_eq!(reply("Remain:-3"), Ok(R::Remain(-3)));
    assert_eq!(reply("UUID:abc"), Ok(R::Uuid("abc".into())));
    let outcome = SendOutcome { bytes: 5, time: core::time::Duration::from_millis(2500), error: None };
    assert_eq!(reply(&outcome.line()), Ok(R::Sent(outcome.clone())));
    let failed = SendOutcome { error: Some("no\nroute".into()), ..outcome };
    let shown = SendOutcome { error: Some("no route".into()), ..failed.clone() };
    assert_eq!(reply(&failed.line()), Ok(R::Sent(shown)));
    for text in ["", "OKAY", "UUID:", "AlreadyHave:-1", "OK,1", "OK,x,1", "OK,1,inf", "OK,1,-2"] {
        assert_eq!(reply(text), Err(NotAReply), "{text}");
    }
    let address = reply("OK <tcp/0.0.0.0:8008/mss=0,max-bw=0>").unwrap().data_address().unwrap();
    assert_eq!((address.host.as_str(), address.port), ("0.0.0.0", 8008));
}

#[test]
fn an_upload_begins_where_its_mode_says() {
    use UploadMode::{New, OverWrite, Resume, SkipExisting};
    use UploadStart::{Beginning, Existing, Exists, Kept, Unfinished};
    for (mode, existing, unfinished, start) in [
        (New, None, None, Beginning),
        (New, None, Some(9), Beginning),
        (New, Some(0), None, Exists),
        (OverWrite, Some(5), Some(9), Beginning),
        (Resume, None, None, Beginning),
        (Resume, None, Some(9), Unfinished(8)),
        (Resume, None, Some(1), Beginning),
        (Resume, Some(5), None, Existing(5)),
        (Resume, Some(0), None, Beginning),
        (Resume, Some(5), Some(3), Unfinished(2)),
        (SkipExisting, Some(5), None, Kept(5)),
        (SkipExisting, Some(0), None, Beginning),
        (SkipExisting, None, Some(9), Beginning),
    ] {
        assert_eq!(mode.start(existing, unfinished), start, "{mode:?} {existing:?} {unfinished:?}");
    }
}

/// Words of the protocol among any bytes.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    const WORDS: [&str; 16] = [
        "list ",
        "write-file-New ",
        "write-file-Resume ",
        "read-file ",
        "send-file ",
        "remove-uuid ",
        "cancel ",
        "protocol-version",
        "data-channel-addr",
        "/data/",
        "..",
        "12",
        "<tcp/h:1>",
        ",",
        "\n",
        "abc ",
    ];
    prop_oneof![
        8 => proptest::sample::select(&WORDS[..]).prop_map(|word| word.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..40),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    /// A request that was read is read again from what it writes, and any bytes end in one or a reason, however they are cut.
    #[test]
    fn any_bytes_are_requests_or_none(pieces in proptest::collection::vec(piece(), 0..30)) {
        let all = pieces.concat();
        let whole = lines(&[&all]).0;
        let cut = lines(&pieces.iter().map(Vec::as_slice).collect::<Vec<_>>()).0;
        prop_assert_eq!(&whole, &cut);
        for line in whole.into_iter().flatten() {
            if let Ok(request) = EtransferRequest::parse(&line) {
                let text = request.to_string();
                prop_assert_eq!(EtransferRequest::parse(text.as_bytes()), Ok(request));
            }
            if let Ok(text) = std::str::from_utf8(&line) && let Ok(path) = EtransferPath::parse(text) {
                prop_assert!(path.names.iter().all(|name| !name.is_empty() && name != ".." && !name.contains('/')));
                prop_assert_eq!(EtransferPath::parse(&path.to_string()), Ok(path));
            }
        }
    }

    /// The set of names that a pattern matches is the one of a plain search through all ways.
    #[test]
    fn wildcards_agree_with_a_plain_search(pattern in "[ab*?]{0,8}", name in "[ab]{0,8}") {
        fn plain(pattern: &[u8], name: &[u8]) -> bool {
            match (pattern, name) {
                ([], rest) => rest.is_empty(),
                ([b'*', rest @ ..], _) => (0..=name.len()).any(|taken| plain(rest, &name[taken..])),
                ([b'?', rest @ ..], [_, behind @ ..]) => plain(rest, behind),
                ([one, rest @ ..], [other, behind @ ..]) => one == other && plain(rest, behind),
                (_, []) => false,
            }
        }
        prop_assert_eq!(matches_wildcards(&pattern, &name), plain(pattern.as_bytes(), name.as_bytes()));
    }

    /// No bytes claimed of an upload are more than there are, and of an unfinished one at least one is sent again.
    #[test]
    fn no_more_is_claimed_than_is_there(at in 0usize..4, existing: Option<u32>, unfinished: Option<u32>) {
        let (existing, unfinished) = (existing.map(u64::from), unfinished.map(u64::from));
        let start = UploadMode::ALL[at].start(existing, unfinished);
        match start {
            UploadStart::Unfinished(bytes) => prop_assert!(bytes < unfinished.unwrap()),
            UploadStart::Existing(bytes) | UploadStart::Kept(bytes) => prop_assert_eq!(Some(bytes), existing),
            UploadStart::Exists => prop_assert!(existing.is_some()),
            UploadStart::Beginning => prop_assert_eq!(start.bytes(), 0),
        }
    }
}
