//! The figures as points: distributions, depth and throughput over time, shares of time.
//!
//! Every configuration keeps its place, and so its colour, in all of them. All points are
//! finite and inside their axes.

use std::collections::BTreeMap;

use iotrace_model::{Nanos, Op, Stage, TimeSeries};

use crate::document::{Axis, Figure, Form, Series};
use crate::groups::{Group, Groups};
use crate::number;

/// Most bars of one configuration.
const MOST_BARS: usize = 40;

/// All figures, device by device.
pub(crate) fn all(groups: &Groups<'_>) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut done = Vec::new();
    for group in &groups.merged {
        if done.contains(&group.device) {
            continue;
        }
        done.push(group.device);
        let sides: Vec<&Group<'_>> =
            groups.merged.iter().filter(|other| other.device == group.device).collect();
        let ops: Vec<Op> = Op::ALL
            .into_iter()
            .filter(|op| sides.iter().any(|side| side.op_summaries(*op).next().is_some()))
            .collect();
        for &op in &ops {
            for stage in [Stage::Q2C, Stage::D2C] {
                figures.extend(distribution(group.name, &sides, op, stage));
            }
        }
        figures.extend(in_flight_over_time(group.name, &sides));
        figures.extend(ops.iter().filter_map(|&op| throughput(group.name, &sides, op)));
        figures.extend(in_flight_shares(group.name, &sides));
    }
    figures
}

