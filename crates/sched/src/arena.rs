//! Index arenas: storage with stable small handles.

use alloc::vec::Vec;

/// Values by index. The index freed last is reused first, so the same calls give the same indices.
#[derive(Debug)]
pub struct Arena<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Arena<T> {
    /// Returns the number of values.
    #[inline]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether it is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Stores a value and returns its index.
    #[inline]
    pub fn insert(&mut self, value: T) -> u32 {
        if let Some(index) = self.free.pop() {
            self.slots[index as usize] = Some(value);
            index
        } else {
            self.slots.push(Some(value));
            (self.slots.len() - 1) as u32
        }
    }

    /// Removes a value. Panics if there is none.
    #[inline]
    #[track_caller]
    #[expect(clippy::expect_used, reason = "an index is only handed out with a value behind it")]
    pub fn remove(&mut self, index: u32) -> T {
        let value = self.slots[index as usize].take().expect("an arena index outlived its value");
        self.free.push(index);
        value
    }

    /// Returns the value at `index`, if there is one.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&T> {
        self.slots.get(index as usize).and_then(Option::as_ref)
    }

    /// Returns all values, by index.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.iter_from(0)
    }

    /// Returns the values from index `first` on, by index.
    pub fn iter_from(&self, first: u32) -> impl Iterator<Item = (u32, &T)> {
        let slots = self.slots.iter().enumerate().skip(first as usize);
        slots.filter_map(|(index, slot)| slot.as_ref().map(|value| (index as u32, value)))
    }
}

impl<T> core::ops::Index<u32> for Arena<T> {
    type Output = T;
    #[inline]
    #[track_caller]
    #[expect(clippy::expect_used, reason = "as `remove`")]
    fn index(&self, index: u32) -> &T {
        self.slots[index as usize].as_ref().expect("an arena index outlived its value")
    }
}

impl<T> core::ops::IndexMut<u32> for Arena<T> {
    #[inline]
    #[track_caller]
    #[expect(clippy::expect_used, reason = "as `remove`")]
    fn index_mut(&mut self, index: u32) -> &mut T {
        self.slots[index as usize].as_mut().expect("an arena index outlived its value")
    }
}
