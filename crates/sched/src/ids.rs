//! Indices with a type each.

use core::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub u32);

        impl $name {
            /// Returns the index into a table.
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
    /// A task, counted from 0 in order of creation, never reused.
    TaskId
}
id! {
    /// A task group (cgroup), counted in order of creation from [`GroupId::ROOT`].
    GroupId
}

impl GroupId {
    /// The root task group.
    pub const ROOT: Self = Self(0);
}
