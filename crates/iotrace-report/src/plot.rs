//! A figure as SVG that takes its colours from the page around it.
//!
//! The drawing is made in sentinel colours and then rewritten: ink becomes `currentColor`, a
//! configuration's colour becomes a class, the size gives way to the `viewBox`. So one
//! drawing serves light, dark and print.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::prelude::*;

use crate::Error;
use crate::document::{Axis, Figure, Form, Series};

/// Drawn at this many units a pixel of the layout: the library rounds to whole units.
const SCALE: u32 = 4;
const WIDTH: u32 = 640 * SCALE;
const HEIGHT: u32 = 380 * SCALE;
const FONT: u32 = 24 * SCALE;
const MARGIN: u32 = 10 * SCALE;

/// Text and axes; no colour of a side.
const INK: RGBColor = RGBColor(1, 2, 3);
/// Grid lines.
const GRID: RGBColor = RGBColor(4, 5, 6);

/// How many configurations have a colour of their own; the next begins again.
pub(crate) const SIDES: usize = 7;

/// The palette of Okabe and Ito, told apart with any kind of colour vision.
const PALETTE: [RGBColor; SIDES] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x7f, 0x7f, 0x7f),
];

/// The figure as one `<svg>` element for an HTML page.
pub(crate) fn svg(figure: &Figure) -> Result<String, Error> {
    let mut drawing = String::new();
    draw(&mut drawing, figure)
        .map_err(|reason| Error::Plot { figure: figure.title.clone(), reason })?;
    Ok(adapt(&drawing, &figure.title))
}

fn draw(drawing: &mut String, figure: &Figure) -> Result<(), String> {
    let root = SVGBackend::with_string(drawing, (WIDTH, HEIGHT)).into_drawing_area();
    let longest = figure.y.ticks.iter().map(|(_, text)| text.chars().count()).max().unwrap_or(0);
    let y_labels = FONT * 2 + FONT * 6 / 10 * u32::try_from(longest).unwrap_or(8);
    let mut chart = ChartBuilder::on(&root)
        .margin(MARGIN)
        .margin_right(MARGIN * 3)
        .x_label_area_size(FONT * 5 / 2)
        .y_label_area_size(y_labels)
        .build_cartesian_2d(Scale(figure.x.clone()), Scale(figure.y.clone()))
        .map_err(|error| error.to_string())?;
    let mut mesh = chart.configure_mesh();
    mesh.max_light_lines(0)
        .axis_style(INK.stroke_width(SCALE))
        .bold_line_style(GRID.stroke_width(SCALE))
        .label_style(("sans-serif", FONT, &INK))
        .axis_desc_style(("sans-serif", FONT, &INK))
        .x_desc(figure.x.label.as_str())
        .y_desc(figure.y.label.as_str())
        .set_all_tick_mark_size(5 * SCALE);
    if matches!(figure.form, Form::Bars) {
        mesh.disable_x_mesh();
    }
    mesh.draw().map_err(|error| error.to_string())?;
    let sides = figure.series.len().max(1);
    for (place, series) in figure.series.iter().enumerate() {
        let style = colour_of(series).stroke_width(5 * SCALE / 2);
        let drawn = match figure.form {
            Form::Distribution | Form::Lines => {
                chart.draw_series(LineSeries::new(series.points.iter().copied(), style))
            }
            Form::Bars => chart.draw_series(bars(series, place, sides)),
        };
        drawn.map_err(|error| error.to_string())?;
    }
    root.present().map_err(|error| error.to_string())
}

/// The bars of all configurations side by side within one unit of the axis.
fn bars(
    series: &Series,
    place: usize,
    sides: usize,
) -> impl Iterator<Item = Rectangle<(f64, f64)>> {
    /// Share of a unit that is left empty.
    const GAP: f64 = 0.2;
    let count = f64::from(u32::try_from(sides).unwrap_or(1));
    let width = (1.0 - GAP) / count;
    let offset = GAP / 2.0 + width * f64::from(u32::try_from(place).unwrap_or(0));
    let style = colour_of(series).filled();
    series
        .points
        .iter()
        .map(move |&(x, y)| Rectangle::new([(x + offset, 0.0), (x + offset + width, y)], style))
}

fn colour_of(series: &Series) -> RGBColor {
    PALETTE.get(series.side % SIDES).copied().unwrap_or(INK)
}

/// An axis that has its ticks where the figure says, and nowhere else.
struct Scale(Axis);

impl Ranged for Scale {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    #[expect(clippy::cast_possible_truncation, reason = "places in a drawing are small")]
    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let Self(Axis { low, high, .. }) = self;
        let share = ((value - low) / (high - low)).clamp(0.0, 1.0);
        from + (share * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            return Vec::new();
        }
        self.0.ticks.iter().map(|(at, _)| *at).collect()
    }

    fn range(&self) -> Range<f64> {
        self.0.low..self.0.high
    }
}

impl ValueFormatter<f64> for Scale {
    fn format_ext(&self, value: &f64) -> String {
        let near =
            |(at, _): &&(f64, String)| (at - value).abs() <= (self.0.high - self.0.low) * 1e-9;
        self.0.ticks.iter().find(near).map_or_else(String::new, |(_, text)| text.clone())
    }
}

fn adapt(drawing: &str, title: &str) -> String {
    let body = drawing.split_once('>').map_or("", |(_, body)| body);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">{body}",
        title = escape(title)
    );
    svg = svg.replace(&hex(INK), "currentColor");
    svg = svg.replace(&format!("stroke=\"{}\"", hex(GRID)), "class=\"grid\" stroke=\"#888\"");
    for (side, &colour) in PALETTE.iter().enumerate() {
        let colour = hex(colour);
        svg = svg
            .replace(
                &format!("stroke=\"{colour}\""),
                &format!("class=\"line side{side}\" stroke=\"{colour}\""),
            )
            .replace(
                &format!("fill=\"{colour}\""),
                &format!("class=\"bar side{side}\" fill=\"{colour}\""),
            );
    }
    svg
}

fn hex(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_has_no_colour_of_its_own_but_the_sides() {
        let axis = Axis {
            label: "x & y".to_owned(),
            low: 0.0,
            high: 1.0,
            ticks: vec![(0.0, "0".to_owned()), (1.0, "1 s".to_owned())],
        };
        let figure = Figure {
            title: "a < b".to_owned(),
            caption: String::new(),
            form: Form::Lines,
            x: axis.clone(),
            y: axis,
            series: vec![Series {
                label: "one".to_owned(),
                side: 1,
                points: vec![(0.0, 0.0), (1.0, 1.0)],
            }],
        };
        let svg = svg(&figure).unwrap();
        assert!(
            svg.starts_with("<svg viewBox=\"0 0 2560 1520\" role=\"img\" aria-label=\"a &lt; b\">")
        );
        assert!(svg.trim_end().ends_with("</svg>"));
        assert!(svg.contains("class=\"line side1\" stroke=\"#D55E00\""));
        assert!(svg.contains("currentColor") && !svg.contains("#010203"));
        assert!(svg.contains("1 s"));
    }
}
