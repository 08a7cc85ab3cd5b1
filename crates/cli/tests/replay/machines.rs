//! The kernel and the machine of a replay.

use super::*;

/// A replay uses the kernel in the trace, unless the user names another.
#[test]
fn a_trace_is_replayed_under_the_kernel_it_names() {
    let text = std::fs::read_to_string(Path::new(DATA).join("perf-data.txt")).expect("a fixture");
    let under = |release: &str, arguments: &[&str]| {
        let text = format!("# os release : {release}\n{text}");
        let output = vruntime(&[&["replay", "-"], arguments].concat(), text.as_bytes());
        let [table, complaints] =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("it prints UTF-8"));
        let kernel = table.split_once("replayed as recorded under ").and_then(|(_, rest)| rest.split(' ').next());
        // Chance decides which task waits for which at the end.
        let of_kernels = |line: &&str| !line.contains("waits for a task that wakes it");
        let complaints: Vec<&str> = complaints.lines().filter(of_kernels).flat_map(str::split_whitespace).collect();
        (kernel.map(str::to_owned), complaints.join(" "))
    };
    assert_eq!(under("6.12.48+deb13-amd64", &[]), (Some("6.12".to_owned()), String::new()));
    assert_eq!(under("6.12.48+deb13-amd64", &["--recorded-kernel", "6.1"]).0.as_deref(), Some("6.1"));
    // The option accepts a release. A meaningless one is an error.
    let named = ["--recorded-kernel", "6.18.44-fc-v657"];
    let replay_under = |release: &str| vruntime(&["replay", "perf-data.txt", "--recorded-kernel", release], b"");
    assert_eq!(under("6.12.48+deb13-amd64", &named), (Some("6.18.44-fc-v657".to_owned()), String::new()));
    // One that schedules as its series does is called by that, one that does not by its own name.
    assert_eq!(under("6.18.15+deb13-amd64", &[]).0.as_deref(), Some("6.18"));
    assert_eq!(under("6.18.44", &[]).0.as_deref(), Some("6.18.44"));
    assert_eq!(replay_under("6.18.x").status.code(), Some(1));
    let releases = [
        ("6.1.0-28-amd64", "6.1"),
        ("5.15.0-91-generic", "5.15"),
        ("6.12+deb13-amd64", "6.12"),
        ("3.10.0-1160.el7.x86_64", "3.10"),
        ("2.6.15", "2.6.15"),
    ];
    for (release, kernel) in releases {
        let found = under("6.12.48+deb13-amd64", &["--recorded-kernel", release]).0;
        assert_eq!(found.as_deref(), Some(kernel), "{release}");
    }
    for (release, nearest) in [("5.17.1", "5.15"), ("no-version", "6.18")] {
        let (kernel, complaints) = under(release, &[]);
        assert_eq!(kernel.as_deref(), Some(nearest));
        let expected = format!("was recorded under Linux {release}, which is not supported: {nearest} replaces it");
        assert!(complaints.contains(&expected), "{complaints}");
    }
}

/// A run's text names its kernel; for 2.6 the third number is the version.
#[test]
fn a_trace_of_a_run_is_replayed_under_the_kernel_of_the_run() {
    let scenario = b"machine = \"1\"\nduration = \"100ms\"\n[[task]]\nname = \"a\"\nrun = \"1ms\"\nsleep = \"3ms\"\n";
    let folder = tempfile::tempdir().expect("there is room");
    let out = folder.path().join("out");
    for kernel in ["6.1", "6.12", "3.10", "2.6.23"] {
        let path = out.to_str().expect("it is UTF-8");
        well(&["run", "-", "--kernel", kernel, "--out", path], scenario);
        let expected = format!("replayed as recorded under {kernel} ");
        let text = well(&["replay", out.join("trace.txt").to_str().expect("it is UTF-8")], b"");
        assert!(text.contains(&expected), "{text}");
        std::fs::remove_dir_all(&out).expect("it is there");
    }
}

/// CPUs 0 and 3 are little with half the capacity, 1 and 2 big, in LISA's format and a board's order.
const BIG_LITTLE: &str = "platform-info:
    conf:
        cpu-capacities:
            orig:
                0: 512
                1: 1024
                2: 1024
                3: 512
        cpus-count: 4
        freq-domains:
        -   - 0
            - 3
        -   - 1
            - 2
        freqs:
            0: [400000, 800000]
            1: [500000, 750000, 1000000]
            2: [500000, 750000, 1000000]
            3: [400000, 800000]
        name: invented
