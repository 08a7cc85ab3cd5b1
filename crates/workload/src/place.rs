//! Places in files of tasks, phases and operations.

use std::ops::Range;
use std::sync::Arc;

use crate::error::Source;

/// Places of a workload's parts, for messages.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    /// One for each class, ascending by task.
    pub(crate) sites: Vec<ClassSite>,
}

#[derive(Clone, Debug)]
pub(crate) struct ClassSite {
    /// Indices of the class's tasks.
    pub(crate) tasks: Range<usize>,
    pub(crate) source: Source,
    pub(crate) span: Range<usize>,
    /// The place of the start time.
    pub(crate) start: Option<(Source, Range<usize>)>,
    /// Copies of a workload share it.
    pub(crate) phases: Arc<[PhaseSite]>,
}

#[derive(Clone, Debug)]
pub(crate) struct PhaseSite {
    pub(crate) span: Range<usize>,
    pub(crate) ops: Vec<Range<usize>>,
}

impl SourceMap {
    /// Returns source and bytes of a task, phase, or operation.
    pub fn place(&self, task: usize, phase: Option<usize>, op: Option<usize>) -> Option<(&Source, Range<usize>)> {
        let site = self.site(task)?;
        let phase = phase.and_then(|phase| site.phases.get(phase));
        let op = phase.zip(op).and_then(|(phase, op)| phase.ops.get(op));
        let span = op.or(phase.map(|phase| &phase.span)).unwrap_or(&site.span);
        Some((&site.source, span.clone()))
    }

    /// Returns source and bytes of a task's start: its `start` or `delay`, or its workload's `start`.
    pub fn start(&self, task: usize) -> Option<(&Source, Range<usize>)> {
        let (source, span) = self.site(task)?.start.as_ref()?;
        Some((source, span.clone()))
    }

    fn site(&self, task: usize) -> Option<&ClassSite> {
        let index = self.sites.partition_point(|site| site.tasks.end <= task);
        self.sites.get(index).filter(|site| site.tasks.contains(&task))
    }

    /// Appends places of tasks that follow the first `tasks`.
    pub(crate) fn append(&mut self, other: Self, tasks: usize) {
        self.sites.extend(other.sites.into_iter().map(|mut site| {
            site.tasks = site.tasks.start + tasks..site.tasks.end + tasks;
            site
        }));
    }
}
