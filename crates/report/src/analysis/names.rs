//! The names of tasks, each once.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The longest name. The kernel's have at most 15 bytes.
const MAX_COMM: usize = 256;
const MAX_NAMES: usize = 1 << 22;

/// A name, by default none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Name(u32);

#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    texts: Vec<Arc<[u8]>>,
    /// The index of each text, plus one.
    numbers: BTreeMap<Arc<[u8]>, u32>,
}

fn cut(comm: &[u8]) -> &[u8] {
    &comm[..comm.len().min(MAX_COMM)]
}

impl Names {
    #[cold]
    pub(super) fn intern(&mut self, comm: &[u8]) -> Name {
        if let Some(&number) = self.numbers.get(cut(comm)) {
            return Name(number);
        }
        if self.texts.len() >= MAX_NAMES {
            return Name::default();
        }
        let text: Arc<[u8]> = cut(comm).into();
        self.texts.push(Arc::clone(&text));
        let number = self.texts.len() as u32;
        self.numbers.insert(text, number);
        Name(number)
    }

    pub(super) fn text(&self, name: Name) -> Option<&[u8]> {
        self.texts.get((name.0 as usize).checked_sub(1)?).map(|text| &**text)
    }

    /// Whether the name has this text.
    pub(super) fn is(&self, name: Name, comm: &[u8]) -> bool {
        self.text(name).is_some_and(|text| text == cut(comm))
    }
}
