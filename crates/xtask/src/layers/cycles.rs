//! Strongly connected components, by the algorithm of Tarjan.

use std::collections::{BTreeMap, BTreeSet};

use super::{Imports, Module};

/// Returns the modules of the largest cycle, in order. Empty if there is none.
pub(crate) fn largest(imports: &Imports) -> BTreeSet<Module> {
    let mut search =
        Search { imports, numbers: BTreeMap::new(), stack: Vec::new(), open: BTreeSet::new(), found: Vec::new() };
    for module in imports.keys() {
        if !search.numbers.contains_key(module) {
            search.visit(module);
        }
    }
    search.found.into_iter().filter(|cycle| cycle.len() > 1).max_by_key(BTreeSet::len).unwrap_or_default()
}

struct Search<'a> {
    imports: &'a Imports,
    /// The order of the first visits.
    numbers: BTreeMap<&'a Module, usize>,
    stack: Vec<&'a Module>,
    /// The modules on the stack.
    open: BTreeSet<&'a Module>,
    found: Vec<BTreeSet<Module>>,
}

impl<'a> Search<'a> {
    /// Visits a module; returns the lowest number on the stack that it reaches.
    fn visit(&mut self, module: &'a Module) -> usize {
        let number = self.numbers.len();
        self.numbers.insert(module, number);
        self.stack.push(module);
        self.open.insert(module);
        let mut lowest = number;
        for next in self.imports.get(module).into_iter().flat_map(BTreeMap::keys) {
            match self.numbers.get(next) {
                None => lowest = lowest.min(self.visit(next)),
                Some(&other) if self.open.contains(next) => lowest = lowest.min(other),
                Some(_) => {}
            }
        }
        if lowest == number {
            let mut cycle = BTreeSet::new();
            while let Some(last) = self.stack.pop() {
                self.open.remove(last);
                cycle.insert(last.clone());
                if last == module {
                    break;
                }
            }
            self.found.push(cycle);
        }
        lowest
    }
}
