//! Recordings: a `trace.dat` with a section. This crate and trace-cmd read the written file; damage is an error with
//! its place.

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Command;

use vruntime_trace::read::{Error, Events, TraceDat};
use vruntime_trace::recording::{OPTION, Recording};

mod pieces;
#[path = "../../../tests/skip.rs"]
mod skip;

use pieces::written;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn section() -> Recording {
    let mut section = Recording::default();
    section.add("recording", "{}\n".to_owned());
    section.add("cgroups", "/proc/7/task/7/cgroup:0::/a\n".to_owned());
    section
}

fn events(bytes: &[u8]) -> Result<Vec<String>, Error> {
    let mut reader = TraceDat::new(Cursor::new(bytes))?;
    let mut lines = Vec::new();
    while let Some(record) = reader.next_record()? {
        lines.push(format!("{record:?}"));
    }
    Ok(lines)
}

#[test]
fn what_is_written_is_read_back() {
    let bytes = written(section());
    let reader = TraceDat::new(Cursor::new(&bytes[..])).unwrap();
    let notes = Events::notes(&reader);
    let read = notes.recording.as_ref().expect("there is a section");
    assert_eq!(read.to_bytes(), section().to_bytes());
    let at = read.offset("cgroups").unwrap() as usize;
    assert!(bytes[at..].starts_with(b"/proc/7/task/7/cgroup:0::/a\n"), "the place is that of the part");
    let known = (notes.release.as_deref(), notes.cpus, notes.overwritten, notes.counts_for_time);
    assert_eq!(known, (Some("6.12.3"), Some(2), Some(6), false));
    let original = fs::read(data("trace-v6.dat")).unwrap();
    let (ours, theirs) = (events(&bytes).unwrap(), events(&original).unwrap());
    assert!(theirs.len() > 100, "{}", theirs.len());
    assert_eq!(ours, theirs);
    // A file of trace-cmd has no section.
    assert_eq!(Events::notes(&TraceDat::new(Cursor::new(&original[..])).unwrap()).recording, None);
}

/// A recording says how many events it has, so a file without some of them is incomplete.
#[test]
fn missing_events_are_reported() {
    for (recorded, expected) in [(174, None), (100, None), (175, Some("the file has 174 of the 175 recorded events"))] {
        let mut section = section();
        section
            .add("recording", format!("{{\n  \"event_cost\": {{}},\n  \"events\": {recorded},\n  \"lost\": 0\n}}\n"));
        let mut reader = TraceDat::new(Cursor::new(written(section))).unwrap();
        while reader.next_record().unwrap().is_some() {}
        assert_eq!(Events::notes(&reader).missing_events().as_deref(), expected);
    }
}

/// Text beyond an option's maximum continues in the next option.
#[test]
fn a_long_section_is_put_together_again() {
    let mut long = section();
    long.add("tasks", "x".repeat(20 << 20));
    let bytes = written(long.clone());
    let reader = TraceDat::new(Cursor::new(&bytes[..])).unwrap();
    assert_eq!(Events::notes(&reader).recording.as_ref().map(|read| read.to_bytes()), Some(long.to_bytes()));
}

#[test]
fn a_section_that_is_too_long_is_refused() {
    let mut long = section();
    long.add("tasks", "x".repeat(65 << 20));
    let error = TraceDat::new(Cursor::new(written(long))).unwrap_err().to_string();
    assert!(error.contains("a recording's section of at most 67108864 bytes"), "{error}");
}

/// trace-cmd ignores the unknown option, and prints the events of its own file.
#[test]
fn trace_cmd_opens_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.dat");
    fs::write(&path, written(section())).unwrap();
    let report = |path: &Path| Command::new("trace-cmd").args(["report", "-t", "-i"]).arg(path).output();
    let (Ok(ours), Ok(theirs)) = (report(&path), report(&data("trace-v6.dat"))) else {
        skip::skip("there is no trace-cmd");
        return;
    };
    let lines = |bytes: &[u8]| -> Vec<String> {
        String::from_utf8_lossy(bytes).lines().filter(|line| line.contains(": sched_")).map(str::to_owned).collect()
    };
    assert!(ours.status.success(), "{}", String::from_utf8_lossy(&ours.stderr));
    assert!(lines(&theirs.stdout).len() > 100);
    assert_eq!(lines(&ours.stdout), lines(&theirs.stdout));
}

fn place_of_section(bytes: &[u8]) -> (usize, usize) {
    let at = bytes.windows(20).position(|window| window == b"vruntime-recording 1").unwrap();
    (at, at + section().to_bytes().len())
}

#[test]
fn a_file_cut_within_the_section_is_an_error_with_its_place() {
    let bytes = written(section());
    let (begin, end) = place_of_section(&bytes);
    for cut in begin..end {
        match TraceDat::new(Cursor::new(&bytes[..cut])).map(|_| ()) {
            Err(Error::Damaged { place, .. }) => assert!(place.to_string().starts_with("byte "), "{place}"),
            other => panic!("{cut}: {other:?}"),
        }
    }
}

/// A wrong bit of the section gives another text, or an error with its place.
#[test]
fn flipped_bits_in_the_section_are_read_or_refused() {
    let bytes = written(section());
    let (begin, end) = place_of_section(&bytes);
    let mut refused = 0;
    for at in begin - 6..end {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            match TraceDat::new(Cursor::new(&damaged[..])).map(|_| ()) {
                Err(Error::Damaged { .. } | Error::NotRead { .. }) => refused += 1,
                Ok(()) => {}
                other => panic!("{at} {bit}: {other:?}"),
            }
        }
    }
    assert!(refused > 100, "{refused}");
}

#[test]
fn the_option_is_none_of_trace_cmds() {
    // trace-cmd counts up from 1, and has used 22.
    const { assert!(OPTION > 1000) };
}
