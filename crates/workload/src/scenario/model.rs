//! `model = "hackbench"`: the classic benchmarks as workloads.

/// A benchmark whose behaviour is built in. There is none yet: this is where they will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Model {}

impl Model {
    /// The names a scenario may give.
    pub const NAMES: &'static [&'static str] = &[];
}
