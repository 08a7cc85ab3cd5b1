//! No output of a command replaces a file that the command reads.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const WORKLOAD: &str =
    r#"{"global": {"duration": 1}, "tasks": {"a": {"instance": 2, "run": 1000, "sleep": 1000, "loop": 20}}}"#;
const SCENARIO: &str = "[machine]\nlstopo = \"topo.xml\"\n\n[[workload]]\nrtapp = \"w.json\"\n";
const TOPOLOGY: &str = r#"<topology version="2.0"><object type="Machine" os_index="0"><object type="Package" os_index="0">
    <object type="Core" os_index="0"><object type="PU" os_index="0"/></object>
    <object type="Core" os_index="1"><object type="PU" os_index="1"/></object></object></object></topology>"#;
const MACHINE: &str = "[machine]\ntopology = \"pack:1 core:2\"\n\n[costs]\nidle_exit_ns = 3000\n";
const RULES: &str = "[[rule]]\nregex = \"a\"\nnice = 5\n";

/// A command (`<` redirects its standard input), and the files that it reads.
type Case = (&'static str, &'static [&'static str]);

/// What makes a command write a file, and that file.
type Target = (&'static str, &'static str);

const RUN: &[Target] = &[
    ("--html o/page.html", "o/page.html"),
    ("--out o", "o/results.json"),
    ("--out o", "o/trace.txt"),
    ("--tables o --format json", "o/tasks.json"),
    ("--tables o", "o/cpus.csv"),
    ("--rtapp-log o", "o/rt-app-a-0.log"),
];
const RUNS: &[Case] = &[
    ("run w.json", &["w.json"]),
    ("run s.toml", &["s.toml", "w.json", "topo.xml"]),
    ("run w.json --map rules.toml", &["rules.toml"]),
    ("run w.json --machine machine.toml", &["machine.toml"]),
    ("run w.json --machine topo.xml", &["topo.xml"]),
    ("run rec/linux-6.12/three-hogs.json", &["rec/linux-6.12/three-hogs.json"]),
    ("run - <w.json", &["w.json"]),
    ("run /dev/stdin <w.json", &["w.json"]),
];
const COMPARE: &[Target] = &[
    ("--html o/page.html", "o/page.html"),
    ("--out o", "o/comparison.json"),
    ("--out o", "o/6.6/trace.txt"),
    ("--tables o", "o/comparison.csv"),
    ("--tables o --format json", "o/6.12-tasks.json"),
];
const COMPARES: &[Case] = &[
    ("compare s.toml --kernel 6.12 --kernel 6.6", &["s.toml", "w.json", "topo.xml"]),
    ("compare w.json --kernel 6.12 --kernel 6.6 --machine machine.toml", &["machine.toml"]),
    ("compare - --kernel 6.12 --kernel 6.6 <w.json", &["w.json"]),
];
const REPLAY: &[Target] = &[
    ("--html o/page.html", "o/page.html"),
    ("--out o", "o/replayed/trace.perfetto-trace"),
    ("--tables o", "o/replay_tasks.csv"),
];
const REPLAYS: &[Case] = &[
    ("replay t.txt", &["t.txt"]),
    ("replay t.txt --map rules.toml", &["rules.toml"]),
    ("replay t.txt --machine machine.toml", &["machine.toml"]),
    ("replay t.txt --recorded-machine topo.xml", &["topo.xml"]),
    ("replay t.txt --beside s.toml", &["s.toml", "w.json"]),
    ("replay - <t.txt", &["t.txt"]),
];
const REPORTS: &[Target] =
    &[("--html o/page.html", "o/page.html"), ("--tables o", "o/latency.csv"), ("--tables o", "o/cells.csv")];
const FIDELITY: &[Case] = &[
    ("fidelity rec", &["rec/linux-6.12/three-hogs.json"]),
    ("fidelity rec --costs machine.toml", &["machine.toml"]),
    ("fidelity rec --against again", &["rec/linux-6.12/three-hogs.json", "again/linux-6.12/three-hogs.json"]),
];
const ALL: &[(&[Case], &[Target])] = &[
    (RUNS, RUN),
    (COMPARES, COMPARE),
    (REPLAYS, REPLAY),
    (&[("trace analyse t.txt", &["t.txt"]), ("trace analyse - <t.txt", &["t.txt"])], REPORTS),
    (FIDELITY, REPORTS),
    (&[("trace info t.txt", &["t.txt"]), ("trace info - <t.txt", &["t.txt"])], &[("--tables o", "o/events.csv")]),
    (&[("diff t.txt u.txt", &["t.txt", "u.txt"])], &[("--tables o", "o/diff.csv")]),
    (&[("trace convert t.txt", &["t.txt"]), ("trace convert - <t.txt", &["t.txt"])], &[("o/c.pftrace", "o/c.pftrace")]),
    #[cfg(target_os = "linux")]
    (&[("real w.json", &["w.json"])], &[("--out o", "o/results.json"), ("--rtapp-log o", "o/x-a-1.log")]),
    #[cfg(target_os = "linux")]
    (&[("real s.toml", &["w.json"])], &[("--out o", "o/results.json"), ("--out o", "o/trace.txt")]),
];

fn start(folder: &Path, line: &str, stdout: Stdio) -> Output {
    let (line, input) = line.split_once(" <").map_or((line.to_owned(), None), |(line, rest)| {
        let (input, options) = rest.split_once(' ').unwrap_or((rest, ""));
        (format!("{line} {options}"), Some(input))
    });
    let stdin = input.map_or_else(Stdio::null, |input| Stdio::from(File::open(folder.join(input)).unwrap()));
    let mut command = Command::new(env!("CARGO_BIN_EXE_vruntime"));
    command.current_dir(folder).env("NO_COLOR", "1").args(line.split_whitespace());
    command.stdin(stdin).stdout(stdout).stderr(Stdio::piped()).output().unwrap()
}

/// A folder with all inputs.
fn inputs() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let texts = [
        ("w.json", WORKLOAD),
        ("s.toml", SCENARIO),
        ("topo.xml", TOPOLOGY),
        ("machine.toml", MACHINE),
        ("rules.toml", RULES),
    ];
    for (name, text) in texts {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let made = start(folder.path(), "run w.json --machine 2 --out made", Stdio::piped());
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for name in ["t.txt", "u.txt"] {
        fs::copy(folder.path().join("made/trace.txt"), folder.path().join(name)).unwrap();
    }
    fs::remove_dir_all(folder.path().join("made")).unwrap();
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fidelity/ground-truth/linux-6.12/three-hogs.json");
    for name in ["rec/linux-6.12", "again/linux-6.12"] {
        fs::create_dir_all(folder.path().join(name)).unwrap();
        fs::copy(recording, folder.path().join(name).join("three-hogs.json")).unwrap();
    }
    folder
}

/// Every file below a folder, and its bytes.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.insert(path.clone(), fs::read(path).unwrap());
        }
    }
    found
}

