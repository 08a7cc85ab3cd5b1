//! The imports of each module: what its `use` items and its paths name in other modules of the crate.
//!
//! An import of a module itself does not count, but every use of it does: `use crate::class::rt` and `rt::pick()`
//! together import `pick` from `class::rt`. An item that a module re-exports counts as that module's. Methods have no
//! path, so calls of methods do not count.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};

use super::{Imports, Module, name};

/// Returns the imports among modules, from their texts.
///
/// # Errors
///
/// If a text is not Rust.
pub(crate) fn imports(texts: &BTreeMap<Module, String>) -> Result<Imports, String> {
    let modules: BTreeSet<&Module> = texts.keys().collect();
    let mut found = Imports::new();
    for (module, text) in texts {
        let file = syn::parse_file(text).map_err(|error| format!("{} is not Rust: {error}", name(module)))?;
        let mut names = Names { uses: Vec::new() };
        names.visit_file(&file);
        let mut scope = Scope { module, modules: &modules, imported: BTreeMap::new(), found: BTreeMap::new() };
        for Use { path, name } in &names.uses {
            if let Some(path) = scope.absolute(path)
                && modules.contains(&path)
            {
                scope.imported.insert(name.clone(), path);
            }
        }
        for Use { path, .. } in &names.uses {
            if scope.absolute(path).is_some_and(|path| !modules.contains(&path)) {
                scope.add(path);
            }
        }
        scope.visit_file(&file);
        found.insert(module.clone(), scope.found);
    }
    Ok(found)
}

/// Whether an item is compiled for tests only: under `cfg(test)`, or `cfg(all(test, ...))`.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg") && attribute.parse_args::<syn::Meta>().is_ok_and(|meta| needs_test(&meta))
    })
}

fn needs_test(condition: &syn::Meta) -> bool {
    match condition {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("all") => list
            .parse_args_with(Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated)
            .is_ok_and(|parts| parts.iter().any(needs_test)),
        _ => false,
    }
}

/// One name of a `use` item.
struct Use {
    path: Vec<String>,
    /// The name in this module.
    name: String,
}

/// Collects the `use` items of a file.
struct Names {
    uses: Vec<Use>,
}

impl Names {
    fn add(&mut self, tree: &syn::UseTree, mut path: Vec<String>) {
        match tree {
            syn::UseTree::Path(part) => {
                path.push(part.ident.to_string());
                self.add(&part.tree, path);
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.add(tree, path.clone());
                }
            }
            syn::UseTree::Name(last) => self.end(path, &last.ident.to_string(), None),
            syn::UseTree::Rename(last) => self.end(path, &last.ident.to_string(), Some(last.rename.to_string())),
            syn::UseTree::Glob(_) => {
                path.push("*".to_owned());
                self.uses.push(Use { path, name: "*".to_owned() });
            }
        }
    }

    fn end(&mut self, mut path: Vec<String>, last: &str, rename: Option<String>) {
        if last != "self" {
            path.push(last.to_owned());
        }
        if let Some(name) = rename.or_else(|| path.last().cloned()) {
            self.uses.push(Use { path, name });
        }
    }
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test(&item.attrs) {
            self.add(&item.tree, Vec::new());
        }
    }
}

/// Resolves the paths of one module.
struct Scope<'a> {
    module: &'a Module,
    modules: &'a BTreeSet<&'a Module>,
    /// The modules that this module imports, by their names here.
    imported: BTreeMap<String, Module>,
    found: BTreeMap<Module, BTreeSet<String>>,
}

impl Scope<'_> {
    /// Returns a path from the crate's root; None if it is of another crate, or of an item in this module.
    fn absolute(&self, path: &[String]) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        let mut base = match first.as_str() {
            "crate" => Vec::new(),
            "self" => self.module.clone(),
            "super" => {
                let mut parent = self.module.clone();
                parent.pop();
                let ups = rest.iter().take_while(|part| *part == "super").count();
                parent.truncate(parent.len().saturating_sub(ups));
                parent.extend_from_slice(&rest[ups..]);
                return Some(parent);
            }
            _ => {
                let child: Module = self.module.iter().chain([first]).cloned().collect();
                if self.modules.contains(&child) { child } else { self.imported.get(first)?.clone() }
            }
        };
        base.extend_from_slice(rest);
        Some(base)
    }

    fn add(&mut self, path: &[String]) {
        let Some(path) = self.absolute(path) else { return };
        let is_module = |length: &usize| self.modules.contains(&path[..*length].to_vec());
        let Some(length) = (0..=path.len()).rev().find(is_module) else { return };
        if path[..length] != self.module[..] {
            let item = if length == path.len() { "self".to_owned() } else { path[length..].join("::") };
            self.found.entry(path[..length].to_vec()).or_default().insert(item);
        }
    }

    /// Adds the paths in the arguments of a macro, which are not parsed.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(part) => {
                    if colons != 2 {
                        self.add_longer(&path);
                        path.clear();
                    }
                    path.push(part.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                other => {
                    self.add_longer(&path);
                    path.clear();
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.add_tokens(group.stream());
                    }
                }
            }
        }
        self.add_longer(&path);
    }

    fn add_longer(&mut self, path: &[String]) {
        if path.len() > 1 {
            self.add(path);
        }
    }
}

impl<'ast> Visit<'ast> for Scope<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if !is_test(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_item_use(&mut self, _: &'ast syn::ItemUse) {}

    // `pub(crate)` is no import.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<String> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        self.add_longer(&parts);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.add_tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }
}
