//! Marks (`print`) for facts without a tracepoint.

use vruntime_sched::SchedPolicy;
use vruntime_sched::event::{DeadlineEvent, Event};
use vruntime_sched::ids::{GroupId, TaskId};

use super::site::Site;
use super::{END_OF_RUN, group_level, push_field, push_number, push_signed};
use crate::GroupInfo;

impl Site<'_> {
    fn begin(self, buffer: &mut Vec<u8>, what: &[u8], task: TaskId) {
        self.start(buffer, b"print:                ");
        let identity = self.names.task(task);
        push_field(buffer, what, b": comm=");
        buffer.extend_from_slice(identity.comm);
        push_signed(buffer, b" pid=", identity.pid);
    }

    fn policy(self, buffer: &mut Vec<u8>, task: TaskId, policy: SchedPolicy, rt_priority: u8) {
        self.begin(buffer, b"sched_setscheduler", task);
        push_field(buffer, b" policy=", policy.name().as_bytes());
        push_field(buffer, b" rt_priority=", &[]);
        push_number(buffer, rt_priority.into(), 1);
        buffer.push(b'\n');
    }

    fn nice(self, buffer: &mut Vec<u8>, task: TaskId, nice: i8) {
        self.begin(buffer, b"set_user_nice", task);
        push_signed(buffer, b" nice=", nice.into());
        buffer.push(b'\n');
    }

    /// Writes `cgroup_attach_task`, which is not a mark.
    pub(super) fn attach(self, buffer: &mut Vec<u8>, task: TaskId, group: GroupId) {
        self.start(buffer, b"cgroup_attach_task:   ");
        let (identity, path) = (self.names.task(task), self.names.path(group));
        push_field(buffer, b"dst_root=0 dst_id=", &[]);
        push_number(buffer, u64::from(group.0) + 1, 1);
        push_field(buffer, b" dst_level=", &[]);
        push_number(buffer, group_level(path), 1);
        push_field(buffer, b" dst_path=", path.as_bytes());
        push_signed(buffer, b" pid=", identity.pid);
        push_field(buffer, b" comm=", identity.comm);
        buffer.push(b'\n');
    }

    /// Writes an effect of a group's limit.
    fn bandwidth(self, buffer: &mut Vec<u8>, group: GroupId, what: &[u8], numbers: &[(&[u8], u64)]) {
        self.start(buffer, b"print:                ");
        push_field(buffer, b"cpu_bandwidth: what=", what);
        for &(name, value) in numbers {
            push_field(buffer, name, &[]);
            push_number(buffer, value, 1);
        }
        // The path is last, since it may contain anything.
        push_field(buffer, b" path=", self.names.path(group).as_bytes());
        buffer.push(b'\n');
    }

    /// Writes a new task's policy and nice value, unless default.
    pub(super) fn birth(self, buffer: &mut Vec<u8>, task: TaskId) {
        let (policy, rt_priority, nice) = self.names.attributes(task);
        if policy != SchedPolicy::Normal {
            self.policy(buffer, task, policy, rt_priority);
        }
        if nice != 0 {
            self.nice(buffer, task, nice);
        }
    }

    /// Writes the mark of `event`, if it has one.
    pub(super) fn mark(self, buffer: &mut Vec<u8>, event: &Event) {
        match *event {
            Event::SetPolicy { task, policy, rt_priority } => self.policy(buffer, task, policy, rt_priority),
            Event::SetNice { task, nice } => self.nice(buffer, task, nice),
            Event::Deadline { task, what } => {
                self.begin(buffer, b"sched_deadline", task);
                let (word, late): (&[u8], _) = match what {
                    DeadlineEvent::Throttle => (b"throttle", None),
                    DeadlineEvent::Replenish => (b"replenish", None),
                    DeadlineEvent::Overrun => (b"overrun", None),
                    DeadlineEvent::Miss { late } => (b"miss", Some(late)),
                };
                push_field(buffer, b" what=", word);
                if let Some(late) = late {
                    push_field(buffer, b" late_ns=", &[]);
                    push_number(buffer, late, 1);
                }
                buffer.push(b'\n');
            }
            Event::Throttle { group } => self.bandwidth(buffer, group, b"throttle", &[]),
            Event::Unthrottle { group, ns } => {
                self.bandwidth(buffer, group, b"unthrottle", &[(b" throttled_ns=", ns)]);
            }
            Event::BandwidthPeriod { group, periods, throttled, burst } => {
                let numbers: [(&[u8], u64); 3] =
                    [(b" periods=", periods.into()), (b" throttled=", throttled.into()), (b" burst_ns=", burst)];
                self.bandwidth(buffer, group, b"period", &numbers);
            }
            _ => {}
        }
    }
}

