//! Every number of a report becomes text here, and nowhere else.
//!
//! Three significant digits, a unit that fits, groups of three digits split by a narrow
//! no-break space. What is not known, not a number or infinite is a dash, never 0.

use iotrace_model::{Interval, Metric, Nanos};

/// Stands where there is no number.
pub(crate) const MISSING: &str = "–";

/// Between the groups of three digits.
const GROUP: char = '\u{202f}';

const DURATION_UNITS: [(f64, &str); 4] = [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];

/// A count as a float, for shares and sums that are only shown.
#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

/// A time as a float of nanoseconds.
#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
pub(crate) fn float_ns(Nanos(ns): Nanos) -> f64 {
    ns as f64
}

/// `24 112`.
pub(crate) fn count(count: u64) -> String {
    grouped(&count.to_string())
}

/// A count that may be a mean of counts: whole where it is, else three significant digits.
pub(crate) fn mean_count(value: f64) -> String {
    if value.fract() == 0.0 { grouped(&format!("{value:.0}")) } else { significant(value) }
}

/// Three significant digits, never fewer than all digits before the point: `1.23`, `12.3`, `12 345`.
pub(crate) fn significant(value: f64) -> String {
    if !value.is_finite() {
        return MISSING.to_owned();
    }
    let size = value.abs();
    let decimals = match size {
        _ if size == 0.0 => 0,
        _ if size >= 99.95 => 0,
        _ if size >= 9.995 => 1,
        _ if size >= 0.9995 => 2,
        _ if size >= 0.099_95 => 3,
        _ if size >= 0.009_995 => 4,
        _ => 5,
    };
    grouped(&format!("{value:.decimals$}"))
}

/// A duration in the largest unit that leaves at least 1: `123 ns`, `4.56 µs`, `7.89 ms`, `1.23 s`.
pub(crate) fn duration(time: Nanos) -> String {
    duration_ns(float_ns(time))
}

/// The same for a mean.
pub(crate) fn duration_ns(ns: f64) -> String {
    if !ns.is_finite() {
        return MISSING.to_owned();
    }
    let (scale, unit) = duration_unit(ns);
    format!("{} {unit}", in_unit(ns, scale))
}

/// `1.23–1.31 ms`, `980 µs–1.31 ms`, or one duration where both read the same.
pub(crate) fn duration_range(low: f64, high: f64) -> String {
    let (low_text, high_text) = (duration_ns(low), duration_ns(high));
    if low_text == high_text || !low.is_finite() || !high.is_finite() {
        return high_text;
    }
    let (scale, unit) = duration_unit(high);
    if duration_unit(low).1 == unit {
        return format!("{}–{high_text}", in_unit(low, scale));
    }
    format!("{low_text}–{high_text}")
}

/// `low–high` in the given form, or one of them where both read the same.
pub(crate) fn range(low: f64, high: f64, form: fn(f64) -> String) -> String {
    let (low, high) = (form(low), form(high));
    if low == high { high } else { format!("{low}–{high}") }
}

/// A share as a percentage: `12.3 %`; `<0.1 %` for the smallest that are not 0.
pub(crate) fn percent(share: f64) -> String {
    if share.is_finite() { format!("{} %", percent_digits(share)) } else { MISSING.to_owned() }
}

/// `1.2–3.4 %`.
pub(crate) fn percent_range(low: f64, high: f64) -> String {
    let text = range(low, high, percent_digits);
    if text == MISSING { text } else { format!("{text} %") }
}

/// `×1.62`; more digits below 0.1, fewer above 10.
pub(crate) fn ratio(ratio: f64) -> String {
    if ratio.is_finite() { format!("×{}", factor(ratio)) } else { MISSING.to_owned() }
}

/// `[1.55, 1.69]`, to stand after its ratio.
pub(crate) fn interval(interval: Interval) -> String {
    format!("[{}, {}]", factor(interval.low), factor(interval.high))
}

/// A relative margin: `±3 %`.
pub(crate) fn margin(margin: f64) -> String {
    format!("±{} %", significant_short(margin * 100.0))
}

/// Bytes per second as a bare number of MB/s (10⁶ bytes).
pub(crate) fn megabytes(bytes_per_second: f64) -> String {
    significant(bytes_per_second / 1e6)
}

