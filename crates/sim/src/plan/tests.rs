use std::path::Path;

use vruntime_workload::rtapp::Options;
use vruntime_workload::scenario::{self, Scenario};

use super::*;
use crate::topology::parse_topology;

const TASK: &str = "[[task]]\nname = \"a\"\nrun = \"1ms\"\n";

fn no_files(path: &Path) -> std::io::Result<Vec<u8>> {
    Err(std::io::Error::other(format!("{} is not here", path.display())))
}

fn scenario(head: &str) -> Scenario {
    let text = format!("{head}\n{TASK}");
    scenario::parse("test.toml", text.as_bytes(), &Options::default(), &mut no_files).unwrap()
}

fn planned(head: &str, overrides: &Overrides) -> Plan {
    plan(Input::Scenario(&scenario(head)), overrides, &mut no_files).unwrap()
}

/// Returns the message, the text at the place, and the help.
fn refused(head: &str, overrides: &Overrides) -> (String, String, String) {
    let scenario = scenario(head);
    let error = plan(Input::Scenario(&scenario), overrides, &mut no_files).unwrap_err();
    let at = error.place().map_or("", |place| &place.source.text()[place.span.clone()]);
    (error.to_string(), at.to_owned(), error.help())
}

#[test]
fn the_caller_overrides_the_file_and_the_file_overrides_the_defaults() {
    let none = Overrides::default();
    let by_default = planned("", &none);
    assert_eq!((by_default.kernel.as_str(), by_default.machine.as_str()), (DEFAULT_KERNEL, DEFAULT_MACHINE));
    assert!(by_default.machine_by_default && by_default.costs == "default");
    let Config { seed, gate, autogroup, preempt, .. } = by_default.config;
    assert_eq!((seed, gate, autogroup, preempt), (DEFAULT_SEED, false, false, Preempt::Voluntary));

    let head = "kernel = \"6.1\"\nmachine = \"2\"\nhz = 100\nseed = 7\npreempt = \"full\"\ngate = true\ncosts = \"vm\"\n\
                [set]\nswitch_ns = 3\n";
    let file = planned(head, &none);
    assert_eq!((file.kernel.as_str(), file.machine.as_str(), file.costs), ("6.1", "2", "vm"));
    assert_eq!((file.config.machine.hz, file.config.seed, file.config.preempt), (100, 7, Preempt::Full));
    assert_eq!((file.config.gate, file.config.machine.costs.switch_ns), (true, 3));

    let overrides = Overrides {
        kernel: Some("6.12".to_owned()),
        machine: Some(Machine::described("laptop").unwrap()),
        hz: Some(1000),
        preempt: Some(Preempt::None),
        seed: Some(0),
        gate: Some(false),
        autogroup: Some(true),
        costs: Some("zero".to_owned()),
        settings: vec![("tick_ns".to_owned(), 4)],
        duration: Some(5),
        ..none
    };
    let over = planned(head, &overrides);
    assert_eq!((over.kernel.as_str(), over.machine.as_str(), over.costs), ("6.12", "laptop", "zero"));
    let Config { seed, gate, autogroup, preempt, duration, machine, .. } = over.config;
    assert_eq!((seed, gate, autogroup, preempt, duration), (0, false, true, Preempt::None, Some(5)));
    assert_eq!((machine.hz, machine.topology.nr_cpus()), (1000, 8));
    assert_eq!((machine.costs.switch_ns, machine.costs.tick_ns), (3, 4), "a profile, the file's costs, the caller's");
}

#[test]
fn the_sysctl_of_autogroups_decides() {
    let set = |name: &str, value| Overrides { settings: vec![(name.to_owned(), value)], ..Overrides::default() };
    let off = Overrides { autogroup: Some(true), ..set("sched_autogroup_enabled", 0) };
    for (head, overrides, on) in [
        ("", set("sched_autogroup_enabled", 1), true),
        ("", set("kernel.sched_autogroup_enabled", 1), true),
        ("autogroup = true", set("sched_autogroup_enabled", 0), false),
        ("", off, false),
        ("autogroup = true\n[set]\nsched_autogroup_enabled = 0", Overrides::default(), false),
        ("[set]\nsched_autogroup_enabled = 0", set("sched_autogroup_enabled", 1), true),
    ] {
        assert_eq!(planned(head, &overrides).config.autogroup, on, "{head} {overrides:?}");
    }
}

