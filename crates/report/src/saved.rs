//! Reads saved results for a comparison: the JSON of [`run_json`](crate::run_json), also of another version.
//!
//! Only what a [`Comparison`](crate::Comparison) compares is read. A field that is missing or null is not an error: its
//! figures are unmeasured, and [`SavedResults::lacks`] names them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Map, Value};

use crate::frequency::CpuFrequency;
use crate::latency::Latency;
use crate::results::{
    Account, ClassResult, Conservation, GroupResult, IdleWaits, LimitResult, MigrationCount, Pressure, Response,
    Results, Stall, Unmeasured,
};

/// The results of one file.
#[derive(Clone, Debug)]
pub struct SavedResults {
    /// The fields of the file without `observed`, such as `name` and `kernel`.
    pub setup: Map<String, Value>,
    /// The runs that came to their end.
    pub runs: Vec<SavedRun>,
    /// Number of runs that were stopped early. They are not in `runs`.
    pub stopped: usize,
    /// Figures that no run of the file has, in words.
    pub lacks: Vec<&'static str>,
}

/// One run.
#[derive(Clone, Debug)]
pub struct SavedRun {
    /// What a comparison reads. Tasks, CPUs and times that it does not read are absent or 0.
    pub results: Results,
    /// The seed, if the file has it.
    pub seed: Option<u64>,
    /// The digest, if the file has it.
    pub digest: Option<String>,
}

/// A file that cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedError {
    problem: String,
    help: &'static str,
}

impl SavedError {
    fn new(problem: impl Into<String>, help: &'static str) -> Self {
        Self { problem: problem.into(), help }
    }

    /// Returns how to fix it.
    pub fn help(&self) -> &'static str {
        self.help
    }
}

impl fmt::Display for SavedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)
    }
}

impl std::error::Error for SavedError {}

const AGAIN: &str = "write the file again: vruntime run FILE --json > results.json";
const EACH: &str = "name the results.json of each run; `compare --out DIR` writes one for each combination";

/// Whether a JSON document has results of runs, rather than a workload.
pub fn is_saved_results(json: &[u8]) -> bool {
    matches!(keys(json), Some((true, false, _)))
}

/// Whether a JSON document is the output of `compare`.
pub fn is_saved_comparison(json: &[u8]) -> bool {
    matches!(keys(json), Some((false, _, true)))
}

/// Returns whether the document is an object with `observed`, with `workload`, and with `variants` and `cells`.
fn keys(json: &[u8]) -> Option<(bool, bool, bool)> {
    #[derive(serde::Deserialize)]
    struct Keys {
        observed: Option<serde::de::IgnoredAny>,
        workload: Option<serde::de::IgnoredAny>,
        variants: Option<serde::de::IgnoredAny>,
        cells: Option<serde::de::IgnoredAny>,
    }
    let keys: Keys = serde_json::from_slice(json).ok()?;
    Some((keys.observed.is_some(), keys.workload.is_some(), keys.variants.is_some() && keys.cells.is_some()))
}

impl SavedResults {
    /// Reads the JSON of a file.
    ///
    /// # Errors
    ///
    /// If the file is no JSON or has no runs, if no run came to its end, or if a figure is no number.
    pub fn read(json: &[u8]) -> Result<Self, SavedError> {
        let value: Value = serde_json::from_slice(json)
            .map_err(|error| SavedError::new(format!("the file is no complete JSON: {error}"), AGAIN))?;
        let Value::Object(mut setup) = value else {
            return Err(SavedError::new("the file has no results: expected a JSON object", AGAIN));
        };
        let Some(Value::Array(observed)) = setup.remove("observed") else {
            let help = if setup.contains_key("cells") { EACH } else { AGAIN };
            return Err(SavedError::new("the file has no results: expected a list `observed`", help));
        };
        let duration = time_of(&Value::Object(setup.clone()), "duration", "")?;
        let mut reader = Reader::default();
        let (mut runs, mut stopped) = (Vec::new(), 0);
        for (index, run) in observed.iter().enumerate() {
            if run.get("interrupted").and_then(Value::as_bool) == Some(true) {
                stopped += 1;
                continue;
            }
            runs.push(reader.run(run, &format!("observed[{index}]"), duration)?);
        }
        if runs.is_empty() {
            let problem = if stopped > 0 { "every run in the file was stopped early" } else { "`observed` is empty" };
            return Err(SavedError::new(problem, "run the workload again, to its end"));
        }
        Ok(Self { setup, runs, stopped, lacks: reader.lacks() })
    }

