use super::*;

fn about() -> About {
    let text = |text: &str| text.to_owned();
    About { name: text("<scan>"), format: text("vdif"), time: text("then"), looked: text("all") }
}

fn survey(channels: u32, codes: usize, blocks: u64) -> Survey {
    let column = |n: u32| Column {
        thread: (n / channels) as u16,
        channel: n % channels,
        samples: 100,
        mean: 0.0,
        rms: 1.0,
        codes: vec![25; codes],
        levels: (0..codes).map(|code| code as f32).collect(),
        blocks,
        spectrum: if blocks > 0 { vec![1e-6; 9] } else { Vec::new() },
        autocorrelation: if blocks > 0 { vec![1.0, 0.1, 0.0, 0.0] } else { Vec::new() },
    };
    Survey {
        rows: (0, 1000),
        looked: 1000,
        sample_rate: 1_000_000,
        bits: 2,
        complex: false,
        block: 8,
        frequencies: (0..9).map(f64::from).collect(),
        threads: vec![0, 1],
        channels,
        columns: (0..2 * channels).map(column).collect(),
        loss: vec![vec![None, Some(0.0), Some(0.005), Some(0.05), Some(0.3), Some(1.0)]; 2],
        frames: 100,
        missing: 5,
        not_shown: None,
        repaired: 0,
        notes: Vec::new(),
        interrupted: false,
    }
}

#[test]
fn every_kind_of_survey_is_a_whole_drawing() {
    for (channels, codes, blocks, lines) in
        [(1, 4, 9, 4), (1, 256, 9, 6), (4, 2, 9, 16), (64, 4, 9, 18), (1, 4, 0, 0)]
    {
        let svg = picture(&about(), &survey(channels, codes, blocks));
        assert!(svg.starts_with("<svg xmlns") && svg.trim_end().ends_with("</svg>"));
        assert!(!svg.contains("NaN") && !svg.contains("inf") && svg.contains("&lt;scan&gt;"));
        assert_eq!(
            svg.matches("<path").count(),
            lines,
            "{channels} channels, {codes} codes, {blocks} blocks"
        );
        for class in ["q0", "q2", "q3", "q4", "q6", "none"] {
            assert_eq!(svg.matches(&format!("<rect class=\"{class}\"")).count(), 3, "{class}");
        }
    }
}

#[test]
fn peaks_are_kept_where_points_are_left_out() {
    let mut values = vec![0.0; 100_000];
    values[77_777] = 5.0;
    let found = peaks(&values);
    assert!(found.len() <= MAX_POINTS);
    assert!(found.contains(&(77_777, 5.0)));
}

#[test]
fn bars_reach_from_the_lowest_to_the_highest() {
    assert_eq!(bars(&[0.0, 1.0, 2.0, 7.0], 4), ("▁▂▃█".to_owned(), 0.0, 7.0));
    assert_eq!(bars(&[0.0, 9.0, 1.0, 1.0], 2).0, "█▁");
    assert_eq!(bars(&[3.0], 64).0, "▁");
    assert_eq!(bars(&[], 64).0, "");
    assert_eq!(losses(&[Some(0.0), None, None, None, Some(0.05), Some(0.2), Some(1.0), Some(0.0)]), "·-▒█");
}
