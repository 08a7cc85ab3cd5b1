//! A report as bytes: numbers of eight bytes, with lengths before variable parts.

use vruntime_trace::LoopTimes;

use super::Report;
use crate::measured::{LoopMeasured, TaskMeasured};

impl Report {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for tasks in [&self.begun, &self.forked] {
            number(&mut out, tasks.len() as u64);
            for task in tasks {
                write_task(&mut out, task);
            }
        }
        number(&mut out, self.notes.len() as u64);
        for note in &self.notes {
            text(&mut out, note);
        }
        option(&mut out, self.refused.map(|errno| errno as u64));
        out
    }

    /// None if truncated.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let mut from = Bytes(bytes);
        let begun = from.list(Bytes::task)?;
        let forked = from.list(Bytes::task)?;
        let notes = from.list(Bytes::text)?;
        let refused = from.list(Bytes::number)?.first().map(|&errno| errno as i32);
        from.0.is_empty().then_some(Self { begun, forked, notes, refused })
    }
}

fn number(out: &mut Vec<u8>, number: u64) {
    out.extend(number.to_le_bytes());
}

fn text(out: &mut Vec<u8>, text: &str) {
    number(out, text.len() as u64);
    out.extend(text.as_bytes());
}

fn numbers(out: &mut Vec<u8>, list: &[u64]) {
    number(out, list.len() as u64);
    for &it in list {
        number(out, it);
    }
}

fn option(out: &mut Vec<u8>, value: Option<u64>) {
    numbers(out, value.as_slice());
}

fn write_task(out: &mut Vec<u8>, task: &TaskMeasured) {
    let TaskMeasured {
        name,
        template,
        group,
        tid,
        policy,
        nice,
        rt_priority,
        ended,
        life_ns,
        cpu_ns,
        run_delay_ns,
        voluntary,
        involuntary,
        migrations,
        loops,
        loop_work_ns,
        late_ns,
        loop_ns,
        logged,
    } = task;
    text(out, name);
    let fields = [*template as u64, *group as u64, u64::from(*tid), u64::from(*policy), i64::from(*nice) as u64];
    let counts = [*life_ns, *cpu_ns, *voluntary, *involuntary, *loops, *loop_work_ns];
    for it in fields.into_iter().chain([u64::from(*rt_priority), u64::from(*ended)]).chain(counts) {
        number(out, it);
    }
    option(out, *run_delay_ns);
    option(out, *migrations);
    numbers(out, late_ns);
    numbers(out, loop_ns);
    number(out, logged.len() as u64);
    for LoopMeasured { ended, duration, times } in logged {
        let LoopTimes { asked, run, work, period, slack, cumulative_slack, wakeup_latency } = *times;
        let all = [*ended, *duration, asked, run, work, period, slack as u64, cumulative_slack as u64, wakeup_latency];
        for it in all {
            number(out, it);
        }
    }
}

struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn number(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*first))
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).ok()
    }

    fn list<T>(&mut self, mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        // Reserves no room for missing data.
        (0..self.number()?).map(|_| one(self)).collect()
    }

    fn task(&mut self) -> Option<TaskMeasured> {
        Some(TaskMeasured {
            name: self.text()?,
            template: self.number()? as usize,
            group: self.number()? as usize,
            tid: self.number()? as u32,
            policy: self.number()? as u32,
            nice: self.number()? as i64 as i32,
            rt_priority: self.number()? as u32,
            ended: self.number()? != 0,
            life_ns: self.number()?,
            cpu_ns: self.number()?,
            voluntary: self.number()?,
            involuntary: self.number()?,
            loops: self.number()?,
            loop_work_ns: self.number()?,
            run_delay_ns: self.list(Self::number)?.first().copied(),
            migrations: self.list(Self::number)?.first().copied(),
            late_ns: self.list(Self::number)?,
            loop_ns: self.list(Self::number)?,
            logged: self.list(Self::logged)?,
        })
    }

    fn logged(&mut self) -> Option<LoopMeasured> {
        Some(LoopMeasured {
            ended: self.number()?,
            duration: self.number()?,
            times: LoopTimes {
                asked: self.number()?,
                run: self.number()?,
                work: self.number()?,
                period: self.number()?,
                slack: self.number()? as i64,
                cumulative_slack: self.number()? as i64,
                wakeup_latency: self.number()?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let times =
            LoopTimes { asked: 1, run: 2, work: 3, period: 4, slack: -5, cumulative_slack: -6, wakeup_latency: 7 };
        let task = TaskMeasured {
            name: "a-ü".to_owned(),
            template: 1,
            group: 2,
            tid: 3,
            policy: 4,
            nice: -5,
            rt_priority: 6,
            ended: true,
            life_ns: 7,
            cpu_ns: 8,
            run_delay_ns: Some(9),
            voluntary: 10,
            involuntary: 11,
            migrations: None,
            loops: 12,
            loop_work_ns: 13,
            late_ns: vec![14, 15],
            loop_ns: vec![u64::MAX],
            logged: vec![LoopMeasured { ended: 16, duration: 17, times }],
        };
        let other = TaskMeasured { migrations: Some(1), ..TaskMeasured::default() };
        let notes = vec!["n".to_owned()];
        let report = Report { begun: vec![task, other.clone()], forked: vec![other], notes, refused: Some(11) };
        let bytes = report.bytes();
        assert_eq!(Report::of(&bytes), Some(report));
        assert!((0..bytes.len()).all(|length| Report::of(&bytes[..length]).is_none()), "cut off");
        assert_eq!(Report::of(&[&bytes[..], &[0]].concat()), None);
    }
}
