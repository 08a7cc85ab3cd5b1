//! Runs observers on their own threads if CPUs are idle. They receive all events in order, so results do not depend on
//! threads. Batches are faster even on one thread: simulator and observers together exceed a CPU's caches.

use std::io;
use std::panic;
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::thread::{self, Scope, ScopedJoinHandle};

use vruntime_trace::{Batch, Sink};

/// The most batches waiting for an observer, which bounds memory: then the run waits.
const BACKLOG: usize = 32;

pub(crate) enum Observer<'scope, S> {
    /// On the run's thread.
    Here(S),
    /// On its own thread, which returns it.
    OnThread(SyncSender<Arc<Batch>>, ScopedJoinHandle<'scope, S>),
}

impl<'scope, S: Sink + Send + 'scope> Observer<'scope, S> {
    /// Starts an observer, on its own thread if `in_thread`. Fails if the kernel refuses the thread.
    pub(crate) fn new(scope: &'scope Scope<'scope, '_>, mut sink: S, in_thread: bool) -> io::Result<Self> {
        if !in_thread {
            return Ok(Self::Here(sink));
        }
        let (sender, batches) = mpsc::sync_channel::<Arc<Batch>>(BACKLOG);
        let listen = move || {
            for batch in batches {
                batch.tell(&mut sink);
            }
            sink
        };
        Ok(Self::OnThread(sender, thread::Builder::new().spawn_scoped(scope, listen)?))
    }

    pub(crate) fn hear(&mut self, batch: &Arc<Batch>) {
        match self {
            Self::Here(sink) => batch.tell(sink),
            // Fails only if the thread panicked, which `end` propagates.
            Self::OnThread(sender, _) => drop(sender.send(Arc::clone(batch))),
        }
    }

    /// Returns the observer after all events.
    pub(crate) fn end(self) -> S {
        match self {
            Self::Here(sink) => sink,
            Self::OnThread(sender, thread) => {
                drop(sender);
                thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic))
            }
        }
    }
}
