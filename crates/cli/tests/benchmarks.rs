//! The benchmarks' own lines, after the table and in JSON.

use std::process::Command;

use serde_json::Value;

const SCENARIO: &str = r#"
[scenario]
kernel = "6.12"
machine = "2"
duration = "1s"

[[workload]]
model = "hackbench -pipe 1 process 20"

[[workload]]
model = "lat_ctx -s 0 2"
start = "200ms"
background = true

[[workload]]
model = "pipe-test 2000"

[[workload]]
model = "sysbench cpu --num-threads=2"
background = true

[[workload]]
model = "schbench -m 1 -t 2 -c 1000"
background = true

[[workload]]
model = "cyclictest -t 2 -p 80"
background = true

[[workload]]
model = "kernbench -j 4 --files=16"

[[workload]]
model = "wakers 2 1ms"
background = true
"#;

fn run(more: &[&str]) -> String {
    let file = std::env::temp_dir().join(format!("vruntime-benchmarks-{}-{}.toml", std::process::id(), more.len()));
    std::fs::write(&file, SCENARIO).unwrap();
    let done = Command::new(env!("CARGO_BIN_EXE_vruntime")).arg("run").arg(&file).args(more).output().unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// What follows the benchmark's command, up to the next empty line but one.
fn lines_of<'a>(text: &'a str, command: &str) -> Vec<&'a str> {
    let lines = text.lines().skip_while(|line| *line != format!("$ {command}")).skip(1);
    lines
        .take_while(|line| !line.starts_with("$ ") && !line.starts_with("seed "))
        .filter(|line| !line.is_empty())
        .collect()
}

fn number(text: &str) -> f64 {
    text.parse().unwrap_or_else(|_| panic!("`{text}` is no number"))
}

#[test]
fn benchmarks_print_their_own_lines() {
    let text = run(&[]);
    let hackbench = lines_of(&text, "hackbench -pipe 1 process 20");
    let time = number(hackbench[0].strip_prefix("Time: ").unwrap());
    assert!(hackbench.len() == 1 && time > 0.0 && time < 1.0, "{hackbench:?}");
    let lat_ctx = lines_of(&text, "lat_ctx -s 0 2");
    assert_eq!(lat_ctx[0], "\"size=0k ovr=0.60", "two system calls of 300 ns");
    assert!(number(lat_ctx[1].strip_prefix("2 ").unwrap()) > 1.0, "{lat_ctx:?}");
    let pipe = lines_of(&text, "pipe-test 2000");
    assert!(number(pipe[0].strip_suffix(" usecs/loop.").unwrap()) > 2.0, "{pipe:?}");
    let sysbench = lines_of(&text, "sysbench cpu --num-threads=2");
    assert_eq!(sysbench[1], "    total time:                          1.0000s");
    assert!(sysbench.iter().any(|line| line.starts_with("    events (avg/stddev):")), "{sysbench:?}");
    let schbench = lines_of(&text, "schbench -m 1 -t 2 -c 1000");
    assert_eq!(schbench[0], "Latency percentiles (usec)");
    assert!(schbench[3].starts_with("\t*99.0th: ") && schbench.len() == 6, "{schbench:?}");
    let cyclictest = lines_of(&text, "cyclictest -t 2 -p 80");
    assert!(cyclictest[0].starts_with("T: 0 P:80 I:1000 C:    9"), "{cyclictest:?}");
    assert!(cyclictest[1].starts_with("T: 1 P:79 I:1500 C:    66"), "{cyclictest:?}");
    let kernbench = lines_of(&text, "kernbench -j 4 --files=16");
    let names = ["Elapsed Time", "User Time", "System Time", "Percent CPU", "Context Switches", "Sleeps"];
    assert!(
        kernbench.len() == 6 && kernbench.iter().zip(names).all(|(line, name)| line.starts_with(name)),
        "{kernbench:?}"
    );
    assert!(!text.contains("$ wakers"), "it prints nothing");
}

/// Elapsed, user and system time and the percentage are of one another.
#[test]
fn json_has_the_numbers() {
    let json: Value = serde_json::from_str(&run(&["--json"])).unwrap();
    let told = json["observed"][0]["benchmarks"].as_array().unwrap();
    let of = |name: &str| told.iter().find(|one| one["command"].as_str().unwrap().starts_with(name)).unwrap();
    assert_eq!(told.len(), 7);
    let numbers = &of("kernbench")["numbers"];
    let value = |name: &str| numbers[name].as_f64().unwrap();
    let percent = 100.0 * (value("user_s") + value("system_s")) / value("elapsed_s");
    assert!((percent - value("percent_cpu")).abs() < 0.01, "{numbers}");
    assert!(value("elapsed_s") > 0.99 && value("sleeps") > 0.0, "cut off after a second: {numbers}");
    let threads = of("cyclictest")["numbers"]["threads"].as_array().unwrap();
    assert_eq!((threads.len(), &threads[1]["priority"]), (2, &79.into()));
    assert!(of("hackbench")["lines"][0].as_str().unwrap().starts_with("Time: "));
}
