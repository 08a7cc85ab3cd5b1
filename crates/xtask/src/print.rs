//! Prints to standard output. A closed pipe (`cargo xtask … | head`) ends the program, and is no error.
//!
//! `println!` panics there, so this crate denies `clippy::print_stdout`.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::process;

/// As `print!`.
macro_rules! text {
    ($($arguments:tt)*) => { $crate::print::write(format_args!($($arguments)*)) };
}

/// As `println!`.
macro_rules! line {
    () => { $crate::print::write(format_args!("\n")) };
    ($($arguments:tt)*) => { $crate::print::write_line(format_args!($($arguments)*)) };
}

pub(crate) use {line, text};

/// Writes a line.
pub(crate) fn write_line(text: Arguments<'_>) {
    write(format_args!("{text}\n"));
}

/// Writes, and ends the program if standard output fails: with 0 if a pipe is closed, else with 1.
pub(crate) fn write(text: Arguments<'_>) {
    let mut out = io::stdout().lock();
    match out.write_fmt(text).and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => process::exit(0),
        Err(error) => {
            eprintln!("cannot write to standard output: {error}");
            process::exit(1);
        }
    }
}
