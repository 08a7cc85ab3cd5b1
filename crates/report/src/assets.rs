//! Third-party parts of pages, for use offline, with licences in `assets/`.

/// uPlot 1.6.32 (MIT), charts: <https://github.com/leeoniya/uPlot>.
pub(crate) const UPLOT_JS: &str = include_str!("../assets/uPlot/uPlot.iife.min.js");
pub(crate) const UPLOT_CSS: &str = include_str!("../assets/uPlot/uPlot.min.css");
/// The licence, which every copy includes.
pub(crate) const UPLOT_LICENSE: &str = include_str!("../assets/uPlot/LICENSE");