/// A mark of ours, parsed from a [`Tracepoint::Print`](crate::Tracepoint::Print).
///
/// ```
/// use vruntime_trace::{GroupInfo, Mark};
///
/// let web = GroupInfo { path: "/web", weight: 300, max: Some((50_000_000, 100_000_000)), ..GroupInfo::default() };
/// assert_eq!(Mark::read(b"/web cpu.weight=300 cpu.max=50000 100000"), Some(Mark::Group(web)));
/// assert_eq!(Mark::read(b"set_user_nice: comm=a b pid=7 nice=-5"), Some(Mark::Nice { pid: 7, nice: -5 }));
/// assert_eq!(Mark::read(b"end of run"), Some(Mark::End));
/// assert_eq!(Mark::read(b"B|1|what others write"), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mark<'a> {
    /// `sched_setscheduler`: a task's new policy.
    Policy {
        /// The task.
        pid: i32,
        /// Its policy.
        policy: SchedPolicy,
        /// 1..=99 under SCHED_FIFO and SCHED_RR, else 0.
        rt_priority: u8,
    },
    /// `set_user_nice`: a task's new nice value.
    Nice {
        /// The task.
        pid: i32,
        /// -20..=19.
        nice: i8,
    },
    /// `sched_deadline`: an event of a task's deadline.
    Deadline {
        /// The task.
        pid: i32,
        /// The event.
        what: DeadlineEvent,
    },
    /// A group's new weight and limit ([`GroupInfo::settings`]).
    Group(GroupInfo<'a>),
    /// A group's limit is used up on the event's CPU.
    Throttle {
        /// The group.
        path: &'a str,
    },
    /// A group may run there again.
    Unthrottle {
        /// The group.
        path: &'a str,
        /// Time throttled, nanoseconds.
        ns: u64,
    },
    /// Periods of a group's limit have ended.
    Period {
        /// The group.
        path: &'a str,
        /// Their number.
        periods: u32,
        /// Whether it was throttled on some CPU.
        throttled: bool,
        /// Use above the quota, nanoseconds.
        burst: u64,
    },
    /// The run ends.
    End,
}

impl<'a> Mark<'a> {
    /// Parses a mark; none if it is not ours.
    pub fn read(text: &'a [u8]) -> Option<Self> {
        // Most foreign marks fail here.
        if !matches!(text.first()?, b'/' | b's' | b'c' | b'e') {
            return None;
        }
        let text = std::str::from_utf8(text).ok()?.trim_end();
        if text.starts_with('/') {
            return GroupInfo::from_settings(text).map(Self::Group);
        }
        if text == END_OF_RUN {
            return Some(Self::End);
        }
        let (what, rest) = text.split_once(": ")?;
        if what == "cpu_bandwidth" {
            return Self::bandwidth(rest);
        }
        // A name may contain ` pid=`: the last one is ours.
        let (_, rest) = rest.strip_prefix("comm=")?.rsplit_once(" pid=")?;
        let (pid, rest) = rest.split_once(' ')?;
        let pid = pid.parse().ok()?;
        match what {
            "sched_setscheduler" => {
                let (policy, rt_priority) = rest.strip_prefix("policy=")?.split_once(" rt_priority=")?;
                let policy = POLICIES.into_iter().find(|known| known.name() == policy)?;
                let rt_priority = rt_priority.parse().ok().filter(|&priority| priority <= 99)?;
                Some(Self::Policy { pid, policy, rt_priority })
            }
            "set_user_nice" => {
                let nice = rest.strip_prefix("nice=")?.parse().ok().filter(|nice| (-20..=19).contains(nice))?;
                Some(Self::Nice { pid, nice })
            }
            "sched_deadline" => {
                let what = match rest.strip_prefix("what=")? {
                    "throttle" => DeadlineEvent::Throttle,
                    "replenish" => DeadlineEvent::Replenish,
                    "overrun" => DeadlineEvent::Overrun,
                    rest => DeadlineEvent::Miss { late: rest.strip_prefix("miss late_ns=")?.parse().ok()? },
                };
                Some(Self::Deadline { pid, what })
            }
            _ => None,
        }
    }