/// Runs a command that must refuse, and returns what is wrong with its refusal.
fn wrong(folder: &Path, line: &str, stdout: Stdio) -> Option<String> {
    let before = contents(folder);
    let output = start(folder, line, stdout);
    let stderr = String::from_utf8_lossy(&output.stderr).replace("\n  │ ", " ");
    let why = if contents(folder) != before {
        "files were changed"
    } else if output.status.code() != Some(1) || !output.stdout.is_empty() {
        "it ran"
    } else if !stderr.contains("written over") || !stderr.contains("help: ") {
        "it does not say why"
    } else {
        return None;
    };
    Some(format!("{line}: {why}: {}: {stderr}", output.status))
}

#[test]
fn no_command_writes_over_what_it_reads() {
    let folder = inputs();
    let path = |name: &str| folder.path().join(name);
    let (mut problems, mut count) = (Vec::new(), 0);
    for (cases, targets) in ALL {
        for ((line, inputs), (options, target)) in
            cases.iter().flat_map(|case| targets.iter().map(move |target| (case, target)))
        {
            for (input, is_hard) in inputs.iter().flat_map(|input| [(input, true), (input, false)]) {
                fs::create_dir_all(path(target).parent().unwrap()).unwrap();
                if is_hard {
                    fs::hard_link(path(input), path(target)).unwrap();
                } else {
                    symlink(path(input), path(target)).unwrap();
                }
                count += 1;
                let how = if is_hard { "hard link" } else { "symbolic link" };
                let found = wrong(folder.path(), &format!("{line} {options}"), Stdio::piped());
                problems.extend(found.map(|problem| format!("{target}, a {how} to {input}: {problem}")));
                fs::remove_dir_all(path("o")).unwrap();
                if let Some(text) = problems.last().filter(|text| text.contains("files were changed")) {
                    panic!("{text}");
                }
            }
        }
    }
    assert!(problems.is_empty(), "{} of {count}:\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn no_option_names_an_input() {
    let folder = inputs();
    let cases = [RUNS, COMPARES, REPLAYS, FIDELITY].concat();
    for (line, input) in cases.iter().flat_map(|(line, inputs)| inputs.iter().map(move |input| (line, input))) {
        assert_eq!(wrong(folder.path(), &format!("{line} --html ./{input}"), Stdio::piped()), None);
        let appended = File::options().append(true).open(folder.path().join(input)).unwrap();
        assert_eq!(wrong(folder.path(), line, Stdio::from(appended)), None);
    }
}

/// A table that a command does not write may be an input.
#[test]
fn what_is_not_written_may_be_read() {
    let folder = inputs();
    for name in ["my-tasks.json", "workload.json", "events.json.json"] {
        fs::copy(folder.path().join("w.json"), folder.path().join(name)).unwrap();
        let output =
            start(folder.path(), &format!("run {name} --tables . --format json --html page.html"), Stdio::piped());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(fs::read_to_string(folder.path().join(name)).unwrap(), WORKLOAD);
        assert!(folder.path().join("tasks.json").exists());
    }
}

/// A failed write, as on a full disk, leaves the old file and nothing else.
#[test]
fn what_is_not_whole_has_no_name() {
    let folder = inputs();
    let lines = [
        ("run w.json --html o/page.html", "o/page.html"),
        ("run w.json --out o", "o/trace.txt"),
        ("run w.json --out o", "o/results.json"),
        ("run w.json --tables o --format json", "o/tasks.json"),
        ("run w.json --tables o", "o/tasks.csv"),
        ("compare w.json --kernel 6.6 --kernel 6.12 --out o", "o/6.6/trace.perfetto-trace"),
        ("run w.json --rtapp-log o", "o/rt-app-a-0.log"),
        ("init --force o/x.toml", "o/x.toml"),
        ("replay t.txt --html o/page.html", "o/page.html"),
        ("trace convert t.txt o/c.txt", "o/c.txt"),
        ("trace convert t.txt o/c.pftrace", "o/c.pftrace"),
    ];
    for (line, target) in lines {
        for before in [Some("before"), None] {
            let target = folder.path().join(target);
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            if let Some(before) = before {
                fs::write(&target, before).unwrap();
            }
            // No file may have more than 512 bytes: writing more fails, for the signal is ignored.
            let limited = format!("trap '' XFSZ; ulimit -f 1; exec \"$0\" {line}");
            let mut command = Command::new("sh");
            command.current_dir(folder.path()).args(["-c", &limited, env!("CARGO_BIN_EXE_vruntime")]);
            let output = command.output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(1), "{line}: {stderr}");
            assert!(stderr.contains("cannot write o/"), "{line}: {stderr}");
            assert_eq!(fs::read_to_string(&target).ok().as_deref(), before, "{line}: {stderr}");
            for (path, bytes) in contents(&folder.path().join("o")) {
                assert!(
                    bytes.len() < 512 && !path.display().to_string().contains(".part"),
                    "{line}: {}",
                    path.display()
                );
            }
            fs::remove_dir_all(folder.path().join("o")).unwrap();
        }
    }
}

/// An incomplete crate of a policy is removed.
#[test]
fn a_policy_that_cannot_be_written_has_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let limited = "trap '' XFSZ; ulimit -f 1; exec \"$0\" new-policy mine --vruntime \"$1\"";
    let mut command = Command::new("sh");
    let checkout = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    command.current_dir(folder.path()).args(["-c", limited, env!("CARGO_BIN_EXE_vruntime"), checkout]);
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && stderr.contains("cannot write"), "{stderr}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