    /// Returns a text of the setup, such as `kernel`.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.setup.get(key)?.as_str()
    }
}

/// A figure in words, and the fields of which it needs one, without units.
type Needs = (&'static str, &'static [&'static str]);

const OF_CLASSES: [Needs; 8] = [
    ("CPU time", &["cpu"]),
    ("waits", &["run_delay"]),
    ("lateness", &["wakeup_latency", "wakeup_to_run"]),
    ("switches", &["nr_voluntary_switches"]),
    ("migrations", &["nr_migrations"]),
    ("loops", &["loops"]),
    ("response times", &["response"]),
    ("waits beside idle CPUs", &["idle_waits"]),
];
const OF_GROUPS: [Needs; 3] = [
    ("CPU time of groups", &["cpu"]),
    ("waits of groups", &["run_delay"]),
    ("CPU pressure of groups", &["cpu.pressure"]),
];

/// Collects the fields that occur.
#[derive(Default)]
struct Reader {
    of_classes: BTreeSet<String>,
    of_groups: BTreeSet<String>,
    groups: bool,
    /// Set if a distribution lacks a percentile that is compared.
    partial: bool,
}

impl Reader {
    fn lacks(&self) -> Vec<&'static str> {
        let lacking = |fields: &BTreeSet<String>, needs: &[Needs]| {
            let missing = needs.iter().filter(|(_, any)| {
                !any.iter().any(|name| {
                    let named = |unit: &str| fields.contains(&format!("{name}{unit}"));
                    named("") || UNITS.iter().any(|(unit, _)| named(unit))
                })
            });
            missing.map(|(words, _)| *words).collect::<Vec<_>>()
        };
        let mut lacks = lacking(&self.of_classes, &OF_CLASSES);
        if self.groups {
            lacks.extend(lacking(&self.of_groups, &OF_GROUPS));
        } else {
            lacks.push("groups");
        }
        lacks.extend(self.partial.then_some("some percentiles"));
        lacks
    }

    fn run(&mut self, run: &Value, place: &str, duration: Option<u64>) -> Result<SavedRun, SavedError> {
        let machine = run.get("machine").unwrap_or(&Value::Null);
        let of_machine = Fields { of: machine, place: format!("{place}.machine") };
        let elapsed_ns = of_machine.time("elapsed")?.or(duration).unwrap_or(0);
        if elapsed_ns == 0 {
            return Err(SavedError::new(format!("the length of a run is missing: {place}.machine.elapsed_ns"), AGAIN));
        }
        let mut results = Results { elapsed_ns, ..Results::default() };
        let Some(classes) = run.get("classes").and_then(Value::as_object) else {
            return Err(SavedError::new(format!("the classes of tasks are missing: {place}.classes"), AGAIN));
        };
        for (name, class) in classes {
            let fields = Fields { of: class, place: format!("{place}.classes.{name:?}") };
            self.of_classes.extend(fields.names());
            let (class, target) = self.class(name, &fields)?;
            results.target_ns = results.target_ns.or(target);
            results.classes.push(class);
        }
        for class in &results.classes {
            results.account.add(&class.account);
        }
        let groups = run.get("groups").and_then(Value::as_object);
        self.groups |= groups.is_some();
        // A comparison expects the root first.
        let root = groups.and_then(|groups| groups.get("/")).unwrap_or(&Value::Null);
        let others = groups.into_iter().flatten().filter(|(path, _)| path.as_str() != "/");
        for (path, group) in std::iter::once(("/", root)).chain(others.map(|(path, group)| (path.as_str(), group))) {
            let fields = Fields { of: group, place: format!("{place}.groups.{path:?}") };
            self.of_groups.extend(fields.names());
            results.groups.push(group_of(path, &fields)?);
        }
        parents(&mut results.groups);
        for (class, saved) in results.classes.iter_mut().zip(classes.values()) {
            let path = saved.get("group").and_then(Value::as_str);
            class.group = results.groups.iter().position(|group| path == Some(&group.path));
        }
        results.conservation = machine.get("work_conservation").filter(|value| value.is_object()).map(|_| {
            // A comparison only asks whether it is known.
            Conservation { least_interval_ns: 0, most_interval_ns: 0, worst: None }
        });
        for cpu in machine.get("cpu_frequency").and_then(Value::as_array).into_iter().flatten() {
            let fields = Fields { of: cpu, place: format!("{}.cpu_frequency", of_machine.place) };
            results.frequencies.push(CpuFrequency {
                cpu: fields.count("cpu")?.unwrap_or(0) as u32,
                residency: Vec::new(),
                changes: fields.count("total_trans")?.unwrap_or(0),
                energy_uj: fields.ns("energy_j", 1e6)?,
            });
        }
        let digest = run.get("digest").and_then(Value::as_str).map(str::to_owned);
        Ok(SavedRun { results, seed: run.get("seed").and_then(Value::as_u64), digest })
    }

    /// Returns a class, and the response time above which its rounds are counted.
    fn class(&mut self, name: &str, fields: &Fields<'_>) -> Result<(ClassResult, Option<u64>), SavedError> {
        let mut target = None;
        let mut times = None;
        if let Some((response, unit)) = &fields.times("response") {
            target = response.ns("target", *unit)?;
            let above = number(response.of.get("above_target"), &format!("{}.above_target", response.place))?;
            times = self.latency(response, *unit)?.map(|times| Response {
                times,
                above_target: (above.unwrap_or(0.0).clamp(0.0, 1.0) * times.count as f64).round() as u64,
            });
        }
        let mut of = |key: &str| fields.times(key).map_or(Ok(None), |(fields, unit)| self.latency(&fields, unit));
        let class = ClassResult {
            name: name.to_owned(),
            tasks: fields.count("tasks")?.unwrap_or(1) as usize,
            group: None,
            account: account_of(fields)?,
            wakeup_latency: of("wakeup_to_run")?,
            sleep_return: of("wakeup_latency")?,
            loop_duration: of("loop_duration")?,
            response: times,
            migrations: MigrationCount::default(),
        };
        Ok((class, target))
    }

    /// `unit`: nanoseconds in a unit of the fields.
    fn latency(&mut self, fields: &Fields<'_>, unit: f64) -> Result<Option<Latency>, SavedError> {
        let ns = |key: &str| fields.ns(key, unit);
        let (p50, p90, p99, max, count) = (ns("p50")?, ns("p90")?, ns("p99")?, ns("max")?, fields.count("count")?);
        let (Some(p50_ns), Some(p90_ns), Some(p99_ns), Some(max_ns), Some(count)) = (p50, p90, p99, max, count) else {
            self.partial = true;
            return Ok(None);
        };
        let unread = Latency {
            count,
            min_ns: 0,
            p50_ns,
            p75_ns: 0,
            p90_ns,
            p95_ns: 0,
            p99_ns,
            p995_ns: 0,
            p999_ns: ns("p99.9")?.unwrap_or(0),
            max_ns,
            mean_ns: ns("mean")?.unwrap_or(0),
            last_ns: 0,
        };
        Ok(Some(unread).filter(|latency| latency.count > 0))
    }
}

fn account_of(fields: &Fields<'_>) -> Result<Account, SavedError> {
    let (cpu, waited) = (fields.time("cpu")?, fields.time("run_delay")?);
    let (voluntary, involuntary) = (fields.count("nr_voluntary_switches")?, fields.count("nr_involuntary_switches")?);
    let migrations = fields.count("nr_migrations")?;
    let idle_waits = match fields.inner("idle_waits") {
        Some(waits) => IdleWaits {
            count: waits.count("count")?.unwrap_or(0),
            total_ns: waits.time("total")?.unwrap_or(0),
            worst_ns: waits.time("worst")?.unwrap_or(0),
        },
        None => IdleWaits::default(),
    };
    Ok(Account {
        cpu_ns: cpu.unwrap_or(0),
        system_ns: fields.time("system")?.unwrap_or(0),
        run_delay_ns: waited.unwrap_or(0),
        sleeping_ns: fields.time("sleeping")?.unwrap_or(0),
        life_ns: fields.time("life")?.unwrap_or(0),
        voluntary: voluntary.unwrap_or(0),
        involuntary: involuntary.unwrap_or(0),
        migrations: migrations.unwrap_or(0),
        loops: fields.count("loops")?.unwrap_or(0),
        loop_work_ns: fields.time("loop_work")?.unwrap_or(0),
        idle_waits,
        deadline: None,
        unmeasured: Unmeasured {
            cpu: cpu.is_none(),
            switches: voluntary.is_none() || involuntary.is_none(),
            waits: waited.is_none(),
            migrations: migrations.is_none(),
            pressure: false,
        },
    })
}

fn group_of(path: &str, fields: &Fields<'_>) -> Result<GroupResult, SavedError> {
    let (cpu, waited) = (fields.time("cpu")?, fields.time("run_delay")?);
    let some = fields.inner("cpu.pressure").and_then(|pressure| pressure.inner("some"));
    let stalled = some.map_or(Ok(None), |some| some.time("total"))?;
    let limit = match fields.count("nr_throttled")? {
        Some(nr_throttled) => Some(LimitResult {
            max: fields.time("quota")?.zip(fields.time("period")?),
            nr_periods: fields.count("nr_periods")?.unwrap_or(0),
            nr_throttled,
            throttled_ns: fields.time("throttled")?.unwrap_or(0),
            nr_bursts: fields.count("nr_bursts")?.unwrap_or(0),
            burst_ns: fields.time("burst")?.unwrap_or(0),
        }),
        None => None,
    };
    let stall = Stall { averages: [0; 3], total_ns: stalled.unwrap_or(0) };
    Ok(GroupResult {
        path: path.to_owned(),
        weight: fields.count("weight")?.unwrap_or(100) as u32,
        idle: fields.of.get("idle").and_then(Value::as_bool).unwrap_or(false),
        tasks: fields.count("tasks")?.unwrap_or(0) as usize,
        cpu_ns: cpu.unwrap_or(0),
        entitled_ns: fields.time("entitled")?.unwrap_or(0),
        run_delay_ns: waited.unwrap_or(0),
        switches: fields.count("nr_switches")?.unwrap_or(0),
        pressure: Pressure { some: stall, full: Stall::default() },
        limit,
        unmeasured: Unmeasured {
            cpu: cpu.is_none(),
            waits: waited.is_none(),
            pressure: stalled.is_none(),
            ..Unmeasured::default()
        },
        ..GroupResult::default()
    })
}

/// Sets the parent of each group by its path.
fn parents(groups: &mut [GroupResult]) {
    let at: BTreeMap<String, usize> = groups.iter().zip(0..).map(|(group, at)| (group.path.clone(), at)).collect();
    for group in groups {
        let above = group.path.match_indices('/').rev().map(|(end, _)| if end == 0 { "/" } else { &group.path[..end] });
        group.parent = above.filter(|above| *above != group.path).find_map(|above| at.get(above).copied());
    }
}

/// An object of the file, and its place for errors.
struct Fields<'a> {
    of: &'a Value,
    place: String,
}

