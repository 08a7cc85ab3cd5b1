//! The result of a bisection: text, JSON and page.

use serde_json::{Map, Value, json};
use vruntime_report::{Bar, Bars, Cell, DataTable, Figure, Kind, Page, TableGroup, counted, fit_text, grid};

use super::search::{Effect, Found, Undo, Verdict};
use super::sides::Words;

pub(super) struct Report<'a> {
    pub(super) from: &'a str,
    pub(super) to: &'a str,
    /// The input, the machine and the seeds, in words.
    pub(super) what: String,
    pub(super) figure: &'a Figure,
    pub(super) found: &'a Found,
    /// Descriptions, by numbers of differences.
    pub(super) words: Vec<Words>,
    pub(super) seeds: u16,
    /// Millions of events.
    pub(super) budget: u32,
    /// The simulated events of all runs.
    pub(super) events: u64,
    /// Unverified facts of the kernels, and notes on a trace.
    pub(super) notes: Vec<String>,
}

/// The effect of several differences together, on the first side.
struct Joint<'a> {
    taken: &'a [usize],
    by: f64,
}

/// Returns a part of the whole, of 1.
fn part(part: f64, total: f64) -> f64 {
    if total == 0.0 { 0.0 } else { part / total }
}

/// Returns a part of the whole in whole percent, for reading.
fn percent(of: f64, total: f64) -> f64 {
    (100.0 * part(of, total)).round()
}

