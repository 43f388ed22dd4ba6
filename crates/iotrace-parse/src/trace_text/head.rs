//! What stands before an event: task, CPU and time.
//!
//! ```text
//! comm pid[/tid] [cpu] time: [period] [system:]event: fields        perf script
//! task-pid [(tgid)] [cpu] [flags] time: event: fields               trace, trace_pipe, trace-cmd
//! task-pid cpuflags time: event: fields                             trace-cmd report -l
//! ```
//!
//! A name may hold blanks, dashes and colons, so the line is read from its time to the left. The
//! name itself is not looked at: an event that has one names its task again.

use super::TextKind;
use super::cursor::{Cursor, is_blank, number, trim_end, trim_start};

/// The start of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head<'a> {
    pub(super) form: Form,
    /// Nanoseconds of the text's clock.
    pub(super) time: i64,
    /// Whether the time has nanoseconds, not only microseconds.
    pub(super) is_fine: bool,
    /// `None` where the text has no such column; below `MOST_CPUS`.
    pub(super) cpu: Option<u32>,
    /// The thread; `None` where the text has no such column or says -1.
    pub(super) pid: Option<u32>,
    /// The event's name without its system, and without the colon; empty when the line ends before
    /// it.
    pub(super) event: &'a [u8],
    /// What stands behind the name.
    pub(super) fields: &'a [u8],
}

/// Who printed a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    PerfScript,
    Ftrace,
}

/// Why a line is not the start of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoHead {
    /// It has no time in seconds.
    NoTime,
    /// It has a time, but not what should stand before it; what was expected.
    Wrong(&'static str),
}

/// Above the largest `CONFIG_NR_CPUS` of any architecture.
pub(super) const MOST_CPUS: u32 = 1 << 16;

impl<'a> Head<'a> {
    pub(super) fn read(line: &'a [u8], kind: TextKind) -> Result<Self, NoHead> {
        let stamp = stamp(line).ok_or(NoHead::NoTime)?;
        let time = stamp.nanos.ok_or(NoHead::Wrong("a time below 292 years"))?;
        let (before, cpu) = cpu(trim_end(stamp.before))?;
        let task = task(trim_end(before));
        let (form, pid) = match (task, kind, cpu) {
            (Task::Perf(pid), TextKind::PerfScript | TextKind::Either, _) => {
                (Form::PerfScript, pid)
            }
            (Task::Ftrace(pid), TextKind::Ftrace | TextKind::Either, _) => (Form::Ftrace, pid),
            (Task::Nothing, TextKind::PerfScript | TextKind::Either, _)
            | (_, TextKind::PerfScript, _)
            | (Task::Name, TextKind::Either, Some(_)) => (Form::PerfScript, None),
            (_, TextKind::Ftrace, _) => return Err(NoHead::Wrong("task-pid before the time")),
            (Task::Name, TextKind::Either, None) => {
                return Err(NoHead::Wrong("a task and a CPU before the time"));
            }
        };
        let (event, fields) = event(stamp.behind);
        Ok(Self { form, time, is_fine: stamp.is_fine, cpu, pid, event, fields })
    }
}

/// A time and what stands around it.
struct Stamp<'a> {
    before: &'a [u8],
    behind: &'a [u8],
    /// `None` when there are more than fit.
    nanos: Option<i64>,
    is_fine: bool,
}

/// The first time in seconds of a line, with 6 or 9 decimals and a colon.
fn stamp(line: &[u8]) -> Option<Stamp<'_>> {
    for colon in memchr::memchr_iter(b':', line) {
        let (before, behind) = line.split_at_checked(colon)?;
        let Some((before, decimals)) = trailing_digits(before) else { continue };
        let Some(before) = before.strip_suffix(b".") else { continue };
        let Some((before, seconds)) = trailing_digits(before) else { continue };
        let is_fine = match decimals.len() {
            6 => false,
            9 => true,
            _ => continue,
        };
        if before.last().is_some_and(|byte| !is_blank(*byte)) {
            continue;
        }
        let scale = if is_fine { 1 } else { 1000 };
        let nanos = number(seconds).and_then(|seconds| {
            let decimals = number(decimals)? * scale;
            i64::try_from(seconds.checked_mul(1_000_000_000)?.checked_add(decimals)?).ok()
        });
        let behind = behind.get(1..).unwrap_or_default();
        return Some(Stamp { before, behind, nanos, is_fine });
    }
    None
}

