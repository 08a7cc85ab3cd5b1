//! The `vruntime` command.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    vruntime::main(Vec::new())
}
