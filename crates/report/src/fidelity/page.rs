//! The cells as a page: the number within their tolerance, those outside with distances, and all.

use super::{Against, Cell, closing_line, printed};
use crate::data::{DataTable, Kind};
use crate::page::{Bar, Bars, Page, TableGroup};

/// Returns the page. `lead` names recording and simulation.
pub fn page(cells: &[Cell], lead: &str, notes: &[String]) -> Page {
    let against = Against::of(cells);
    let title = match against {
        Against::Simulation => "Accuracy of the simulator",
        Against::Recording => "Repeatability of the machine",
    };
    let mut page = Page::new(title, lead);
    let inside = cells.iter().filter(|cell| cell.inside).count();
    let percent = 100.0 * inside as f64 / cells.len().max(1) as f64;
    page.say(format!("{} All: {percent:.1} %.", closing_line(cells)));
    let mut outside: Vec<&Cell> = cells.iter().filter(|cell| !cell.inside).collect();
    outside.sort_by(|a, b| b.strain().total_cmp(&a.strain()));
    if let Some(worst) = outside.first() {
        page.say(format!(
            "Furthest outside: {} of {} in {} under {}.",
            worst.metric, worst.class, worst.scenario, worst.kernel
        ));
    }
    for note in notes {
        page.say(note.as_str());
    }
    page.bars(bars("Within tolerance, by metric", cells, |cell| cell.metric));
    page.bars(bars("Within tolerance, by scenario", cells, |cell| &cell.scenario));
    let kernels = bars("Within tolerance, by kernel", cells, |cell| &cell.kernel);
    if kernels.rows.len() > 1 {
        page.bars(kernels);
    }
    let sub = match against {
        Against::Simulation => {
            "Strain: the distance of the simulated value from the recorded range, in tolerances. Above 1 is outside."
        }
        Against::Recording => {
            "Strain: the distance of the new recordings' median from the recorded range, in tolerances. Above 1 is outside."
        }
    };
    for (title, shown) in
        [("Measurements outside their tolerance", outside), ("All measurements", cells.iter().collect())]
    {
        if !shown.is_empty() {
            let tables = vec![(String::new(), table(title, &shown))];
            page.tables(TableGroup { title: title.to_owned(), sub: sub.to_owned(), tables });
        }
    }
    page
}

/// Returns a bar for each value of `key`, in order of appearance.
fn bars(title: &str, cells: &[Cell], key: impl Fn(&Cell) -> &str) -> Bars {
    let mut counts: Vec<(&str, usize, usize)> = Vec::new();
    for cell in cells {
        let name = key(cell);
        let at = counts.iter().position(|(known, ..)| *known == name).unwrap_or_else(|| {
            counts.push((name, 0, 0));
            counts.len() - 1
        });
        counts[at].1 += usize::from(cell.inside);
        counts[at].2 += 1;
    }
    let row = |&(name, inside, all): &(&str, usize, usize)| Bar {
        name: name.to_owned(),
        share: inside as f64 / all as f64,
        mark: Some(1.0),
        text: format!("{inside} of {all}"),
    };
    let entry = if title.ends_with("metric") { "Within tolerance" } else { "" };
    let (title, entry) = (title.to_owned(), entry.to_owned());
    Bars { title, entry, rows: counts.iter().map(row).collect(), ..Bars::default() }
}

fn table(title: &str, cells: &[&Cell]) -> DataTable {
    let against = Against::of(cells.iter().copied());
    let columns = [
        ("kernel", "Kernel", Kind::Text),
        ("scenario", "Scenario", Kind::Text),
        ("class", "Class", Kind::Text),
        ("metric", "Metric (unit)", Kind::Text),
        ("recorded_min", "Recorded, from", Kind::Number),
        ("recorded_max", "To", Kind::Number),
        (against.name(), against.head(), Kind::Number),
        ("strain", "Strain", Kind::Number),
        ("verdict", "Verdict", Kind::Text),
    ];
    let mut table = DataTable::new("fidelity", title, &columns);
    for cell in cells {
        let (low, high) = cell.range();
        let (unit, factor) = printed(cell.unit);
        table.push(vec![
            cell.kernel.as_str().into(),
            cell.scenario.as_str().into(),
            cell.class.as_str().into(),
            format!("{} ({unit})", cell.metric).into(),
            (low * factor).into(),
            (high * factor).into(),
            cell.found.map(|value| value * factor).into(),
            cell.strain().into(),
            if cell.inside { "within" } else { "outside" }.into(),
        ]);
    }
    table
}
