//! The benchmarks' own lines, after the table and in JSON.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

static FILES: AtomicU32 = AtomicU32::new(0);

/// Returns what `run` prints for a scenario of Linux 6.12.
fn run(scenario: &str, more: &[&str]) -> String {
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let file = std::env::temp_dir().join(format!("vruntime-benchmarks-{}-{number}.toml", std::process::id()));
    std::fs::write(&file, scenario).unwrap();
    let done = Command::new(env!("CARGO_BIN_EXE_vruntime")).arg("run").arg(&file).args(more).output().unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// The lines from the benchmark's command to the next.
fn lines_of<'a>(text: &'a str, command: &str) -> Vec<&'a str> {
    let lines = text.lines().skip_while(|line| *line != format!("$ {command}")).skip(1);
    lines
        .take_while(|line| !line.starts_with("$ ") && !line.starts_with("seed ") && !line.starts_with("digest"))
        .filter(|line| !line.is_empty())
        .collect()
}

/// Runs one benchmark on a machine whose work takes no time except `costs`.
fn alone(command: &str, cpus: u32, costs: &str) -> Vec<String> {
    let scenario = format!(
        "[scenario]\nkernel = \"6.12\"\nmachine = \"{cpus}\"\n[costs]\nprofile = \"zero\"\n{costs}\n[[workload]]\nmodel = \"{command}\"\n"
    );
    lines_of(&run(&scenario, &[]), command).into_iter().map(str::to_owned).collect()
}

fn number(text: &str) -> f64 {
    text.trim().parse().unwrap_or_else(|_| panic!("`{text}` is no number"))
}

fn figure_of(lines: &[String], name: &str) -> f64 {
    let rest =
        lines.iter().find_map(|line| line.trim().strip_prefix(name)).unwrap_or_else(|| panic!("{name}: {lines:?}"));
    number(rest.trim_end_matches(|c: char| c.is_ascii_alphabetic()))
}

/// In a ring on one CPU each pass is a switch. Reading memory is not part of a switch.
#[test]
fn lat_ctx_tells_what_a_switch_costs() {
    assert_eq!(alone("lat_ctx -s 0 2", 1, "switch_ns = 5000"), ["\"size=0k ovr=0.00", "2 5.00"]);
    let costs = "switch_ns = 3000\nsyscall_ns = 400\nmem_ns_per_kib = 100";
    assert_eq!(alone("lat_ctx -s 64 16", 1, costs), ["\"size=64k ovr=7.20", "16 3.00"]);
}

/// There and back are two switches.
#[test]
fn pipe_test_tells_the_time_of_a_loop() {
    assert_eq!(alone("pipe-test 2000", 1, "switch_ns = 2000"), ["4.00 usecs/loop."]);
}

/// Two threads of one CPU take turns: an event of 1 ms takes twice as long.
#[test]
fn sysbench_tells_events_and_fairness() {
    let lines = alone("sysbench cpu --num-threads=2 --max-time=2", 1, "");
    assert_eq!(lines[..2], ["Test execution summary:", "    total time:                          2.0000s"]);
    let events = figure_of(&lines, "total number of events:");
    assert!((1997.0..=2000.0).contains(&events), "{lines:?}");
    assert!((3.98..=4.0).contains(&figure_of(&lines, "total time taken by event execution:")), "{lines:?}");
    assert_eq!(figure_of(&lines, "min:").to_bits(), 1.0_f64.to_bits(), "of one that was not preempted");
    assert_eq!(figure_of(&lines, "avg:").to_bits(), 2.0_f64.to_bits());
    let [p95, max] = ["approx.  95 percentile:", "max:"].map(|name| figure_of(&lines, name));
    assert!(2.0 <= p95 && p95 <= max && max < 10.0, "{lines:?}");
    let fairness = lines.iter().find_map(|line| line.trim().strip_prefix("events (avg/stddev):")).unwrap();
    let (mean, spread) = fairness.split_once('/').unwrap();
    assert!((number(mean) - events / 2.0).abs() < 0.001 && number(spread) < 5.0, "{fairness}");
    assert!(lines.last().unwrap().starts_with("    execution time (avg/stddev):   1.99"), "{lines:?}");
}

/// 16 files of 360.8 ms of work on average, including half a millisecond of `make`, and 8 ms for the linker.
#[test]
fn kernbench_tells_what_time_says() {
    let lines = alone("kernbench -j 4 --files=16", 1, "io_ns_per_kib = 0");
    let names: Vec<&str> = lines.iter().map(|line| line.trim_end_matches(|c: char| !c.is_ascii_alphabetic())).collect();
    assert_eq!(names, ["Elapsed Time", "User Time", "System Time", "Percent CPU", "Context Switches", "Sleeps"]);
    let of = |index: usize| figure_of(&lines, names[index]);
    assert_eq!(lines[1..3], ["User Time 5.8", "System Time 0.0"]);
    assert!((5.7..5.9).contains(&of(0)) && (97.0..=100.0).contains(&of(3)), "{lines:?}");
    // make and gcc sleep for the others, cc1 for the disk; all exit.
    assert!(of(5) >= 16.0 * 6.0 && of(4) > 100.0, "{lines:?}");
    // What has not ended has not printed anything.
    let scenario = "[scenario]\nduration = \"1s\"\nmachine = \"2\"\n[[workload]]\nmodel = \"kernbench -j 4\"\n";
    assert!(!run(scenario, &[]).contains("Elapsed Time"));
}