/// The CPU that `before` ends with, be there flags behind it or not.
fn cpu(before: &[u8]) -> Result<(&[u8], Option<u32>), NoHead> {
    let wrong = NoHead::Wrong("a CPU below 65536");
    let checked = |digits: &[u8]| {
        let cpu = number(trim_start(digits)).and_then(|cpu| u32::try_from(cpu).ok());
        cpu.filter(|cpu| *cpu < MOST_CPUS).map(Some).ok_or(wrong)
    };
    let in_brackets = before.strip_suffix(b"]").or_else(|| {
        let (rest, flags) = last_word(before);
        is_flags(flags).then(|| trim_end(rest).strip_suffix(b"]")).flatten()
    });
    if let Some(inside) = in_brackets {
        let open = inside.iter().rposition(|byte| *byte == b'[').ok_or(wrong)?;
        let digits = inside.get(open + 1..).unwrap_or_default();
        return Ok((inside.get(..open).unwrap_or_default(), checked(digits)?));
    }
    // `1d.h2.`: the CPU, then at least four flags of which the first is a letter or a dot.
    let (rest, word) = last_word(before);
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if let Some((digits, flags)) = word.split_at_checked(digits)
        && !digits.is_empty()
        && flags.len() >= 4
        && is_flags(flags)
        && matches!(task(trim_end(rest)), Task::Ftrace(_))
    {
        return Ok((rest, checked(digits)?));
    }
    Ok((before, None))
}

/// Columns of `irqs-off`, `need-resched` and their like.
fn is_flags(word: &[u8]) -> bool {
    let is_flag = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'#' | b'*');
    (1..=8).contains(&word.len()) && word.iter().all(is_flag)
}

/// What a line says of its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    /// `comm pid`, `comm pid/tid`; the thread.
    Perf(Option<u32>),
    /// `comm-pid`.
    Ftrace(Option<u32>),
    /// Something without a number.
    Name,
    Nothing,
}

fn task(before: &[u8]) -> Task {
    let before = match before.strip_suffix(b")") {
        Some(inside) => match inside.iter().rposition(|byte| *byte == b'(') {
            Some(open) => trim_end(inside.get(..open).unwrap_or_default()),
            None => before,
        },
        None => before,
    };
    let (_, word) = last_word(before);
    // Of `pid/tid` the thread; -1 stands for a task that has ended.
    let thread = match word.iter().position(|byte| *byte == b'/') {
        Some(slash) if number(word.get(..slash).unwrap_or_default()).is_some() => {
            word.get(slash + 1..).unwrap_or_default()
        }
        _ if word == b"-1/-1" => b"-1",
        _ => word,
    };
    if thread == b"-1" {
        return Task::Perf(None);
    }
    if let Some(pid) = number(thread) {
        return Task::Perf(u32::try_from(pid).ok());
    }
    match trailing_digits(word) {
        Some(([.., b'-'], pid)) => {
            Task::Ftrace(number(pid).and_then(|pid| u32::try_from(pid).ok()))
        }
        _ if word.is_empty() => Task::Nothing,
        _ => Task::Name,
    }
}

/// Name of the event and what stands behind it. perf script may put a period before it, and the
/// system: `1 block:block_rq_issue: `.
fn event(rest: &[u8]) -> (&[u8], &[u8]) {
    let mut rest = Cursor(rest);
    let Ok(mut word) = rest.word() else { return (&[], &[]) };
    if word.iter().all(u8::is_ascii_digit) {
        let Ok(next) = rest.word() else { return (&[], &[]) };
        word = next;
    }
    let name = word.strip_suffix(b":").unwrap_or(word);
    let start = name.iter().rposition(|byte| *byte == b':').map_or(0, |colon| colon + 1);
    (name.get(start..).unwrap_or_default(), rest.0)
}

/// The last word and what stands before it.
fn last_word(text: &[u8]) -> (&[u8], &[u8]) {
    let start = text.iter().rposition(|byte| is_blank(*byte)).map_or(0, |blank| blank + 1);
    text.split_at_checked(start).unwrap_or((text, &[]))
}

/// The digits that a text ends with and what stands before them; `None` without any.
fn trailing_digits(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let start = text.iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |other| other + 1);
    text.split_at_checked(start).filter(|(_, digits)| !digits.is_empty())
}

