//! Semaphores that stand for who woke whom.

use vruntime_workload::program::Workload;

/// Returns the names of the semaphores of a trace's programs.
pub fn semaphores(workload: &Workload) -> Vec<String> {
    workload.semaphores.iter().map(|semaphore| semaphore.name.clone()).collect()
}

/// Says what tasks of a replay wait for as people know it: that a waker's progress is a semaphore is our own affair.
pub fn tell(notes: &mut [String], semaphores: &[String]) {
    for note in notes {
        for name in semaphores {
            let inside = format!("semaphore `{name}`");
            if note.contains(&inside) {
                *note = note.replace(&inside, "the task that woke it in the trace");
            }
        }
    }
}