impl<'a> Fields<'a> {
    fn names(&self) -> impl Iterator<Item = String> + use<'a> {
        self.of.as_object().into_iter().flat_map(|fields| fields.keys().cloned())
    }

    /// Returns a time in a field of this name and a unit, as nanoseconds.
    fn time(&self, name: &str) -> Result<Option<u64>, SavedError> {
        time_of(self.of, name, &self.place)
    }

    /// Returns an object of times in a field of this name and a unit, and the nanoseconds in that unit.
    fn times(&self, name: &str) -> Option<(Self, f64)> {
        UNITS.iter().find_map(|(unit, ns)| Some((self.inner(&format!("{name}{unit}"))?, *ns)))
    }

    /// Returns an object in a field; none if the field is missing or null.
    fn inner(&self, key: &str) -> Option<Self> {
        let of = self.of.get(key).filter(|value| value.is_object())?;
        Some(Self { of, place: format!("{}.{key:?}", self.place) })
    }

    /// Returns a time as nanoseconds. `unit`: nanoseconds in a unit of the field.
    fn ns(&self, key: &str, unit: f64) -> Result<Option<u64>, SavedError> {
        let value = number(self.of.get(key), &format!("{}.{key:?}", self.place))?;
        Ok(value.map(|value| nanoseconds(value, unit)))
    }

    fn count(&self, key: &str) -> Result<Option<u64>, SavedError> {
        self.ns(key, 1.0)
    }
}

