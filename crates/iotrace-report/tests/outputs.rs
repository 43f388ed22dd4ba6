//! The outputs of a made-up summary: golden text, widths, the JSON schema, the page's form.

#![expect(clippy::unwrap_used, reason = "a test stops at the first failure")]

use std::path::PathBuf;

use iotrace_model::{Configuration, RunSummary, Summary};
use iotrace_report::{Colour, Context, Report};
use serde_json::Value;

mod example;

#[test]
fn terminal_text_is_as_agreed() {
    let (summary, context) = example::example();
    let report = Report::new(&summary, &context);
    let text = iotrace_report::terminal(&report, 100, Colour::No);
    check_golden("terminal.txt", &text);
    check_width(&text, 100);
    assert!(text.lines().count() <= 48, "{} lines", text.lines().count());
}

#[test]
fn markdown_text_is_as_agreed() {
    let (summary, context) = example::example();
    let text = iotrace_report::markdown(&Report::new(&summary, &context));
    check_golden("report.md", &text);
    check_width(&text, 78);
    assert!(text.lines().count() <= 105, "{} lines", text.lines().count());
}

#[test]
fn a_narrow_terminal_is_never_overrun() {
    let (summary, context) = example::example();
    let report = Report::new(&summary, &context);
    for width in [40, 60, 80, 120] {
        check_width(&iotrace_report::terminal(&report, width, Colour::No), width);
    }
}

#[test]
fn colours_only_add_escape_codes() {
    let (summary, context) = example::example();
    let report = Report::new(&summary, &context);
    let coloured = iotrace_report::terminal(&report, 100, Colour::Yes);
    let plain = ["\u{1b}[1m", "\u{1b}[1;31m", "\u{1b}[0m"]
        .iter()
        .fold(coloured.clone(), |text, code| text.replace(code, ""));
    assert_ne!(coloured, plain);
    assert_eq!(plain, iotrace_report::terminal(&report, 100, Colour::No));
}

#[test]
fn a_summary_without_runs_still_renders() {
    let (summary, context) = (Summary::default(), Context::default());
    let report = Report::new(&summary, &context);
    let text = iotrace_report::terminal(&report, 100, Colour::No);
    assert!(text.contains("no requests were seen"), "{text}");
    iotrace_report::markdown(&report);
    check_balanced(&iotrace_report::html(&report).unwrap());
    check_schema(&iotrace_report::json(&summary, &context).unwrap());
}

#[test]
fn long_labels_and_hostile_names_stay_in_their_columns() {
    let (mut summary, mut context) = example::example();
    context.command = format!("sh\u{1b}[31m -c {}", "x".repeat(300));
    for run in &mut summary.runs {
        let setting = ("scheduler".to_owned(), "mq-deadline<&>".to_owned());
        run.configuration.settings.push(setting);
    }
    let report = Report::new(&summary, &context);
    let text = iotrace_report::markdown(&report);
    check_width(&text, 78);
    assert!(text.contains("#1 is ncq=off scheduler=mq-deadline<&>"), "{text}");
    let terminal = iotrace_report::terminal(&report, 100, Colour::No);
    assert!(!terminal.contains('\u{1b}'));
    let page = iotrace_report::html(&report).unwrap();
    check_balanced(&page);
    assert!(page.contains("mq-deadline&lt;&amp;&gt;") && !page.contains("<&"));
}

#[test]
fn json_has_the_shape_of_its_schema() {
    let (summary, context) = example::example();
    check_schema(&iotrace_report::json(&summary, &context).unwrap());
}

#[test]
fn figures_of_btt_follow_the_summary_when_asked_for() {
    let (mut summary, context) = example::example();
    summary.comparisons.clear();
    summary.runs.truncate(1);
    summary.runs.first_mut().unwrap().btt = Some(example::btt());
    let report = Report::new(&summary, &context);
    let terminal = iotrace_report::terminal(&report, 100, Colour::No);
    let (_, tables) = terminal.split_once("\nbtt: All").unwrap();
    check_golden("btt.txt", &format!("btt: All{tables}"));
    check_width(&terminal, 100);
    let markdown = iotrace_report::markdown(&report);
    check_width(&markdown, 78);
    for cell in ["0.000133333", "94.5626%", "3.743315508%", "1658.7", "(  8,  0)"] {
        assert!(markdown.contains(cell), "{cell}: {markdown}");
    }
    let page = iotrace_report::html(&report).unwrap();
    check_balanced(&page);
    assert!(page.contains("94.5626%"));
    check_schema(&iotrace_report::json(&summary, &context).unwrap());
}

#[test]
fn figures_of_btt_name_their_run_where_there_are_several() {
    let (mut summary, context) = example::example();
    for run in &mut summary.runs {
        run.btt = Some(example::btt());
    }
    let text = iotrace_report::markdown(&Report::new(&summary, &context));
    for run in &summary.runs {
        assert!(text.contains(&format!("## btt of {}: Device Overhead", run.folder)), "{text}");
    }
}

