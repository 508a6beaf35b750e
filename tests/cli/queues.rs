//! Queue orders that go by request class: what the workload must have for them, and who goes first.

use crate::bad_input::refused;
use crate::support::{Ran, SMALL, Scratch};

const HEAD: &str = "arrival_s,input_tokens,output_tokens,class";

/// Requests of these classes, a second apart.
fn trace(classes: &[&str]) -> String {
    let rows = classes.iter().enumerate();
    let rows: Vec<String> = rows
        .map(|(second, class)| format!("{second},512,16,{class}"))
        .collect();
    format!("{HEAD}\n{}\n", rows.join("\n"))
}

/// Checks the small scenario with these overrides on a trace of these classes.
fn check(classes: &[&str], sets: &[&str]) -> Ran {
    let scratch = Scratch::new();
    scratch.write("t.csv", &trace(classes));
    let mut args = vec!["check", "s.yaml", "--set", "workload={trace: t.csv}"];
    for set in sets {
        args.extend(["--set", set]);
    }
    scratch.pdsim(&args)
}

fn noted(ran: &Ran, note: &str) {
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(format!("{}{}", ran.out, ran.err).contains(note), "{ran:?}");
}

fn silent(ran: &Ran, word: &str) {
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!format!("{}{}", ran.out, ran.err).contains(word), "{ran:?}");
}

#[test]
fn priority_without_classes_is_refused() {
    let missing = [
        "colocated.queue: is of no effect",
        "no request of this workload has a class",
        "use a trace with classes",
    ];
    for order in ["priority", "{priority: {most_passes: 4}}"] {
        refused(&format!("systems.colocated.queue={order}"), &missing);
    }
    let order = "systems.colocated.queue=priority";
    check(&["", ""], &[order]).refused(&missing);
    silent(&check(&["gold", "silver"], &[order]), "no effect");
    noted(
        &check(&["gold", "gold"], &[order]),
        "colocated: the queue order `priority` is first come, first served: all requests are of class `gold`",
    );
}

#[test]
fn one_deadline_for_all_is_refused_where_prompts_queue_in_order_of_arrival() {
    let two = "systems.colocated.queue={earliest_deadline: {ttft: [250 ms, 5 s]}}";
    let one = "systems.colocated.queue={earliest_deadline: {ttft: [250 ms]}}";
    for order in [one, two] {
        refused(
            order,
            &[
                "colocated.queue: is of no effect",
                "no request of this workload has a class",
                "use a trace with classes",
            ],
        );
    }
    silent(&check(&["gold", "silver"], &[two]), "of no effect");
    check(&["gold", "silver"], &[one]).refused(&[
        "colocated.queue: is of no effect: all request classes are promised the same",
        "`earliest_deadline: {ttft: [250 ms, 5 s]}`",
    ]);
    noted(
        &check(&["gold", "gold"], &[two]),
        "all requests are of class `gold`",
    );
    // Prompts that wait for decode blocks first come to the queue in another order.
    let late = [
        "systems.split.queue={earliest_deadline: {ttft: [250 ms]}}",
        "systems.split.reservation=early",
    ];
    silent(&check(&["", ""], &late), "of no effect");
    silent(
        &check(
            &["", ""],
            &[late[0], "systems.split.decode.preemption=return_to_prefill"],
        ),
        "of no effect",
    );
}

#[test]
fn an_order_that_another_point_of_the_sweep_needs_is_noted_instead() {
    let scratch = Scratch::new();
    scratch.write("plain.csv", &trace(&["", ""]));
    scratch.write("t.csv", &trace(&["gold", "silver"]));
    let swept = |axis: &str, order: &str| {
        scratch.pdsim(&[
            "check",
            "s.yaml",
            "--set",
            "workload={trace: plain.csv}",
            "--set",
            &format!("systems.split.queue={order}"),
            "--set",
            &format!("sweep={{{axis}}}"),
        ])
    };
    let deadlines = "{earliest_deadline: {ttft: [1 s, 5 s]}}";
    let reservations = "systems.split.reservation: [at_handoff, early]";
    noted(
        &swept(reservations, deadlines),
        "at sweep value `systems.split.reservation: at_handoff`, systems.split.queue is of no effect",
    );
    let ran = swept(reservations, "priority");
    assert_eq!(
        ran.code, 2,
        "no reservation gives a request a class: {ran:?}"
    );
    // The small scenario's own workload would forbid a trace beside it.
    let keys = SMALL.lines().filter(|line| {
        !["  lengths", "  rate", "  requests"]
            .iter()
            .any(|key| line.starts_with(key))
    });
    let text = keys.collect::<Vec<_>>().join("\n");
    scratch.write("s.yaml", &text.replace("workload:", "workload: {}"));
    let ran = scratch.pdsim(&[
        "check",
        "s.yaml",
        "--set",
        "systems.split.queue=priority",
        "--set",
        "sweep={workload.trace: [plain.csv, t.csv]}",
    ]);
    noted(
        &ran,
        "at sweep value `workload.trace: plain.csv`, systems.split.queue is of no effect",
    );
}

