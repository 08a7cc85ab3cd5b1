//! What people see when a file is wrong: file, line, caret, what was expected, how to mend it.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use miette::{GraphicalReportHandler, GraphicalTheme};
use vruntime_workload::rtapp::{self, Options};
use vruntime_workload::{Error, check, recording, scenario};

fn render(error: &Error) -> String {
    let mut text = String::new();
    GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor())
        .with_width(100)
        .with_links(false)
        .render_report(&mut text, error)
        .expect("a string takes everything");
    // Trailing blanks are of no interest, and editors remove them.
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Compares with the snapshot of this name.
fn compare(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    // The expression would be the whole list of inputs, which the messages show anyway.
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

/// The error of every input, one below the other.
fn report<'a>(inputs: &[&'a str], read: impl Fn(&'a str) -> Result<(), Error>) -> String {
    let mut all = String::new();
    for input in inputs {
        let error = read(input).expect_err(input);
        for error in error.all() {
            assert!(!error.message().is_empty() && !error.label().is_empty(), "{input}: {error:?}");
            assert!(error.span().is_some() && error.help().is_some(), "no place or no mend, {input}: {error:?}");
        }
        writeln!(all, "{}\n", render(&error)).expect("a string takes everything");
    }
    all
}

fn rtapp_file(text: &str) -> Result<(), Error> {
    rtapp::parse("web.json", text.as_bytes(), &Options::default()).map(|_| ())
}

#[test]
fn json_that_is_none() {
    compare(
        "json_that_is_none",
        &report(
            &[
                "",
                "{ \"tasks\" : { \"a\" : { \"run\" : 10",
                "{ \"tasks\" : { \"a\" : { \"run\" 10 } } }",
                "{ \"tasks\" : { \"a\" : { \"run\" : 10 \"sleep\" : 10 } } }",
                "{ tasks : {} }",
                "{ \"tasks\" : { \"a\" : { \"run\" : 10ms } } }",
                "{ \"tasks\" : { \"a\" : { \"lock\" : mutex } } }",
                "{ \"tasks\" : { \"a\" : { \"lock\" : \"m } } }\n",
                "{ \"tasks\" : { \"a\" : { \"lock\" : \"\\q\" } } }",
                "{ \"tasks\" : /* { } }",
                "{ \"tasks\" : { \"a\" : { \"resume\", \"run\" : 10 } } }",
                "{ \"tasks\" : { \"a\" : { \"suspend\" : \"\\ud800\" } } }",
            ],
            rtapp_file,
        ),
    );
}

#[test]
fn json_that_is_too_deep() {
    let deep = "[".repeat(100_000);
    let error = rtapp_file(&deep).expect_err("it is too deep");
    assert_eq!(error.message(), "more than 64 objects inside each other");
    assert_eq!(error.location(), Some((1, 65)));
}

#[test]
fn text_that_is_none() {
    let error = rtapp::parse("web.json", b"{ \"tasks\" : \"\xff\xfe\" }", &Options::default()).expect_err("not UTF-8");
    compare("text_that_is_none", &render(&error));
}

