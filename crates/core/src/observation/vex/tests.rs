use super::*;
use crate::observation::scan::RateError;

const FIRST: &str = r#"VEX_rev = 1.5;
* a comment; with a semicolon
$EXPER; def N26C3; exper_name = N26C3; exper_description = "Two; words: \"quoted\""; enddef;
$PROCEDURES; def unknown; anything = at : all; enddef;
$STATION;
def Mh; ref $SITE = METSAHOV; enddef;
def On; ref $SITE = ONSALA; enddef;
$SITE; def METSAHOV; site_name = METSAHOV; enddef;
$FREQ;
def f32;
  sample_rate = 32.000 Ms/sec;  * per channel
  chan_def = : 8400.0 MHz : U : 16.00 MHz : &CH01 : &BBC01 : &U_Cal;
  chan_def = : 8416.0 MHz : U : 16.00 MHz : &CH02 : &BBC02 : &U_Cal;
enddef;
def bare; chan_def = : 8400.0 MHz : U : 16.00 MHz : &CH01; enddef;
$TRACKS;
def t; track_frame_format = VDIF/8032/2;
  fanout_def = : &CH01 : sign : 1 : 2; fanout_def = : &CH01 : mag : 1 : 3;
  fanout_def = : &CH02 : sign : 1 : 4; fanout_def = : &CH02 : mag : 1 : 5;
enddef;
def passes; track_frame_format = Mark4;
  fanout_def = A : &CH01 : sign : 1 : 2 : 4; fanout_def = B : &CH01 : sign : 1 : 3 : 5;
enddef;
def s2; S2_recording_mode = 32x4-2; enddef;
def named; track_frame_format = VDIF_8000-4096-16-2; enddef;
def none; track_frame_format = NONE; enddef;
$MODE;
def wide; ref $FREQ = f32 : Mh : On; ref $TRACKS = t : Mh; ref $TRACKS = passes : On; enddef;
def s2; ref $FREQ = f32; ref $TRACKS = s2; enddef;
def bare; ref $FREQ = bare; ref $TRACKS = passes; enddef;
def named; ref $FREQ = f32; ref   $TRACKS = named; enddef;
def none; ref $FREQ = f32; ref $TRACKS = none; enddef;
def broken; ref $FREQ = f32; ref $TRACKS = missing : Mh; enddef;
$SCHED;
scan No0002;
  start = 2026y330d12h10m00.5s; mode = wide; source = 0133+476;
  station = Mh : 10 sec : 60 sec : 1.449 GB : : &ccw : 1;
  station = On : 0 sec : 60 sec : : : : 0;
endscan;
scan No0001;
  start = 2026y330d12h00m00s; mode = wide; source = 3C84;
  station = Mh : 0 sec : 60 sec : 0.000 GB : : &ccw : 1;
endscan;
"#;

fn rate(mode: &str, station: &str) -> Result<(u64, u32), RateError> {
    let rate = VexFile::parse(FIRST).unwrap().rate(mode, station);
    rate.map(|rate| (rate.sample_bits_per_second, rate.frame.frame_bytes))
}

#[test]
fn scans_of_a_station() {
    let file = VexFile::parse(FIRST).unwrap();
    assert_eq!(file.stations(), ["Mh", "On"]);
    let schedule = file.schedule("mh").unwrap();
    assert_eq!((schedule.experiment.as_str(), schedule.station.as_str()), ("N26C3", "Mh"));
    assert_eq!((schedule.station_name.as_str(), schedule.format.as_str()), ("METSAHOV", "VEX 1.5"));
    let [first, second] = &schedule.scans[..] else { panic!("{schedule:?}") };
    let noon = 1_795_694_400;
    assert_eq!((first.name.as_str(), first.source.as_str(), first.mode.as_str()), ("No0001", "3C84", "wide"));
    assert_eq!((first.start, first.stop, first.good_from), (noon, noon + 60, noon));
    assert_eq!((second.start, second.stop, second.good_from), (noon + 600, noon + 661, noon + 610));
    assert!(first.recorded && !file.schedule("On").unwrap().scans[0].recorded);
    let error = file.schedule("Xx").unwrap_err().to_string();
    assert_eq!(error, "station Xx is not in the schedule; it has Mh, On");
}