/// As the kernel does (EINVAL), with the values of file and caller together.
#[test]
fn the_runtime_of_realtime_tasks_is_at_most_their_period() {
    let planned = |head: &str, settings: &[(&str, u64)]| {
        let settings = settings.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
        plan(Input::Scenario(&scenario(head)), &Overrides { settings, ..Overrides::default() }, &mut no_files)
    };
    let (runtime, period) = ("sched_rt_runtime_us", "kernel.sched_rt_period_us");
    for (head, settings) in [
        ("", &[(runtime, u64::MAX)][..]),
        ("", &[(runtime, 1_000_000)]),
        ("", &[(period, 950_000)]),
        ("", &[(runtime, 2_000_000), (period, 2_000_000)]),
        ("[set]\nsched_rt_runtime_us = 2000000", &[(period, 2_000_000)]),
        ("[set]\nsched_rt_runtime_us = -1\nsched_rt_period_us = 1", &[]),
    ] {
        assert!(planned(head, settings).is_ok(), "{head} {settings:?}");
    }
    for (head, settings, message) in [
        ("", &[(period, 1)][..], "sched_rt_runtime_us cannot be 950000: expected 0 to 1"),
        ("", &[(runtime, 1_000_001)], "sched_rt_runtime_us cannot be 1000001: expected 0 to 1000000"),
        ("[set]\nsched_rt_runtime_us = 2000000", &[], "sched_rt_runtime_us cannot be 2000000: expected 0 to 1000000"),
    ] {
        assert_eq!(planned(head, settings).unwrap_err().to_string(), message);
    }
    let large = planned("", &[(runtime, 9_999_999_999_999_999_999)]).unwrap_err().to_string();
    assert_eq!(large, "sched_rt_runtime_us cannot be 9999999999999999999: expected 0 to 2147483647");
}

#[test]
fn a_measured_machine_brings_its_measurements() {
    let measured = Machine {
        hz: Some(300),
        preempt: Some(Preempt::Lazy),
        autogroup: Some(true),
        costs: Some(Costs { switch_ns: 9, ..Costs::ZERO }),
        idle_depths: vec![IdleDepth { after_ns: 1, extra_ns: 2 }],
        stalls: Some(Stall { length_ns: 3, every_ns: 4 }),
        ..Machine::new("mine", parse_topology("2").unwrap())
    };
    let on = |head: &str, costs: Option<&str>| {
        let costs = costs.map(str::to_owned);
        planned(head, &Overrides { machine: Some(measured.clone()), costs, ..Overrides::default() })
    };
    let plan = on("preempt = \"full\"\nhz = 100\nautogroup = false", None);
    assert_eq!((plan.costs, plan.config.preempt, plan.config.autogroup), ("measured", Preempt::Lazy, false));
    let spec = plan.config.machine;
    assert_eq!((spec.hz, spec.costs.switch_ns, spec.idle_depths.len()), (300, 9, 1));
    assert_eq!(spec.stalls, measured.stalls);
    let plan = on("", Some("vm"));
    assert_eq!((plan.costs, plan.config.autogroup, plan.config.machine.stalls), ("vm", true, None));
}

#[test]
fn what_makes_no_difference_is_noted() {
    let features = ["RUN_TO_PARITY", "NO_RUN_TO_PARITY", "LB_BIAS"].map(str::to_owned).to_vec();
    let kernel = Some("6.12+WA_BIAS+NO_WA_BIAS".to_owned());
    let plan = planned("", &Overrides { kernel, features, ..Overrides::default() });
    let notes: Vec<String> = plan.notes.iter().map(ToString::to_string).collect();
    let kernel = "6.12+WA_BIAS+NO_WA_BIAS";
    assert_eq!(notes[0], format!("+WA_BIAS of {kernel} has no effect: +NO_WA_BIAS of {kernel} overrides it"));
    assert_eq!(notes[1], "RUN_TO_PARITY has no effect: NO_RUN_TO_PARITY overrides it");
    assert!(notes[2].starts_with("Linux 6.12 has no LB_BIAS: "), "{notes:?}");
    assert!(matches!(plan.notes[2], Note::NotHere { kernel: "6.12", feature: "LB_BIAS", .. }));
}