/// Names differences, with their releases.
pub(super) fn names<'a>(differences: impl Iterator<Item = &'a Words>) -> String {
    let names = differences.map(|words| match words {
        Words { name, releases, .. } if releases.is_empty() => format!("`{name}`"),
        Words { name, releases, .. } => format!("`{name}` ({releases})"),
    });
    let names: Vec<String> = names.collect();
    match &names[..] {
        [] | [_] => names.concat(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}

impl Report<'_> {
    fn names(&self, differences: &[usize]) -> String {
        names(differences.iter().map(|&one| &self.words[one]))
    }

    fn answer(&self) -> String {
        let Self { from, to, figure, found, .. } = self;
        let (total, noise) = (found.total(), found.noise());
        let seeds = if self.seeds > 1 { format!(", seeds ± {}", figure.text(noise)) } else { String::new() };
        let unit = match figure.printed_unit() {
            "" => String::new(),
            unit => format!(", {unit}"),
        };
        let moved = format!(
            "{}{unit}: {} under {from}, {} under {to}{seeds}.",
            figure.phrase(),
            figure.text(found.from.mean()),
            figure.text(found.to.mean()),
        );
        if !found.differs() {
            let again =
                if found.verdict == Verdict::Chance { ": with other seeds, it does not appear again" } else { "" };
            return format!("{moved} The difference is within the spread of the seeds{again}.");
        }
        if found.explained_by.is_empty() {
            return format!("{moved} {}", self.unexplained());
        }
        let of = figure.text(total.abs());
        let share = percent(found.joint, total);
        let mut text = format!("{moved} {share} % of the {of} comes from {}.", self.causes());
        if let Some(undo) = &found.undo {
            let (by, share) = (figure.text(undo.by.abs()), percent(undo.by, total));
            let commands = self.commands(undo).join("; ");
            text.extend([format!(" To undo {by} ({share} %) on a real kernel: {commands}.")]);
        }
        text.extend([" ", &self.rest()]);
        text.extend(self.alternatives().map(|others| format!(" {others}")));
        text.extend(self.early().map(|early| format!(" {early}")));
        text
    }

    /// Returns the commands that undo a part of the change, each once. Two causes can have the same switch.
    fn commands(&self, undo: &Undo) -> Vec<&str> {
        let mut commands: Vec<&str> = Vec::new();
        for &one in &undo.causes {
            let command = self.words[one].switch.as_str();
            if !commands.contains(&command) {
                commands.push(command);
            }
        }
        commands
    }

    /// Names the set that explains the change. If the budget ended the search for a smaller one, says so.
    fn causes(&self) -> String {
        const MOST_NAMES: usize = 6;
        let Found { explained_by: causes, counteracted_by: against, .. } = self.found;
        match (self.found.is_smallest, causes.len() + against.len()) {
            (true, _) if !against.is_empty() => {
                format!("{}, counteracted by {}", self.names(causes), self.names(against))
            }
            (true, _) => self.names(causes),
            (false, ..=MOST_NAMES) => format!("{} or some of them", self.names(&self.set())),
            (false, count) => {
                format!("{count} of the {} differences (`--json` has their names), or some of them", self.found.of)
            }
        }
    }

    /// Returns the set that explains the change.
    fn set(&self) -> Vec<usize> {
        self.found.explained_by.iter().chain(&self.found.counteracted_by).copied().collect()
    }

    /// Names the differences that explain the change as well.
    fn alternatives(&self) -> Option<String> {
        const MOST: usize = 6;
        let others = &self.found.alternatives;
        let more = others.len().saturating_sub(MOST);
        let names = self.names(&others[..others.len().min(MOST)]);
        match others.len() {
            0 => None,
            1 => Some(format!("{names} alone makes as much.")),
            2..=MOST => Some(format!("Each of {names} alone makes as much.")),
            _ => Some(format!("Each of {names} alone makes as much, and {more} others (`--json` has their names).")),
        }
    }

    /// Says that no set explains the change.
    fn unexplained(&self) -> String {
        let all = self.all_together().map_or_else(String::new, |all| format!(" {all}"));
        let early = self.early().map_or_else(String::new, |early| format!(" {early}"));
        format!("No set of differences was found that explains more than half of it.{all}{early}")
    }

    /// Describes the effect of all differences, if it ran.
    fn all_together(&self) -> Option<String> {
        let (whole, total) = (self.found.whole?, self.found.total());
        let only = if self.found.goal().is_near(whole) { "" } else { "only " };
        let rest = if only.is_empty() { "" } else { ": the rest is not in the tables of behaviours and features" };
        let (of, share) = (self.figure.text(whole), percent(whole, total));
        Some(format!("All {} differences together make {only}{of} ({share} %){rest}.", self.found.of))
    }

    /// Describes what the set leaves.
    fn rest(&self) -> String {
        let found = self.found;
        let rest = found.total() - found.joint;
        if rest.abs() <= found.noise() {
            return "The rest is within the spread of the seeds.".to_owned();
        }
        let (of, share) = (self.figure.text(rest), percent(rest, found.total()));
        let small = found.goal().is_near(found.joint);
        let unexplained = if small { "" } else { ", is unexplained: no difference was found that makes it" };
        let is = if small { " is " } else { ", " };
        let rest = format!("The rest{is}{of} ({share} %){unexplained}.");
        match self.all_together() {
            Some(all) => format!("{rest} {all}"),
            None => rest,
        }
    }

    /// Says that the budget ended the search.
    fn early(&self) -> Option<String> {
        let budget = self.budget;
        let words = || format!("The search ended early, after {budget} million simulated events (`--budget`).");
        self.found.stopped.then(words)
    }

    /// Describes the number of differences and runs.
    fn counts(&self) -> String {
        let found = self.found;
        let silent = found.effects.iter().filter(|effect| !effect.moves()).count();
        // The search may have ended before it ran the others.
        let least = if found.stopped { "at least " } else { "" };
        let (some, of) = (found.effects.len(), counted(found.of as u64, "difference", "differences"));
        let change = if some == 1 { "changes" } else { "change" };
        let silent = match silent {
            0 => String::new(),
            1 => ", and 1 of these does not move the figure".to_owned(),
            _ => format!(", and {silent} of these do not move the figure"),
        };
        let ran = counted(found.combinations as u64, "combination was", "combinations were");
        format!("{least}{some} of {of} {change} events of this workload{silent}; {ran} run")
    }

    fn heads(&self) -> [String; 2] {
        [format!("added to {}", self.from), format!("removed from {}", self.to)]
    }

    /// Formats an effect, as a dash if the difference changes no event.
    fn by(&self, by: Option<f64>) -> String {
        by.map_or_else(|| "-".to_owned(), |by| self.figure.text(by))
    }

    /// Describes a difference, and the differences that it needs.
    fn what_of(&self, effect: &Effect) -> String {
        let with: Vec<&str> = effect.with.iter().map(|&one| self.words[one].name.as_str()).collect();
        let with = if with.is_empty() { String::new() } else { format!("; with {}", with.join(", ")) };
        format!("{}{with}", self.words[effect.difference].what)
    }

    /// Returns the part of the change in percent. `None`: the change is within the noise, and has no parts.
    fn share(&self, effect: &Effect) -> Option<i64> {
        self.found.differs().then(|| percent(effect.mean(), self.found.total()) as i64)
    }

    fn explains(&self, effect: &Effect) -> &'static str {
        let is_of = |all: &[usize]| all.contains(&effect.difference);
        match self.found {
            found if is_of(&found.explained_by) => "yes",
            found if is_of(&found.counteracted_by) => "against",
            found if is_of(&found.alternatives) => "alone",
            _ => "",
        }
    }

    fn moving(&self) -> impl Iterator<Item = &Effect> {
        self.found.effects.iter().filter(|effect| effect.moves())
    }

    /// Returns the joint effects that ran, the largest first.
    fn joints(&self) -> Vec<Joint<'_>> {
        const MOST: usize = 8;
        let found = self.found;
        let is_single = |taken: &[usize]| {
            let size = taken.len();
            found.effects.iter().any(|effect| size == 1 + effect.with.len() && taken.contains(&effect.difference))
        };
        let mut joints: Vec<Joint<'_>> = Vec::new();
        for one in found.log.iter().filter(|one| found.differs() && !one.backward && one.taken.len() > 1) {
            let taken = &one.taken[..];
            let is_same = |other: &[usize]| other.len() == taken.len() && other.iter().all(|one| taken.contains(one));
            if is_single(taken) || joints.iter().any(|joint| is_same(joint.taken)) {
                continue;
            }
            let mean = one.values.iter().sum::<f64>() / one.values.len().max(1) as f64;
            joints.push(Joint { taken, by: mean - found.from.mean() });
        }
        joints.sort_by(|a, b| b.by.abs().total_cmp(&a.by.abs()).then(a.taken.len().cmp(&b.taken.len())));
        joints.truncate(MOST);
        joints
    }

    /// Names the differences of a joint effect.
    fn joint_name(&self, joint: &Joint<'_>) -> String {
        const MOST: usize = 4;
        let names = || joint.taken.iter().map(|&one| self.words[one].name.as_str());
        match joint.taken.len() {
            all if all == self.found.of => format!("all {all} differences"),
            ..=MOST => names().collect::<Vec<&str>>().join(" + "),
            count => format!("{} + {} more", names().take(MOST).collect::<Vec<&str>>().join(" + "), count - MOST),
        }
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!("{}\n\n{}\n\n", fit_text(&self.what, ""), fit_text(&self.answer(), ""));
        let lines = self.moving().map(|effect| {
            vec![
                self.words[effect.difference].name.clone(),
                self.by(effect.alone),
                self.by(effect.left_out),
                self.share(effect).map_or_else(|| "-".to_owned(), |share| format!("{share} %")),
                self.explains(effect).to_owned(),
                self.what_of(effect),
            ]
        });
        let [alone, left_out] = self.heads();
        let head = ["difference", alone.as_str(), left_out.as_str(), "share", "explains", "what it does"];
        text.push_str(&grid(&head, 6, lines));
        let joints = self.joints();
        if !joints.is_empty() {
            let lines = joints.iter().map(|joint| {
                vec![
                    self.joint_name(joint),
                    self.figure.text(joint.by),
                    format!("{} %", percent(joint.by, self.found.total())),
                ]
            });
            text.push('\n');
            text.push_str(&grid(&["together", alone.as_str(), "share"], 1, lines));
        }
        text.extend(["\n", &fit_text(&self.counts(), ""), "\n"]);
        for note in &self.notes {
            text.extend([&fit_text(note, ""), "\n"]);
        }
        text
    }

    pub(super) fn json(&self) -> Value {
        let Self { from, to, figure, found, .. } = self;
        let total = found.total();
        let name = |one: &usize| self.words[*one].name.clone();
        let names = |all: &[usize]| all.iter().map(name).collect::<Vec<String>>();
        let effect = |effect: &Effect| {
            let mut row = described(&self.words[effect.difference]);
            let figures = [
                ("alone", json!(effect.alone.unwrap_or(0.0))),
                ("left_out", json!(effect.left_out.unwrap_or(0.0))),
                ("share", json!(found.differs().then(|| part(effect.mean(), total)))),
                ("with", json!(names(&effect.with))),
            ];
            row.extend(figures.map(|(key, value)| (key.to_owned(), value)));
            Value::Object(row)
        };
        let combinations = found.log.iter().map(|one| {
            let (base, other) = if one.backward { (to, from) } else { (from, to) };
            json!({ "on": base, "taken_of": other, "taken": names(&one.taken), "values": one.values })
        });
        json!({
            "what": self.what,
            "metric": figure.name(),
            "unit": figure.unit(),
            "seeds": self.seeds,
            "from": {"kernel": from, "mean": found.from.mean(), "values": found.from.values},
            "to": {"kernel": to, "mean": found.to.mean(), "values": found.to.values},
            "answer": self.answer(),
            "noise": found.noise(),
            "within_noise": !found.differs(),
            "explained_by": names(&found.explained_by),
            "counteracted_by": names(&found.counteracted_by),
            "explained_alone_by": names(&found.alternatives),
            "explained": found.joint,
            "explained_share": found.differs().then(|| part(found.joint, total)),
            "undo": found.undo.as_ref().map(|undo| {
                json!({ "commands": self.commands(undo), "by": undo.by, "share": part(undo.by, total) })
            }),
            "all_together": found.whole,
            "ended_early": found.stopped,
            "events": self.events,
            "effects": found.effects.iter().map(effect).collect::<Vec<Value>>(),
            "differences": found.of,
            "combinations": found.combinations,
            "runs": combinations.collect::<Vec<Value>>(),
            "notes": self.notes,
        })
    }

    pub(super) fn page(&self) -> Page {
        let Self { from, to, figure, found, .. } = self;
        let mut page = Page::new(format!("{from} to {to}: {}", figure.name()), self.what.as_str());
        page.say(self.answer().replace('`', ""));
        page.say(format!("{}.", self.counts()));
        for note in &self.notes {
            page.fold(note.as_str());
        }
        let total = found.total();
        let bar = |name: String, by: f64| Bar {
            name,
            share: (by / total).abs(),
            mark: None,
            text: format!("{} ({} %)", figure.text(by), percent(by, total)),
        };
        let singles = self.moving().filter(|_| found.differs()).take(24);
        let mut rows: Vec<Bar> =
            singles.map(|effect| bar(self.words[effect.difference].name.clone(), effect.mean())).collect();
        let set = self.set();
        if set.len() > 1 {
            rows.insert(0, bar(format!("{} together", self.names(&set).replace('`', "")), found.joint));
        }
        if found.differs() {
            page.bars(self.bars(rows));
        }
        let ended = if found.stopped { ", or the search ended before it ran" } else { "" };
        page.tables(TableGroup {
            title: "Differences".to_owned(),
            sub: format!("Single effects. A dash: the difference changes no event{ended}."),
            tables: vec![(String::new(), self.table())],
        });
        let joints = self.joints();
        if !joints.is_empty() {
            page.tables(TableGroup {
                title: "Joint effects".to_owned(),
                sub: format!("Several differences together, added to {from}."),
                tables: vec![(String::new(), self.joint_table(&joints))],
            });
        }
        page
    }

    fn bars(&self, rows: Vec<Bar>) -> Bars {
        let Self { from, to, figure, found, .. } = self;
        Bars {
            title: "What moved the figure".to_owned(),
            entry: "Effects".to_owned(),
            sub: format!(
                "The mean of two effects of each difference: added to {from}, and removed from {to}. A negative part is against \
                 the difference, {}.",
                figure.text(found.total())
            ),
            label: String::new(),
            rows,
        }
    }

    fn table(&self) -> DataTable {
        let columns = [
            ("difference", "difference", Kind::Text),
            ("releases", "releases", Kind::Text),
            ("certainty", "known", Kind::Text),
            ("alone", "added to the first", Kind::Measure),
            ("left_out", "removed from the second", Kind::Measure),
            ("share", "share", Kind::Share),
            ("explains", "explains", Kind::Text),
            ("what", "what it does", Kind::Text),
        ];
        let mut table = DataTable::new("bisect", "What each difference does", &columns);
        let measure = |by: Option<f64>| by.map_or(Cell::Nothing, |by| self.measure(by));
        let total = self.found.total();
        let share =
            |effect: &Effect| if self.found.differs() { part(effect.mean(), total).into() } else { Cell::Nothing };
        for effect in &self.found.effects {
            let words = &self.words[effect.difference];
            table.push(vec![
                words.name.as_str().into(),
                words.releases.as_str().into(),
                words.certainty.into(),
                measure(effect.alone),
                measure(effect.left_out),
                share(effect),
                self.explains(effect).into(),
                self.what_of(effect).into(),
            ]);
        }
        table
    }

    fn joint_table(&self, joints: &[Joint<'_>]) -> DataTable {
        let columns = [
            ("together", "together", Kind::Text),
            ("effect", "added to the first", Kind::Measure),
            ("share", "share", Kind::Share),
        ];
        let mut table = DataTable::new("bisect_joint", "What differences do together", &columns);
        for joint in joints {
            let share = part(joint.by, self.found.total());
            table.push(vec![self.joint_name(joint).into(), self.measure(joint.by), share.into()]);
        }
        table
    }

    fn measure(&self, by: f64) -> Cell {
        Cell::Measure { value: by, unit: self.figure.unit(), text: self.figure.text(by) }
    }
}