/// Bytes in a decimal unit: `1.23 GB`.
pub(crate) fn bytes(bytes: u64) -> String {
    let value = float(bytes);
    let units = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    match units.into_iter().find(|(scale, _)| value >= 0.9995 * scale) {
        Some((scale, unit)) => format!("{} {unit}", significant(value / scale)),
        None => format!("{bytes} B"),
    }
}

/// A compared metric with its unit.
pub(crate) fn metric(metric: Metric, value: f64) -> String {
    match metric {
        Metric::Throughput => format!("{} MB/s", megabytes(value)),
        Metric::Iops | Metric::InFlight => significant(value),
        Metric::D2cP50 | Metric::D2cP99 | Metric::Q2cP50 | Metric::Q2cP99 => duration_ns(value),
    }
}

/// Both sides of a metric, the unit once where it is the same: `35.1 → 56.9 MB/s`.
pub(crate) fn metric_change(what: Metric, baseline: f64, candidate: f64) -> String {
    let (from, to) = (metric(what, baseline), metric(what, candidate));
    let from = match (from.rsplit_once(' '), to.rsplit_once(' ')) {
        (Some((number, one)), Some((_, other))) if one == other => number.to_owned(),
        _ => from,
    };
    format!("{from} → {to}")
}

/// A number as btt prints it: a fixed number of decimals, nothing between groups of digits.
pub(crate) fn fixed(value: f64, decimals: usize) -> String {
    if value.is_finite() { format!("{value:.decimals$}") } else { MISSING.to_owned() }
}

/// A percentage as btt prints it: `94.5626%`.
pub(crate) fn fixed_percent(percent: f64, decimals: usize) -> String {
    format!("{}%", fixed(percent, decimals))
}

/// A time as btt prints it: seconds with nine decimals.
pub(crate) fn seconds(time: Nanos) -> String {
    fixed(in_seconds(time), 9)
}

/// A mean as btt prints it. Divides the seconds, as btt does, so that the last digit agrees.
pub(crate) fn mean_seconds(total: Nanos, count: u64) -> String {
    fixed(in_seconds(total) / float(count), 9)
}

/// Whole seconds and the rest apart, as btt converts.
fn in_seconds(Nanos(ns): Nanos) -> f64 {
    float_ns(Nanos(ns / 1_000_000_000)) + float_ns(Nanos(ns % 1_000_000_000)) / 1e9
}

/// A number beside a tick of a linear axis: as short as it can be.
pub(crate) fn tick(value: f64) -> String {
    significant_short(value)
}

/// A time beside a tick of a logarithmic axis: `10 µs`.
pub(crate) fn time_tick(ns: f64) -> String {
    let (scale, unit) = duration_unit(ns);
    format!("{} {unit}", significant_short(ns / scale))
}

fn duration_unit(ns: f64) -> (f64, &'static str) {
    let [.., smallest] = DURATION_UNITS;
    // From 0.9995 on, three digits round up to the next unit.
    DURATION_UNITS.into_iter().find(|(scale, _)| ns.abs() >= 0.9995 * scale).unwrap_or(smallest)
}

fn in_unit(ns: f64, scale: f64) -> String {
    let whole = scale <= 1.0 && ns.fract() == 0.0;
    if whole { format!("{ns:.0}") } else { significant(ns / scale) }
}

fn percent_digits(share: f64) -> String {
    if !share.is_finite() {
        return MISSING.to_owned();
    }
    let percent = share * 100.0;
    match percent {
        _ if percent == 0.0 => "0".to_owned(),
        _ if percent > 0.0 && percent < 0.05 => "<0.1".to_owned(),
        _ if percent >= 99.95 => format!("{percent:.0}"),
        _ => format!("{percent:.1}"),
    }
}

fn factor(ratio: f64) -> String {
    let size = ratio.abs();
    if !ratio.is_finite() {
        MISSING.to_owned()
    } else if (0.0995..9.995).contains(&size) || size == 0.0 {
        format!("{ratio:.2}")
    } else {
        significant(ratio)
    }
}