fn distribution(name: &str, sides: &[&Group<'_>], op: Op, stage: Stage) -> Option<Figure> {
    let series: Vec<Series> = sides
        .iter()
        .filter_map(|side| {
            let mut buckets: BTreeMap<Nanos, u64> = BTreeMap::new();
            for &(edge, count) in side.latencies(op, stage).flat_map(|one| &one.histogram) {
                *buckets.entry(edge.max(Nanos(1))).or_insert(0) += count;
            }
            Some(Series { points: cumulate(&buckets)?, ..series_of(side) })
        })
        .collect();
    let x = latency_axis(&series, stage)?;
    let series = series.into_iter().map(|mut series| {
        series.points.push((x.high, 1.0));
        series
    });
    Some(Figure {
        title: format!("{name}: {} {} ({})", op.name(), stage.words(), stage.name()),
        caption: "Share of the requests that took at most so long, all runs of a configuration \
                  together. Further left is faster; a long flat top is a long tail."
            .to_owned(),
        form: Form::Distribution,
        series: series.collect(),
        x,
        y: share_axis("share of requests (%)", 1.0),
    })
}

/// Points (log₁₀ of the upper edge, share at or below it), from share 0.
fn cumulate(buckets: &BTreeMap<Nanos, u64>) -> Option<Vec<(f64, f64)>> {
    /// A bucket is an eighth of a doubling.
    const BUCKET: f64 = std::f64::consts::LOG10_2 / 8.0;
    let total = number::float(buckets.values().sum());
    let (&first, _) = buckets.first_key_value()?;
    let mut points = vec![(number::float_ns(first).log10() - BUCKET, 0.0)];
    let mut seen = 0;
    for (&edge, &count) in buckets {
        seen += count;
        points.push((number::float_ns(edge).log10(), number::float(seen) / total));
    }
    Some(points)
}

fn in_flight_over_time(name: &str, sides: &[&Group<'_>]) -> Option<Figure> {
    let series = over_time(sides, |series| Some(&series.in_flight), 1.0);
    over_time_figure(
        format!("{name}: in-flight depth over time"),
        "Mean number of requests issued and not complete in each step of time, first run of each \
         configuration.",
        "requests in flight",
        series,
    )
}

fn throughput(name: &str, sides: &[&Group<'_>], op: Op) -> Option<Figure> {
    let of_op = |series: &'_ TimeSeries| -> Option<usize> {
        series.bytes_per_second.iter().position(|(other, _)| *other == op)
    };
    let series = over_time(
        sides,
        |series| of_op(series).and_then(|at| series.bytes_per_second.get(at)).map(|(_, one)| one),
        1e-6,
    );
    over_time_figure(
        format!("{name}: {} throughput over time", op.name()),
        "Bytes completed in each step of time, first run of each configuration.",
        "throughput (MB/s)",
        series,
    )
}

/// The first run of each side, one point in the middle of each step.
fn over_time(
    sides: &[&Group<'_>],
    values: impl Fn(&TimeSeries) -> Option<&Vec<f64>>,
    scale: f64,
) -> Vec<Series> {
    let mut all = Vec::new();
    for side in sides {
        let Some((_, device)) = side.members.first() else { continue };
        let (start, step) = (
            number::float_ns(device.series.start) / 1e9,
            number::float_ns(device.series.step) / 1e9,
        );
        let mut middle = start - step / 2.0;
        let mut points = Vec::new();
        for &value in values(&device.series).into_iter().flatten() {
            middle += step;
            if value.is_finite() {
                points.push((middle, value * scale));
            }
        }
        if !points.is_empty() {
            all.push(Series { points, ..series_of(side) });
        }
    }
    all
}

fn over_time_figure(
    title: String,
    caption: &str,
    y_label: &str,
    series: Vec<Series>,
) -> Option<Figure> {
    let xs = || series.iter().flat_map(|one| &one.points).map(|&(x, _)| x);
    let end = xs().reduce(f64::max)?;
    let start = xs().fold(end, f64::min);
    // A run that begins late still begins at the left; the axis says when that was.
    let low = if start < 0.25 * end { 0.0 } else { start };
    let most = series.iter().flat_map(|one| &one.points).map(|&(_, y)| y).fold(0.0, f64::max);
    Some(Figure {
        title,
        caption: caption.to_owned(),
        form: Form::Lines,
        x: linear_axis("time since the start of the run (s)", low, end),
        y: linear_axis(y_label, 0.0, most * 1.05),
        series,
    })
}

fn in_flight_shares(name: &str, sides: &[&Group<'_>]) -> Option<Figure> {
    let deepest = sides
        .iter()
        .flat_map(|side| &side.members)
        .map(|(_, device)| device.in_flight.share.len())
        .max()
        .filter(|&depths| depths > 1)?;
    let width = deepest.div_ceil(MOST_BARS);
    let series: Vec<Series> =
        sides.iter().map(|side| Series { points: bars(side, width), ..series_of(side) }).collect();
    let most = series.iter().flat_map(|one| &one.points).map(|&(_, y)| y).fold(0.0, f64::max);
    let bars = deepest.div_ceil(width);
    let every = bars.div_ceil(9);
    let ticks = (0..bars)
        .step_by(every)
        .map(|bar| (number::float(bar as u64) + 0.5, number::count((bar * width) as u64)));
    let mut caption =
        "Share of the time at each in-flight depth, all runs of a configuration together."
            .to_owned();
    if width > 1 {
        caption = format!("{caption} A bar covers {width} depths, from the one written below it.");
    }
    Some(Figure {
        title: format!("{name}: share of time at each in-flight depth"),
        caption,
        form: Form::Bars,
        x: Axis {
            label: "requests in flight".to_owned(),
            low: 0.0,
            high: number::float(bars as u64),
            ticks: ticks.collect(),
        },
        y: share_axis("share of time (%)", (most * 1.08).min(1.0)),
        series,
    })
}

/// Points (number of the bar, share of time), weighted by the spans of the runs.
fn bars(side: &Group<'_>, width: usize) -> Vec<(f64, f64)> {
    let mut shares: Vec<f64> = Vec::new();
    let mut all = 0.0;
    for (_, device) in &side.members {
        let span = number::float_ns(device.span).max(1.0);
        all += span;
        for (depth, share) in device.in_flight.share.iter().enumerate() {
            let bar = depth / width;
            if shares.len() <= bar {
                shares.resize(bar + 1, 0.0);
            }
            if let Some(sum) = shares.get_mut(bar).filter(|_| share.is_finite()) {
                *sum += share * span;
            }
        }
    }
    let point = |(bar, share): (usize, f64)| (number::float(bar as u64), share / all);
    shares.into_iter().enumerate().map(point).collect()
}

fn series_of(side: &Group<'_>) -> Series {
    Series { label: side.label.clone(), side: side.side, points: Vec::new() }
}

/// From the first to the last point, with ticks as close as their texts allow.
fn latency_axis(series: &[Series], stage: Stage) -> Option<Axis> {
    let xs = || series.iter().flat_map(|one| &one.points).map(|&(x, _)| x);
    let (low, high) = (xs().reduce(f64::min)?, xs().reduce(f64::max)?);
    let (low, high) = (low - 0.05, high + 0.05);
    let steps: &[f64] = match high - low {
        decades if decades > 3.0 => &[1.0],
        decades if decades > 1.7 => &[1.0, 3.0],
        _ => &[1.0, 2.0, 5.0],
    };
    let mut ticks = Vec::new();
    for decade in 0..19_i32 {
        for step in steps {
            let ns = step * 10_f64.powi(decade);
            if (low..=high).contains(&ns.log10()) {
                ticks.push((ns.log10(), number::time_tick(ns)));
            }
        }
    }
    let label = format!("{} {}, logarithmic", stage.words(), stage.name());
    Some(Axis { label, low, high, ticks })
}

fn share_axis(label: &str, most: f64) -> Axis {
    let percent = linear_axis(label, 0.0, most * 100.0);
    let ticks = percent.ticks.into_iter().map(|(at, text)| (at / 100.0, text)).collect();
    Axis { low: percent.low / 100.0, high: percent.high / 100.0, ticks, ..percent }
}

/// Ticks at multiples of 1, 2 or 5 × 10ⁿ, at most seven of them.
fn linear_axis(label: &str, low: f64, high: f64) -> Axis {
    let high = if high > low { high } else { low + 1.0 };
    let rough = (high - low) / 6.0;
    let decade = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * decade)
        .find(|step| *step >= rough)
        .unwrap_or(rough);
    let mut ticks = Vec::new();
    let mut place = (low / step).ceil();
    while place * step <= high * 1.000_001 && ticks.len() < 10 {
        ticks.push((place * step, number::tick(place * step)));
        place += 1.0;
    }
    Axis { label: label.to_owned(), low, high, ticks }
}
