//! Names for things: plain indices with a type each, so that a CPU is never taken for a task.

use core::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub u32);

        impl $name {
            /// The id as an index into a table.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// A logical CPU, counted from 0.
    CpuId
}
id! {
    /// A task, for its whole life and wherever it lives. Counted from 0 in order of creation, never reused.
    TaskId
}
id! {
    /// A task group (cgroup). [`GroupId::ROOT`] is the root; the others count up in order of creation.
    GroupId
}

impl GroupId {
    /// The root task group: every task that is in no other.
    pub const ROOT: Self = Self(0);
}