#[test]
fn grammar_of_rtapp() {
    compare(
        "grammar_of_rtapp",
        &report(
            &[
                "[]",
                "{ \"global\" : { \"duration\" : 5 } }",
                "{ \"task\" : { \"a\" : { \"run\" : 10 } } }",
                "{ \"tasks\" : { \"a\" : { \"run\" : \"10\" } } }",
                "{ \"tasks\" : { \"a\" : { \"run\" : 10.5 } } }",
                "{ \"tasks\" : { \"a\" : { \"run\" : -2 } } }",
                "{ \"tasks\" : { \"a\" : { \"sleep\" : 99999999999999999999999 } } }",
                "{ \"tasks\" : { \"a\" : { \"instance\" : 1e12, \"run\" : 10 } } }",
                "{ \"tasks\" : { \"a\" : { \"instance\" : 2000000, \"run\" : 10 },\n  \"b\" : { \"instance\" : 2000000, \"run\" : 10 } } }",
                "{ \"tasks\" : { \"a\" : { \"instance\" : 2000000, \"run\" : 1, \"sleep\" : 1, \"r\" : 1, \"run\" : 1, \
                 \"run\" : 1, \"run\" : 1, \"run\" : 1, \"run\" : 1, \"timer\" : { \"ref\" : \"unique\", \"period\" : 10 } } } }",
                "{ \"tasks\" : { \"a\" : { \"policy\" : \"SCHED_FIF\", \"run\" : 10 } } }",
                "{ \"tasks\" : { \"a\" : { \"priority\" : 30, \"run\" : 10 } } }",
                "{ \"tasks\" : { \"a\" : { \"policy\" : \"SCHED_RR\", \"priority\" : 0, \"run\" : 10 } } }",
                "{ \"tasks\" : { \"a\" : { \"policy\" : \"SCHED_DEADLINE\", \"run\" : 10 } } }",
                "{ \"tasks\" : { \"a\" : { \"policy\" : \"SCHED_DEADLINE\", \"dl-runtime\" : 9, \"dl-period\" : 5, \"run\" : 10 } } }",
                "{ \"tasks\" : { \"a\" : { \"cpus\" : \"0-3\", \"run\" : 10 } } }",
                "{ \"tasks\" : { \"a\" : { \"util_min\" : 800, \"util_max\" : 100, \"run\" : 10 } } }",
                "{ \"tasks\" : { \"a\" : { \"taskgroup\" : \"/a/../b\", \"run\" : 10 } } }",
                "{ \"tasks\" : { \"worker\" : { \"run\" : 10 }, \"b\" : { \"fork\" : \"wroker\" } } }",
                "{ \"tasks\" : { \"a\" : { \"lock_order\" : [\"m0\"], \"exec\" : 100 } } }",
                "{ \"tasks\" : { \"a\" : { \"timer\" : { \"ref\" : \"t\" } } } }",
                "{ \"tasks\" : { \"a\" : { \"wait\" : \"q\" } } }",
                "{ \"tasks\" : { \"a\" : { \"lock\" : \"\" } } }",
                "{ \"tasks\" : { \"a\" : 3 } }",
                "{ \"global\" : { \"calibration\" : \"CPU\" }, \"tasks\" : { \"a\" : { \"run\" : 10 } } }",
            ],
            rtapp_file,
        ),
    );
}

#[test]
fn several_errors_at_once_in_the_order_of_the_file() {
    let text = "{ \"tasks\" : {\n \"a\" : { \"run\" : true },\n \"b\" : { \"lock\" : 3 } },\n \"global\" : { \"duration\" : \"5\" } }";
    let error = rtapp_file(text).expect_err("three things are wrong");
    assert_eq!(error.all().filter_map(Error::location).collect::<Vec<_>>(), [(2, 18), (3, 19), (4, 28)]);
}

#[test]
fn the_number_of_errors_is_bounded() {
    let text = format!("{{ \"tasks\" : {{ \"a\" : {{ {} }} }} }}", "\"run\" : true,".repeat(10_000));
    assert_eq!(rtapp_file(&text).expect_err("all are wrong").all().count(), 100);
}

fn no_files(path: &Path) -> io::Result<Vec<u8>> {
    match path.to_str() {
        Some("bad.json") => Ok(b"{ \"tasks\" : { \"a\" : { \"run\" : -2 } } }".to_vec()),
        _ => Err(io::Error::from(io::ErrorKind::NotFound)),
    }
}

fn scenario_file(text: &str) -> Result<(), Error> {
    scenario::parse("web.toml", text.as_bytes(), &Options::default(), &mut no_files).map(|_| ())
}

