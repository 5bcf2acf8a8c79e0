use super::*;
use crate::quantile::Quantile;
use crate::workload::SizeRange;
use crate::workload::parameter::{Inside, Nowhere, Parameters};
use std::collections::BTreeMap;

pub(super) fn text(text: &str) -> Literal {
    Literal::Text(text.to_string())
}

pub(super) fn table<const N: usize>(entries: [(&str, Literal); N]) -> Literal {
    Literal::Table(entries.into_iter().map(|(key, value)| (key.to_string(), value)).collect())
}

fn step(literal: &Literal) -> Result<FlowStep, ParameterError> {
    FlowStep::read(literal, &Nowhere)
}

/// A flow of one set of ten files, half of which exist, and one client.
pub(super) fn flow(steps: Vec<Literal>) -> Flow {
    let files = table([(
        "some",
        table([("count", Literal::Integer(10)), ("prefill", text("50%")), ("size", text("8k"))]),
    )]);
    let roles = table([("client", table([("steps", Literal::Array(steps))]))]);
    let mut flow = Flow::default();
    flow.set("files", &files, &Nowhere).unwrap();
    flow.set("roles", &roles, &Nowhere).unwrap();
    flow
}

/// Returns the problem with a flow that is refused, and its place.
pub(super) fn refused(flow: &Flow) -> String {
    let refusal = flow.check().unwrap_err();
    format!("{}: {}", Inside::path(refusal.parameter, &refusal.within), refusal.expected)
}

pub(super) fn open() -> Literal {
    table([("open", text("some"))])
}

#[test]
fn steps_are_words_or_tables() {
    let close = FlowStep { act: Act::Close { handle: "file".to_string() }, probability: 1.0 };
    assert_eq!(step(&text("close")), Ok(close.clone()));
    assert_eq!(step(&table([("close", text("file"))])), Ok(close));
    let read = table([("read", text("random")), ("size", text("4k")), ("of", text("data"))]);
    let act = Act::ReadRandom { handle: "data".to_string(), size: Bytes(4096) };
    assert_eq!(step(&read).unwrap().act, act);
    let append = table([("append", text("1-16k")), ("probability", text("25%"))]);
    let size = SizeRange { low: Bytes(1), high: Bytes(16_384) };
    let act = Act::Append { handle: "file".to_string(), size };
    assert_eq!(step(&append), Ok(FlowStep { act, probability: 0.25 }));
    // A flag and a step have the same name.
    let opened = step(&table([("open", text("some")), ("append", Literal::Boolean(true))])).unwrap();
    let flags = Flags { append: true, ..Flags::default() };
    let expected =
        Act::Open { set: "some".to_string(), choose: Choice::Uniform, handle: "file".to_string(), flags };
    assert_eq!(opened.act, expected);
}

#[test]
fn choices_are_words_or_tables() {
    let choice = |literal| Choice::read(&literal, &Nowhere);
    assert_eq!(choice(text("oldest")), Ok(Choice::Oldest));
    assert_eq!(choice(table([("zipf", Literal::Float(1.2))])), Ok(Choice::Zipf(1.2)));
    let hot = table([("hot", text("10%")), ("share", Literal::Float(0.9))]);
    assert_eq!(choice(hot), Ok(Choice::Hot { files: 0.1, choices: 0.9 }));
    assert!(matches!(choice(text("latest")), Err(ParameterError::UnknownWord("choice", ..))));
    assert!(choice(table([("zipf", Literal::Integer(-1))])).is_err());
    assert!(choice(table([("hot", text("10%"))])).is_err());
}

