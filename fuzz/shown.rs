//! What both targets demand of what a reader found.

use vruntime_workload::program::Workload;
use vruntime_workload::{Error, SourceMap, check};

/// An error's places lie in its text.
pub(crate) fn can_be_shown(error: &Error) {
    for error in error.all() {
        if let Some(span) = error.span() {
            assert!(error.source_text().text().get(span).is_some());
        }
    }
}

/// So do those of the warnings, and of what a check of the workload finds.
pub(crate) fn read(workload: &Workload, source_map: &SourceMap, warnings: &[Error]) {
    warnings.iter().for_each(can_be_shown);
    check::check(workload, source_map).iter().for_each(can_be_shown);
}
