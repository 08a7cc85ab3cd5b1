//! Output on a disk that is full: a small tmpfs in a mount namespace of its own.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

#[path = "../../../tests/skip.rs"]
mod skip;

/// Bytes of the disk, less than any output below needs.
const SIZE: &str = "64k";

/// Runs a shell script in a mount namespace in which the folder `disk` is small. None if that is not permitted.
fn on_small_disk(folder: &Path, script: &str) -> Option<Output> {
    let mounted = folder.join("mounted");
    let script = format!("mount -t tmpfs -o size={SIZE} none disk && touch mounted && cd disk || exit 1\n{script}");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]).current_dir(folder).env("LC_ALL", "C").env("NO_COLOR", "1");
    command.env("VRUNTIME", env!("CARGO_BIN_EXE_vruntime"));
    let Ok(output) = command.output() else {
        skip::skip("there is no unshare");
        return None;
    };
    if !mounted.exists() {
        skip::skip(&format!("no tmpfs can be mounted: {}", String::from_utf8_lossy(&output.stderr).trim()));
        return None;
    }
    Some(output)
}

/// Fills `folder` with an empty `disk`, and `source` with the traces of a run.
fn prepare(folder: &Path) {
    fs::create_dir(folder.join("disk")).expect("it is new");
    let source = Command::new(env!("CARGO_BIN_EXE_vruntime"))
        .args(["run", "demo", "--duration", "300ms", "--out", "source"])
        .current_dir(folder)
        .output()
        .expect("it runs");
    assert!(source.status.success(), "{}", String::from_utf8_lossy(&source.stderr));
}

/// A command that fails for lack of room leaves no new file, and keeps an older one.
#[test]
fn no_file_looks_complete_on_a_full_disk() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let path = folder.path();
    prepare(path);
    for (arguments, older) in [
        ("run demo --out new", ""),
        ("run demo --html page.html", ""),
        ("run demo --html page.html", "page.html"),
        ("compare demo --kernel 6.1 --kernel 6.12 --repeat 1 --out new", ""),
        ("replay ../source/trace.txt --out new", ""),
        ("bisect demo --from 6.1 --to 6.6 --budget 3 --html page.html", "page.html"),
        ("trace convert ../source/trace.txt new.perfetto-trace", ""),
        ("trace convert ../source/trace.perfetto-trace new.txt", "new.txt"),
    ] {
        let before = if older.is_empty() { String::new() } else { format!("echo older > {older}\n") };
        let script = format!(
            "{before}\"$VRUNTIME\" {arguments} > ../out 2> ../err; echo $? > ../status\n\
             find . -type f > ../left; cat $(cat ../left) > ../content"
        );
        if on_small_disk(path, &script).is_none() {
            return;
        }
        let read = |name: &str| fs::read_to_string(path.join(name)).unwrap_or_default();
        let (status, stderr) = (read("status"), read("err"));
        assert_eq!(status, "1\n", "{arguments}: {stderr}");
        assert!(stderr.contains("cannot write") && stderr.contains("No space left on device"), "{arguments}: {stderr}");
        let (left, content) = if older.is_empty() { (String::new(), "") } else { (format!("./{older}\n"), "older\n") };
        assert_eq!((read("left"), read("content").as_str()), (left, content), "{arguments}");
        fs::remove_file(path.join("mounted")).expect("it was mounted");
    }
}

/// A file with a second name keeps its content if there is no room for the new content.
#[test]
fn a_file_with_two_names_keeps_its_content_on_a_full_disk() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let path = folder.path();
    prepare(path);
    // The page takes most of the disk, so that a second copy has no room.
    let page = Command::new(env!("CARGO_BIN_EXE_vruntime"))
        .args(["trace", "convert", "source/trace.txt", "all.txt"])
        .current_dir(path)
        .output()
        .expect("it runs");
    assert!(page.status.success(), "{}", String::from_utf8_lossy(&page.stderr));
    let script = "echo old > one.txt; ln one.txt other; size=$(stat -c %s ../all.txt)\n\
         mount -o remount,size=$((size + size / 2 + 8192)) . || exit 1\n\
         \"$VRUNTIME\" trace convert ../source/trace.txt one.txt > ../out 2> ../err; echo $? > ../status; cat other > ../content";
    if on_small_disk(path, script).is_none() {
        return;
    }
    let read = |name: &str| fs::read_to_string(path.join(name)).unwrap_or_default();
    assert_eq!((read("status").as_str(), read("content").as_str()), ("1\n", "old\n"), "{}", read("err"));
    assert!(read("err").contains("the whole content is in"), "{}", read("err"));
}

