//! What goes to standard output and standard error.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process;

use vruntime_report::{printable_json, printable_text};
use vruntime_workload::plain;

/// Tables fit the terminal; anywhere else a row is a line, however long.
pub(crate) fn fit_tables() {
    let out = io::stdout();
    vruntime_report::set_width(out.is_terminal().then(|| columns(&out).unwrap_or(vruntime_report::WIDTH)));
}

/// The width of the terminal, if it tells.
#[cfg(unix)]
fn columns(out: &io::Stdout) -> Option<u16> {
    rustix::termios::tcgetwinsize(out).ok().map(|size| size.ws_col).filter(|&columns| columns > 0)
}

/// The width of the terminal, if it tells.
#[cfg(not(unix))]
fn columns(_out: &io::Stdout) -> Option<u16> {
    None
}

/// Prints results; nothing in them speaks to the terminal. A reader that went away (`vruntime … | head`) is no error.
pub(crate) fn print(text: &str) {
    write(&printable_text(text));
}

fn write(text: &str) {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => process::exit(0),
        Err(error) => {
            note(&format!("cannot write to standard output: {error}"));
            process::exit(1);
        }
    }
}

/// Prints JSON, a line at its end.
pub(crate) fn print_json(value: &serde_json::Value) {
    write(&printable_json(&format!("{value:#}\n")));
}

/// Tells the user something beside the results.
pub(crate) fn note(text: &str) {
    // Standard error is the last resort; if it is closed nobody listens.
    let _told = writeln!(io::stderr(), "note: {}", plain(text));
}

/// Prints an error, or a warning, with its place and how to mend it.
pub(crate) fn complain(report: &miette::Report) {
    let _told = writeln!(io::stderr(), "{}", crate::complaint::text(report));
}
