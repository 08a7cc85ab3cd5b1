//! The commands beside a user's policy. This program has no test harness: with [`COMMAND`] it is the command, with the
//! policy of `vruntime new-policy`.

#[allow(
    unused_imports,
    dead_code,
    unreachable_pub,
    reason = "the module of a library, whose own tests do not run here"
)]
#[path = "../embedded/policy/policy.rs"]
mod policy;

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Output};

use serde_json::Value;
use vruntime::UserPolicy;

/// Set in the environment of the program that is the command.
const COMMAND: &str = "VRUNTIME_TEST_IS_COMMAND";
const SCENARIO: &str = "machine = \"2\"\nduration = \"300ms\"\n[[task]]\nname = \"hog\"\ninstance = 5\nrun = \"7ms\"\n\
                        [[task]]\nname = \"beat\"\nrun = \"1ms\"\nsleep = \"3ms\"\n";

fn main() -> ExitCode {
    if std::env::var_os(COMMAND).is_some() {
        return vruntime::main(vec![UserPolicy::new::<policy::RoundRobin>("mine")]);
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("s.toml"), SCENARIO).unwrap();
    well(folder.path(), "run s.toml --out recorded");
    replays_under_the_policy(folder.path());
    bisect_rejects_the_policy(folder.path());
    kernels_describes_the_policy(folder.path());
    println!("the commands beside a user's policy: ok");
    ExitCode::SUCCESS
}

fn output(folder: &Path, arguments: &str) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.current_dir(folder).args(arguments.split(' ')).env(COMMAND, "1").env("NO_COLOR", "1");
    command.output().unwrap()
}

fn well(folder: &Path, arguments: &str) -> String {
    let output = output(folder, arguments);
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The what-if of a replay runs under the policy; the replay as recorded does not.
fn replays_under_the_policy(folder: &Path) {
    let replay = "replay recorded/trace.txt --recorded-kernel 6.12 --kernel";
    let text = well(folder, &format!("{replay} mine"));
    assert!(text.contains("What if: 2 CPUs under policy mine on Linux 6.12"), "{text}");
    let [built_in, mine, longer] = ["6.1", "mine", "mine+tick_ns=1"].map(|kernel| {
        let arguments = format!("{replay} {kernel} --repeat 1 --json");
        let output = output(folder, &arguments);
        (output.status.code(), serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default())
    });
    let kernels =
        |json: &Value| json["runs"].as_array().unwrap().iter().map(|run| run["kernel"].clone()).collect::<Vec<_>>();
    assert_eq!(kernels(&mine.1), ["6.12", "mine"], "{:#}", mine.1["runs"]);
    assert_eq!(built_in.1["digests"][0], mine.1["digests"][0], "as recorded");
    assert_ne!(mine.1["digests"][0], mine.1["digests"][1]);
    assert_ne!(built_in.1["digests"][1], mine.1["digests"][1]);
    // Its changes are those of the kernel.
    assert_eq!(longer.0, Some(1), "{longer:?}");
}

/// Nothing lies between a policy and a kernel that could be switched one by one.
fn bisect_rejects_the_policy(folder: &Path) {
    for sides in ["--from 6.12 --to mine", "--from mine --to 6.12"] {
        for file in ["s.toml", "recorded/trace.txt"] {
            let output = output(folder, &format!("bisect {file} {sides}"));
            let stderr = String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<&str>>().join(" ");
            assert_eq!(output.status.code(), Some(1), "{stderr}");
            assert!(stderr.contains("cannot bisect policy `mine`"), "{stderr}");
            assert!(stderr.contains(&format!("compare {file} --kernel 6.12 --kernel mine")), "{stderr}");
        }
    }
}

/// `kernels` lists the policy, and describes it with the features and tunables of its kernel.
fn kernels_describes_the_policy(folder: &Path) {
    let all = well(folder, "kernels").split_whitespace().collect::<Vec<&str>>().join(" ");
    assert!(all.contains("mine own Your policy replaces the fair class of Linux 6.12."), "{all}");
    let one = well(folder, "kernels mine");
    assert!(one.starts_with("Policy mine: Your policy replaces the fair class of Linux 6.12."), "{one}");
    assert!(one.contains("base_slice_ns") && one.contains("TTWU_QUEUE"), "{one}");
    let json = |arguments: &str| serde_json::from_str::<Value>(&well(folder, arguments)).expect("JSON");
    let list = json("kernels --json");
    let last = list.as_array().expect("it is a list").last().expect("it is last");
    assert_eq!([&last["kernel"], &last["policy"], &last["on"]], ["mine", "own", "6.12"]);
    let (one, kernel) = (json("kernels mine --json"), json("kernels 6.12 --json"));
    assert_eq!([&one["kernel"], &one["policy"], &one["on"]], ["mine", "own", "6.12"]);
    assert_eq!([&one["features"], &one["tunables"]], [&kernel["features"], &kernel["tunables"]]);
    assert_eq!(well(folder, "kernels --behaviours mine --json"), well(folder, "kernels --behaviours 6.12 --json"));
    let output = output(folder, "kernels mime");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && stderr.contains("there is no kernel `mime`"), "{stderr}");
}
