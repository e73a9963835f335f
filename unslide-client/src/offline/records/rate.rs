//! How fast reports were answered, for a person at a terminal.

use crate::offline::records::AnsweredRecord;
use std::io::{self, IsTerminal};
use std::time::Duration;
use tokio::time::Instant;
use unslide_cli::note;

/// The number of answers and bytes since the start.
pub struct AnswerRate {
    begun: Instant,
    reports: u64,
    bytes: u64,
}

impl AnswerRate {
    pub fn begin() -> AnswerRate {
        AnswerRate { begun: Instant::now(), reports: 0, bytes: 0 }
    }

    pub fn count_answer<N>(&mut self, answer: &AnsweredRecord<N>) {
        // Blank lines have no number.
        self.reports += u64::from(answer.line > 0);
        self.bytes += answer.bytes.len() as u64;
    }

    /// Returns true if there was no report, and nothing that may be one.
    pub fn is_empty(&self) -> bool {
        self.reports == 0
    }

    /// Prints the rate if standard error is a terminal and there was more than one report.
    pub fn print_rate(&self) {
        if self.reports > 1 && io::stderr().is_terminal() {
            note!("{}", self.format_rate(self.begun.elapsed()));
        }
    }

    fn format_rate(&self, time: Duration) -> String {
        let seconds = time.as_secs_f64().max(0.001);
        format!(
            "{} reports in {seconds:.1} s: {:.0} reports/s, {:.1} MB/s of answers",
            self.reports,
            self.reports as f64 / seconds,
            self.bytes as f64 / seconds / 1e6
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_and_the_bytes_of_their_answers_are_counted() {
        let mut rate = AnswerRate::begin();
        for line in [1, 0, 2] {
            rate.count_answer(&AnsweredRecord::<()> {
                line,
                bytes: vec![0; 1_000_000],
                ..AnsweredRecord::default()
            });
        }
        assert_eq!(
            rate.format_rate(Duration::from_secs(2)),
            "2 reports in 2.0 s: 1 reports/s, 1.5 MB/s of answers"
        );
        assert!(rate.format_rate(Duration::ZERO).starts_with("2 reports in 0.0 s: 2000 reports/s"));
    }
}
