//! Windows, limits, samples, scales: what a reader may be asked for.

use super::*;

fn kept(options: &ReadOptions) -> (Vec<u64>, Vec<u32>, ReadReport) {
    let trace = read_with(ten(), options).unwrap();
    let seconds = arrivals_ps(&trace)
        .iter()
        .map(|ps| ps / 1_000_000_000_000)
        .collect();
    let inputs = trace.stream().map(|request| request.input_tokens).collect();
    (seconds, inputs, trace.report)
}

#[test]
fn a_window_keeps_its_arrivals_and_starts_at_zero() {
    let window = Some(Window {
        from: seconds(3),
        to: Some(seconds(6)),
    });
    let (at, inputs, report) = kept(&ReadOptions {
        window,
        ..ReadOptions::default()
    });
    assert_eq!((at, inputs), (vec![0, 1, 2], vec![4, 5, 6]));
    assert_eq!(
        (
            report.rows_read(),
            report.dropped[&DropReason::OutsideWindow]
        ),
        (10, 7)
    );
}

#[test]
fn a_limit_stops_the_read() {
    let (at, _, report) = kept(&ReadOptions {
        limit: Some(4),
        ..ReadOptions::default()
    });
    assert_eq!(
        (at, report.rows_read(), report.stopped_at_limit),
        (vec![0, 1, 2, 3], 4, true)
    );
}

#[test]
fn thinning_keeps_sessions_whole_and_the_asked_share() {
    let rows: String = (0..4000)
        .map(|i| format!("{i},1,1,,s{}\n", i / 4))
        .collect();
    let text = format!("arrival_s,input_tokens,output_tokens,class,session\n{rows}");
    let options = ReadOptions {
        sample: Some(0.3),
        ..ReadOptions::default()
    };
    let trace = read_with(text, &options).unwrap();
    let sessions: Vec<u64> = arrivals_ps(&trace)
        .iter()
        .map(|ps| ps / 4_000_000_000_000)
        .collect();
    for session in &sessions {
        assert_eq!(sessions.iter().filter(|s| *s == session).count(), 4);
    }
    // 300 of 1000 sessions, within four standard deviations.
    assert!(
        (242..358).contains(&(sessions.len() / 4)),
        "{}",
        sessions.len() / 4
    );
}

#[test]
fn time_is_scaled_or_stretched_to_a_rate() {
    let (at, ..) = kept(&ReadOptions {
        time_scale: Some(2.0),
        ..ReadOptions::default()
    });
    assert_eq!(at[9], 18);
    let options = ReadOptions {
        rate: Some(0.1),
        ..ReadOptions::default()
    };
    let trace = read_with(ten(), &options).unwrap();
    assert!((trace.rate().unwrap() - 0.1).abs() < 1e-12);
    assert_eq!(*arrivals_ps(&trace).last().unwrap(), 90_000_000_000_000);
}

#[test]
fn shuffled_arrivals_are_poisson_at_the_same_mean_and_keep_the_lengths() {
    let rows: String = (0..20_000)
        .map(|i| format!("{i},{},5\n", i % 97 + 1))
        .collect();
    let options = ReadOptions {
        shuffle_arrivals: true,
        seed: 3,
        ..ReadOptions::default()
    };
    let trace = read_with(format!("{PDSIM}{rows}"), &options).unwrap();
    let requests = requests(&trace);
    let gaps: Vec<f64> = requests
        .windows(2)
        .map(|p| (p[1].arrival - p[0].arrival).as_secs_f64())
        .collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    assert!((mean - 1.0).abs() < 0.04, "mean gap {mean}");
    assert!(
        (variance.sqrt() / mean - 1.0).abs() < 0.05,
        "variation {}",
        variance.sqrt() / mean
    );
    assert!(
        requests
            .iter()
            .enumerate()
            .all(|(i, r)| r.input_tokens as usize == i % 97 + 1)
    );
}

#[test]
fn long_contexts_are_dropped_or_cut() {
    let text = format!("{PDSIM}0,90,10\n1,91,10\n2,5,200\n");
    let beyond = |beyond| {
        let max_context = Some(MaxContext {
            tokens: 100,
            beyond,
        });
        let options = ReadOptions {
            max_context,
            ..ReadOptions::default()
        };
        read_with(text.clone(), &options).unwrap()
    };
    let dropped = beyond(Beyond::Drop);
    assert_eq!(
        (
            dropped.len(),
            dropped.report.dropped[&DropReason::BeyondMaxContext]
        ),
        (1, 2)
    );
    let cut: Vec<(u32, u32)> = beyond(Beyond::Truncate)
        .stream()
        .map(|r| (r.input_tokens, r.output_tokens))
        .collect();
    assert_eq!(cut, [(90, 10), (90, 10), (1, 99)]);
}

#[test]
fn failed_requests_can_keep_their_prefill() {
    let options = ReadOptions {
        failed: Failed::PrefillOnly,
        ..ReadOptions::default()
    };
    let trace = read_with(format!("{PDSIM}0,5,0\n1,0,0\n2,7,3\n"), &options).unwrap();
    let lengths: Vec<(u32, u32)> = trace
        .stream()
        .map(|r| (r.input_tokens, r.output_tokens))
        .collect();
    assert_eq!(lengths, [(5, 1), (7, 3)]);
    assert!(
        trace
            .report
            .warnings
            .contains(&ReadWarning::PrefillOnly { rows: 1 })
    );
}
