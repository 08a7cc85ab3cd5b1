//! A closed pipe is no error: `cargo xtask whatif --list | head -1`.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

/// The reader closes the pipe before the first line.
#[test]
fn a_closed_pipe_ends_a_listing_without_a_message() {
    for arguments in [&["whatif", "--list"][..], &["layers"]] {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let start = |stdout: Stdio| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_vruntime-xtask"));
            command.args(arguments).current_dir(root).stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped());
            command.spawn().expect("it starts")
        };
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = start(writer.into()).wait_with_output().expect("it ends");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        // With a reader it prints.
        let mut whole = start(Stdio::piped());
        let mut first = String::new();
        let mut out = BufReader::new(whole.stdout.take().expect("piped"));
        out.read_line(&mut first).expect("text");
        assert!(!first.is_empty(), "{arguments:?}");
        out.read_to_end(&mut Vec::new()).expect("the rest");
        assert!(whole.wait().expect("it ends").success(), "{arguments:?}");
    }
}
