//! Figures of versions, and sampled stacks, as short texts.

use serde_json::Value;
use unslide_model::figures::format_fraction;
use unslide_report::markdown::{quote_lines, quote_text};

/// The maximum number of bytes of a stack: the outermost functions of a longer one are left out.
const STACK_BYTES_LIMIT: usize = 1_500;

/// Returns figures of versions as a document with a section for each version. Figures that changed come first.
pub fn describe_versions(answer: &Value, note: &str) -> String {
    let text_of = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(quote_text);
    let [from, to] = ["from", "to"].map(|name| text_of(answer, name).unwrap_or_default());
    let mut document =
        format!("Figures by version from {from} to {to} (UTC), the newest version first. {note}\n");
    for version in answer.get("versions").and_then(Value::as_array).into_iter().flatten() {
        let name = text_of(version, "version").unwrap_or_default();
        let before = text_of(version, "version_before").map(|before| format!(", compared with {before}"));
        let figures = version.get("signals").and_then(Value::as_array).into_iter().flatten();
        let mut lines: Vec<(bool, String)> = figures.map(describe_figure).collect();
        lines.sort_by_key(|(is_changed, _)| !is_changed);
        let block = quote_lines(lines.iter().map(|(_, line)| line.as_str()));
        document.push_str(&format!("\n## Version {name}{}\n\n{block}\n", before.unwrap_or_default()));
    }
    document
}

/// Returns a figure on one line, and true if its change is more than noise.
fn describe_figure(figure: &Value) -> (bool, String) {
    let text = |name: &str| figure.get(name).and_then(Value::as_str).unwrap_or_default();
    let unit = text("unit");
    let number = |name: &str| {
        let value = figure.get(name).and_then(Value::as_f64)?;
        Some(if unit == "1" { format_fraction(value) } else { format!("{value:.2} {unit}") })
    };
    let change = text("change");
    let parts = [
        number("before").map(|before| format!("before {before}")),
        (!change.is_empty()).then(|| change.replace('_', " ")),
        number("worse_beyond").map(|limit| format!("would be worse beyond {limit}")),
        figure
            .get("observations")
            .and_then(Value::as_f64)
            .map(|observations| format!("of {observations:.0}")),
    ];
    let mut line =
        format!("{} {}: {}", text("signal"), text("statistic"), number("value").unwrap_or_default());
    for part in parts.into_iter().flatten() {
        line.push_str(", ");
        line.push_str(&part);
    }
    (matches!(change, "worse" | "better"), line)
}

/// A stack of a profile in the folded form, with the samples that it has.
pub struct FoldedStack<'p> {
    pub weight: u64,
    functions: &'p str,
}

impl FoldedStack<'_> {
    /// Returns the stack behind its weight.
    pub fn to_line(&self) -> String {
        let begin = self.functions.len().saturating_sub(STACK_BYTES_LIMIT);
        let begin = self.functions.ceil_char_boundary(begin);
        let cut = if begin > 0 { "…" } else { "" };
        format!("{} {cut}{}", self.weight, self.functions.get(begin..).unwrap_or_default())
    }
}

/// Reads folded stacks, the heaviest first.
pub fn read_stacks(folded: &str) -> Vec<FoldedStack<'_>> {
    let read = |line| {
        let (functions, weight) = str::rsplit_once(line, ' ')?;
        Some(FoldedStack { weight: weight.parse().ok()?, functions })
    };
    let mut stacks: Vec<FoldedStack<'_>> = folded.lines().filter_map(read).collect();
    stacks.sort_by_key(|stack| std::cmp::Reverse(stack.weight));
    stacks
}
