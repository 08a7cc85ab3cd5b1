//! Errors in descriptions of machines.

use std::fmt;

use vruntime_sched::TopologyError;

/// Why and where a machine's description is invalid, and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseTopologyError {
    /// Byte offset in the text.
    pub offset: usize,
    /// Bytes concerned, or 0 between two bytes.
    pub len: usize,
    /// The problem.
    pub message: String,
    /// The fix.
    pub help: String,
}

impl ParseTopologyError {
    pub(super) fn new(offset: usize, len: usize, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { offset, len, message: message.into(), help: help.into() }
    }

    pub(super) fn contradiction(error: &TopologyError, len: usize) -> Self {
        Self::new(0, len, error.to_string(), "check the order of the levels, from the outermost to the innermost")
    }

    pub(super) fn too_large(offset: usize, len: usize) -> Self {
        let message = format!("the machine would have more than {} CPUs", super::MAX_CPUS);
        Self::new(offset, len, message, "use smaller counts; each is per object of the level before it")
    }
}

impl fmt::Display for ParseTopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "machine description, column {}: {}; {}", self.offset + 1, self.message, self.help)
    }
}

impl std::error::Error for ParseTopologyError {}

/// Suggests the most similar of `names`, or else all of them (`there_are`).
pub(super) fn did_you_mean(name: &str, names: &[&str], there_are: &str) -> String {
    match vruntime_sched::kernels::nearest(name, names) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => there_are.to_owned(),
    }
}