#[test]
fn rates_of_the_first_revision() {
    assert_eq!(rate("wide", "Mh"), Ok((128_000_000, 8032)));
    assert_eq!(rate("wide", "On"), Ok((32_000_000, 1)), "one pass counts, and a track of a fan-out does not");
    assert_eq!(rate("s2", "Mh"), Ok((128_000_000, 1)));
    assert_eq!(rate("bare", "Mh"), Ok((32_000_000, 1)), "twice the bandwidth");
    assert_eq!(rate("named", "Mh"), Ok((4_096_000_000, 8032)));
    let wrong = |mode, station| rate(mode, station).unwrap_err().to_string();
    assert_eq!(wrong("none", "Mh"), "mode none has no $TRACKS for Mh");
    assert_eq!(wrong("wide", "Ef"), "mode wide has no $TRACKS for Ef");
    assert_eq!(wrong("absent", "Mh"), "mode absent is not in $MODE");
    assert_eq!(wrong("broken", "Mh"), "line 33: missing is not in $TRACKS");
}

#[test]
fn rates_of_the_second_revision() {
    let text = "VEX_rev = 2.0;
$BITSTREAMS; def b; stream_sample_rate = 64 Ms/sec;
  stream_def = &CH01 : sign : 0 : 0; stream_def = &CH01 : mag : 1 : 1; stream_def = &CH02 : sign : 2 : 2; enddef;
$DATASTREAMS; def d; datastream = &D : VDIF; datastream = &E : VDIFL;
  thread = &D : &T0 : 0 : 16 : 64.0 Ms/sec : 2 : real : 8000;
  thread = &E : &T1 : 1 : 1 : 1 Ms/sec : 8 : complex : 1000; enddef;
def bad; thread = &D : &T0 : 0 : many : 64.0 Ms/sec : 2 : real : 8000; enddef;
$MODE; def b; ref $BITSTREAMS = b : Mh; enddef; def d; ref $DATASTREAMS = d; enddef;
def bad; ref $DATASTREAMS = bad; enddef;";
    let file = VexFile::parse(text).unwrap();
    let rate =
        |mode: &str| file.rate(mode, "Mh").map(|rate| (rate.sample_bits_per_second, rate.frame.frame_bytes));
    assert_eq!(rate("b"), Ok((192_000_000, 10_016)));
    assert_eq!(rate("d"), Ok((2_048_000_000 + 16_000_000, 1016)), "the frames with most header count");
    assert!(rate("bad").unwrap_err().to_string().starts_with("line 7: expected `thread = link"));
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    let wrong = |text: &str| VexFile::parse(text).unwrap_err();
    for (text, line) in [
        ("", 0),
        ("* nothing\n", 0),
        ("\nscan = 1;", 2),
        ("VEX_rev = 3.0;", 1),
        ("VEX_rev = 1.5;\ndef a;", 2),
        ("VEX_rev = 1.5;\n$MODE;\ndef a;\ndef b;\nenddef;", 4),
        ("VEX_rev = 1.5;\n$MODE;\ndef a;\n$SCHED;", 4),
        ("VEX_rev = 1.5;\n$MODE;\ndef a;\n", 3),
        ("VEX_rev = 1.5;\n$MODE;\nenddef;", 3),
        ("VEX_rev = 1.5;\n$MODE;\ndef a;\nx = \"open;\nenddef;", 4),
        ("VEX_rev = 1.5;\n$MODE;\n\n  def a", 4),
        ("VEX_rev = 1.5;\n$MODE;\ndef a;\nstart_literal(x);\nenddef;", 4),
    ] {
        assert_eq!(wrong(text).line, line, "{text:?}: {}", wrong(text));
    }
    let scan = |inside: &str| {
        let text = format!("VEX_rev = 1.5;\n$STATION; def Mh; enddef;\n$SCHED;\nscan a;\n{inside}\nendscan;");
        VexFile::parse(&text).unwrap().schedule("Mh").unwrap_err().to_string()
    };
    assert_eq!(scan("station = Mh : 0 sec : 1 sec;"), "line 4: scan a: no start time");
    assert!(
        scan("start = 2026y400d;\nstation = Mh : 0 sec : 1 sec;")
            .starts_with("line 5: scan a: expected a time")
    );
    assert!(
        scan("start = 2026y001d;\nstation = Mh : 0 sec;")
            .starts_with("line 6: scan a: expected the end of data")
    );
}

#[test]
fn literals_and_quotes_hide_what_has_a_meaning_outside() {
    let text = "VEX_rev = 1.5;\n$EXPER; def a; contact = \"x:y;* \\\" z\";\ndec = 41d30'42.1\";\nstart_literal(p);\n \"*;$ def ;\nend_literal(p);\nenddef;";
    let file = VexFile::parse(text).unwrap();
    let statements = &file.definition("EXPER", "a").unwrap().statements;
    assert_eq!(statements[0].fields().collect::<Vec<_>>(), ["x:y;* \" z"]);
    assert_eq!(statements[1].first(), "41d30'42.1\"");
    assert_eq!((statements[2].text.as_str(), statements[2].line), ("start_literal(p)", 4));
}
