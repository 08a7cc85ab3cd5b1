//! Writes to standard output and standard error.

use std::collections::BTreeSet;
#[cfg(unix)]
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::{env, process};

use miette::miette;
use vruntime_report::{printable_json, printable_text};
use vruntime_workload::plain;

use crate::complaint::{self, Complaint};
use crate::inputs;

/// Fits tables to the terminal. Elsewhere, each row is one line.
pub(crate) fn fit_tables() {
    let out = io::stdout();
    vruntime_report::set_width(out.is_terminal().then(|| columns(&out).unwrap_or(vruntime_report::WIDTH)));
}

/// Returns the width of the terminal, if known.
#[cfg(unix)]
fn columns(out: &io::Stdout) -> Option<u16> {
    rustix::termios::tcgetwinsize(out).ok().map(|size| size.ws_col).filter(|&columns| columns > 0)
}

#[cfg(not(unix))]
fn columns(_out: &io::Stdout) -> Option<u16> {
    None
}

/// Prints results, without control characters. A closed pipe (`vruntime … | head`) is no error.
pub(crate) fn print(text: &str) {
    write(&printable_text(text));
}

fn write(text: &str) {
    let written = inputs::check_stdout().and_then(|()| stdout()?.write_all(text.as_bytes()));
    flush(written);
}

/// Returns standard output as a file, since [`io::Stdout`] hides the error of a descriptor that cannot be written.
#[cfg(unix)]
pub(crate) fn stdout() -> io::Result<File> {
    use std::os::fd::AsFd;

    check_open()?;
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

#[cfg(not(unix))]
pub(crate) fn stdout() -> io::Result<io::Stdout> {
    Ok(io::stdout())
}

/// Fails if the parent closed standard output, in whose place Rust opens `/dev/null`.
fn check_open() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if vruntime_linux::stdout_was_closed() {
        return Err(io::Error::from(rustix::io::Errno::BADF));
    }
    Ok(())
}

/// Ends the program if standard output failed.
pub(crate) fn flush(written: io::Result<()>) {
    match written.and_then(|()| check_open()).and_then(|()| io::stdout().flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => process::exit(0),
        Err(error) => {
            complain(&cannot_print(&error));
            process::exit(1);
        }
    }
}

pub(crate) fn cannot_print(error: &io::Error) -> miette::Report {
    let help = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free space there, or send standard output elsewhere",
        _ => "send standard output to a file or to a pipe",
    };
    miette!(help = help, "cannot write to standard output: {error}")
}

/// Prints JSON and a line feed.
pub(crate) fn print_json(value: &serde_json::Value) {
    write(&printable_json(&format!("{value:#}\n")));
}

/// Prints a note, once.
pub(crate) fn note(text: &str) {
    static PRINTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    // The set of a poisoned lock is whole.
    if !PRINTED.lock().unwrap_or_else(PoisonError::into_inner).insert(text.to_owned()) {
        return;
    }
    let note = Complaint::new("note", &plain(text));
    if for_programs() { write_messages(&[note]) } else { write_message(&note.text) }
}

/// Prints the notes of several runs. Notes that differ only in times are printed once.
pub(crate) fn notes<'a>(runs: impl Iterator<Item = &'a [String]>) {
    let mut earlier = BTreeSet::new();
    for run in runs {
        run.iter().filter(|text| !earlier.contains(&without_times(text))).for_each(|text| note(text));
        earlier.extend(run.iter().map(|text| without_times(text)));
    }
}

/// Removes times, which differ between seeds, from a note.
fn without_times(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let unit = |word: &str| ["ns", "us", "ms", "s"].contains(&word.trim_end_matches([',', '.', ':', ';', ')']));
    let time = |index: usize| {
        let number = words[index].bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        number && words.get(index + 1).is_some_and(|next| unit(next))
    };
    let of_time = |index: usize| time(index) || index > 0 && time(index - 1);
    let kept = (0..words.len()).filter(|&index| !of_time(index)).map(|index| words[index]);
    kept.collect::<Vec<&str>>().join(" ")
}

/// Prints an error or a warning, with its place and help.
pub(crate) fn complain(report: &miette::Report) {
    if for_programs() {
        write_messages(&complaint::messages(report));
    } else {
        write_message(&complaint::text(report));
    }
}

/// Prints an error of the command line.
pub(crate) fn mistaken(error: &clap::Error) {
    if for_programs() {
        write_messages(&[mistake(error.kind(), error.render().to_string().trim_end())]);
    } else {
        // A failure cannot be reported.
        let _written = error.print();
    }
}

/// Converts clap's text to a message.
fn mistake(kind: clap::error::ErrorKind, text: &str) -> Complaint {
    let in_one_line = |part: &str| part.split_whitespace().collect::<Vec<&str>>().join(" ");
    let mut parts = text.split("\n\n").map(in_one_line);
    let message = match kind {
        clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "a command is missing".to_owned(),
        _ => parts.next().unwrap_or_default(),
    };
    let help = parts.find_map(|part| part.strip_prefix("tip: ").map(str::to_owned));
    let message = Complaint::new("error", message.strip_prefix("error: ").unwrap_or(&message));
    Complaint { help, text: text.to_owned(), ..message }
}

/// The environment variable for the format of messages.
const MESSAGES: &str = "VRUNTIME_MESSAGES";

/// Whether messages are lines of JSON.
fn for_programs() -> bool {
    static ASKED: OnceLock<bool> = OnceLock::new();
    *ASKED.get_or_init(|| env::var_os(MESSAGES).is_some_and(|how| how == "json"))
}

fn write_messages(messages: &[Complaint]) {
    for message in messages {
        write_message(&serde_json::to_string(message).unwrap_or_else(|_| message.text.clone()));
    }
}

/// Prints to standard error, and ignores failures.
fn write_message(text: &str) {
    let _written = writeln!(io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::without_times;

    #[test]
    fn notes_of_several_runs_differ_by_more_than_times() {
        let note = |task: &str, at: &str| format!("task `{task}` waits for mutex `m 3`, from {at} to the end");
        assert_eq!(without_times(&note("a", "3.25095 ms")), without_times(&note("a", "11 ns")));
        assert_ne!(without_times(&note("a", "1 s")), without_times(&note("b", "1 s")));
        assert_eq!(without_times("2 groups at 7 ns: 3 of 4"), "2 groups at 3 of 4");
    }
}