#[test]
fn a_wrong_step_is_told_with_its_place() {
    let within = |literal: &Literal| match step(literal) {
        Err(ParameterError::Within(place, error)) => (place, *error),
        other => panic!("{other:?}"),
    };
    assert!(matches!(step(&text("fsnyc")), Err(ParameterError::UnknownWord("step", ..))));
    assert!(matches!(step(&text("open")), Err(ParameterError::Expected(_))));
    let key = |key: &str| vec![Inside::Key(key.to_string())];
    let (place, error) = within(&table([("opne", text("some")), ("choose", text("zipf"))]));
    assert_eq!(place, key("opne"));
    assert!(matches!(error, ParameterError::UnknownWord("step", ..)));
    let two = table([("open", text("some")), ("close", text("file"))]);
    assert!(matches!(step(&two), Err(ParameterError::Expected(expected)) if expected.contains("'open' and \
            'close'")));
    for probability in [text("0%"), text("120%"), Literal::Float(-0.5), Literal::Integer(2)] {
        let (place, error) = within(&table([("open", text("some")), ("probability", probability)]));
        assert_eq!(place, key("probability"), "{error:?}");
    }
    let unknown = step(&table([("open", text("some")), ("chose", text("zipf"))]));
    assert!(matches!(unknown, Err(ParameterError::UnknownInside(key, _)) if key == "chose"));
    // In a list in a list.
    let nested =
        table([("repeat", Literal::Integer(2)), ("steps", Literal::Array(vec![open(), text("clos")]))]);
    let (place, _) = within(&nested);
    assert_eq!(place, [Inside::Key("steps".to_string()), Inside::Item(1)]);
}

#[test]
fn a_plan_changes_a_flow_key_by_key() {
    let mut flow = flow(vec![open(), text("close")]);
    let before = flow.clone();
    let files =
        table([("some", table([("count", Literal::Integer(20))])), ("more", table([("size", text("1M"))]))]);
    flow.set("files", &files, &Nowhere).unwrap();
    let names: Vec<&str> = flow.files.0.iter().map(|set| set.name.as_str()).collect();
    assert_eq!(names, ["more", "some"]);
    let some = flow.files.find("some").unwrap();
    assert_eq!((some.count, some.prefill, &some.size), (20, 0.5, &before.files.0[0].size));
    let roles = table([("client", table([("workers", Literal::Integer(3))]))]);
    flow.set("roles", &roles, &Nowhere).unwrap();
    assert_eq!((flow.roles.0[0].workers, &flow.roles.0[0].steps), (3, &before.roles.0[0].steps));
    assert_eq!(flow.check(), Ok(()));
    let wrong = table([("nobody", table([]))]);
    assert!(matches!(flow.set("roles", &wrong, &Nowhere), Err(ParameterError::Within(..))));
}

#[test]
fn a_rate_is_a_number_or_a_table() {
    let rate = |literal| Pace::read(&literal, &Nowhere);
    let constant = |per_second| Pace::At(Rate { per_second, arrivals: Arrivals::Constant });
    assert_eq!(rate(Literal::Integer(200)), Ok(constant(200.0)));
    assert_eq!(rate(Literal::Float(0.5)), Ok(constant(0.5)));
    assert_eq!(rate(table([("per_second", Literal::Integer(5))])), Ok(constant(5.0)));
    let poisson = table([("per_second", Literal::Integer(5)), ("arrivals", text("poisson"))]);
    assert_eq!(rate(poisson), Ok(Pace::At(Rate { per_second: 5.0, arrivals: Arrivals::Poisson })));
    for wrong in [0.0, -3.0, 1e-300, 1e7, f64::NAN].map(Literal::Float) {
        let error = rate(wrong.clone()).unwrap_err();
        assert!(
            matches!(&error, ParameterError::Expected(expected) if expected.contains("from 0.000001 to")),
            "{error:?}"
        );
        let inside = rate(table([("per_second", wrong)])).unwrap_err();
        assert!(
            matches!(inside, ParameterError::Within(place, _) if place == [Inside::Key("per_second".into())])
        );
    }
    assert!(matches!(rate(text("200")), Err(ParameterError::Expected(_))));
    let unknown = rate(table([("per_second", Literal::Integer(5)), ("arrival", text("poisson"))]));
    assert!(matches!(unknown, Err(ParameterError::UnknownInside(key, _)) if key == "arrival"));
    let word = rate(table([("per_second", Literal::Integer(5)), ("arrivals", text("regular"))]));
    assert!(matches!(word, Err(ParameterError::Within(..))));
    assert!(rate(table([("arrivals", text("poisson"))])).is_err());
}

