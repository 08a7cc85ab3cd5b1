//! Under which kernel a trace is replayed, and on which machine.

use super::*;

/// A trace is replayed as recorded under the kernel that it names, unless the user names another.
#[test]
fn a_trace_is_replayed_under_the_kernel_it_names() {
    let text = std::fs::read_to_string(Path::new(DATA).join("perf-data.txt")).expect("a fixture");
    let under = |release: &str, arguments: &[&str]| {
        let text = format!("# os release : {release}\n{text}");
        let output = vruntime(&[&["replay", "-"], arguments].concat(), text.as_bytes());
        let [table, complaints] =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("it prints UTF-8"));
        let kernel = table.split_once("replayed as recorded under ").and_then(|(_, rest)| rest.split(' ').next());
        // Who waits for whom at the end is chance, and no matter here.
        let of_kernels = |line: &&str| !line.contains("waits for the task that woke it");
        let complaints: Vec<&str> = complaints.lines().filter(of_kernels).flat_map(str::split_whitespace).collect();
        (kernel.map(str::to_owned), complaints.join(" "))
    };
    assert_eq!(under("6.12.48+deb13-amd64", &[]), (Some("6.12".to_owned()), String::new()));
    assert_eq!(under("6.12.48+deb13-amd64", &["--recorded-kernel", "6.1"]).0.as_deref(), Some("6.1"));
    // Whoever knows the release can say it; one that means nothing is no kernel, as ever.
    let named = ["--recorded-kernel", "6.18.44-fc-v657"];
    let told = |release: &str| vruntime(&["replay", "perf-data.txt", "--recorded-kernel", release], b"");
    assert_eq!(under("6.12.48+deb13-amd64", &named), (Some("6.18.44-fc-v657".to_owned()), String::new()));
    // One that schedules as its series does is called by that, one that does not by its own name.
    assert_eq!(under("6.18.15+deb13-amd64", &[]).0.as_deref(), Some("6.18"));
    assert_eq!(under("6.18.44", &[]).0.as_deref(), Some("6.18.44"));
    assert_eq!(told("6.18.x").status.code(), Some(1));
    let releases = [
        ("6.1.0-28-amd64", "6.1"),
        ("6.12+deb13-amd64", "6.12"),
        ("3.10.0-1160.el7.x86_64", "3.10"),
        ("2.6.15", "2.6.15"),
    ];
    for (release, kernel) in releases {
        let told = under("6.12.48+deb13-amd64", &["--recorded-kernel", release]).0;
        assert_eq!(told.as_deref(), Some(kernel), "{release}");
    }
    for (release, nearest) in [("5.15.0-91-generic", "6.1"), ("no-version", "6.18")] {
        let (kernel, complaints) = under(release, &[]);
        assert_eq!(kernel.as_deref(), Some(nearest));
        let told = format!("was recorded under Linux {release}, which is not on offer: {nearest} stands for it");
        assert!(complaints.contains(&told), "{complaints}");
    }
}

/// A run's text names the kernel it was of; of one of 2.6 the version is its third number.
#[test]
fn a_trace_of_a_run_is_replayed_under_the_kernel_of_the_run() {
    let scenario = b"machine = \"1\"\nduration = \"100ms\"\n[[task]]\nname = \"a\"\nrun = \"1ms\"\nsleep = \"3ms\"\n";
    let folder = tempfile::tempdir().expect("there is room");
    let out = folder.path().join("out");
    for kernel in ["6.1", "6.12", "3.10", "2.6.23"] {
        let path = out.to_str().expect("it is UTF-8");
        well(&["run", "-", "--kernel", kernel, "--out", path], scenario);
        let told = format!("replayed as recorded under {kernel} ");
        let text = well(&["replay", out.join("trace.txt").to_str().expect("it is UTF-8")], b"");
        assert!(text.contains(&told), "{text}");
        std::fs::remove_dir_all(&out).expect("it is there");
    }
}

/// Recorded on a Juno board whose large CPUs never came beyond 800 MHz of 1100: what they did was that much less.
#[test]
fn a_machine_tells_of_frequencies_that_its_trace_does_not_reach() {
    let (trace, machine) = (format!("{SHARED}/lisa-juno6-pelt.dat"), format!("{SHARED}/lisa-juno6.plat_info.yml"));
    if !Path::new(&trace).exists() {
        skip::skip("there is no ../shared/traces/lisa-juno6-pelt.dat");
        return;
    }
    let whatif = |machine: &str| {
        let arguments = ["replay", &trace, "--recorded-machine", machine, "--machine", "6", "--json"];
        permille(&json(&arguments, b""), "sudo-3104", "what_if")
    };
    let (known, unknown) = (whatif(&machine), whatif("core:6(capacity=446,1024,1024,446,446,446)"));
    // Part of it ran before any frequency was told.
    assert!(known * 10 < unknown * 9, "{known} and {unknown}");
}

/// Recorded on a Juno board, by LISA: little CPUs do less than half of what big ones do.
#[test]
fn a_big_little_machine_and_a_symmetric_one() {
    let (trace, machine) = (format!("{SHARED}/lisa-juno6-rtapp.txt"), format!("{SHARED}/lisa-juno6.plat_info.yml"));
    if !Path::new(&trace).exists() {
        skip::skip("there is no ../shared/traces/lisa-juno6-rtapp.txt");
        return;
    }
    let arguments = ["replay", &trace, "--recorded-machine", &machine, "--machine", "6", "--json"];
    let replay = json(&arguments, b"");
    let ramp = |run: &str| permille(&replay, "ramp-1706", run);
    // It worked on a little CPU, and 446 / 1024 of that time is what it takes on a big one.
    assert!(
        ramp("what_if").abs_diff(ramp("recorded") * 446 / 1024) <= 15,
        "{} and {}",
        ramp("recorded"),
        ramp("what_if")
    );
    let told = replay["what_if"].as_str().expect("the difference is told");
    assert!(told.starts_with("All tasks together get") && told.contains("instead of"), "{told}");
    let message = fails(&["replay", &trace, "--recorded-machine", "2"], b"");
    // Where a line ends depends on how long the path is.
    let words: Vec<&str> = message.split_whitespace().filter(|word| *word != "│").collect();
    assert!(words.join(" ").contains("events of 6 CPUs, and the machine has 2"), "{message}");
}
