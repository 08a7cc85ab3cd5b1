//! Runs the observers of a run on threads of their own if CPUs are idle. Observers receive events in batches and in
//! order, so results do not depend on threads. Batches are faster even on one thread: the simulator and all observers
//! do not fit into a CPU's caches together.

use std::io;
use std::panic;
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::thread::{self, Scope, ScopedJoinHandle};

use vruntime_trace::{Batch, Sink};

/// The most batches that wait for an observer. Beyond that the run waits, so that memory is bounded.
const BACKLOG: usize = 32;

/// An observer, wherever it is.
pub(crate) enum Observer<'scope, S> {
    /// With the run.
    Here(S),
    /// On its own thread, which gives it back in the end.
    Apart(SyncSender<Arc<Batch>>, ScopedJoinHandle<'scope, S>),
}

impl<'scope, S: Sink + Send + 'scope> Observer<'scope, S> {
    /// `sink`, on a thread of its own if it is to be `apart`; an error if the kernel refuses that.
    pub(crate) fn new(scope: &'scope Scope<'scope, '_>, mut sink: S, apart: bool) -> io::Result<Self> {
        if !apart {
            return Ok(Self::Here(sink));
        }
        let (sender, batches) = mpsc::sync_channel::<Arc<Batch>>(BACKLOG);
        let listen = move || {
            for batch in batches {
                batch.tell(&mut sink);
            }
            sink
        };
        Ok(Self::Apart(sender, thread::Builder::new().spawn_scoped(scope, listen)?))
    }

    pub(crate) fn hear(&mut self, batch: &Arc<Batch>) {
        match self {
            Self::Here(sink) => batch.tell(sink),
            // It only fails if the thread has panicked, and that is heard of in the end.
            Self::Apart(sender, _) => drop(sender.send(Arc::clone(batch))),
        }
    }

    /// The observer, when it has heard everything.
    pub(crate) fn end(self) -> S {
        match self {
            Self::Here(sink) => sink,
            Self::Apart(sender, thread) => {
                // That is all.
                drop(sender);
                thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic))
            }
        }
    }
}
