//! Tasks and their phases.

use super::event::{self, Context, Step};
use super::global::Global;
use super::json::{Member, Span, Value};
use super::names::Names;
use super::read;
use super::settings::{self, Current, Given};
use crate::error::Problems;
use crate::groups::GroupTree;
use crate::names::Interner;
use crate::place::PhaseSite;
use crate::program::{Op, Policy, Repeat, Settings};

/// A class of identical tasks.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) name: String,
    pub(super) span: Span,
    /// Instances that exist from the start. 0: only when forked.
    pub(super) instances: u64,
    pub(super) delay: u64,
    /// The place of `delay`.
    pub(super) delay_span: Option<Span>,
    pub(super) repeat: Repeat,
    pub(super) settings: Settings,
    pub(super) phases: Vec<PhaseSteps>,
    pub(super) own_timers: Interner,
}

/// A phase with unresolved references.
#[derive(Debug)]
pub(super) struct PhaseSteps {
    pub(super) name: String,
    pub(super) repeat: Repeat,
    pub(super) settings: Settings,
    pub(super) steps: Vec<Step>,
    pub(super) site: PhaseSite,
}

pub(super) struct Reader<'a> {
    pub(super) problems: &'a mut Problems,
    pub(super) names: &'a mut Names,
    pub(super) groups: &'a mut GroupTree,
    pub(super) global: &'a Global,
    pub(super) max_tasks: u64,
}

const TASK_KEYS: &[&str] = &["instance", "delay", "phases"];

/// Keys from before rt-app 0.3 that newer versions ignore.
const OLD_KEYS: &[&str] = &["exec", "resources", "lock_order"];

struct Contents<'a> {
    given: Given<'a>,
    steps: Vec<Step>,
    spans: Vec<Span>,
    phases: Vec<&'a Member>,
    instance: Option<&'a Value>,
    delay: Option<&'a Value>,
}

