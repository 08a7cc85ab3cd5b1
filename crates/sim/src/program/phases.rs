//! Translates phases, and finds the answers of tasks that wait for several wakers.

use std::collections::BTreeMap;

use vruntime_workload::program::{Op, Phase, Repeat, Settings, Task};

use super::{At, Code, Compiler, times};
use crate::error::Error;
use crate::sync::answers::Answers;

impl<'a> Compiler<'a> {
    pub(super) fn phase(&mut self, task: &'a Task, phase: &'a Phase) -> Result<(), Error> {
        let loops = times(phase.repeat);
        if loops == 0 {
            return Ok(());
        }
        let settings = self.settings(task, &phase.settings, At::Later)?;
        if !self.out.settings[settings as usize].is_empty() {
            self.out.code.push(Code::Settings(settings));
        }
        self.out.code.push(Code::Phase { loops });
        let back = self.out.code.len() as u32;
        self.out.code.push(Code::Loop);
        let mut waits: BTreeMap<usize, Vec<(u32, u32)>> = BTreeMap::new();
        let mut put_off = None;
        for op in &phase.ops {
            if let Op::InboxWait { inbox, from } = *op {
                let from = self.waker(from);
                waits.entry(inbox).or_default().push((self.out.code.len() as u32, from));
            }
            self.op(task, op)?;
            let this = self.out.code.len() - 1;
            match op {
                Op::PutOff { .. } => put_off = Some(this),
                Op::PutOffEnd { .. } => {
                    if let Some(Code::PutOff { to, .. }) = put_off.take().map(|begin: usize| &mut self.out.code[begin])
                    {
                        *to = this as u32 + 1;
                    }
                }
                _ => {}
            }
        }
        for (inbox, waits) in waits {
            let Some(index) = self.answers(inbox, &waits, phase) else { continue };
            for (at, _) in waits {
                if let Code::InboxWait { answers, .. } = &mut self.out.code[at as usize] {
                    *answers = index;
                }
            }
        }
        self.out.code.push(Code::LoopEnd { back });
        Ok(())
    }

    /// Returns the index of the answers of a phase's waits, each a place and a waker.
    fn answers(&mut self, inbox: usize, waits: &[(u32, u32)], phase: &Phase) -> Option<u32> {
        let next = self.out.answers.len() as u32;
        if !waits.iter().any(|(_, from)| self.connections.contains(from)) {
            self.out.answers.push(Answers::together(waits)?);
            return Some(next);
        }
        // A partner may be a phase ahead of others, which have no settings of their own then.
        let index = self.talks.get(&inbox).copied().filter(|_| phase.settings == Settings::default()).unwrap_or(next);
        if index == next {
            self.out.answers.push(Answers::per_waker());
            self.talks.insert(inbox, index);
        }
        self.out.answers[index as usize].add(waits, phase.repeat == Repeat::Forever);
        Some(index)
    }

    pub(super) fn waker(&mut self, from: usize) -> u32 {
        let next = self.wakers.len() as u32;
        *self.wakers.entry(from).or_insert(next)
    }
}