/// Ends of the names of fields, and the nanoseconds in their unit. Only files before 28 November 2026 have others than
/// `_ns`.
const UNITS: [(&str, f64); 4] = [("_ns", 1.0), ("_s", 1e9), ("_us", 1e3), ("_usec", 1e3)];

/// Returns a time in a field of this name and a unit, as nanoseconds. `place`: of the object, for errors.
fn time_of(of: &Value, name: &str, place: &str) -> Result<Option<u64>, SavedError> {
    for (unit, ns) in UNITS {
        let key = format!("{name}{unit}");
        let place = if place.is_empty() { key.clone() } else { format!("{place}.{key:?}") };
        if let Some(value) = number(of.get(&key), &place)? {
            return Ok(Some(nanoseconds(value, ns)));
        }
    }
    Ok(None)
}

/// Converts a time that is not negative. Beyond 584 years it is the maximum.
fn nanoseconds(value: f64, unit: f64) -> u64 {
    (value * unit).round() as u64
}

/// Returns a number that is not negative; none if the field is missing or null.
fn number(value: Option<&Value>, place: &str) -> Result<Option<f64>, SavedError> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            if let Some(number) = value.as_f64().filter(|number| *number >= 0.0) {
                return Ok(Some(number));
            }
            let found: String = value.to_string().chars().take(40).collect();
            Err(SavedError::new(format!("{place} is {found}, expected a number from 0"), AGAIN))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::collector::Collector;
    use crate::compare::{Comparison, Variant};
    use crate::json::{RunInfo, observed_json, run_json};
    use vruntime_trace::{CpuId, Event, PrevState, Running, Sink, TaskId, TaskInfo};

    fn saved(json: &Value) -> Result<SavedResults, SavedError> {
        SavedResults::read(json.to_string().as_bytes())
    }

    /// Returns a class with all fields, and the file around it.
    fn file(class: &Value) -> Value {
        json!({"name": "n", "kernel": "6.12", "duration_s": 2.0, "observed": [{"classes": {"web": class}}]})
    }

    /// Returns a second of a task that sleeps, loops and migrates.
    fn ran() -> Results {
        let mut c = Collector::new(2);
        let (task, cpu, other) = (TaskId(0), CpuId(0), CpuId(1));
        c.task(task, &TaskInfo { name: "web", class: "web", ..TaskInfo::default() });
        let (idle, web) = (Running::Idle, Running::Task(task));
        let switch = |prev, prev_state, next| Event::Switch { prev, prev_state, next };
        c.event(0, cpu, &Event::Fork { parent: None, child: task });
        c.event(0, cpu, &Event::WakeupNew { task, target: cpu });
        c.event(70, cpu, &switch(idle, PrevState::Preempted, web));
        for round in 1..50 {
            let at = round * 10_000_000;
            c.event(at, cpu, &switch(web, PrevState::Sleeping, idle));
            c.event(at + 7_000_000, other, &Event::Wakeup { task, target: cpu });
            c.event(at + 7_000_000 + round * 1_003, cpu, &switch(idle, PrevState::Preempted, web));
            c.event(at + 7_500_000, cpu, &Event::SleepReturn { task, late: 3_001 * round });
            c.event(at + 8_000_000, cpu, &Event::LoopEnd { task, duration: 5_003 * round, work: 1_000 });
        }
        c.finish(1_000_000_000);
        c.into_results()
    }

    #[test]
    fn earlier_files_have_other_units() {
        let latency =
            |unit: f64| json!({"count": 4, "p50": unit, "p90": 2.0 * unit, "p99": 3.0 * unit, "max": 4.0 * unit});
        let waits = |name: &str, unit: u64| json!({"count": 2, format!("total_{name}"): 7 * unit, format!("worst_{name}"): 5 * unit});
        let now =
            json!({"cpu_ns": 1_500_000_000, "wakeup_latency_ns": latency(2_500.0), "idle_waits": waits("ns", 1000)});
        let earlier = json!({"cpu_s": 1.5, "wakeup_latency_us": latency(2.5), "idle_waits": waits("us", 1)});
        let [now, earlier] = [now, earlier].map(|class| saved(&file(&class)).unwrap().runs.remove(0).results);
        assert_eq!(now.classes, earlier.classes);
        assert_eq!(now.classes[0].account.cpu_ns, 1_500_000_000);
        assert_eq!(now.classes[0].account.idle_waits.worst_ns, 5_000);
        assert_eq!((now.elapsed_ns, earlier.elapsed_ns), (2_000_000_000, 2_000_000_000));
    }

    #[test]
    fn what_was_written_compares_as_equal() {
        let results = ran();
        let written = run_json(&RunInfo::default(), vec![observed_json(&results, 7, 0xabc)]);
        let read = saved(&written).unwrap();
        assert!(read.lacks.is_empty(), "{:?}", read.lacks);
        assert_eq!((read.runs[0].seed, read.runs[0].digest.as_deref()), (Some(7), Some("0000000000000abc")));
        let variants = [("run", results), ("saved", read.runs[0].results.clone())]
            .map(|(label, results)| Variant { label: label.to_owned(), runs: vec![results] });
        let json = Comparison::new(variants.to_vec()).unwrap().json();
        let cells = json["cells"].as_array().unwrap();
        assert!(cells.iter().any(|cell| cell["values"][0]["mean"].as_f64().is_some_and(|mean| mean > 0.0)));
        for cell in cells {
            let [run, saved] = [0, 1].map(|index| cell["values"][index]["mean"].as_f64());
            let close = match (run, saved) {
                (Some(run), Some(saved)) => (run - saved).abs() <= 1e-3 * run.abs(),
                (run, saved) => run == saved,
            };
            assert!(close, "{cell}");
        }
    }

    #[test]
    fn older_files_say_what_they_lack() {
        let old = json!({"cpu_s": 1.0, "nr_voluntary_switches": 3, "nr_involuntary_switches": 4, "tasks": 2});
        let read = saved(&file(&old)).unwrap();
        let lacks = ["waits", "lateness", "migrations", "loops", "response times", "waits beside idle CPUs", "groups"];
        assert_eq!(read.lacks, lacks);
        let class = &read.runs[0].results.classes[0];
        assert_eq!((class.tasks, class.account.cpu_ns, class.account.switches()), (2, 1_000_000_000, 7));
        let Unmeasured { cpu, switches, waits, migrations, .. } = class.account.unmeasured;
        assert_eq!((cpu, switches, waits, migrations), (false, false, true, true));
        let other = Variant { label: "b".to_owned(), runs: vec![read.runs[0].results.clone()] };
        let comparison = Comparison::new(vec![Variant { label: "a".to_owned(), ..other.clone() }, other]).unwrap();
        for cell in comparison.json()["cells"].as_array().unwrap() {
            let measured = ["share", "switches_per_s"].contains(&cell["metric"].as_str().unwrap());
            assert_eq!(cell["values"][0]["mean"].is_null(), !measured, "{cell}");
        }
        let partial = saved(&file(&json!({"cpu_s": 1.0, "wakeup_latency_us": {"p50": 1.0, "count": 3}}))).unwrap();
        assert!(partial.lacks.contains(&"some percentiles") && !partial.lacks.contains(&"lateness"));
    }

    #[test]
    fn stopped_runs_are_left_out() {
        let run = |interrupted: bool| json!({"classes": {"a": {"cpu_s": 1.0}}, "interrupted": interrupted});
        let read = saved(&json!({"duration_s": 1.0, "observed": [run(true), run(false)]})).unwrap();
        assert_eq!((read.runs.len(), read.stopped), (1, 1));
        let error = saved(&json!({"duration_s": 1.0, "observed": [run(true)]})).unwrap_err();
        assert_eq!(error.to_string(), "every run in the file was stopped early");
    }

    #[test]
    fn errors_of_bad_files_have_a_place() {
        let message_of = |json: Value| saved(&json).unwrap_err().to_string();
        assert_eq!(message_of(json!([])), "the file has no results: expected a JSON object");
        assert_eq!(message_of(json!({})), "the file has no results: expected a list `observed`");
        assert_eq!(message_of(json!({"observed": []})), "`observed` is empty");
        let classes = json!({"observed": [{"classes": {}}]});
        assert_eq!(message_of(classes), "the length of a run is missing: observed[0].machine.elapsed_ns");
        let none = json!({"duration_s": 1, "observed": [{}]});
        assert_eq!(message_of(none), "the classes of tasks are missing: observed[0].classes");
        for bad in [json!("x"), json!(-1), json!([])] {
            let why = message_of(file(&json!({"cpu_s": bad})));
            let place = "observed[0].classes.\"web\".\"cpu_s\" is ";
            assert!(why.starts_with(place) && why.ends_with("expected a number from 0"), "{why}");
        }
        let cut = SavedResults::read(b"{\"observed\": [").unwrap_err();
        assert!(cut.to_string().starts_with("the file is no complete JSON: EOF"), "{cut}");
        assert!(cut.help().contains("vruntime run"));
        // Numbers beyond every run.
        assert!(saved(&file(&json!({"cpu_s": 1e300, "tasks": 1e300, "nr_voluntary_switches": 1e300}))).is_ok());
    }

    #[test]
    fn results_differ_from_workloads_and_comparisons() {
        assert!(is_saved_results(br#"{"observed": []}"#));
        assert!(!is_saved_results(br#"{"observed": [], "workload": {}}"#), "a recording is a workload");
        assert!(!is_saved_results(br#"{"tasks": {"observed": {}}}"#));
        assert!(!is_saved_results(b"{"));
        assert!(is_saved_comparison(br#"{"variants": [], "cells": []}"#));
    }
}
