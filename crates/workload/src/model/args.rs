//! Words of a benchmark's command line.

use std::ops::RangeInclusive;

use super::ModelError;
use crate::units::parse_duration;

/// The words not parsed yet.
pub(super) struct Args<'a> {
    words: Vec<&'a str>,
    usage: &'static str,
}

impl<'a> Args<'a> {
    pub(super) fn new(words: Vec<&'a str>, usage: &'static str) -> Self {
        Self { words, usage }
    }

    /// Returns an error with the benchmark's usage.
    pub(super) fn wrong(&self, message: String) -> ModelError {
        ModelError { message, help: format!("it is called as `{}`", self.usage) }
    }

    /// Removes a word, and returns whether it was present.
    pub(super) fn flag(&mut self, name: &str) -> bool {
        let at = self.words.iter().position(|word| *word == name);
        at.map(|at| self.words.remove(at)).is_some()
    }

    /// Removes an option with its number, as `-t 4`, `-t4` or `--threads=4`.
    pub(super) fn option(&mut self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, ModelError> {
        let Some(at) = self.words.iter().position(|word| word.starts_with(name)) else { return Ok(None) };
        let word = self.words.remove(at);
        let rest = word[name.len()..].trim_start_matches('=');
        let value = if rest.is_empty() && at < self.words.len() { self.words.remove(at) } else { rest };
        self.number_in(name, value, range).map(Some)
    }

    pub(super) fn next(&mut self) -> Option<&'a str> {
        (!self.words.is_empty()).then(|| self.words.remove(0))
    }

    pub(super) fn number(&mut self, what: &str, range: RangeInclusive<u64>) -> Result<u64, ModelError> {
        let Some(word) = self.next() else { return Err(self.wrong(format!("{what} is missing"))) };
        self.number_in(what, word, range)
    }

    fn number_in(&self, what: &str, word: &str, range: RangeInclusive<u64>) -> Result<u64, ModelError> {
        let number = word.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            self.wrong(format!("{what} is `{word}`, expected a number from {} to {}", range.start(), range.end()))
        })
    }

    /// Removes the next word, a time such as `1ms`.
    pub(super) fn time(&mut self, what: &str) -> Result<u64, ModelError> {
        let Some(word) = self.next() else { return Err(self.wrong(format!("{what} is missing"))) };
        match parse_duration(word) {
            Ok(0) => Err(self.wrong(format!("{what} must not be 0"))),
            Ok(time) => Ok(time),
            Err(why) => Err(self.wrong(format!("{what} is `{word}`: {why}"))),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Rejects remaining words.
    pub(super) fn finish(self) -> Result<(), ModelError> {
        match self.words.first() {
            None => Ok(()),
            Some(word) => Err(self.wrong(format!("`{word}` means nothing here"))),
        }
    }
}
