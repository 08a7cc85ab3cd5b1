//! Experiments as one self-contained page.

use minijinja::{Environment, UndefinedBehavior, context};
use serde_json::Value;

use super::Reproduced;
use crate::assets::{UPLOT_CSS, UPLOT_JS, UPLOT_LICENSE};

const TEMPLATE: &str = include_str!("../../assets/reproduce.html");

impl Reproduced {
    /// Returns all experiments as a page with charts. `machine` names the measured machine.
    ///
    /// # Errors
    ///
    /// If the template does not fit the data, which tests exclude.
    pub fn page(all: &[Self], machine: &str) -> Result<String, String> {
        let data = serde_json::to_value(all).map_err(|error| error.to_string())?;
        let (met, claims) = all.iter().map(Self::met).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.add_template("reproduce.html", TEMPLATE).map_err(|error| error.to_string())?;
        let template = environment.get_template("reproduce.html").map_err(|error| error.to_string())?;
        let page = template.render(context! {
            all => data,
            data => for_script(&data),
            met => met,
            claims => claims,
            machine => machine,
            version => env!("CARGO_PKG_VERSION"),
            uplot_js => format!("/*{UPLOT_LICENSE}*/\n{UPLOT_JS}"),
            uplot_css => UPLOT_CSS,
        });
        page.map_err(|error| error.to_string())
    }
}

/// JSON that cannot end its script element.
fn for_script(data: &Value) -> String {
    data.to_string().replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::super::{Chart, Claim, FigureTable, Series};
    use super::*;

    #[test]
    fn a_page_has_all_and_needs_nothing() {
        let one = Reproduced {
            name: "tea".to_owned(),
            title: "Tea </script><b>".to_owned(),
            tables: vec![FigureTable {
                title: "Cups".to_owned(),
                head: vec!["who".to_owned(), "cups".to_owned()],
                left: 1,
                rows: vec![vec!["me & you".to_owned(), "2".to_owned()]],
            }],
            charts: vec![Chart {
                title: "Cups".to_owned(),
                labels: vec!["me".to_owned(), "you".to_owned()],
                series: vec![Series { name: "published".to_owned(), published: true, values: vec![Some(1.5), None] }],
                ..Chart::default()
            }],
            claims: vec![
                Claim::new("hot", true, "yes"),
                Claim::new("strong", false, "no"),
                Claim::open("good", "who knows"),
            ],
            ..Reproduced::default()
        };
        let page = Reproduced::page(&[one], "a table").expect("the template fits");
        assert!(page.contains("1 of 3 claims met") && page.contains("on a table"));
        for verdict in ["verdict met\">met<", "verdict not\">not met<", "verdict open\">not measured<"] {
            assert!(page.contains(verdict), "{verdict}");
        }
        assert!(page.contains("<td class=\"word\">me &amp; you</td><td>2</td>"));
        assert!(page.contains("id=\"chart-0-0\""));
        // No content breaks out, and nothing is fetched.
        assert!(!page.contains("Tea </script>") && page.contains("Tea \\u003c/script>"));
        assert!(!page.contains("src=") && !page.contains("<link") && !page.contains("url("));
        assert!(page.contains("The MIT License"));
    }
}