/// Returns a difference for JSON.
pub(super) fn described(words: &Words) -> Map<String, Value> {
    let pairs = [
        ("difference", json!(words.name)),
        ("releases", json!(words.releases)),
        ("certainty", json!(some(words.certainty))),
        ("what", json!(words.what)),
        ("switch", json!(some(&words.switch))),
    ];
    pairs.map(|(key, value)| (key.to_owned(), value)).into_iter().collect()
}

/// Returns a text unless it is empty.
fn some(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::search::Ran;
    use super::*;

    /// Causes and what opposes them are apart, and a command that two causes share is printed once.
    #[test]
    fn an_answer_tells_causes_from_what_counteracts_them() {
        let ran = |value: f64| Ran { values: vec![value; 2], ..Ran::default() };
        let mut found = Found {
            from: ran(0.25),
            to: ran(0.75),
            verdict: Verdict::Differs,
            effects: Vec::new(),
            of: 3,
            whole: None,
            explained_by: vec![0, 1],
            counteracted_by: vec![2],
            joint: 0.5,
            undo: Some(Undo { causes: vec![0, 1], by: 0.48 }),
            alternatives: Vec::new(),
            stopped: false,
            is_smallest: true,
            combinations: 9,
            log: Vec::new(),
        };
        let figure = Figure::named("share(web)").expect("it is a figure");
        let answer = |found: &Found| {
            let words =
                |name: &str| Words { name: name.to_owned(), switch: "echo NO_HRTICK".to_owned(), ..Words::default() };
            let report = Report {
                from: "A",
                to: "B",
                what: String::new(),
                figure: &figure,
                found,
                words: ["ONE", "TWO", "THREE"].map(words).into(),
                seeds: 2,
                budget: 1,
                events: 1,
                notes: Vec::new(),
            };
            assert_eq!(report.json()["counteracted_by"], json!(["THREE"]));
            report.answer()
        };
        let says = answer(&found);
        assert!(says.contains("comes from `ONE` and `TWO`, counteracted by `THREE`."), "{says}");
        assert!(says.contains("(96 %) on a real kernel: echo NO_HRTICK. The rest"), "{says}");
        found.undo = None;
        let says = answer(&found);
        assert!(!says.contains("real kernel"), "{says}");
    }
}
