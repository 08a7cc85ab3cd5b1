//! CPUs taken offline during the recording.

use super::*;

/// Two hogs on two CPUs, one of them offline for half of the time: the replay has it offline as long. Each format
/// reports it.
#[test]
fn a_cpu_is_offline_in_the_replay_when_it_was_in_the_recording() {
    let scenario = b"machine = \"2\"\nduration = \"1s\"\n[[task]]\nname = \"hog\"\ninstance = 2\nrun = \"1ms\"\n\
        [[task]]\nname = \"beat\"\nrun = \"100us\"\nsleep = \"9ms\"\n\
        [[hotplug]]\nat = \"250ms\"\ncpu = 1\nonline = false\n[[hotplug]]\nat = \"750ms\"\ncpu = 1\nonline = true\n";
    let folder = tempfile::tempdir().expect("there is room");
    let out = folder.path().to_str().expect("it is UTF-8");
    well(&["run", "-", "--out", out], scenario);
    for file in ["trace.txt", "trace.perfetto-trace"] {
        let trace = format!("{out}/{file}");
        let text = well(&["replay", &trace], b"");
        let note = "\n  2 times a CPU goes offline or online, as recorded\n";
        assert!(text.contains(note) && !text.contains("confined"), "{text}");
        let busy = text.lines().find_map(|line| line.strip_prefix("1  ")).expect("a row of CPU 1");
        let busy: Vec<f64> = busy.split_whitespace().map(|word| word.parse().expect("a number")).collect();
        assert!(busy.iter().all(|busy| (48.0..52.0).contains(busy)), "{text}");
    }
    // On a machine without that CPU there is nothing to take away.
    let output = vruntime(&["replay", &format!("{out}/trace.txt"), "--machine", "1"], b"");
    let stderr = String::from_utf8(output.stderr).expect("it prints UTF-8");
    assert!(
        output.status.success() && stderr.contains("2 changes of CPUs to offline or online are left out"),
        "{stderr}"
    );
}
