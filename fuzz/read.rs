//! What every target of a trace's reader does with it.

use std::io;

use vruntime_trace::read::{Events, Summary, needs};
use vruntime_trace::{RecordedPerfetto, RecordedText};

/// Reads to the end, and writes what there is in both formats.
pub(crate) fn to_the_end(mut events: impl Events) {
    let mut summary = Summary::new();
    let (mut text, mut perfetto) = (RecordedText::new(io::sink(), 2), RecordedPerfetto::new(io::sink(), 2));
    while let Ok(Some(record)) = events.next_record() {
        summary.add(&record);
        text.record(&record);
        perfetto.record(&record);
    }
    summary.end();
    let _ = needs(&summary, events.notes());
    let _ = (summary.counts(), summary.tasks().len(), summary.clock().span_ns());
    assert!(text.finish_writing().is_ok() && perfetto.finish_writing().is_ok());
}
