//! Scheduling classes. `fair` is here; the classes above it (stop, deadline, rt) and the historical O(1) have their
//! places beside it. The stop and idle classes need no file of their own: a CPU's stopper is a flag on its run queue
//! that comes before everything, the idle task is what is left when nothing else wants the CPU.

pub mod fair;