/// Each thread is late by its interrupt or by the switch from the idle task. Fair tasks add 50 us of timer slack. Whole
/// microseconds, rounded down.
#[test]
fn cyclictest_tells_how_late_threads_were() {
    let lines = alone("cyclictest -t 2 -p 80", 2, "irq_latency_ns = 3000");
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0], "T: 0 ( 1000) P:80 I:1000 C:   9999 Min:      3 Act:    3 Avg:    3 Max:       3");
    assert_eq!(lines[1], "T: 1 ( 1001) P:79 I:1500 C:   6666 Min:      3 Act:    3 Avg:    3 Max:       3");
    let late = alone("cyclictest -i 2000", 1, "switch_ns = 2500");
    assert_eq!(late, ["T: 0 ( 1000) P: 0 I:2000 C:   4999 Min:     52 Act:   52 Avg:   52 Max:      52"]);
}

#[test]
fn schbench_tells_percentiles() {
    let idle = alone("schbench -m 1 -t 1 -c 1000", 2, "");
    let names = ["\t50.0th: ", "\t75.0th: ", "\t90.0th: ", "\t95.0th: ", "\t*99.0th: ", "\t99.5th: ", "\t99.9th: "];
    let values = |lines: &[String]| -> Vec<f64> {
        assert_eq!((lines[0].as_str(), lines.len()), ("Latency percentiles (usec)", 9));
        let percentiles = lines[1..8].iter().zip(names).map(|(line, name)| number(line.strip_prefix(name).unwrap()));
        let (min, max) = lines[8].strip_prefix("\tmin=").unwrap().split_once(", max=").unwrap();
        [number(min)].into_iter().chain(percentiles).chain([number(max)]).collect()
    };
    assert_eq!(values(&idle), [0.0; 9], "it does not wait");
    // The clock is read once in a pass: the delay of each worker has the wakeups before it.
    let pass = values(&alone("schbench -m 1 -t 32 -c 1000 -r 2", 64, "syscall_ns = 2000"));
    assert!(pass[1] >= 25.0 && pass[4] >= 55.0 && pass[4] < 80.0, "{pass:?}");
    let requests = values(&alone("schbench -m 1 -t 32 -c 1000 -r 2 -R 1000", 64, "syscall_ns = 2000"));
    assert!(requests[4] < 10.0, "{requests:?}");
    let busy = values(&alone("schbench -m 1 -t 4 -c 10000", 2, ""));
    assert!(busy.is_sorted() && busy[8] > 1000.0, "{busy:?}");
}

/// Several benchmarks, each with its own tasks and start, and copies.
#[test]
fn each_has_its_own_lines_and_numbers() {
    let scenario = r#"
[scenario]
kernel = "6.12"
machine = "4"
duration = "5s"

[[workload]]
model = "hackbench -pipe 1 process 20"
start = "300ms"

[[workload]]
model = "pipe-test 2000"
copies = 2

[[workload]]
model = "kernbench -j 4 --files=16"

[[workload]]
model = "wakers 2 1ms"
background = true

[[task]]
name = "gcc-1-9"
steps = [{ run = "1ms" }, { sleep = "1ms" }]
"#;
    let text = run(scenario, &[]);
    assert!(!text.contains("$ wakers"), "it prints nothing");
    assert_eq!(text.matches(" usecs/loop.").count(), 2);
    let json: Value = serde_json::from_str(&run(scenario, &["--json"])).unwrap();
    let observed = &json["observed"][0];
    let figure_of = observed["benchmarks"].as_array().unwrap();
    let commands: Vec<&str> = figure_of.iter().map(|one| one["command"].as_str().unwrap()).collect();
    assert_eq!(
        commands,
        ["hackbench -pipe 1 process 20", "pipe-test 2000", "pipe-test 2000", "kernbench -j 4 --files=16"]
    );
    let of = |name: &str| figure_of.iter().find(|one| one["command"].as_str().unwrap().starts_with(name)).unwrap();
    for one in figure_of {
        let lines: Vec<&str> = one["lines"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
        let command = one["command"].as_str().unwrap();
        assert!(text.contains(&format!("$ {command}\n{}\n", lines.join("\n"))), "{command}: {lines:?}");
    }
    let hackbench = of("hackbench")["numbers"]["time_s"].as_f64().unwrap();
    // From its own start, whether its tasks were there before it or are forked then: without a gate that was 0.
    let gated: Value = serde_json::from_str(&run(scenario, &["--json", "--gate"])).unwrap();
    let gated = gated["observed"][0]["benchmarks"][0]["numbers"]["time_s"].as_f64().unwrap();
    for time in [hackbench, gated] {
        assert!((0.0005..0.3).contains(&time), "without a gate {hackbench}, with one {gated}");
    }
    // The time is that of make and its children, without the neighbour of a similar name.
    let numbers = &of("kernbench")["numbers"];
    let value = |name: &str| numbers[name].as_f64().unwrap();
    let percent = 100.0 * (value("user_s") + value("system_s")) / value("elapsed_s");
    assert!((percent - value("percent_cpu")).abs() < 0.01, "{numbers}");
    // The page cache costs 0.5 s beside the work.
    assert!((6.1..6.3).contains(&value("user_s")), "{numbers}");
}