#[test]
fn scenarios() {
    compare(
        "scenarios",
        &report(
            &[
                "[scenario\n",
                "[scenario]\nname = \"empty\"\n",
                "[scenario]\nkernal = \"6.12\"\n",
                "kernel = 6.12\n",
                "duration = 5\n",
                "duration = \"5 days\"\n",
                "hz = 0\n",
                "preempt = \"volontary\"\n",
                "costs = 3\n",
                "set = { base_slice_ns = \"3ms\" }\n",
                "machine = { topolgy = \"pack:1\" }\n",
                "machine = { topology = \"pack:1\", lstopo = \"m.xml\" }\n",
                "machine = { capacities = [1024, 2000] }\n",
                "machine = { smt_speedup = 0.5 }\n",
                "machine = { smt_speedup = 1.2345 }\n",
                "machine = { host_cpus = 0 }\n",
                "[groups.\"/web\"]\nweight = 20000\n",
                "[groups.\"/web\"]\nmax = \"half\"\n",
                "[groups.\"/web\"]\nmax = [100, 100000]\n",
                "[groups.\"/web\"]\nmax = [100000, 10]\n",
                "[groups.\"/web\"]\nburst = \"10ms\"\n",
                "[groups.\"/\"]\nweight = 100\n",
                "[groups.\"/web\"]\nweight = 1\n[groups.\"web/\"]\nweight = 2\n",
                "[[workload]]\nname = \"web\"\n",
                "[[workload]]\nrtapp = \"web.json\"\n",
                "[[workload]]\nrtapp = \"bad.json\"\n",
                "[[workload]]\nrtapp = \"a.json\"\nrtapp_inline = \"{}\"\n",
                "[[workload]]\nmodel = \"hackbench\"\n",
                "[[workload]]\nmodel = \"hackbnch 3\"\n",
                "[[workload]]\nmodel = \"lat_ctx -s x 2\"\n",
                "[[workload]]\nmodel = \"wakers 3 1\"\n",
                "[[workload]]\nmodel = \"idle-groups 3 4\"\n",
                "[[workload]]\nrtapp_inline = '''{ \"tasks\" : { \"a\" : { \"run\" : 1 } } }'''\ncopies = 1000000\n[[workload]]\n\
                 rtapp_inline = '''{ \"tasks\" : { \"a\" : { \"instance\" : 3, \"run\" : 1 } } }'''\ncopies = 700000\n",
                "[[workload]]\nrtapp_inline = '''{ \"tasks\" : { \"a\" : { \"run\" : 1 } } }'''\ncopies = 1000000\ngroup = \"/{copy}/a/b/c\"\n",
                "[[task]]\nrun = \"1ms\"\n",
                "[[task]]\nname = \"a\"\n",
                "[[task]]\nname = \"a\"\nrun = \"1ms\"\nnice = 30\n",
                "[[task]]\nname = \"a\"\nrun = \"1ms\"\npolicy = \"SCHED_FIFO\"\nnice = 3\n",
                "[[task]]\nname = \"a\"\nrun = \"1ms\"\nslice = \"1us\"\n",
                "[[task]]\nname = \"a\"\nrun = \"1ms\"\npolicy = \"SCHED_DEADLINE\"\n",
                "task = 3\n",
            ],
            scenario_file,
        ),
    );
}

/// What each error of a text says, and the line it is at.
fn lines(read: impl Fn(&str) -> Result<(), Error>, text: &str) -> Vec<(usize, String)> {
    let error = read(text).expect_err(text);
    error.all().map(|error| (error.location().expect(text).0, error.message().to_owned())).collect()
}

