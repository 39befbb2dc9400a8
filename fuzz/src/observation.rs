//! Targets for schedules of observations: whatever is read has scans in order, with rates and times in bounds.

use skyhaul_core::observation::check::{CheckLimits, check};
use skyhaul_core::observation::scan::{MAX_SCANS, ScheduleFormat, StationSchedule};
use skyhaul_core::observation::snap::{self, SnapProcedures};
use skyhaul_core::observation::vex::VexFile;

fn sound(schedule: &StationSchedule) {
    assert!(schedule.scans.len() <= MAX_SCANS);
    assert!(schedule.scans.is_sorted_by_key(|scan| scan.start), "{schedule:?}");
    let limits = CheckLimits {
        now: Some(1_795_694_400),
        max_rate: Some(1),
        free_bytes: Some(1),
        ..CheckLimits::default()
    };
    let checked = check(&schedule.scans, &limits);
    assert!(checked.is_sorted_by_key(|checked| checked.total_bytes));
    for scan in checked {
        assert!(scan.problems.iter().all(|problem| !problem.to_string().is_empty()));
    }
}

pub(crate) fn vex(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = ScheduleFormat::detect(&text);
    let Ok(file) = VexFile::parse(&text) else { return };
    for station in file.stations() {
        if let Ok(schedule) = file.schedule(&station) {
            assert_eq!(schedule.station, station);
            sound(&schedule);
        }
    }
}

pub(crate) fn vex_seeds() -> Vec<Vec<u8>> {
    let first = "VEX_rev = 1.5;\n$EXPER; def e; exper_name = e; text = \"a;b\"; enddef;\n$STATION; def Mh; ref $SITE = M; \
                 enddef;\n$SITE; def M; site_name = M; enddef;\n$FREQ; def f; sample_rate = 32.000 Ms/sec;\nchan_def = : \
                 8400 MHz : U : 16.0 MHz : &CH01; enddef;\n$TRACKS; def t; track_frame_format = VDIF/8032/2; fanout_def = : \
                 &CH01 : sign : 1 : 2; enddef; def s; S2_recording_mode = 32x4-2; enddef;\n$MODE; def m; ref $FREQ = f : \
                 Mh; ref $TRACKS = t : Mh; enddef;\n$SCHED; scan a; start = 2026y330d12h00m00s; mode = m; source = x; station \
                 = Mh : 0 sec : 60 sec : 0.0 GB : : &ccw : 1; endscan;\n";
    let second = "VEX_rev = 2.0;\n$BITSTREAMS; def b; stream_sample_rate = 64 Ms/sec; stream_def = &CH01 : sign : 0 : 0; \
                  enddef;\n$DATASTREAMS; def d; datastream = &D : VDIF; thread = &D : &T : 0 : 16 : 64.0 Ms/sec : 2 : \
                  complex : 8000; enddef;\n$MODE; def m; ref $DATASTREAMS = d; ref $BITSTREAMS = b : Mh; enddef;\n$SCHED; \
                  scan a; start = 2026y330d12h00m00.5s; mode = m; station = Mh : -5 sec : 60 sec; endscan;\n";
    [first, second].map(|text| text.as_bytes().to_vec()).to_vec()
}

pub(crate) fn snap(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = ScheduleFormat::detect(&text);
    let procedures = SnapProcedures::parse(&text).unwrap_or_default();
    if let Ok(schedule) = snap::parse(&text, &procedures) {
        sound(&schedule);
    }
}

pub(crate) fn snap_seeds() -> Vec<Vec<u8>> {
    let text = "\" N26C3 2026 METSAHOV M Mh\ndefine setupsx 0\nfb_mode=vdif,0xffffffff,,64.0\nmk6=mode=VDIF_8192-8192-64-2\n\
                enddef\nscan_name=no0001,n26c3,mh,60,60\nsource=3c84,031948.2,413042.1,2000.0\nsetupsx\n!2026.330.12:00:00\n\
                !+5s\ndisk_record=on\ndata_valid=on\n!2026.330.12:01:00.5\ndata_valid=off\ndisk_record=off\npostob\n";
    vec![text.as_bytes().to_vec()]
}
