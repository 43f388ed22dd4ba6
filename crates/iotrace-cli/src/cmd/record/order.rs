//! The factors of a plan, their configurations and the order of its runs.
//!
//! Odd repetitions go backwards (A B, B A, …), so that a drift of the machine does not become
//! a difference between configurations.

use std::fmt;

use anyhow::bail;
use iotrace_capture::{SettingChange, Target};
use iotrace_model::Configuration;

/// A setting that a plan can vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// SATA native command queuing.
    Ncq,
    /// The depth of the device queue.
    QueueDepth,
    /// The I/O scheduler.
    Scheduler,
    /// The drive's write cache.
    WriteCache,
}

impl Key {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Key::Ncq => "ncq",
            Key::QueueDepth => "queue_depth",
            Key::Scheduler => "scheduler",
            Key::WriteCache => "write_cache",
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A setting and the values that it takes in a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Factor {
    pub(super) key: Key,
    pub(super) values: Vec<String>,
}

impl Factor {
    /// Whether every value can be set on a device, as far as one can tell without trying.
    pub(super) fn check(&self, target: &Target) -> anyhow::Result<()> {
        for value in &self.values {
            change(self.key, value, target)?;
        }
        Ok(())
    }
}

/// The change that gives a device a value of a setting.
pub(super) fn change(key: Key, value: &str, target: &Target) -> anyhow::Result<SettingChange> {
    Ok(match key {
        Key::Ncq => iotrace_capture::ncq_change(target, value == "on")?,
        Key::QueueDepth => iotrace_capture::queue_depth_change(target, value.parse()?)?,
        Key::Scheduler => iotrace_capture::scheduler_change(target, value)?,
        Key::WriteCache => iotrace_capture::write_cache_change(target, value == "on")?,
    })
}

/// The factors that were given values.
pub(super) fn factors(given: &[(Key, Vec<String>)]) -> anyhow::Result<Vec<Factor>> {
    let mut factors = Vec::new();
    for (key, values) in given {
        for (place, value) in values.iter().enumerate() {
            if values.iter().take(place).any(|earlier| earlier == value) {
                bail!("{key}: the value {value} is given twice");
            }
        }
        if !values.is_empty() {
            factors.push(Factor { key: *key, values: values.clone() });
        }
    }
    let both = [Key::Ncq, Key::QueueDepth];
    if factors.iter().filter(|factor| both.contains(&factor.key)).count() == 2 {
        bail!("--ncq and --queue-depth turn the same knob; give one of them");
    }
    Ok(factors)
}

/// One run of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Value of each factor, in the order of the factors.
    pub(super) settings: Vec<(Key, String)>,
    pub(super) repetition: u32,
    pub(super) warmup: bool,
}

impl Step {
    /// The settings that vary in the plan: those are the folders.
    pub(super) fn configuration(&self, factors: &[Factor]) -> Configuration {
        let varies = |key: Key| factors.iter().any(|f| f.key == key && f.values.len() > 1);
        let settings = self.settings.iter().filter(|(key, _)| varies(*key));
        Configuration {
            settings: settings.map(|(key, value)| (key.name().to_owned(), value.clone())).collect(),
        }
    }
}

/// All runs of a plan in their order.
pub(super) fn steps(factors: &[Factor], repeat: u32, warmup: u32) -> Vec<Step> {
    let configurations = product(factors);
    let mut steps = Vec::new();
    for (is_warmup, rounds) in [(true, warmup), (false, repeat)] {
        for repetition in 0..rounds {
            let mut round: Vec<_> = configurations
                .iter()
                .map(|settings| Step { settings: settings.clone(), repetition, warmup: is_warmup })
                .collect();
            if repetition % 2 == 1 {
                round.reverse();
            }
            steps.extend(round);
        }
    }
    steps
}

fn product(factors: &[Factor]) -> Vec<Vec<(Key, String)>> {
    factors.iter().fold(vec![Vec::new()], |configurations, factor| {
        let mut longer = Vec::new();
        for configuration in &configurations {
            for value in &factor.values {
                let mut settings: Vec<(Key, String)> = configuration.clone();
                settings.push((factor.key, value.clone()));
                longer.push(settings);
            }
        }
        longer
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ncq() -> Factor {
        Factor { key: Key::Ncq, values: vec!["on".to_owned(), "off".to_owned()] }
    }

    #[test]
    fn repetitions_are_interleaved_back_and_forth() {
        let steps = steps(&[ncq()], 3, 0);
        let order: Vec<_> =
            steps.iter().map(|step| (step.repetition, step.settings[0].1.as_str())).collect();
        assert_eq!(order, [(0, "on"), (0, "off"), (1, "off"), (1, "on"), (2, "on"), (2, "off")]);
    }

    #[test]
    fn a_plan_without_factors_has_one_configuration() {
        let steps = steps(&[], 2, 1);
        assert_eq!(steps.len(), 3);
        assert!(steps[0].warmup && !steps[1].warmup);
        assert!(steps[1].configuration(&[]).settings.is_empty());
    }

    #[test]
    fn every_combination_of_values_occurs_once_a_round() {
        let scheduler =
            Factor { key: Key::Scheduler, values: vec!["none".to_owned(), "bfq".to_owned()] };
        assert_eq!(steps(&[ncq(), scheduler], 1, 0).len(), 4);
    }

    #[test]
    fn only_settings_that_vary_become_folders() {
        let one = Factor { key: Key::Scheduler, values: vec!["none".to_owned()] };
        let factors = [ncq(), one];
        let steps = steps(&factors, 1, 0);
        assert_eq!(steps[1].configuration(&factors).label(), "ncq=off");
    }

    #[test]
    fn the_same_knob_or_value_twice_is_refused() {
        let depth = (Key::QueueDepth, vec!["4".to_owned()]);
        assert!(factors(&[(Key::Ncq, vec!["on".to_owned()]), depth]).is_err());
        assert!(factors(&[(Key::Ncq, vec!["on".to_owned(), "on".to_owned()])]).is_err());
    }
}
