//! The `vruntime` command with a policy of its own: `cargo run -- run scenario.toml --kernel {{name}}`.

mod policy;

use std::process::ExitCode;

use vruntime::UserPolicy;

fn main() -> ExitCode {
    vruntime::main(vec![UserPolicy::new::<policy::RoundRobin>("{{name}}")])
}