#[test]
fn a_rate_that_is_searched_for_meets_a_target() {
    let rate = |literal| Pace::read(&literal, &Nowhere);
    let until = "p99.9 <= 20ms".parse::<LatencyTarget>().unwrap();
    assert_eq!((until.quantile, until.within), (Quantile::P999, Nanos::from_millis(20)));
    let expected = RateSearch { until, step: Nanos::from_secs(5), arrivals: Arrivals::Constant };
    assert_eq!(rate(table([("until", text("p99.9<=20ms"))])), Ok(Pace::Highest(expected)));
    let given =
        table([("until", text("p99.9 <= 0.02")), ("step", text("1s")), ("arrivals", text("poisson"))]);
    let expected = RateSearch { until, step: Nanos::from_secs(1), arrivals: Arrivals::Poisson };
    assert_eq!(rate(given), Ok(Pace::Highest(expected)));
    let stored = serde_json::to_string(&Pace::Highest(expected)).unwrap();
    assert_eq!(serde_json::from_str::<Pace>(&stored).unwrap(), Pace::Highest(expected), "{stored}");
    for wrong in ["20ms", "p98 <= 20ms", "p99 < 20ms", "p99 <= 0", "p99 <= soon"] {
        let error = rate(table([("until", text(wrong))])).unwrap_err();
        assert!(matches!(error, ParameterError::Within(place, _) if place == [Inside::Key("until".into())]));
    }
    assert!(rate(table([("until", text("p99 <= 20ms")), ("step", text("1ms"))])).is_err());
    assert!(rate(table([("until", text("p99 <= 20ms")), ("per_second", Literal::Integer(5))])).is_err());
    // Of 300, 1 % may take longer, and of 299 two: the 297th is p99 of both.
    assert_eq!(
        [300, 299, 100, 99, 0].map(|count| "p99 <= 1s".parse::<LatencyTarget>().unwrap().allowed(count)),
        [3, 2, 1, 0, 0]
    );
    let mut flow = flow(vec![open(), text("close")]);
    let search = || table([("until", text("p99 <= 20ms"))]);
    flow.set("roles", &table([("client", table([("rate", search())]))]), &Nowhere).unwrap();
    assert_eq!(flow.check(), Ok(()));
    assert_eq!((flow.default_measure(), flow.throughput()), ("flow-capacity", "flow-capacity"));
    assert_eq!(flow.timing().ramp, Ramp::For(Nanos::from_millis(5000 + 18 * 5250)));
    let words = flow.in_words();
    assert_eq!(
        words[1],
        "1 client, as often as p99 <= 20ms allows, at constant intervals, found in steps of 5s:"
    );
    assert!(
        flow.title().starts_with("flow, 1 client at the highest rate with p99 <= 20ms, "),
        "{}",
        flow.title()
    );
    let other = table([("reader", table([("rate", search()), ("steps", Literal::Array(vec![stat()]))]))]);
    flow.set("files", &table([("more", table([]))]), &Nowhere).unwrap();
    flow.set("roles", &other, &Nowhere).unwrap();
    assert!(
        refused(&flow).starts_with("roles.reader.rate: the rate of role 'client' is searched for already")
    );
}

fn stat() -> Literal {
    table([("stat", text("more"))])
}

