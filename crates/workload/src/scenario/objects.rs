//! `[pipes.name]`, and named objects of `steps`: pipes and spin words.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::de::DeValue;

use super::fields::{Fields, Value};
use crate::error::Problems;
use crate::names::Interner;
use crate::program::{Channel, Op, Pipe, Spin};
use crate::suggest::did_you_mean;

/// Bytes that a pipe of Linux holds.
const PIPE: u32 = 65_536;
/// Bytes that a stream socket holds (`net.core.wmem_default`).
const SOCKET: u32 = 212_992;

/// Pipes and spin words of the scenario's own tasks.
#[derive(Debug, Default)]
pub(crate) struct OwnObjects {
    pipes: Interner,
    /// From `[pipes.name]`.
    declared: BTreeMap<String, (Pipe, Range<usize>)>,
    /// By kind and name: a lock and a flag of one name are two words.
    words: Interner,
    spins: Vec<Spin>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Flag,
    Lock,
    Barrier,
}

impl OwnObjects {
    pub(super) fn pipe(&mut self, name: &str) -> usize {
        self.pipes.number(name)
    }

    pub(super) fn spin(&mut self, word: Word, name: &str) -> usize {
        let kind = match word {
            Word::Flag => "flag",
            Word::Lock => "lock",
            Word::Barrier => "barrier",
        };
        let number = self.words.number(&format!("{kind} {name}"));
        if number == self.spins.len() {
            self.spins.push(Spin { name: name.to_owned(), initial: u32::from(word == Word::Lock), ..Spin::default() });
        }
        number
    }

    /// Lets waiters get the lock in the order of arrival.
    pub(super) fn is_fair(&mut self, spin: usize) {
        self.spins[spin].fair = true;
    }

    /// Counts `instances` tasks at the barriers of these operations.
    pub(super) fn arrive(&mut self, ops: &[Op], instances: u64) {
        let instances = u32::try_from(instances).unwrap_or(u32::MAX);
        let mut met: Vec<usize> = Vec::new();
        for op in ops {
            if let Op::SpinBarrier(spin) = *op
                && !met.contains(&spin)
            {
                met.push(spin);
                self.spins[spin].parties = self.spins[spin].parties.saturating_add(instances);
            }
        }
    }

    pub(crate) fn into_objects(self) -> (Vec<Pipe>, Vec<Spin>) {
        let Self { pipes, mut declared, spins, .. } = self;
        let pipe = |name: String| match declared.remove(&name) {
            Some((pipe, _)) => pipe,
            None => Pipe { name, capacity: PIPE, kind: Channel::Pipe },
        };
        (pipes.into_names().into_iter().map(pipe).collect(), spins)
    }

    /// Reports declared pipes that no step uses.
    pub(super) fn check(&self, problems: &mut Problems) {
        for (name, (_, span)) in &self.declared {
            if self.pipes.names().contains(name) {
                continue;
            }
            let help = if self.pipes.is_empty() {
                format!("add a step {{ write = \"{name}\" }} and a step {{ read = \"{name}\" }}, or remove this table")
            } else {
                did_you_mean(name, self.pipes.names().iter().map(String::as_str))
            };
            let error = problems.new_error(span.clone(), format!("no step uses pipe `{name}`"), "declared here");
            problems.error(error.with_help(help));
        }
    }
}

pub(super) fn parse_pipes(problems: &mut Problems, value: &Value<'_>, own: &mut OwnObjects) {
    let DeValue::Table(table) = value.get_ref() else {
        Fields::new(problems, "[pipes.\"name\"]", value).finish();
        return;
    };
    for (key, value) in table {
        let name = key.get_ref();
        let mut fields = Fields::new(problems, format!("[pipes.\"{name}\"]"), value);
        let kind = fields.string("kind", "\"pipe\" or \"socket\"").and_then(|(kind, span)| match kind {
            "pipe" => Some(Channel::Pipe),
            "socket" => Some(Channel::Socket),
            _ => {
                let help = did_you_mean(kind, ["pipe", "socket"]);
                fields.bad(span, format!("`kind` is \"{kind}\""), "expected \"pipe\" or \"socket\"", help);
                None
            }
        });
        let kind = kind.unwrap_or_default();
        let default = if kind == Channel::Pipe { PIPE } else { SOCKET };
        let capacity = fields.integer("capacity", 1..=i64::from(i32::MAX), "bytes");
        fields.finish();
        let capacity = capacity.map_or(default, |capacity| capacity as u32);
        own.declared.insert(name.to_string(), (Pipe { name: name.to_string(), capacity, kind }, key.span()));
    }
}
