//! The `vruntime` command.
fn main() {}