    fn bandwidth(rest: &'a str) -> Option<Self> {
        let (what, path) = rest.strip_prefix("what=")?.split_once(" path=")?;
        if !path.starts_with('/') {
            return None;
        }
        let (what, numbers) = what.split_once(' ').unwrap_or((what, ""));
        match what {
            "throttle" if numbers.is_empty() => Some(Self::Throttle { path }),
            "unthrottle" => {
                let ns = numbers.strip_prefix("throttled_ns=")?.parse().ok()?;
                Some(Self::Unthrottle { path, ns })
            }
            "period" => {
                let (periods, rest) = numbers.strip_prefix("periods=")?.split_once(" throttled=")?;
                let (throttled, burst) = rest.split_once(" burst_ns=")?;
                let throttled = match throttled {
                    "0" => false,
                    "1" => true,
                    _ => return None,
                };
                Some(Self::Period { path, periods: periods.parse().ok()?, throttled, burst: burst.parse().ok()? })
            }
            _ => None,
        }
    }
}

const POLICIES: [SchedPolicy; 6] = [
    SchedPolicy::Normal,
    SchedPolicy::Batch,
    SchedPolicy::Idle,
    SchedPolicy::Fifo,
    SchedPolicy::RoundRobin,
    SchedPolicy::Deadline,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::TextReader;
    use crate::{CpuId, FtraceWriter, RecordedText, Sink, TaskInfo, Tracepoint};

    fn marks(text: &[u8]) -> Vec<Vec<u8>> {
        let (mut reader, mut marks) = (TextReader::new(text), Vec::new());
        while let Some(record) = reader.next_record().expect("it is a trace") {
            if let Tracepoint::Print { text } = record.point {
                marks.push(text.to_vec());
            }
        }
        marks
    }

    #[test]
    fn what_is_written_is_read_back_and_so_is_what_is_converted() {
        let mut writer = FtraceWriter::new(Vec::new(), 1);
        let (odd, task, group, cpu) = ("a pid=3 b: c", TaskId(0), GroupId(1), CpuId(0));
        let limited = GroupInfo {
            path: "/a cpu.max=b/c d",
            parent: Some(GroupId::ROOT),
            weight: 300,
            max: Some((50_000_000, 100_000_000)),
            ..GroupInfo::default()
        };
        let others = [
            GroupInfo { idle: true, max: None, weight: 100, ..limited },
            GroupInfo { nice: Some(-3), max: None, ..limited },
            GroupInfo { guarantee: Some(40), ..limited },
        ];
        writer.group(GroupId::ROOT, &GroupInfo { path: "/", ..GroupInfo::default() });
        writer.group(group, &limited);
        let info = TaskInfo { name: odd, class: odd, group, nice: -5, policy: SchedPolicy::Batch, rt_priority: 0 };
        writer.task(task, &info);
        writer.event(0, cpu, &Event::Fork { parent: None, child: task });
        for other in &others {
            writer.group_changed(5_000, group, other);
        }
        for what in [
            DeadlineEvent::Throttle,
            DeadlineEvent::Replenish,
            DeadlineEvent::Overrun,
            DeadlineEvent::Miss { late: 77 },
        ] {
            writer.event(6_000, cpu, &Event::Deadline { task, what });
        }
        let events = [
            Event::SetPolicy { task, policy: SchedPolicy::Fifo, rt_priority: 99 },
            Event::SetNice { task, nice: 19 },
            Event::Throttle { group },
            Event::Unthrottle { group, ns: 1_234 },
            Event::BandwidthPeriod { group, periods: 2, throttled: true, burst: 9 },
        ];
        for event in &events {
            writer.event(7_000, cpu, event);
        }
        let text = writer.finish_writing().expect("nothing fails in memory");

        let (pid, path) = (1000, limited.path);
        let read = |info: &GroupInfo<'static>| GroupInfo { parent: None, ..info.clone() };
        let weightless = |info: &GroupInfo<'static>| GroupInfo { weight: 100, ..read(info) };
        let expected = [
            Mark::Group(read(&limited)),
            Mark::Policy { pid, policy: SchedPolicy::Batch, rt_priority: 0 },
            Mark::Nice { pid, nice: -5 },
            Mark::Group(read(&others[0])),
            Mark::Group(weightless(&others[1])),
            Mark::Group(weightless(&others[2])),
            Mark::Deadline { pid, what: DeadlineEvent::Throttle },
            Mark::Deadline { pid, what: DeadlineEvent::Replenish },
            Mark::Deadline { pid, what: DeadlineEvent::Overrun },
            Mark::Deadline { pid, what: DeadlineEvent::Miss { late: 77 } },
            Mark::Policy { pid, policy: SchedPolicy::Fifo, rt_priority: 99 },
            Mark::Nice { pid, nice: 19 },
            Mark::Throttle { path },
            Mark::Unthrottle { path, ns: 1_234 },
            Mark::Period { path, periods: 2, throttled: true, burst: 9 },
        ];
        let found = marks(&text);
        let read: Vec<Option<Mark<'_>>> = found.iter().map(|text| Mark::read(text)).collect();
        assert_eq!(read, expected.map(Some));

        let (mut reader, mut converted) = (TextReader::new(&text[..]), RecordedText::new(Vec::new(), 1));
        while let Some(record) = reader.next_record().expect("it is a trace") {
            converted.record(&record);
        }
        let converted = converted.finish_writing().expect("nothing fails in memory");
        assert_eq!(marks(&converted), found);
    }

    #[test]
    fn what_others_write_is_no_mark() {
        for text in [
            "",
            "/",
            "/web",
            "/web cpu.max=max",
            "/web cpu.weight=x cpu.max=max",
            "/web cpu.weight=0 cpu.max=max",
            "/web cpu.weight=10001 cpu.max=max",
            "/web cpu.weight=1 cpu.max=1",
            "/web cpu.weight=1 cpu.max=0 100",
            "/web cpu.weight=1 cpu.max=1 0",
            "/web cpu.weight=1 cpu.max=99999999999999999999 1",
            "/web cpu.weight=1 cpu.max=9999999999999999999 1",
            "/web nice=20 cpu.max=max",
            "/web cpuset.cpus.effective=0-2 cpuset.cpus.partition=member",
            "set_user_nice: comm=a pid=1 nice=20",
            "set_user_nice: comm=a pid=x nice=1",
            "sched_setscheduler: comm=a pid=1 policy=SCHED_MINE rt_priority=1",
            "sched_setscheduler: comm=a pid=1 policy=SCHED_FIFO rt_priority=100",
            "sched_deadline: comm=a pid=1 what=miss",
            "cpu_bandwidth: what=throttle",
            "cpu_bandwidth: what=throttle path=web",
            "cpu_bandwidth: what=period periods=1 throttled=2 burst_ns=0 path=/web",
            "cpu_bandwidth: what=unthrottle throttled_ns=-1 path=/web",
            "something: comm=a pid=1 nice=1",
        ] {
            assert_eq!(Mark::read(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Mark::read(b"/\xff cpu.weight=1 cpu.max=max"), None);
    }
}