#[test]
fn a_key_given_at_the_top_level_and_in_scenario_is_reported_with_both_places() {
    let task = "[[task]]\nname = \"a\"\nrun = \"1ms\"\n";
    let both = |text: &str| {
        let text = format!("{text}{task}");
        let error = scenario_file(&text).expect_err(&text);
        assert_eq!(error.all().count(), 1, "{text}: {error:?}");
        (error.location().expect("it has a place").0, error.message().to_owned(), error.label().to_owned())
    };
    for (key, value) in [
        ("name", "\"x\""),
        ("kernel", "\"6.12\""),
        ("machine", "\"2\""),
        ("hz", "100"),
        ("preempt", "\"full\""),
        ("gate", "true"),
        ("costs", "\"vm\""),
        ("seed", "1"),
        ("duration", "\"1s\""),
        ("features", "[\"NO_RUN_TO_PARITY\"]"),
        ("set", "{ base_slice_ns = 700000 }"),
    ] {
        let (line, message, label) = both(&format!("\n{key} = {value}\n[scenario]\n{key} = {value}\n"));
        assert_eq!(message, format!("`{key}` is given twice, at the top level and in [scenario]"));
        assert_eq!((line, label.as_str()), (4, "here, and in line 2"));
    }
    // A table of the top level may come after.
    let (line, message, label) = both("[scenario]\nmachine = \"2\"\n[machine]\ntopology = \"4\"\n");
    assert_eq!((line, label.as_str()), (3, "here, and in line 2"), "{message}");
    assert!(scenario_file(&format!("hz = 100\n[scenario]\nseed = 3\n{task}")).is_ok());
}

#[test]
fn what_follows_from_an_error_is_not_reported_beside_it() {
    let task = |keys: &str| lines(scenario_file, &format!("[[task]]\nname = \"a\"\nrun = \"1ms\"\n{keys}"));
    let one = |line, message: &str| vec![(line, message.to_owned())];
    assert_eq!(task("policy = \"ffo\"\npriority = 30\n"), one(4, "unknown policy `ffo`"));
    assert_eq!(task("policy = \"fair\"\nnice = 3\nruntime = \"1ms\"\n"), one(4, "unknown policy `fair`"));
    assert_eq!(task("policy = \"SCHED_FIFO\"\npriority = 100\n"), one(5, "`priority` is out of range"));
    assert_eq!(task("policy = 3\npriority = 30\n"), one(4, "`policy` is a whole number"));
    let dated = "policy = \"SCHED_DEADLINE\"\nruntime = 5\nperiod = \"10ms\"\n";
    assert_eq!(task(dated), one(5, "`runtime` is a whole number"));
    let changed = "nice = 30\n[[change]]\nat = \"1s\"\ntask = \"a\"\nnice = 3\n";
    assert_eq!(task(changed), one(4, "`nice` is out of range"));

    let rtapp = |keys: &str| lines(rtapp_file, &format!("{{ \"tasks\" : {{ \"a\" : {{ {keys}, \"run\" : 10 }} }} }}"));
    assert_eq!(rtapp("\"policy\" : \"ffo\", \"priority\" : 50"), one(1, "unknown policy `ffo`"));
    assert_eq!(rtapp("\"policy\" : \"SCHED_FIFO\", \"priority\" : 100"), one(1, "`priority` is out of range"));
    let dated = "\"policy\" : \"SCHED_DEADLINE\", \"dl-runtime\" : \"x\", \"dl-period\" : 9";
    assert_eq!(rtapp(dated), one(1, "`dl-runtime` is a string"));
    let global =
        "{ \"global\" : { \"default_policy\" : \"rrr\" }, \"tasks\" : { \"a\" : { \"priority\" : 50, \"run\" : 1 } } }";
    assert_eq!(lines(rtapp_file, global), one(1, "unknown policy `rrr`"));
    // A phase with another policy is checked, too.
    let phases = "\"policy\" : \"ffo\", \"phases\" : { \"p\" : { \"policy\" : \"SCHED_FIFO\", \"priority\" : 100 } }";
    let found = rtapp(phases).into_iter().map(|(_, message)| message).collect::<Vec<_>>();
    assert_eq!(found, ["unknown policy `ffo`", "`priority` is out of range"]);
}

