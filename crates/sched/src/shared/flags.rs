//! A flag of each root domain.

use super::locations::Table;
use crate::sync::AtomicBool;

#[derive(Debug)]
pub(crate) struct RootFlags {
    /// Of a single root domain.
    pub(super) whole: AtomicBool,
    /// Of each of several.
    pub(super) each: Table<AtomicBool>,
}

impl Default for RootFlags {
    fn default() -> Self {
        Self { whole: AtomicBool::new(false), each: Table::new() }
    }
}