#[test]
fn the_note_says_which_class_goes_first() {
    let classes = ["gold", "silver", "bronze"];
    noted(
        &check(&classes, &["systems.colocated.queue=priority"]),
        "classes of t.csv by priority, first goes first: `gold` 0, `silver` 1, `bronze` 2, in order of first appearance",
    );
    noted(
        &check(
            &classes,
            &["systems.colocated.queue={earliest_deadline: {ttft: [250 ms, 5 s]}}"],
        ),
        "colocated: classes of t.csv and the TTFT promised to each: `gold` 0.25 s, `silver` 5 s, `bronze` 5 s",
    );
    silent(&check(&classes, &["systems.colocated.queue=fcfs"]), "gold");
    noted(
        &check(&["", "gold", ""], &["systems.colocated.queue=priority"]),
        "first goes first: those without one 0, `gold` 1, in order of first appearance",
    );
}

#[test]
fn classes_are_ranked_by_name() {
    let classes = ["bronze", "gold", "7"];
    let check = |order: &str| check(&classes, &[&format!("systems.colocated.queue={order}")]);
    silent(&check("{priority: [7, gold, bronze]}"), "classes of");
    noted(
        &check("{priority: {classes: [7], most_passes: 3}}"),
        "classes of t.csv that `queue` does not name go last, as equals: `bronze`, `gold`",
    );
    check("{priority: [gold, bronce]}").refused(&[
        "colocated.queue.priority: names the class `bronce`, which no request of the trace has, did you mean `bronze`?",
        "(its classes: bronze, gold, 7)",
    ]);
    check("{priority: [gold, gold]}").refused(&["names the class `gold` twice"]);
    check("{priority: []}").refused(&["names no class", "`[gold, silver]`"]);
    check("{priority: gold}")
        .refused(&["expected a list of request classes such as `[gold, silver]`"]);
    refused(
        "systems.colocated.queue={priority: [gold]}",
        &["no request of this workload has a class"],
    );
}

/// Classes of the requests of one system, in the order of their first tokens.
fn order_of_first_tokens(order: &str) -> Vec<String> {
    let scratch = Scratch::new();
    let text = trace(&["batch", "batch", "chat", "gold"]);
    // All at once on one instance that takes a prompt at a time.
    scratch.write(
        "t.csv",
        &text
            .replace("\n1,", "\n0,")
            .replace("\n2,", "\n0,")
            .replace("\n3,", "\n0,"),
    );
    let order = format!("systems.colocated.queue={order}");
    let sets = [
        "workload={trace: t.csv}",
        "systems.colocated.pool={instances: 1, gpu: a100-80g-sxm, max_step_prompts: 1}",
        &order,
    ];
    let args = sets.iter().flat_map(|set| ["--set", *set]);
    let ran = scratch.pdsim(
        &["run", "s.yaml"]
            .into_iter()
            .chain(args)
            .collect::<Vec<_>>(),
    );
    assert_eq!(ran.code, 0, "{ran:?}");
    let csv = scratch.read("output/small/requests.csv");
    let mut rows = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = rows.next().expect("a table has a head");
    let column = |name: &str| {
        let at = head.iter().position(|key| *key == name);
        at.expect("requests.csv has this column")
    };
    let (system, class, ttft) = (column("system"), column("class"), column("ttft_ms"));
    let mut times: Vec<(f64, String)> = rows
        .filter(|row| row[system] == "colocated")
        .map(|row| {
            let ms = row[ttft].parse().expect("every request has a first token");
            (ms, row[class].to_owned())
        })
        .collect();
    times.sort_by(|a, b| a.0.total_cmp(&b.0));
    times.into_iter().map(|(_, class)| class).collect()
}

#[test]
fn a_class_named_first_goes_first() {
    assert_eq!(order_of_first_tokens("priority"), ["0", "0", "1", "2"]);
    assert_eq!(
        order_of_first_tokens("{priority: [gold, chat]}"),
        ["2", "1", "0", "0"]
    );
}