#[test]
fn json_writes_what_is_not_finite_as_null() {
    let (mut summary, context) = example::example();
    let run: &mut RunSummary = summary.runs.first_mut().unwrap();
    let device = run.devices.first_mut().unwrap();
    device.in_flight.mean = f64::NAN;
    device.little = Some(f64::INFINITY);
    device.in_flight.share = vec![f64::NAN];
    summary.comparisons.first_mut().unwrap().differences.first_mut().unwrap().ratio = f64::INFINITY;
    let text = iotrace_report::json(&summary, &context).unwrap();
    check_schema(&text);
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json.pointer("/runs/0/devices/0/in_flight/mean"), Some(&Value::Null));
    assert_eq!(json.pointer("/runs/0/devices/0/little"), Some(&Value::Null));
    assert_eq!(json.pointer("/comparisons/0/differences/0/ratio"), Some(&Value::Null));
    let report = Report::new(&summary, &context);
    for text in [iotrace_report::markdown(&report), iotrace_report::html(&report).unwrap()] {
        assert!(!text.contains("NaN") && !text.contains("inf,"));
    }
}

#[test]
fn the_page_is_whole_and_fetches_nothing() {
    let (summary, context) = example::example();
    let page = iotrace_report::html(&Report::new(&summary, &context)).unwrap();
    check_balanced(&page);
    for foreign in ["http", "<script", "<link", "@import", "url(", "src="] {
        assert!(!page.contains(foreign), "the page has {foreign}");
    }
    assert_eq!(page.matches("<svg viewBox=\"0 0 2560 1520\" role=\"img\"").count(), 8);
    assert!(page.contains("prefers-color-scheme: dark"));
}

#[test]
fn a_single_run_needs_no_comparison() {
    let (mut summary, context) = example::example();
    summary.comparisons.clear();
    summary.runs.truncate(1);
    summary.runs.first_mut().unwrap().configuration = Configuration::default();
    let report = Report::new(&summary, &context);
    let text = iotrace_report::terminal(&report, 100, Colour::No);
    assert!(text.lines().count() <= 26, "{text}");
    assert!(text.contains("default: NCQ was off"), "{text}");
    assert!(!text.contains("against"), "{text}");
}

#[track_caller]
fn check_golden(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, golden, "UPDATE_GOLDEN=1 rewrites {name}");
}

#[track_caller]
fn check_width(text: &str, width: usize) {
    for line in text.lines() {
        assert!(line.chars().count() <= width, "wider than {width}: {line}");
    }
}

/// Every opened element is closed in order, void elements aside.
#[track_caller]
fn check_balanced(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    let body = page.strip_prefix("<!DOCTYPE html>").unwrap();
    for tag in body.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').unwrap();
        let name = tag.split([' ', '\n']).next().unwrap();
        if let Some(name) = name.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if name != "meta" && !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert_eq!(open, Vec::<&str>::new());
}

#[track_caller]
fn check_schema(text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../schemas/report-1.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let document: Value = serde_json::from_str(text).unwrap();
    if let Err(reason) = conforms(&document, &schema, &schema, "") {
        panic!("{reason}");
    }
}

/// As much of JSON Schema as `report-1.json` uses; keys that it does not name are refused.
fn conforms(value: &Value, schema: &Value, root: &Value, place: &str) -> Result<(), String> {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        let target = root.pointer(name.strip_prefix('#').unwrap()).unwrap();
        return conforms(value, target, root, place);
    }
    if let Some(choices) = schema.get("anyOf").and_then(Value::as_array) {
        let results: Vec<_> =
            choices.iter().map(|choice| conforms(value, choice, root, place)).collect();
        return if results.iter().any(Result::is_ok) { Ok(()) } else { results[0].clone() };
    }
    let refuse = |what: &str| Err(format!("{place}: {what}: {value}"));
    if schema.get("const").is_some_and(|only| only != value) {
        return refuse("not the constant");
    }
    if let Some(choices) = schema.get("enum").and_then(Value::as_array)
        && !choices.contains(value)
    {
        return refuse("not one of the words");
    }
    let types: Vec<&str> = match schema.get("type") {
        Some(Value::Array(types)) => types.iter().filter_map(Value::as_str).collect(),
        Some(one) => one.as_str().into_iter().collect(),
        None => Vec::new(),
    };
    if !types.is_empty() && !types.iter().any(|name| is_type(value, name)) {
        return refuse("of another type");
    }
    if let (Some(least), Some(number)) =
        (schema.get("minimum").and_then(Value::as_f64), value.as_f64())
        && number < least
    {
        return refuse("below the minimum");
    }
    if let (Some(properties), Some(object)) = (schema.get("properties"), value.as_object()) {
        for name in schema.get("required").unwrap().as_array().unwrap() {
            if !object.contains_key(name.as_str().unwrap()) {
                return refuse(&format!("without {name}"));
            }
        }
        for (key, inner) in object {
            let Some(schema) = properties.get(key) else { return refuse(key) };
            conforms(inner, schema, root, &format!("{place}/{key}"))?;
        }
    }
    if let (Some(items), Some(array)) = (schema.get("items"), value.as_array()) {
        for (at, inner) in array.iter().enumerate() {
            conforms(inner, items, root, &format!("{place}/{at}"))?;
        }
    }
    Ok(())
}

fn is_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => unreachable!("no such type: {other}"),
    }
}