fn significant_short(value: f64) -> String {
    let text = significant(value);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// Splits the digits before the point into groups of three and writes a true minus sign.
fn grouped(number: &str) -> String {
    let (sign, digits) = number.strip_prefix('-').map_or(("", number), |rest| ("−", rest));
    let (whole, fraction) = digits.split_once('.').map_or((digits, None), |(w, f)| (w, Some(f)));
    let mut text = sign.to_owned();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            text.push(GROUP);
        }
        text.push(digit);
    }
    if let Some(fraction) = fraction {
        text.push('.');
        text.push_str(fraction);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped_in_threes() {
        check(&count(0), "0");
        check(&count(999), "999");
        check(&count(1_000), "1_000");
        check(&count(24_112), "24_112");
        check(&count(u64::MAX), "18_446_744_073_709_551_615");
    }

    #[test]
    fn three_digits_are_significant() {
        check(&significant(0.0), "0");
        check(&significant(1.234), "1.23");
        check(&significant(9.996), "10.0");
        check(&significant(99.96), "100");
        check(&significant(0.123_4), "0.123");
        check(&significant(12_345.6), "12_346");
        check(&significant(-12.34), "−12.3");
        check(&significant(f64::NAN), MISSING);
        check(&significant(f64::INFINITY), MISSING);
    }

    #[test]
    fn durations_choose_their_unit_after_rounding() {
        check(&duration(Nanos(0)), "0 ns");
        check(&duration(Nanos(7)), "7 ns");
        check(&duration(Nanos(999)), "999 ns");
        check(&duration(Nanos(1_000)), "1.00 µs");
        check(&duration(Nanos(12_345)), "12.3 µs");
        check(&duration(Nanos(999_400)), "999 µs");
        check(&duration(Nanos(999_600)), "1.00 ms");
        check(&duration(Nanos(1_234_567_890)), "1.23 s");
        check(&duration(Nanos(3_600_000_000_000)), "3_600 s");
        check(&duration(Nanos(-1_500)), "−1.50 µs");
        check(&duration_ns(12.34), "12.3 ns");
        check(&duration_ns(f64::NAN), MISSING);
    }

    #[test]
    fn a_range_names_its_unit_once() {
        check(&duration_range(1.231e6, 1.314e6), "1.23–1.31 ms");
        check(&duration_range(980e3, 1.31e6), "980 µs–1.31 ms");
        check(&duration_range(1.231e6, 1.2312e6), "1.23 ms");
        check(&percent_range(0.012, 0.034), "1.2–3.4 %");
        check(&range(12.0, 13.0, significant), "12.0–13.0");
    }

    #[test]
    fn shares_ratios_and_margins_are_short() {
        check(&percent(0.0), "0 %");
        check(&percent(0.000_1), "<0.1 %");
        check(&percent(0.123_4), "12.3 %");
        check(&percent(1.0), "100 %");
        check(&percent(f64::NAN), MISSING);
        check(&ratio(1.623), "×1.62");
        check(&ratio(0.012_34), "×0.0123");
        check(&ratio(12.34), "×12.3");
        check(&ratio(f64::INFINITY), MISSING);
        check(&interval(Interval { low: 1.549, high: 1.691 }), "[1.55, 1.69]");
        check(&margin(0.03), "±3 %");
    }

    #[test]
    fn bytes_and_metrics_carry_their_unit() {
        check(&bytes(512), "512 B");
        check(&bytes(1_500_000), "1.50 MB");
        check(&metric(Metric::Throughput, 56.94e6), "56.9 MB/s");
        check(&metric_change(Metric::Throughput, 35.1e6, 56.94e6), "35.1 → 56.9 MB/s");
        check(&metric_change(Metric::D2cP99, 900e3, 1.2e6), "900 µs → 1.20 ms");
        check(&metric_change(Metric::Iops, 900.0, 1200.0), "900 → 1_200");
    }

    #[test]
    fn numbers_for_btt_have_its_digits() {
        check(&fixed(1658.66, 1), "1658.7");
        check(&fixed_percent(94.562_64, 4), "94.5626%");
        check(&fixed(f64::NAN, 1), MISSING);
        check(&seconds(Nanos(1)), "0.000000001");
        check(&seconds(Nanos(12_345_000_000_678)), "12345.000000678");
        check(&mean_seconds(Nanos(1_700), 3), "0.000000567");
        check(&mean_seconds(Nanos(1), 0), MISSING);
    }

    #[test]
    fn ticks_drop_idle_zeros() {
        check(&tick(0.5), "0.5");
        check(&tick(20.0), "20");
        check(&time_tick(1e4), "10 µs");
        check(&time_tick(1e9), "1 s");
    }

    /// `_` stands for the narrow space in `expected`.
    #[track_caller]
    fn check(actual: &str, expected: &str) {
        assert_eq!(actual, expected.replace('_', "\u{202f}"));
    }
}