/// A behaviour that is in force changes nothing when it is added. One that a kernel's name removed is added again.
#[test]
fn behaviours_that_change_nothing_are_noted() {
    let notes = |kernel: &str, features: &[&str]| {
        let features = features.iter().map(|&name| name.to_owned()).collect();
        let plan = planned("", &Overrides { kernel: Some(kernel.to_owned()), features, ..Overrides::default() });
        plan.notes.iter().map(ToString::to_string).collect::<Vec<String>>()
    };
    let has = "+TASK_THROTTLE has no effect: Linux 6.18 has it already";
    assert_eq!(notes("6.18+TASK_THROTTLE", &[]), [has]);
    assert_eq!(notes("6.18", &["+TASK_THROTTLE"]), [has]);
    assert_eq!(notes("6.12", &["-TASK_THROTTLE"]), ["-TASK_THROTTLE has no effect: Linux 6.12 lacks it already"]);
    assert_eq!(notes("6.12+TASK_THROTTLE", &[]), [""; 0]);
    assert_eq!(notes("6.18+-TASK_THROTTLE", &["+TASK_THROTTLE"]), [""; 0]);
}

#[test]
fn what_cannot_be_planned_is_reported_with_its_place() {
    let none = Overrides::default();
    for (head, wrong, at) in [
        ("kernel = \"9.9\"", "there is no kernel `9.9`", "\"9.9\""),
        ("features = [\"FOO\"]", "there is no feature `FOO`", "\"FOO\""),
        ("[set]\nbase_slice_ns = 0", "base_slice_ns cannot be 0", "0"),
        ("[set]\nlatency_ns = 3", "Linux 6.12 has no latency_ns", "latency_ns"),
        ("[set]\nswich_ns = 3", "there is no tunable or cost `swich_ns`", "swich_ns"),
        ("[set]\nbase_slice_ns = -3", "a negative value", "-3"),
        ("costs = \"vmm\"", "there is no cost profile `vmm`", "\"vmm\""),
        ("machine = \"pack:2 cor:4\"", "there is no level `cor`", "cor"),
        ("machine = \"core:4(capcity=1)\"", "there is no attribute `capcity`", "capcity=1"),
        ("machine = \"\\u0063or:4\"", "there is no level `cor`", "\"\\u0063or:4\""),
        ("machine = \"laptopp\"", "`laptopp` has no count", "laptopp"),
        ("costs = { swich = 3 }", "there is no cost `swich`", "swich"),
        (
            "[machine]\ntopology = \"core:2(capacity=512,1024)\"\ncapacities = [512, 1024]",
            "capacities are given twice",
            "512, 1024",
        ),
        ("[machine]\nlstopo = \"m.xml\"", "cannot read m.xml: m.xml is not here", "\"m.xml\""),
        ("machine = \"2\"\n[groups.\"/g\"]\ncpus = [9]", "there is no CPU 9: the machine has 2, 0 to 1", "[9]"),
        ("[machine]\ntopology = \"2\"\nisolated = [0, 1]", "every CPU of the machine is isolated", "[0, 1]"),
    ] {
        let (message, place, help) = refused(head, &none);
        assert!(message.starts_with(wrong), "{head}: {message}");
        assert_eq!(place, at, "{head}");
        assert!(!help.is_empty() && !help.contains("--"), "{head}: {help}");
    }
    assert_eq!(refused("machine = \"laptopp\"", &none).2, "did you mean `laptop`?");
    // The kernel's own names are listed, and those of others only suggested.
    let help = |head: &str| refused(head, &none).2;
    let advice = help("features = [\"RUN_TO_PARTY\"]");
    assert!(advice.starts_with("did you mean `RUN_TO_PARITY`? Linux 6.12 has PLACE_LAG, "), "{advice}");
    assert!(
        advice.contains(", NI_RANDOM, ") && !advice.contains("GENTLE_FAIR_SLEEPERS") && !advice.contains("CPU_RC"),
        "{advice}"
    );
    let advice = help("features = [\"GENTLE_SLEEPERS\"]");
    assert!(
        advice.starts_with("did you mean `GENTLE_FAIR_SLEEPERS`, which Linux 6.12 lacks? Linux 6.12 has "),
        "{advice}"
    );
    assert_eq!(help("features = [\"XYZZY\"]\nkernel = \"2.6.15\""), "Linux 2.6.15 has no features");
    assert!(help("[set]\nxyzzy = 3").starts_with("tunables of Linux 6.12 are base_slice_ns, migration_cost_ns, "));
    assert!(!help("[set]\nxyzzy = 3").contains("CPU_RC_SPREAD_PERIOD"));
    assert_eq!(help("[set]\nbase_slcie_ns = 3"), "did you mean `base_slice_ns`?");
    assert_eq!(help("[set]\nswtich_ns = 3"), "did you mean `switch_ns`?");
    assert_eq!(help("[set]\n\"kernel.switch_ns\" = 3"), "costs are no sysctls: leave `kernel.` out");
    // The caller's settings have no place.
    let costs = Some("vmm".to_owned());
    assert_eq!(refused("", &Overrides { costs, ..none }).1, "");
}

