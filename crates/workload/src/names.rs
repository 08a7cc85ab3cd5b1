//! Unique names, and interned names.

use std::collections::BTreeMap;

/// Makes names unique: a used name gets a number (`web#2`).
#[derive(Debug, Default)]
pub struct UniqueNames {
    /// Used names, with the number to try next.
    taken: BTreeMap<String, u64>,
}

impl UniqueNames {
    /// Returns `wanted`, or the first unused `wanted#N`.
    pub fn take(&mut self, wanted: String) -> String {
        let Some(&first) = self.taken.get(&wanted) else {
            self.taken.insert(wanted.clone(), 2);
            return wanted;
        };
        let mut number = first;
        loop {
            let name = format!("{wanted}#{number}");
            number += 1;
            if !self.taken.contains_key(&name) {
                self.taken.insert(name.clone(), 2);
                self.taken.insert(wanted, number);
                return name;
            }
        }
    }
}

/// Numbers names in the order of their first use.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    names: Vec<String>,
    numbers: BTreeMap<String, usize>,
}

impl Interner {
    pub(crate) fn number(&mut self, name: &str) -> usize {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = self.names.len();
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub(crate) fn into_names(self) -> Vec<String> {
        self.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_given_twice() {
        let mut names = UniqueNames::default();
        let given = ["a", "a#2", "a", "a", "b"].map(|wanted| names.take(wanted.to_owned()));
        assert_eq!(given, ["a", "a#2", "a#3", "a#4", "b"]);
    }
}