#[cfg(test)]
mod tests {
    use super::Form::{Ftrace, PerfScript};
    use super::*;

    #[test]
    fn lines_of_ftrace_are_read() {
        let time = 185_608_791_000;
        check("  xfs_io-907     [002] .....   185.608791: e: x", Ftrace, time, Some(2), Some(907));
        check("<idle>-0  [002] dNh2.   185.608791: e: x", Ftrace, time, Some(2), Some(0));
        check("<...>-7 [000] d.h2  185.608791: e: x", Ftrace, time, Some(0), Some(7));
        check(
            "kworker/u8:1-events_unbound-123 [011] 185.608791: e: x",
            Ftrace,
            time,
            Some(11),
            Some(123),
        );
        check(
            "Web Content-9 (   1977) [001] ....  185.608791: e: x",
            Ftrace,
            time,
            Some(1),
            Some(9),
        );
        check("a-9 (-------) [001] ....  185.608791: e: x", Ftrace, time, Some(1), Some(9));
        check("  dd-123     1d..2.  185.608791: e: x", Ftrace, time, Some(1), Some(123));
        check("dd-123 [001] 185.608791001: e: x", Ftrace, time + 1, Some(1), Some(123));
    }

    #[test]
    fn lines_of_perf_script_are_read() {
        let time = 185_608_791_000;
        check("  dd    6439 [001]   185.608791:   e: x", PerfScript, time, Some(1), Some(6439));
        check(
            "graph_traverse_ 1264623 185.608791:  1  e: x",
            PerfScript,
            time,
            None,
            Some(1_264_623),
        );
        check("Web Content 12/34 [000] 185.608791: s:e: x", PerfScript, time, Some(0), Some(34));
        check("a-5 7 [000] 185.608791: 1 s:e: x", PerfScript, time, Some(0), Some(7));
        check(":-1 -1/-1 [000] 185.608791: s:e: x", PerfScript, time, Some(0), None);
        check("dd [003] 185.608791: s:e: x", PerfScript, time, Some(3), None);
        check("185.608791: s:e: x", PerfScript, time, None, None);
        check("dd 1 [065535] 185.608791: e: x", PerfScript, time, Some(65535), Some(1));
    }

    #[test]
    fn other_lines_are_told() {
        let wrong = |line: &str| Head::read(line.as_bytes(), TextKind::Either).unwrap_err();
        assert_eq!(wrong("8,0 R 524288 () 138577200 + 1024 [dd]"), NoHead::NoTime);
        assert_eq!(wrong("8,0 0 1 0.004512000 1234 D WS 2048 + 8 [dd]"), NoHead::NoTime);
        assert_eq!(wrong("at 12:00:01.123456: done"), NoHead::NoTime);
        assert_eq!(wrong("dd-1 [65536] 1.000000: e: x"), NoHead::Wrong("a CPU below 65536"));
        assert_eq!(wrong("dd-1 [] 1.000000: e: x"), NoHead::Wrong("a CPU below 65536"));
        let time = NoHead::Wrong("a time below 292 years");
        assert_eq!(wrong("dd-1 [001] 9999999999.000000: e: x"), time);
        let task = NoHead::Wrong("a task and a CPU before the time");
        assert_eq!(wrong("it took 1.000000: e: x"), task);
    }

    #[test]
    fn a_name_with_a_number_is_a_name_when_perf_is_asked_for() {
        let line = b"disk-7 [001] 1.000000: s:e: x";
        assert_eq!(Head::read(line, TextKind::PerfScript).unwrap().pid, None);
        assert_eq!(Head::read(line, TextKind::Ftrace).unwrap().pid, Some(7));
    }

    #[test]
    fn a_name_may_be_missing() {
        let head = Head::read(b"dd-1 [001] ..... 1.000000:", TextKind::Either).unwrap();
        assert_eq!((head.event, head.fields), (b"".as_slice(), b"".as_slice()));
    }

    #[track_caller]
    fn check(line: &str, form: Form, time: i64, cpu: Option<u32>, pid: Option<u32>) {
        let head = Head::read(line.as_bytes(), TextKind::Either).unwrap();
        assert_eq!((head.form, head.time, head.cpu, head.pid), (form, time, cpu, pid));
        assert_eq!((head.event, head.fields), (b"e".as_slice(), b" x".as_slice()));
    }
}