#[test]
fn what_may_follow_a_kernels_plus_is_reported() {
    let help_of = |text: &str| {
        let error = parse_kernel(text).unwrap_err();
        format!("{error}; {}", error.help())
    };
    let nothing = help_of("6.12+");
    assert!(
        nothing.starts_with("a + of `6.12+` is followed by nothing; a + is followed by a feature, as in "),
        "{nothing}"
    );
    let value =
        "the tunable `base_slice_ns` has no value; write base_slice_ns=NUMBER, as in 6.12+base_slice_ns=3000000";
    assert_eq!(help_of("6.12+base_slice_ns"), value);
    assert!(help_of("6.12+NOTHING").starts_with("there is no feature `NOTHING`; "));
    for name in ["linux-6.12", "v6.12"] {
        let meant = help_of(name);
        assert!(meant.starts_with(&format!("there is no kernel `{name}`; did you mean `6.12`? ")), "{meant}");
    }
}

#[test]
fn a_speed_of_siblings_without_siblings_is_reported() {
    let notes = |head: &str, machine: Option<&str>| {
        let machine = machine.map(|text| Machine::described(text).unwrap());
        planned(head, &Overrides { machine, ..Overrides::default() }).notes
    };
    let without = "[machine]\ntopology = \"core:4\"\nsmt_speedup = 1.3";
    assert_eq!(notes(without, None), [Note::NoSiblings]);
    assert_eq!(notes("[machine]\ntopology = \"core:2 pu:2\"\nsmt_speedup = 1.3", None), []);
    assert_eq!(notes(without, Some("4")), [], "the file's machine is not used");
}

#[test]
fn a_release_names_its_kernel() {
    let of = |text: &str| format!("{:?}", parse_kernel(text).unwrap().0);
    for release in ["6.12.65", "6.12.99-amd64", "6.12.117+deb13-cloud-amd64", "6.12.65+RUN_TO_PARITY"] {
        assert_eq!(of(release), of("6.12"), "{release}");
    }
    for release in ["6.12.4", "6.12.9-amd64", "6.12.4+RUN_TO_PARITY"] {
        assert_eq!(of(release), of("6.12+NO_NI_RANDOM"), "{release}");
    }
    assert_eq!(of("6.1.0-18-amd64"), of("6.1"));
    assert_eq!(of("6.12.117+deb13-amd64+NO_PLACE_LAG"), of("6.12+NO_PLACE_LAG"));
    let late = of("6.18.44-fc-v657+base_slice_ns=3000000");
    let mut expected = parse_kernel("6.18+base_slice_ns=3000000").unwrap().0;
    assert_ne!(late, format!("{expected:?}"));
    expected.as_of("6.18.44-fc-v657");
    assert_eq!(late, format!("{expected:?}"));
    // Unknown kernels and invalid releases are refused.
    for (name, message) in [("6.13.2", "`6.13.2`"), ("6.12.x", "`6.12.x`"), ("6.12.4+nonsense=1", "`nonsense`")] {
        let error = parse_kernel(name).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    assert_eq!(planned("kernel = \"6.18.44\"", &Overrides::default()).kernel, "6.18.44");
}