/// A recording that fills the disk ends, and keeps its events. One that cannot be written keeps the earlier file.
#[test]
fn recordings_on_a_full_disk_are_complete_or_not_there() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let path = folder.path();
    fs::create_dir(path.join("disk")).expect("it is new");
    let busy = "while :; do /bin/true; done";
    for (size, complete) in [("6m", true), ("300k", false)] {
        let script = format!(
            "mount -o remount,size={size} . || exit 1; echo older > r.dat\n\
             timeout 60 \"$VRUNTIME\" record --no-calibrate --out r.dat --duration 20s -- sh -c '{busy}' > ../out 2> ../err\n\
             echo $? > ../status; find . -type f | sort > ../left; head -c 6 r.dat > ../begin\n\
             \"$VRUNTIME\" trace info r.dat > ../info 2>&1"
        );
        if on_small_disk(path, &script).is_none() {
            return;
        }
        let read = |name: &str| String::from_utf8_lossy(&fs::read(path.join(name)).unwrap_or_default()).into_owned();
        if read("err").contains("cannot be recorded") {
            skip::skip("this machine's kernel does not permit recordings");
            return;
        }
        assert_eq!(read("left"), "./r.dat\n", "{size}: {}", read("err"));
        if complete {
            assert_eq!(read("status"), "0\n", "{}", read("err"));
            assert!(read("out").contains("until the events could not be written"), "{}", read("out"));
            assert!(read("info").contains("sched_switch"), "{}", read("info"));
        } else {
            assert!(read("status") == "1\n" && read("begin") == "older\n", "{}", read("err"));
        }
        fs::remove_file(path.join("mounted")).expect("it was mounted");
    }
}

/// The trace of a real run appears under its name only if it is complete.
#[test]
fn the_trace_of_a_real_run_is_complete_or_not_there() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let path = folder.path();
    fs::create_dir(path.join("disk")).expect("it is new");
    let text = r#"{"global": {"duration": 1}, "tasks": {"t": {"loop": -1, "run": 50, "sleep": 100}}}"#;
    fs::write(path.join("run.json"), text).expect("it can be written");
    let script = "\"$VRUNTIME\" real ../run.json --out out > ../out 2> ../err; echo $? > ../status; find . -type f | sort > ../left";
    if on_small_disk(path, script).is_none() {
        return;
    }
    let read = |name: &str| fs::read_to_string(path.join(name)).unwrap_or_default();
    if read("err").contains("would not record") {
        skip::skip("this machine's kernel does not permit recordings");
        return;
    }
    assert!(read("err").contains("No space left on device"), "{}", read("err"));
    assert_eq!(read("status"), "1\n", "{}", read("err"));
    assert!(!read("left").contains("trace.txt") && !read("left").contains(".part"), "{}", read("left"));
}

/// The error of every output says which file has no room.
#[test]
fn every_error_on_a_full_disk_names_the_file() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let path = folder.path();
    prepare(path);
    let logged = r#"{"global": {"duration": 1}, "tasks": {"t": {"loop": 3, "run": 1000, "sleep": 1000}}}"#;
    fs::write(path.join("logged.json"), logged).expect("it can be written");
    let checkout = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let policy = format!("new-policy mine --vruntime {checkout}");
    for (arguments, file) in [
        ("run demo --duration 1ms --out new", "new/trace.perfetto-trace"),
        ("run demo --duration 1ms --html page.html", "page.html"),
        ("run demo --duration 1ms --tables new", "new/"),
        ("run demo --duration 1ms --tables new --format json", "new/"),
        ("run ../logged.json --rtapp-log new", "new/rt-app-t-0.log"),
        ("compare demo --duration 1ms --kernel 6.1 --kernel 6.12 --repeat 1 --out new", "new/6.1/trace.perfetto-trace"),
        ("replay ../source/trace.txt --html page.html", "page.html"),
        ("replay ../source/trace.txt --out new", "new/"),
        ("bisect demo --from 6.1 --to 6.6 --budget 1 --html page.html", "page.html"),
        ("trace convert ../source/trace.txt new.perfetto-trace", "new.perfetto-trace"),
        ("trace convert ../source/trace.perfetto-trace new.txt", "new.txt"),
        ("trace analyse ../source/trace.txt --html page.html", "page.html"),
        ("trace analyse ../source/trace.txt --tables new", "new/"),
        ("init new.toml", "new.toml"),
        ("man new", "new/vruntime"),
        (&policy, "mine/"),
    ] {
        let script = format!(
            "head -c 65536 /dev/zero > full\n\
             \"$VRUNTIME\" {arguments} > ../out 2> ../err; echo $? > ../status"
        );
        if on_small_disk(path, &script).is_none() {
            return;
        }
        let read = |name: &str| fs::read_to_string(path.join(name)).unwrap_or_default();
        let (status, stderr) = (read("status"), read("err"));
        assert_eq!(status, "1\n", "{arguments}: {stderr}");
        let named = stderr.contains(&format!("cannot write {file}"));
        assert!(named && stderr.contains("No space left on device"), "{arguments}: {stderr}");
        fs::remove_file(path.join("mounted")).expect("it was mounted");
    }
}