";

/// A second in which `beat` computes for 6 ms of every 10 on `cpu`, which runs at `khz`.
fn beats(cpu: u32, khz: u32) -> String {
    let line = |at: u64, cpu: u32, context: &str, what: &str| {
        format!("  {context} [{cpu:03}] {}.{:06}: {what}\n", at / 1_000_000, at % 1_000_000)
    };
    let idle = format!("swapper/{cpu}");
    let mut text: String = (0..4)
        .map(|cpu| line(u64::from(cpu), cpu, "<idle>-0", &format!("cpu_frequency: state={khz} cpu_id={cpu}")))
        .collect();
    for beat in 0..100 {
        let at = beat * 10_000 + 100;
        text += &line(at, cpu, "<idle>-0", &format!("sched_waking: comm=beat pid=7 prio=120 target_cpu={cpu:03}"));
        text += &line(
            at + 10,
            cpu,
            "<idle>-0",
            &format!(
                "sched_switch: prev_comm={idle} prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=beat next_pid=7 next_prio=120"
            ),
        );
        text += &line(
            at + 6010,
            cpu,
            "beat-7",
            &format!(
                "sched_switch: prev_comm=beat prev_pid=7 prev_prio=120 prev_state=S ==> next_comm={idle} next_pid=0 next_prio=120"
            ),
        );
    }
    text + &line(1_000_000, cpu, "<idle>-0", &format!("cpu_idle: state=1 cpu_id={cpu}"))
}

/// CPUs that never exceeded half of their highest frequency did half of the work.
#[test]
fn a_machine_tells_of_frequencies_that_its_trace_does_not_reach() {
    let folder = tempfile::tempdir().expect("there is room");
    let described = folder.path().join("plat_info.yml");
    std::fs::write(&described, BIG_LITTLE).expect("there is room");
    let whatif = |machine: &str, khz| {
        let arguments =
            ["replay", "-", "--recorded-machine", machine, "--machine", "4", "--wakeups", "recorded", "--json"];
        permille(&json(&arguments, beats(1, khz).as_bytes()), "beat-7", "what_if")
    };
    let described = described.to_str().expect("it is UTF-8");
    for (khz, share) in [(500_000, 300), (750_000, 450), (1_000_000, 600)] {
        let found = whatif(described, khz);
        assert!(found.abs_diff(share) <= 3, "{found} at {khz} kHz");
        // Without a description the highest frequency is the highest of the trace.
        let unknown = whatif("core:4(capacity=512,1024,1024,512)", khz);
        assert!(unknown.abs_diff(600) <= 3, "{unknown} at {khz} kHz");
    }
}

/// Little CPUs do half of what big ones do.
#[test]
fn a_big_little_machine_and_a_symmetric_one() {
    let folder = tempfile::tempdir().expect("there is room");
    let machine = folder.path().join("plat_info.yml");
    std::fs::write(&machine, BIG_LITTLE).expect("there is room");
    let machine = machine.to_str().expect("it is UTF-8");
    let text = beats(3, 800_000);
    let arguments = ["replay", "-", "--recorded-machine", machine, "--machine", "4", "--wakeups", "recorded", "--json"];
    let replay = json(&arguments, text.as_bytes());
    let [recorded, whatif] = ["recorded", "what_if"].map(|run| permille(&replay, "beat-7", run));
    assert!(recorded.abs_diff(600) <= 3 && whatif.abs_diff(300) <= 3, "{recorded} and {whatif}");
    let sentence = replay["what_if"].as_str().expect("a sentence");
    assert!(sentence.starts_with("What stands out: ") && sentence.contains("All tasks together get"), "{sentence}");
    let message = fails(&["replay", "-", "--recorded-machine", "2"], text.as_bytes());
    // Where a line ends depends on how long the path is.
    let words: Vec<&str> = message.split_whitespace().filter(|word| *word != "│").collect();
    assert!(words.join(" ").contains("names CPU 3, and the machine has 2 CPUs"), "{message}");
}
