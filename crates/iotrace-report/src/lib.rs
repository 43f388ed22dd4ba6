//! From a `Summary` to what people and programs read: terminal, Markdown, JSON and HTML.
//!
//! ```text
//!   Summary ─┬─► Report (finished tables, lines, figures) ─┬─► terminal
//!   Context ─┘                                             ├─► markdown
//!       │                                                  └─► html (+ plot)
//!       └──────────────────────────────────────────────────────► json
//! ```
//!
//! Renderers do not compute. `Report::new` makes every string and every point; the modules
//! after it only lay them out. All number formatting is in `number`.

#![forbid(unsafe_code)]

mod error;

mod document;
mod number;

mod btt;
mod comparison;
mod figures;
mod groups;
mod missing;
mod quality;
mod tables;
mod verdict;

mod grid;

mod html;
mod json;
mod json_btt;
mod json_run;
mod markdown;
mod plot;
mod terminal;

pub use document::{Context, Report};
pub use error::Error;
pub use html::html;
pub use json::json;
pub use markdown::markdown;
pub use terminal::{Colour, terminal};
