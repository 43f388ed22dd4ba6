//! The lines at the top of every report: what the comparisons say, and whether NCQ was at work.

use iotrace_model::{NcqVerdict, Summary};

use crate::groups::{Group, Groups};
use crate::{comparison, number};

/// The answers, the comparisons first.
pub(crate) fn lines(summary: &Summary, groups: &Groups<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for comparison in &summary.comparisons {
        let (candidate, baseline) = (comparison.candidate.label(), comparison.baseline.label());
        for difference in comparison::primary(comparison) {
            let device = comparison::device_name(summary, difference.device);
            let sentence = comparison::sentence(difference);
            lines.push(format!("{candidate} against {baseline} on {device}: {sentence}"));
        }
    }
    for group in &groups.merged {
        lines.extend(ncq_lines(groups, group));
    }
    if lines.is_empty() {
        lines.push("no requests were seen on any device".to_owned());
    }
    lines
}

/// One line, or one for each verdict where the runs of a configuration disagree.
fn ncq_lines(groups: &Groups<'_>, group: &Group<'_>) -> Vec<String> {
    let mut verdicts: Vec<NcqVerdict> = Vec::new();
    for (_, device) in &group.members {
        if !verdicts.contains(&device.ncq.verdict) {
            verdicts.push(device.ncq.verdict);
        }
    }
    let runs = group.members.len();
    let line = |&verdict: &NcqVerdict| {
        let agreeing: Vec<_> =
            group.members.iter().filter(|(_, device)| device.ncq.verdict == verdict).collect();
        let mut text = groups.key_cells(group).join(" on ");
        if agreeing.len() < runs {
            text = format!("{text}, {} of {runs} runs", agreeing.len());
        }
        text.push_str(": ");
        text.push_str(verdict.words());
        let evidence = agreeing.iter().map(|(_, device)| &device.ncq);
        let commands: Option<u64> = evidence.clone().map(|ncq| ncq.commands).sum();
        let queued: Option<u64> = evidence.clone().map(|ncq| ncq.queued_commands).sum();
        let rests_on = evidence.map(|ncq| ncq.rests_on.as_str()).find(|text| !text.is_empty());
        match (agreeing.len(), commands.zip(queued), rests_on) {
            (several @ 2.., Some((commands, queued)), _) => format!(
                "{text}: {} of {} read and write commands of {several} runs went out under an \
                 NCQ protocol",
                number::count(queued),
                number::count(commands),
            ),
            (_, _, Some(sentence)) => format!("{text}: {}", sentence.trim_end_matches('.')),
            (_, _, None) => text,
        }
    };
    verdicts.iter().map(line).collect()
}