#[test]
fn what_has_no_effect_is_warned_of() {
    let head = "[machine]\ntopology = \"2\"\nrate_limit = \"1ms\"\n";
    let task = "[[task]]\nname = \"a\"\nrun = \"1ms\"\n";
    let warnings = |text: &str| {
        let read = scenario::parse("web.toml", text.as_bytes(), &Options::default(), &mut no_files).expect(text);
        read.warnings
            .iter()
            .map(|error| (error.location().expect(text).0, error.message().to_owned()))
            .collect::<Vec<_>>()
    };
    let none = "`rate_limit` has no effect: there is no governor";
    assert_eq!(warnings(&format!("{head}{task}")), [(3, none.to_owned())]);
    assert!(warnings(&format!("{head}governor = \"schedutil\"\n{task}")).is_empty());
    let text = format!("[sessions.desk]\nnice = 3\n{task}");
    let help = scenario_file(&text).expect_err("no task is in it").help().map(str::to_owned);
    let wanted = "write session = \"desk\" in a [[task]] or a [[workload]], or remove this table";
    assert_eq!(help.as_deref(), Some(wanted));
}

#[test]
fn similar_names_are_suggested() {
    let steps = |steps: &str| {
        let text = format!("[[task]]\nname = \"a\"\nsteps = [{{ run = \"1ms\" }}, {{ {steps} }}]\n");
        let error = scenario_file(&text).expect_err(&text);
        assert_eq!(error.all().count(), 1, "{text}: {error:?}");
        (error.message().to_owned(), error.help().unwrap_or_default().to_owned())
    };
    for (step, unknown, meant) in [
        ("runn = \"1ms\"", "runn", "run"),
        ("waitevent = \"q\"", "waitevent", "wait_event"),
        ("wakeup = \"q\", sync = true", "wakeup", "wake_up"),
        ("timeout = \"1ms\", wait_evnt = \"q\"", "wait_evnt", "wait_event"),
        ("compleet = \"c\"", "compleet", "complete"),
    ] {
        let (message, help) = steps(step);
        assert_eq!(message, format!("unknown step `{unknown}`"));
        assert!(help.starts_with(&format!("did you mean `{meant}`? a step has one of `run`")), "{step}: {help}");
    }
    assert_eq!(steps("timeout = \"1ms\"").0, "a step that does nothing");
    assert_eq!(steps("runn = \"1ms\", sleep = \"1ms\"").0, "unknown key `runn`");

    let help = |key: &str| {
        let text = format!("{{ \"tasks\" : {{ \"a\" : {{ \"run\" : 10, \"{key}\" : \"x\" }} }} }}");
        let options = Options { strict: true, ..Options::default() };
        let error = rtapp::parse("web.json", text.as_bytes(), &options).expect_err(&text);
        error.help().unwrap_or_default().to_owned()
    };
    assert_eq!(help("slep"), "did you mean `sleep`?");
    assert_eq!(help("semwait"), "did you mean `sem_wait`?");
    assert_eq!(help("wakeup"), "did you mean `resume`? that is rt-app's word for it");
    assert_eq!(help("nice"), "did you mean `priority`? that is rt-app's word for it");
    assert!(help("waitevent").starts_with("a key that begins with `wait` is that event: it takes {"));
}

#[test]
fn recordings() {
    compare(
        "recordings",
        &report(&["{ \"name\" : \"x\" }", "{ \"name\" : 3 }", "{ \"name\" : \"x\"\n"], |text| {
            recording::parse("x.json", text.as_bytes()).map(|_| ())
        }),
    );
}

/// The tasks of a file, and what the checks find in it.
fn checked(tasks: &str) -> String {
    let text = format!("{{ \"tasks\" : {{ {tasks} }}, \"global\" : {{ \"duration\" : 1 }} }}");
    let read = rtapp::parse("web.json", text.as_bytes(), &Options::default()).expect(tasks);
    let found = check::check(&read.workload, &read.source_map);
    assert!(!found.is_empty(), "{tasks}");
    found.iter().fold(String::new(), |all, error| format!("{all}{}\n\n", render(error)))
}

