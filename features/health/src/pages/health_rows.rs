//! The figures of a version as a row of cells.

pub struct HealthRow {
    pub version: String,
    /// The page of its metrics by device and system; `None` if it has none.
    pub breakdown: Option<String>,
    pub before: Option<String>,
    pub cells: Vec<HealthCell>,
}

impl HealthRow {
    /// Returns the class of its worst change, or an empty text if it has none.
    pub fn change_class(&self) -> &'static str {
        let has = |wanted: &str| self.cells.iter().any(|cell| cell.change_class() == wanted);
        if has("bad") {
            "bad"
        } else if has("good") {
            "good"
        } else {
            ""
        }
    }
}

pub struct HealthCell {
    pub head: &'static str,
    pub title: &'static str,
    /// The page of the figure by hour and by day; empty if nothing was measured.
    pub over_time: String,
    pub lines: Vec<HealthCellLine>,
    pub observations: String,
}

impl HealthCell {
    /// Returns the class of its worst change, or an empty text if it has none.
    pub fn change_class(&self) -> &'static str {
        let has = |wanted: &str| self.lines.iter().any(|line| line.has_change(wanted));
        if has("bad") {
            "bad"
        } else if has("good") {
            "good"
        } else {
            ""
        }
    }
}

pub struct HealthCellLine {
    /// The quantile; empty for a share.
    pub statistic: &'static str,
    pub value: String,
    /// The mark's class, the word, and the value before; `None` if no earlier version has one.
    pub change: Option<(&'static str, &'static str, String)>,
}

impl HealthCellLine {
    pub fn has_change(&self, wanted: &str) -> bool {
        self.change.as_ref().is_some_and(|(class, ..)| *class == wanted)
    }
}
