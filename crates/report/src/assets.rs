//! What pages are made of that is not ours: vendored, so that a page works offline, each beside its licence in
//! `assets/`.

/// uPlot 1.6.32 (MIT), charts: <https://github.com/leeoniya/uPlot>.
pub(crate) const UPLOT_JS: &str = include_str!("../assets/uPlot/uPlot.iife.min.js");
/// Its styles.
pub(crate) const UPLOT_CSS: &str = include_str!("../assets/uPlot/uPlot.min.css");
/// Its licence, which every copy includes.
pub(crate) const UPLOT_LICENSE: &str = include_str!("../assets/uPlot/LICENSE");