#[test]
fn workloads_that_cannot_do_what_was_meant() {
    let workloads = [
        r#""a" : { "run" : 0 }"#,
        r#""a" : { "phases" : { "p" : { "loop" : -1, "run" : 0 }, "q" : { "run" : 1 } } }"#,
        r#""a" : { "loop" : 1, "phases" : {} }"#,
        r#""a" : { "loop" : 0, "phases" : { "p" : { "run" : 1 } } }"#,
        r#""a" : { "lock" : "m", "run" : 1 }"#,
        r#""a" : { "run" : 1, "unlock" : "m" }"#,
        r#""a" : { "loop" : 1, "lock" : "m", "run" : 1 }"#,
        r#""a" : { "wait" : { "ref" : "q", "mutex" : "m" } }, "b" : { "run" : 1, "signal" : "q" }"#,
        r#""a" : { "suspend" }, "b" : { "run" : 1, "resume" : "c" }"#,
        r#""worker" : { "suspend" }, "b" : { "run" : 1, "resume" : "workr", "resume" : "worker" }"#,
        r#""a" : { "run" : 1, "barrier" : "b" }"#,
        r#""a" : { "barrier" : "b", "run" : 1, "barrier" : "b" }, "c" : { "barrier" : "b", "run" : 1 }"#,
        r#""a" : { "sem_wait" : "s", "run" : 1 }"#,
        r#""a" : { "instance" : 0, "run" : 1 }"#,
        r#""a" : { "loop" : 1, "fork" : "a", "run" : 1 }"#,
        r#""a" : { "fork" : "b", "sleep" : 1 }, "b" : { "instance" : 0, "run" : 1 }"#,
    ];
    compare("workloads_that_cannot_do_what_was_meant", &workloads.map(checked).concat());
}

#[test]
fn a_workload_that_nothing_ends() {
    let read =
        rtapp::parse("web.json", b"{ \"tasks\" : { \"a\" : { \"run\" : 1 } } }", &Options::default()).expect("right");
    let found = check::check(&read.workload, &read.source_map);
    assert_eq!(
        found.iter().map(Error::message).collect::<Vec<_>>(),
        ["nothing ends this workload: task `a` loops for ever"]
    );
}

/// What these take is the machine's to say: a loop of them is no error here.
#[test]
fn loops_of_nothing_but_system_calls_and_locks() {
    for ops in [r#""yield" : """#, r#""lock" : "m", "unlock" : "m""#, r#""sem_post" : "s""#] {
        let text = format!(r#"{{ "tasks" : {{ "a" : {{ {ops} }} }}, "global" : {{ "duration" : 1 }} }}"#);
        let read = rtapp::parse("web.json", text.as_bytes(), &Options::default()).expect("right");
        assert!(check::check(&read.workload, &read.source_map).is_empty(), "{ops}");
    }
}

#[test]
fn a_sound_workload_has_no_findings() {
    let sound = r#"{ "tasks" : {
        "a" : { "lock" : "m", "wait" : { "ref" : "q", "mutex" : "m" }, "unlock" : "m", "run" : 1, "barrier" : "x" },
        "b" : { "lock" : "m", "signal" : "q", "unlock" : "m", "sleep" : 5, "barrier" : "x", "resume" : "c", "sem_post" : "s" },
        "c" : { "suspend", "run" : 3, "fork" : "d", "sem_wait" : "s" },
        "d" : { "instance" : 0, "loop" : 1, "run" : 1 } },
        "global" : { "duration" : 1 } }"#;
    let read = rtapp::parse("web.json", sound.as_bytes(), &Options::default()).expect("right");
    let found = check::check(&read.workload, &read.source_map);
    assert!(found.is_empty(), "{found:?}");
}
