//! Ratios that must not grow: what `scripts/bench core` measures, beside the figures that the repository keeps.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A ratio may be this much worse before it counts: runs differ by less.
const MOST_WORSE: f64 = 1.15;

/// Measured ratios, and those that are kept.
#[derive(Default)]
pub struct Ratios {
    kept: BTreeMap<String, f64>,
    measured: BTreeMap<String, f64>,
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/core-ratios.txt")
}

impl Ratios {
    /// With the figures of the repository.
    pub fn read() -> Ratios {
        let text = std::fs::read_to_string(file()).unwrap_or_default();
        Ratios { kept: parse(&text), measured: BTreeMap::new() }
    }

    /// Notes a ratio of this run.
    pub fn note(&mut self, name: &str, ratio: f64) {
        self.measured.insert(name.to_owned(), ratio);
    }

    /// Prints each ratio beside the one that is kept, and returns whether none is worse.
    pub fn compare(&self) -> bool {
        println!("\nRatios beside those of {}", file().display());
        for (name, now) in &self.measured {
            let Some(kept) = self.kept.get(name) else {
                println!("  {name}: {now:.2}; none is kept: `scripts/bench core --update` does");
                continue;
            };
            let change = 100.0 * (now / kept - 1.0);
            let verdict = if is_worse(*now, *kept) { "WORSE" } else { "ok" };
            println!("  {name}: {now:.2}, kept {kept:.2}, {change:+.0} %: {verdict}");
        }
        let worse =
            |(name, now): (&String, &f64)| self.kept.get(name).is_none_or(|kept| is_worse(*now, *kept));
        let count = self.measured.iter().filter(|ratio| worse(*ratio)).count();
        if count > 0 {
            println!(
                "  REGRESSION: {count} of {} ratios are more than 15 % worse, or not kept",
                self.measured.len()
            );
        }
        count == 0
    }

    /// Keeps this run's ratios.
    pub fn write(&self) -> std::io::Result<()> {
        let mut text = String::from(
            "# How often as long as sonic-rs parses the same report; `scripts/bench core --update` writes this file.\n",
        );
        for (name, ratio) in &self.measured {
            text += &format!("{name} {ratio:.2}\n");
        }
        std::fs::write(file(), text)
    }
}

fn parse(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.rsplit_once(' '))
        .filter_map(|(name, ratio)| Some((name.to_owned(), ratio.parse().ok()?)))
        .collect()
}

fn is_worse(now: f64, kept: f64) -> bool {
    now > kept * MOST_WORSE
}