impl Reader<'_> {
    pub(super) fn class(&mut self, member: &Member) -> Option<Class> {
        let value = member.value(self.problems)?;
        let members = read::object(self.problems, &member.key, value, "an object that describes a task")?;
        // The count of instances is needed before the first barrier.
        let instances = members
            .iter()
            .rev()
            .find(|member| member.key == "instance")
            .and_then(|member| member.value.as_ref())
            .map_or(Some(1), |value| self.instances(value))
            .unwrap_or(1);
        let mut own_timers = Interner::default();
        let legacy = is_legacy_deadline(members, self.problems);
        let mut contents = self.contents(&member.key, members, instances, &mut own_timers, true, legacy);
        let mut current = Current::of(self.global);
        let policy = current.initial(self.problems, &contents.given, &member.key_span);
        let mut task_settings = settings::others(self.problems, &contents.given, self.groups);
        task_settings.policy = Some(policy);
        let delay = contents.delay.and_then(|value| read::time(self.problems, "delay", value)).unwrap_or(0);
        if let (0, Some(value), true) = (instances, contents.delay, delay > 0) {
            let message = format!("`delay` of task `{}`, which is only forked", member.key);
            let error = self.problems.new_error(value.span.clone(), message, "it is ignored: forks start at once");
            self.problems.warn(error.with_help("put a `sleep` of this length into a first phase"));
        }
        let written = settings::repeat(self.problems, &contents.given);

        let (repeat, phases) = if contents.phases.is_empty() {
            if contents.steps.is_empty() && matches!(policy, Policy::Deadline { .. }) {
                // Such a task only uses its budget. rt-app's loop makes no system call.
                contents.steps.push(Step::Op(Op::Run { work: Op::ENDLESS }));
                contents.spans.push(member.key_span.clone());
            }
            let site = PhaseSite { span: member.key_span.clone(), ops: contents.spans };
            let phase = PhaseSteps {
                name: member.key.clone(),
                repeat: Repeat::Times(1),
                settings: Settings::default(),
                steps: contents.steps,
                site,
            };
            (self.phase_repeat(written, &contents.given, Repeat::Forever, "task"), vec![phase])
        } else {
            self.events_beside_phases(&contents);
            let repeat = written.map_or(Repeat::Forever, task_repeat);
            let mut phases = Vec::new();
            for phases_member in contents.phases {
                self.phases(&member.key, phases_member, instances, &mut own_timers, &mut current, &mut phases);
            }
            restore_cpus(&task_settings, &mut phases);
            (repeat, phases)
        };
        let name = member.key.clone();
        let span = member.key_span.clone();
        let delay_span = contents.delay.map(|value| value.span.clone());
        Some(Class { name, span, instances, delay, delay_span, repeat, settings: task_settings, phases, own_timers })
    }

    fn instances(&mut self, value: &Value) -> Option<u64> {
        let limit = i64::try_from(self.max_tasks).unwrap_or(i64::MAX);
        read::integer(self.problems, "instance", value, 0..=limit, "a number of tasks").map(|count| count as u64)
    }

    fn phases(
        &mut self,
        class: &str,
        member: &Member,
        instances: u64,
        own_timers: &mut Interner,
        current: &mut Current,
        phases: &mut Vec<PhaseSteps>,
    ) {
        let Some(value) = member.value(self.problems) else { return };
        let Some(members) = read::object(self.problems, "phases", value, "an object of phases") else { return };
        for (index, member) in members.iter().enumerate() {
            let Some(value) = member.value(self.problems) else { continue };
            let Some(inner) = read::object(self.problems, &member.key, value, "an object that describes a phase")
            else {
                continue;
            };
            if members[index.saturating_sub(MAX_REMEMBERED)..index].iter().any(|earlier| earlier.key == member.key) {
                self.problems.tolerate(|problems| {
                    let message = format!("phase `{}` is given twice", member.key);
                    problems
                        .new_error(member.key_span.clone(), message, "JSON keeps only one of them")
                        .with_help("give each phase its own name; without --strict each is run")
                });
            }
            let contents = self.contents(class, inner, instances, own_timers, false, false);
            let policy = current.policy(self.problems, &contents.given, &member.key_span);
            let mut settings = settings::others(self.problems, &contents.given, self.groups);
            settings.policy = policy;
            let written = settings::repeat(self.problems, &contents.given);
            let repeat = self.phase_repeat(written, &contents.given, Repeat::Times(1), "phase");
            let site = PhaseSite { span: member.key_span.clone(), ops: contents.spans };
            phases.push(PhaseSteps { name: member.key.clone(), repeat, settings, steps: contents.steps, site });
        }
    }

    /// Splits the members of a task or phase into settings and events.
    fn contents<'m>(
        &mut self,
        class: &str,
        members: &'m [Member],
        instances: u64,
        own_timers: &mut Interner,
        is_task: bool,
        legacy_deadline: bool,
    ) -> Contents<'m> {
        let mut contents = Contents {
            given: Given::default(),
            steps: Vec::new(),
            spans: Vec::new(),
            phases: Vec::new(),
            instance: None,
            delay: None,
        };
        let mut events: Vec<&str> = Vec::new();
        for member in members {
            let key = member.key.as_str();
            if let Some(key) = settings::KEYS.iter().find(|known| **known == key) {
                contents.given.note(self.problems, key, member);
            } else if let Some(key) = settings::LEGACY_KEYS
                .iter()
                .find(|known| is_task && **known == key && (key != "runtime" || legacy_deadline))
            {
                contents.given.note(self.problems, key, member);
            } else if is_task && TASK_KEYS.contains(&key) {
                self.task_key(member, &mut contents);
            } else if let Some(kind) = event::kind_of(key) {
                if events.contains(&key) {
                    self.problems.tolerate(|problems| {
                        problems
                            .new_error(
                                member.key_span.clone(),
                                format!("`{key}` is given twice"),
                                "JSON keeps only one of them",
                            )
                            .with_help(format!("number them: `{key}0`, `{key}1`; without --strict each is an event"))
                    });
                } else if events.len() < MAX_REMEMBERED {
                    events.push(key);
                }
                let mut context = Context {
                    problems: self.problems,
                    names: self.names,
                    class,
                    instances,
                    own_timers,
                    buffer_size: self.global.mem_buffer_size,
                };
                if let Some(step) = context.event(kind, member) {
                    contents.steps.push(step);
                    contents.spans.push(
                        member
                            .value
                            .as_ref()
                            .map_or(member.key_span.clone(), |value| member.key_span.start..value.span.end),
                    );
                }
            } else {
                self.unknown(member, is_task);
            }
        }
        contents
    }

    fn task_key<'m>(&mut self, member: &'m Member, contents: &mut Contents<'m>) {
        let Some(value) = member.value(self.problems) else { return };
        let place = match member.key.as_str() {
            "instance" => &mut contents.instance,
            "delay" => &mut contents.delay,
            _ => {
                if !contents.phases.is_empty() {
                    self.problems.tolerate(|problems| {
                        problems
                            .new_error(
                                member.key_span.clone(),
                                "`phases` is given twice",
                                "JSON keeps only one of them",
                            )
                            .with_help("put all phases into one object")
                    });
                }
                contents.phases.push(member);
                return;
            }
        };
        if place.is_some() {
            read::repeated_key(self.problems, &member.key, member.key_span.clone());
        }
        *place = Some(value);
    }

    fn unknown(&mut self, member: &Member, is_task: bool) {
        if OLD_KEYS.contains(&member.key.as_str()) {
            let error = self
                .problems
                .new_error(
                    member.key_span.clone(),
                    format!("`{}` belongs to the grammar before rt-app 0.3", member.key),
                    "rt-app passes over it, and so is it here",
                )
                .with_help("write what the task does as events: `run`, `sleep`, `timer`, `lock`, ...");
            self.problems.warn(error);
            return;
        }
        let mut known: Vec<&str> = settings::KEYS.iter().chain(event::PREFIXES).copied().collect();
        if is_task {
            known.extend(TASK_KEYS);
        }
        read::unknown_key(self.problems, member, if is_task { "a task" } else { "a phase" }, &known);
    }

    fn events_beside_phases(&mut self, contents: &Contents<'_>) {
        if let Some(span) = contents.spans.first() {
            let error = self
                .problems
                .new_error(span.clone(), "an event beside `phases`", "rt-app runs the phases only")
                .with_help("move it into a phase");
            self.problems.warn(error);
        }
    }

    /// rt-app compares its count after each loop, so it never reaches 0. `whose`: "phase", or "task" without phases.
    fn phase_repeat(&mut self, written: Option<i64>, given: &Given<'_>, default: Repeat, whose: &str) -> Repeat {
        match written {
            None => default,
            Some(0) => {
                let span = given.get("loop").map_or(0..0, |value| value.span.clone());
                let error = self
                    .problems
                    .new_error(span, "`loop` is 0", "rt-app loops for ever here")
                    .with_help(format!("write -1 if that is meant; remove the {whose} if it is not to run"));
                self.problems.warn(error);
                Repeat::Forever
            }
            Some(count) => task_repeat(count),
        }
    }
}

/// Keys remembered per object to detect repetitions. Bounds the time for hostile files.
const MAX_REMEMBERED: usize = 256;

fn task_repeat(written: i64) -> Repeat {
    u64::try_from(written).map_or(Repeat::Forever, Repeat::Times)
}

/// Whether `runtime` is no event but the budget, as in SCHED_DEADLINE's old grammar.
fn is_legacy_deadline(members: &[Member], problems: &Problems) -> bool {
    let text = |key: &str| {
        let member = members.iter().find(|member| member.key == key)?;
        member.value.as_ref().map(|value| &problems.source.text()[value.span.clone()])
    };
    text("policy").is_some_and(|policy| policy.contains("SCHED_DEADLINE")) && text("dl-runtime").is_none()
}

/// A phase without CPUs uses the task's, not the previous phase's.
fn restore_cpus(task: &Settings, phases: &mut [PhaseSteps]) {
    if task.cpus.is_none() || phases.iter().all(|phase| phase.settings.cpus.is_none()) {
        return;
    }
    for phase in phases {
        if phase.settings.cpus.is_none() {
            phase.settings.cpus.clone_from(&task.cpus);
        }
    }
}
