//! Every link of the pages to a file or a heading has a target. `make site` checks the same with the site's generator.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// The links and headings of a page.
#[derive(Default)]
struct Page {
    links: Vec<String>,
    anchors: BTreeSet<String>,
}

impl Page {
    fn read(path: &Path) -> Self {
        Self::of(&fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    }

    fn of(text: &str) -> Self {
        let mut page = Self::default();
        let mut heading: Option<String> = None;
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.into_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => page.anchors.extend(heading.take().map(|text| anchor(&text))),
                Event::Text(text) | Event::Code(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                _ => {}
            }
        }
        page
    }
}

/// The anchor of a heading, as GitHub and the site's generator make it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>().to_lowercase()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the project is a folder")
}

/// All pages in a folder and below it.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())).flatten();
    let mut found = Vec::new();
    for path in entries.map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The links of a page whose file or heading does not exist.
fn broken(path: &Path) -> Vec<String> {
    let folder = path.parent().expect("a page is in a folder");
    let is_local = |link: &&String| !link.contains("://") && !link.starts_with("mailto:");
    let is_broken = |link: &&String| {
        let (file, heading) = link.split_once('#').map_or((link.as_str(), None), |(file, rest)| (file, Some(rest)));
        let target = if file.is_empty() { path.to_path_buf() } else { folder.join(file) };
        let has_heading = |heading: &str| Page::read(&target).anchors.contains(heading);
        !target.exists() || heading.is_some_and(|heading| !has_heading(heading))
    };
    let links = Page::read(path).links;
    links.iter().filter(is_local).filter(is_broken).map(|link| format!("{}: {link}", path.display())).collect()
}

#[test]
fn every_link_has_a_target() {
    let root = root();
    let mut all = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| root.join(name)).to_vec();
    all.extend(["docs", "fidelity", "python"].iter().flat_map(|folder| pages(&root.join(folder))));
    let links: usize = all.iter().map(|path| Page::read(path).links.len()).sum();
    assert!(links > 200, "only {links} links are found");
    let broken: Vec<String> = all.iter().flat_map(|path| broken(path)).collect();
    assert!(broken.is_empty(), "links without a target:\n{}", broken.join("\n"));
}

/// A page without an entry would be hard to find.
#[test]
fn every_page_is_in_the_navigation() {
    let root = root();
    let navigation = fs::read_to_string(root.join("site/mkdocs.yml")).expect("the site has a configuration");
    let docs = root.join("docs");
    for path in pages(&docs) {
        let name = path.strip_prefix(&docs).expect("it is below").display().to_string();
        assert!(navigation.contains(&format!("- {name}\n")), "docs/{name} is not in site/mkdocs.yml");
    }
}

#[test]
fn broken_links_are_found() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let page = folder.path().join("a.md");
    fs::write(&page, "# The `max` of it, 6.1+\n\n[1](#the-max-of-it-61) [2](#the-max) [3](b.md) [4](https://example.org/#x) [5](a.md#max)\n")
        .expect("it can be written");
    let found = broken(&page);
    let links: Vec<&str> = found.iter().filter_map(|line| line.rsplit(' ').next()).collect();
    assert_eq!(links, ["#the-max", "b.md", "a.md#max"]);
}
