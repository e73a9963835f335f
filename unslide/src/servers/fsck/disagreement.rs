//! Disagreements of PostgreSQL, object storage and Kafka.

use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// The kind of a disagreement, by a word that does not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DisagreementKind {
    /// A position of the indexer lies outside its topic.
    PositionOutsideTopic,
    /// Reports wait in Kafka for a tenant that does not exist.
    ReportsWithoutTenant,
    /// Object storage has files of a tenant that does not exist.
    FilesWithoutTenant,
    /// A row names a file that is not in object storage.
    FileMissing,
    /// Symbols in object storage have no row: they are used for reports, but no list shows them.
    SymbolsWithoutRow,
    /// A file in object storage that no row names, and nothing reads.
    FileWithoutRow,
}

impl fmt::Display for DisagreementKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DisagreementKind::PositionOutsideTopic => "position outside topic",
            DisagreementKind::ReportsWithoutTenant => "reports without tenant",
            DisagreementKind::FilesWithoutTenant => "files without tenant",
            DisagreementKind::FileMissing => "file missing",
            DisagreementKind::SymbolsWithoutRow => "symbols without row",
            DisagreementKind::FileWithoutRow => "file without row",
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Disagreement {
    pub problem: DisagreementKind,
    /// A partition, a tenant or a key that it concerns.
    pub subject: String,
    /// Its details, for a person.
    pub detail: String,
    /// The command or the step that ends it.
    pub repair: String,
}

/// The disagreements that were found: some of each kind, and the number of all.
pub struct Disagreements {
    most: usize,
    kept: Vec<Disagreement>,
    counts: BTreeMap<DisagreementKind, usize>,
}

impl Disagreements {
    /// Keeps at most `most` of each kind.
    pub fn new(most: usize) -> Disagreements {
        Disagreements { most, kept: Vec::new(), counts: BTreeMap::new() }
    }

    pub fn add_disagreement(&mut self, disagreement: Disagreement) {
        let count = self.counts.entry(disagreement.problem).or_default();
        *count += 1;
        if *count <= self.most {
            self.kept.push(disagreement);
        }
    }

    /// Returns those that were kept, by kind, and the number of all of each kind.
    pub fn into_kept(mut self) -> (Vec<Disagreement>, BTreeMap<DisagreementKind, usize>) {
        self.kept.sort_by(|a, b| (a.problem, &a.subject).cmp(&(b.problem, &b.subject)));
        (self.kept, self.counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_of_each_kind_are_kept_and_all_are_counted() {
        let disagreement = |problem, subject: &str| Disagreement {
            problem,
            subject: subject.to_owned(),
            detail: String::new(),
            repair: String::new(),
        };
        let mut found = Disagreements::new(2);
        for subject in ["c", "b", "a"] {
            found.add_disagreement(disagreement(DisagreementKind::FileMissing, subject));
        }
        found.add_disagreement(disagreement(DisagreementKind::PositionOutsideTopic, "t/0"));
        let (kept, counts) = found.into_kept();
        let subjects: Vec<&str> = kept.iter().map(|disagreement| disagreement.subject.as_str()).collect();
        assert_eq!(subjects, ["t/0", "b", "c"]);
        assert_eq!(
            counts,
            [(DisagreementKind::PositionOutsideTopic, 1), (DisagreementKind::FileMissing, 3)].into()
        );
    }
}
