//! Where in which file a task, a phase or an operation was written.

use std::ops::Range;
use std::sync::Arc;

use crate::error::Source;

/// The places of a workload's parts, kept beside it for messages.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    /// One a class, ascending by task.
    pub(crate) sites: Vec<ClassSite>,
}

#[derive(Clone, Debug)]
pub(crate) struct ClassSite {
    /// Indices of the tasks of the class.
    pub(crate) tasks: Range<usize>,
    pub(crate) source: Source,
    pub(crate) span: Range<usize>,
    /// Where it is written when its tasks start, if it is.
    pub(crate) start: Option<(Source, Range<usize>)>,
    /// Shared by the copies of a workload.
    pub(crate) phases: Arc<[PhaseSite]>,
}

#[derive(Clone, Debug)]
pub(crate) struct PhaseSite {
    pub(crate) span: Range<usize>,
    pub(crate) ops: Vec<Range<usize>>,
}

impl SourceMap {
    /// The text and the bytes where a task was written; of one of its phases, of one operation of that, if asked for.
    pub fn place(&self, task: usize, phase: Option<usize>, op: Option<usize>) -> Option<(&Source, Range<usize>)> {
        let site = self.site(task)?;
        let phase = phase.and_then(|phase| site.phases.get(phase));
        let op = phase.zip(op).and_then(|(phase, op)| phase.ops.get(op));
        let span = op.or(phase.map(|phase| &phase.span)).unwrap_or(&site.span);
        Some((&site.source, span.clone()))
    }

    /// Returns the text and the bytes of a task's start time: its own `start` or `delay`, or the `start` of its
    /// workload.
    pub fn start(&self, task: usize) -> Option<(&Source, Range<usize>)> {
        let (source, span) = self.site(task)?.start.as_ref()?;
        Some((source, span.clone()))
    }

    fn site(&self, task: usize) -> Option<&ClassSite> {
        let index = self.sites.partition_point(|site| site.tasks.end <= task);
        self.sites.get(index).filter(|site| site.tasks.contains(&task))
    }

    /// Adds the places of a workload that is appended to this one after its first `tasks` tasks.
    pub(crate) fn append(&mut self, other: Self, tasks: usize) {
        self.sites.extend(other.sites.into_iter().map(|mut site| {
            site.tasks = site.tasks.start + tasks..site.tasks.end + tasks;
            site
        }));
    }
}
