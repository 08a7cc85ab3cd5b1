//! The words of a command line.

use std::ops::RangeInclusive;

use super::ModelError;
use crate::units::parse_duration;

/// What is left of them.
pub(super) struct Args<'a> {
    words: Vec<&'a str>,
    usage: &'static str,
}

impl<'a> Args<'a> {
    pub(super) fn new(words: Vec<&'a str>, usage: &'static str) -> Self {
        Self { words, usage }
    }

    /// A complaint, with how the benchmark is called.
    pub(super) fn wrong(&self, message: String) -> ModelError {
        ModelError { message, help: format!("it is called as `{}`", self.usage) }
    }

    /// Whether there is this word anywhere; it is taken.
    pub(super) fn flag(&mut self, name: &str) -> bool {
        let at = self.words.iter().position(|word| *word == name);
        at.map(|at| self.words.remove(at)).is_some()
    }

    /// The number of an option, `-t 4`, `-t4` or `--threads=4`, wherever it is.
    pub(super) fn option(&mut self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, ModelError> {
        let Some(at) = self.words.iter().position(|word| word.starts_with(name)) else { return Ok(None) };
        let word = self.words.remove(at);
        let rest = word[name.len()..].trim_start_matches('=');
        let value = if rest.is_empty() && at < self.words.len() { self.words.remove(at) } else { rest };
        self.number_in(name, value, range).map(Some)
    }

    /// The next word, if there is one.
    pub(super) fn next(&mut self) -> Option<&'a str> {
        (!self.words.is_empty()).then(|| self.words.remove(0))
    }

    /// The next word as a number.
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

    /// The next word as a time, such as `1ms`.
    pub(super) fn time(&mut self, what: &str) -> Result<u64, ModelError> {
        let Some(word) = self.next() else { return Err(self.wrong(format!("{what} is missing"))) };
        match parse_duration(word) {
            Ok(0) => Err(self.wrong(format!("{what} must not be 0"))),
            Ok(time) => Ok(time),
            Err(why) => Err(self.wrong(format!("{what} is `{word}`: {why}"))),
        }
    }

    /// Whether anything is left.
    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Nothing may be left.
    pub(super) fn finish(self) -> Result<(), ModelError> {
        match self.words.first() {
            None => Ok(()),
            Some(word) => Err(self.wrong(format!("`{word}` means nothing here"))),
        }
    }
}