#[test]
fn a_rate_shows_in_words_and_decides_what_ranks() {
    let mut flow = flow(vec![open(), text("close")]);
    assert_eq!(flow.default_measure(), "flow-iterations");
    let poisson = table([("per_second", Literal::Float(12.5)), ("arrivals", text("poisson"))]);
    flow.set("roles", &table([("client", table([("rate", poisson)]))]), &Nowhere).unwrap();
    assert_eq!(flow.check(), Ok(()));
    let words = flow.in_words();
    assert_eq!(words[1], "1 client, 12.5 times a second, at random moments (poisson):");
    assert!(flow.title().starts_with("flow, 1 client at 12.5/s (poisson), "), "{}", flow.title());
    assert_eq!(flow.default_measure(), "flow-response-p99");
    assert_eq!(flow.latency().as_deref(), Some("flow-response-p999"));
    let begin = table([("client", table([("begin", Literal::Array(vec![open(), text("close")]))]))]);
    flow.set("roles", &begin, &Nowhere).unwrap();
    flow.set("roles", &table([("client", table([("rate", Literal::Integer(3))]))]), &Nowhere).unwrap();
    let words = flow.in_words();
    assert_eq!(words[1], "each of 1 client begins:");
    assert_eq!(words[4], "then, 3 times a second, at constant intervals:");
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn what_cannot_be_performed_is_refused_where_it_is() {
    let of = |key: &str, value: Literal| table([(key, value)]);
    let some = |key: &str| of(key, text("some"));
    let repeat =
        |times, steps| table([("repeat", Literal::Integer(times)), ("steps", Literal::Array(steps))]);
    let maybe = |share: &str, steps| {
        table([
            ("repeat", Literal::Integer(1)),
            ("probability", text(share)),
            ("steps", Literal::Array(steps)),
        ])
    };
    for (steps, expected) in [
        (vec![of("think", text("1s"))], "roles.client.steps: role 'client' has no timed step"),
        (
            vec![of("stat", text("soem"))],
            "roles.client.steps.0: unknown file set 'soem'; did you mean 'some'?",
        ),
        (vec![text("fsync")], "roles.client.steps.0: nothing has opened 'file' before"),
        (vec![open(), open()], "roles.client.steps.1: 'file' is still open"),
        (vec![open()], "roles.client.steps: an iteration of role 'client' must end with the files open"),
        (vec![some("unlink")], "roles.client.steps: an iteration of role 'client' removes 1 files"),
        (
            vec![some("create"), text("close")],
            "roles.client.steps: an iteration of role 'client' adds 1 files",
        ),
        (
            vec![repeat(6, vec![some("unlink")])],
            "roles.client.steps.0: it removes more files of set 'some' than there are",
        ),
        (
            vec![repeat(6, vec![some("create"), text("close")]), repeat(6, vec![some("unlink")])],
            "roles.client.steps.0: it creates more files in set 'some' than it has names, 10",
        ),
        (vec![repeat(0, vec![some("stat")])], "roles.client.steps.0: `repeat` must be at least 1"),
        (vec![repeat(2, vec![open()])], "roles.client.steps.0: a repeated list must end with the files open"),
        (
            vec![table([("open", text("some")), ("probability", text("50%"))]), text("close")],
            "roles.client.steps.0: a step that opens or closes a file cannot have a probability",
        ),
        (
            vec![open(), of("append", Literal::Integer(0)), text("close")],
            "roles.client.steps.1: a read or write must have a size from 1 to 64M, not 0",
        ),
        (
            vec![open(), table([("read", text("random")), ("size", text("16k"))]), text("close")],
            "roles.client.steps.1: 16k do not fit into every file of set 'some'",
        ),
        (
            vec![
                open(),
                of("truncate", Literal::Integer(0)),
                table([("read", text("random")), ("size", text("4k"))]),
                text("close"),
            ],
            "roles.client.steps.2: the sizes of the files of set 'some' must be known, but a step `truncate` \
             changes them",
        ),
        (
            vec![
                table([("open", text("some")), ("direct", Literal::Boolean(true))]),
                table([("read", text("random")), ("size", text("2k"))]),
                text("close"),
            ],
            "roles.client.steps.1: direct I/O has sizes in multiples of 4k, not 2k",
        ),
        (
            vec![
                table([("link", text("some")), ("to", text("some"))]),
                table([("rename", text("some")), ("over", Literal::Boolean(true))]),
            ],
            "roles.client.steps.1: a rename over a file does nothing if both names are links of the same \
             file",
        ),
        (
            vec![some("stat"), of("post", text("done"))],
            "roles.client.steps.1: no other role waits for 'done'",
        ),
        (vec![some("stat"), of("await", text("done"))], "roles.client.steps.1: no other role posts 'done'"),
    ] {
        let said = refused(&flow(steps));
        assert!(said.starts_with(expected), "{said}");
    }
    // As many are created as removed, on average.
    let balanced =
        vec![maybe("25%", vec![some("create"), text("close")]), maybe("25%", vec![some("unlink")])];
    assert_eq!(flow(balanced).check(), Ok(()));
    let whole = vec![some("create"), of("write", text("whole")), text("close"), some("unlink")];
    assert_eq!(flow(whole).check(), Ok(()));
}

#[test]
fn a_file_is_not_copied_onto_itself() {
    let named = |key: &str, handle: &str| table([(key, text("some")), ("as", text(handle))]);
    let copy = |from: &str, to: &str| table([("copy_file_range", text(from)), ("to", text(to))]);
    let closed = |mut steps: Vec<Literal>| {
        steps.extend([table([("close", text("a"))]), table([("close", text("b"))])]);
        steps.push(table([("unlink", text("some"))]));
        flow(steps)
    };
    let (open, create) = (|handle| named("open", handle), |handle| named("create", handle));
    let is_refused = |flow: &Flow| refused(flow).contains("copies a part of a file onto itself");
    // What was created last is none of those that are open; a file that is opened later may be that one.
    assert_eq!(closed(vec![open("a"), create("b"), copy("a", "b")]).check(), Ok(()));
    assert!(is_refused(&closed(vec![create("a"), open("b"), copy("a", "b")])));
    assert!(is_refused(&closed(vec![open("a"), create("b"), copy("b", "b")])));
}

#[test]
fn a_flow_has_an_end() {
    let steps = |count| flow(vec![table([("stat", text("some"))]); count]);
    assert_eq!(steps(1000).check(), Ok(()));
    assert!(
        refused(&steps(1001))
            .starts_with("roles.client.steps: a flow has at most 1000 steps in all, not 1001")
    );
}

#[test]
fn a_file_is_not_chosen_before_any_can_exist() {
    let of_empty = |steps: Vec<Literal>| {
        let mut flow = flow(steps);
        flow.files.0[0].prefill = 0.0;
        flow
    };
    let said = refused(&of_empty(vec![open(), text("close")]));
    assert!(
        said.starts_with("roles.client.steps.0: it chooses a file of set 'some' before any can exist"),
        "{said}"
    );
    let (create, unlink) = (table([("create", text("some"))]), table([("unlink", text("some"))]));
    assert_eq!(of_empty(vec![create.clone(), text("close"), unlink.clone()]).check(), Ok(()));
    assert!(refused(&of_empty(vec![unlink, create, text("close")])).contains("steps.0: it chooses"));
    // Each of many workers needs one.
    let mut shared =
        flow(vec![table([("unlink", text("some"))]), table([("create", text("some"))]), text("close")]);
    assert_eq!(shared.check(), Ok(()));
    shared.roles.0[0].workers = 20;
    assert!(refused(&shared).contains("for each of 20 workers"), "{}", refused(&shared));
}

#[test]
fn files_that_come_and_go_belong_to_one_role() {
    let mut flow =
        flow(vec![table([("create", text("some"))]), text("close"), table([("unlink", text("some"))])]);
    let other =
        table([("scanner", table([("steps", Literal::Array(vec![table([("stat", text("some"))])]))]))]);
    flow.set("roles", &other, &Nowhere).unwrap();
    let said = refused(&flow);
    assert!(said.contains("only one role may use set 'some'") && said.contains("'scanner'"), "{said}");
    // Those that stay can be for all.
    flow.roles.0.remove(0);
    assert_eq!(flow.check(), Ok(()));
}

#[test]
fn impossible_sets_are_refused() {
    let of = |change: fn(&mut FileSet)| {
        let mut flow = flow(vec![open(), text("close")]);
        change(&mut flow.files.0[0]);
        refused(&flow)
    };
    assert!(of(|set| set.count = 0).starts_with("files.some.count: "));
    assert!(of(|set| set.per_directory = Some(0)).starts_with("files.some.per_directory: "));
    assert!(of(|set| set.limit = Bytes(0)).starts_with("files.some.limit: "));
    assert!(of(|set| set.size = FileSize::exactly(Bytes(u64::MAX))).starts_with("files.some.size: "));
    let sizes = |literal| FileSize::read(&literal, &Nowhere);
    assert!(sizes(text("16k-4k")).is_err());
    assert!(sizes(table([("mean", text("16k")), ("gamma", Literal::Integer(0))])).is_err());
    let gamma = table([("mean", text("16k")), ("gamma", Literal::Float(1.5))]);
    assert_eq!(sizes(gamma), Ok(FileSize::Gamma { mean: Bytes(16_384), gamma: 1.5 }));
    assert_eq!(sizes(text("home")), Ok(FileSize::Model(crate::workload::TreeModel::Home)));
    assert_eq!(Flow::default().check().unwrap_err().parameter, "roles");
}

#[test]
fn a_flow_is_stored_as_it_is() {
    let flow = flow(vec![open(), table([("read", text("whole"))]), text("close")]);
    let stored = serde_json::to_string(&flow).unwrap();
    assert_eq!(serde_json::from_str::<Flow>(&stored).unwrap(), flow);
}

#[test]
fn a_flow_is_told_in_words() {
    let said = flow(vec![
        table([("open", text("some")), ("choose", text("newest"))]),
        table([
            ("repeat", Literal::Integer(3)),
            ("steps", Literal::Array(vec![table([("append", text("1-4k"))])])),
        ]),
        table([("fsync", text("file")), ("probability", text("12.5%"))]),
        text("close"),
    ]);
    assert_eq!(
        said.in_words(),
        [
            "files some: 10 files of 8k, in one directory, 5 there at the beginning, never created or \
             removed",
            "each of 1 client, over and over:",
            "  open the newest file of some",
            "  3 times:",
            "    append 1 to 4k to the file",
            "  in 12.5% of the iterations, fsync the file",
            "  close the file",
        ]
    );
}

#[test]
fn every_step_has_words_of_its_own() {
    let some = |key: &str| table([(key, text("some"))]);
    let size = |key: &str| table([(key, text("4k"))]);
    let two = |key: &str, value: &str, other: &str, to: &str| table([(key, text(value)), (other, text(to))]);
    let all = [
        some("open"),
        some("create"),
        two("read", "whole", "of", "file"),
        two("read", "next", "size", "4k"),
        two("read", "random", "size", "4k"),
        two("write", "whole", "of", "file"),
        size("append"),
        size("overwrite"),
        text("fsync"),
        text("fdatasync"),
        text("close"),
        some("fsync_directory"),
        some("rename"),
        two("rename", "some", "to", "other"),
        two("link", "some", "to", "other"),
        some("unlink"),
        some("stat"),
        some("readdir"),
        size("setxattr"),
        size("mmap_read"),
        size("mmap_write"),
        two("copy_file_range", "file", "to", "other"),
        size("fallocate"),
        size("truncate"),
        table([("think", text("1s"))]),
        some("post"),
        some("await"),
    ];
    let words: BTreeMap<String, Literal> =
        all.iter().map(|literal| (step(literal).unwrap().written(), literal.clone())).collect();
    assert_eq!(words.len(), all.len(), "{:?}", words.keys());
}
