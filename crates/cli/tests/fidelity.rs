//! `vruntime fidelity`, as users meet it.

mod support;

use support::*;

#[test]
fn fidelity_closes_with_the_count() {
    let table = well(&["fidelity", "--kernel", "6.18", "--scenario", "three-hogs"]);
    let last = table.lines().last().unwrap();
    let words: Vec<&str> = last.split(' ').collect();
    assert!(matches!(words.as_slice(), ["inside", _, "of", "9", "cells"]), "{last}");
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    let cells = json(&["fidelity", "--kernel", "6.18", "--scenario", "three-hogs", "--json"]);
    let inside = cells.as_array().unwrap().iter().filter(|cell| cell["inside"] == true).count();
    assert_eq!(words[1], inside.to_string());
    assert_eq!(cells[0]["recorded"].as_array().map(Vec::len), Some(3));
}

#[test]
fn fidelity_of_a_folder_is_that_of_the_copy_within() {
    let folder = "../../../../fidelity/ground-truth";
    assert_eq!(well(&["fidelity", folder]), well(&["fidelity"]));
}

/// A scenario that is refused must not take the runs of the next one with it.
#[test]
fn repeats_judge_the_same_cells() {
    let count = |table: &str| table.lines().last().unwrap().split(' ').nth(3).map(str::to_owned);
    let once = well(&["fidelity", "--kernel", "6.18"]);
    let thrice = well(&["fidelity", "--kernel", "6.18", "--repeat", "3"]);
    assert_eq!(count(&once), count(&thrice));
    assert!(count(&once).is_some_and(|cells| cells != "0"), "{once}");
}

#[test]
fn scenarios_not_offered_yet_are_listed_and_not_counted() {
    let table = well(&["fidelity", "--kernel", "6.1", "--scenario", "rt-mix"]);
    assert!(table.contains("not offered yet") || table.contains("OUTSIDE") || table.contains("inside"), "{table}");
    assert!(table.lines().last().unwrap().starts_with("inside "), "{table}");
}

#[test]
fn fidelity_judges_throttling() {
    let cells = json(&["fidelity", "--kernel", "6.12", "--scenario", "quota-hogs", "--json"]);
    let of_group: Vec<_> = cells.as_array().unwrap().iter().filter(|cell| cell["class"] == "/Q").collect();
    assert_eq!(of_group.len(), 2);
    for (cell, metric) in of_group.iter().zip(["nr_throttled", "throttled_usec"]) {
        assert_eq!((&cell["metric"], &cell["inside"]), (&metric.into(), &true.into()), "{cell}");
    }
}
