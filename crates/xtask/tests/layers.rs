//! The modules of `crates/sched` have layers (ARCHITECTURE.md, "Layers").
#![allow(dead_code, unused_imports, unused_macros, reason = "the command prints more than this test needs")]

use std::collections::BTreeMap;
use std::path::Path;

#[path = "../src/layers/mod.rs"]
mod layers;
#[path = "../src/print.rs"]
mod print;

use layers::Module;

/// Modules in the largest import cycle. Lower it with every change that shrinks the cycle; never raise it.
const MOST: usize = 8;

#[test]
fn the_largest_cycle_of_imports_does_not_grow() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let imports = layers::read(&root.join(layers::SOURCES)).expect("the sources can be read");
    let cycle = layers::largest(&imports);
    let names: Vec<String> = cycle.iter().map(layers::name).collect();
    let found = names.len();
    assert!(
        found <= MOST,
        "{found} modules of {} are in one import cycle, at most {MOST} may be: move shared items down, or pass them as \
         arguments (`cargo xtask layers --imports` prints the cycle)\n{}",
        imports.len(),
        names.join("\n")
    );
    assert!(found == MOST, "the largest import cycle has {found} modules: lower MOST in {} from {MOST}", file!());
}

#[test]
fn no_module_imports_from_a_higher_layer() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let imports = layers::read(&root.join(layers::SOURCES)).expect("the sources can be read");
    let found = layers::against(&imports);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

fn module(path: &str) -> Module {
    path.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// Returns the modules that `texts` import, as `from -> to: items`.
fn lines(texts: &[(&str, &str)]) -> Vec<String> {
    let texts: BTreeMap<Module, String> = texts.iter().map(|(path, text)| (module(path), (*text).to_owned())).collect();
    let imports = layers::imports(&texts).expect("the texts are Rust");
    let line = |from: &Module, to: &Module, items: &std::collections::BTreeSet<String>| {
        let items: Vec<&str> = items.iter().map(String::as_str).collect();
        format!("{} -> {}: {}", layers::name(from), layers::name(to), items.join(" "))
    };
    imports.iter().flat_map(|(from, all)| all.iter().map(move |(to, items)| line(from, to, items))).collect()
}

#[test]
fn every_way_to_name_an_item_is_an_import() {
    let all = |text: &str| lines(&[("", ""), ("a", text), ("a::child", ""), ("b", ""), ("b::c", "")]);
    assert_eq!(all("use crate::b::{Item, c::Other};"), ["a -> b: Item", "a -> b::c: Other"]);
    assert_eq!(all("use crate::b::c::*;"), ["a -> b::c: *"]);
    assert_eq!(all("fn f() { crate::b::g(); }"), ["a -> b: g"]);
    assert_eq!(all("fn f() -> super::b::c::Item {}"), ["a -> b::c: Item"]);
    assert_eq!(all("pub use child::Item;"), ["a -> a::child: Item"]);
    assert_eq!(all("pub use self::child::Item as Name;"), ["a -> a::child: Item"]);
    // A module's name counts where it is used, also under another name and inside a macro.
    assert_eq!(all("use crate::b::{self, c as d};"), [""; 0]);
    assert_eq!(all("use crate::b::{self, c as d}; fn f() { b::g(d::h); }"), ["a -> b: g", "a -> b::c: h"]);
    assert_eq!(all("use crate::b; fn f() { assert!(x && b::g(1)); }"), ["a -> b: g"]);
    // Other crates, own items, and tests are none.
    let none = "use core::fmt; use std::b::Item; pub(crate) struct S; enum E { V } fn f() { E::V; }
                #[cfg(test)] mod tests { use super::*; use crate::b::Item; }
                #[cfg(all(test, not(loom)))] mod more { use super::super::b::*; }
                #[cfg(test)] fn g() { crate::b::g() }";
    assert_eq!(all(none), [""; 0]);
    assert_eq!(all("#[cfg(not(test))] use crate::b::Item;"), ["a -> b: Item"]);
}

#[test]
fn cycles_are_found() {
    let largest = |texts: &[(&str, &str)]| {
        let texts = texts.iter().map(|(path, text)| (module(path), (*text).to_owned())).collect();
        let cycle = layers::largest(&layers::imports(&texts).expect("the texts are Rust"));
        cycle.iter().map(layers::name).collect::<Vec<_>>()
    };
    let (a, b) = (("a", "use crate::b::B;"), ("b", "use crate::c::C;"));
    assert_eq!(largest(&[a, b, ("c", "")]), [""; 0]);
    assert_eq!(largest(&[a, b, ("c", "use crate::b::B;")]), ["b", "c"]);
    assert_eq!(largest(&[a, b, ("c", "use crate::a::A;"), ("d", "use crate::a::A;")]), ["a", "b", "c"]);
}

#[test]
fn imports_from_higher_layers_are_found() {
    let against = |texts: &[(&str, &str)]| {
        let texts = texts.iter().map(|(path, text)| (module(path), (*text).to_owned())).collect();
        layers::against(&layers::imports(&texts).expect("the texts are Rust"))
    };
    let all = |rq: &'static str, verbs: &'static str| {
        against(&[
            ("", "pub use rq::Rq;"),
            ("rq", rq),
            ("class::rt", ""),
            ("class::rt::queue", ""),
            ("scheduler", verbs),
        ])
    };
    // The state of a class is in the core, its calls are not.
    assert_eq!(all("use crate::class::rt::queue::RtRq;", "use crate::class::rt::pick;"), [""; 0]);
    assert_eq!(all("use crate::class::rt::pick;", ""), ["rq (core) imports from class::rt (class): pick"]);
    assert_eq!(all("", "use crate::Rq;"), ["scheduler (verbs) imports from crate (the crate's root): Rq"]);
    let nowhere = against(&[("new", ""), ("rq", "")]);
    assert_eq!(nowhere, ["new has no layer: add it to crates/xtask/src/layers/order.rs"]);
}

#[test]
fn a_file_that_is_not_rust_is_named() {
    let texts = BTreeMap::from([(module("a::b"), "fn".to_owned())]);
    let error = layers::imports(&texts).unwrap_err();
    assert!(error.starts_with("a::b is not Rust: "), "{error}");
}
