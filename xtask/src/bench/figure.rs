//! Figures: samples, what they come to, and what was hoped for.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use crate::say;

/// What a figure should not exceed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Target {
    pub(super) median: Option<f64>,
    pub(super) p99: Option<f64>,
}

impl Target {
    pub(super) fn median(value: f64) -> Self {
        Self { median: Some(value), p99: None }
    }

    pub(super) fn p99(value: f64) -> Self {
        Self { median: None, p99: Some(value) }
    }

    pub(super) fn both(median: f64, p99: f64) -> Self {
        Self { median: Some(median), p99: Some(p99) }
    }

    pub(super) fn none() -> Self {
        Self::default()
    }
}

/// All figures of a run.
#[derive(Debug)]
pub(super) struct Figures {
    json: bool,
    head_shown: bool,
    all: Vec<Value>,
    missed: usize,
}

impl Figures {
    pub(super) fn new(json: bool) -> Self {
        Self { json, head_shown: false, all: Vec::new(), missed: 0 }
    }

    /// Adds times in milliseconds.
    pub(super) fn times(
        &mut self,
        name: &str,
        agents: usize,
        samples: &[Duration],
        target: Target,
        floor: Option<f64>,
    ) {
        let samples: Vec<f64> = samples.iter().copied().map(ms).collect();
        self.add(name, agents, "ms", &samples, target, floor);
    }

    /// Adds samples of any unit; `floor` is what the same machine takes for the bare work.
    pub(super) fn add(
        &mut self,
        name: &str,
        agents: usize,
        unit: &str,
        samples: &[f64],
        target: Target,
        floor: Option<f64>,
    ) {
        if samples.is_empty() {
            say::talk(&format!("{name}: nothing was measured"));
            self.missed += 1;
            return;
        }
        let (least, median, p99) = (quantile(samples, 0.0), quantile(samples, 0.5), quantile(samples, 0.99));
        let over = |value: f64, limit: Option<f64>| limit.is_some_and(|it| value > it);
        let has_target = target.median.is_some() || target.p99.is_some();
        let missed = over(median, target.median) || over(p99, target.p99);
        let verdict = match (has_target, missed) {
            (false, _) => "",
            (true, false) => "ok",
            (true, true) => "MISS",
        };
        self.missed += usize::from(missed);
        let ratio = floor.map(|it| median / it);
        self.all.push(json!({
            "name": name, "agents": agents, "unit": unit, "samples": samples.len(), "min": round(least),
            "median": round(median), "p99": round(p99), "target_median": target.median.map(round),
            "target_p99": target.p99.map(round), "floor": floor.map(round), "ratio": ratio.map(round),
            "ok": has_target.then_some(!missed),
        }));
        if self.json {
            return;
        }
        if !self.head_shown {
            self.head_shown = true;
            say::line(&format!(
                "{:<44} {:>6} {:>9} {:>9} {:>9}  {:<18} {:>7}",
                "figure", "agents", "min", "median", "p99", "target", "x floor"
            ));
        }
        let wanted = match (target.median, target.p99) {
            (None, None) => String::new(),
            (Some(median), None) => format!("{} {unit}", short(median)),
            (None, Some(p99)) => format!("p99 {} {unit}", short(p99)),
            (Some(median), Some(p99)) => format!("{} / p99 {} {unit}", short(median), short(p99)),
        };
        let times = ratio.map_or(String::new(), short);
        let line = format!(
            "{name:<44} {agents:>6} {:>9} {:>9} {:>9}  {wanted:<18} {times:>7}  {verdict}",
            short(least),
            short(median),
            short(p99)
        );
        say::line(&if missed { say::strong(&line) } else { line });
    }

    /// Prints what is left to print.
    pub(super) fn finish(self) -> Result<ExitCode> {
        if self.json {
            let all = json!({ "schema_version": 1, "ok": self.missed == 0, "command": "bench", "figures": self.all });
            say::line(&serde_json::to_string_pretty(&all)?);
        } else {
            say::line(&format!("{} figures, {} over their target", self.all.len(), self.missed));
        }
        Ok(if self.missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// A time in milliseconds.
pub(super) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The value below which that part of the samples lies; of few samples the p99 is the largest.
pub(super) fn quantile(samples: &[f64], part: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a place in a short list"
    )]
    let at = ((sorted.len().saturating_sub(1)) as f64 * part).round() as usize;
    sorted.get(at).copied().unwrap_or_default()
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

fn short(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_and_the_p99_are_samples_that_were_seen() {
        let samples: Vec<f64> = (1..=101).map(f64::from).collect();
        assert!((quantile(&samples, 0.5) - 51.0).abs() < 1e-9);
        assert!((quantile(&samples, 0.99) - 100.0).abs() < 1e-9);
        assert!((quantile(&[3.0, 1.0, 2.0], 0.99) - 3.0).abs() < 1e-9);
        assert!(quantile(&[], 0.5).abs() < 1e-9);
    }
}
