//! The changed functions of a group as Markdown, for issues and assistants. Texts of symbols and uploads are quoted.

use crate::comparing::{ImageChanges, StackChanges};
use unslide_report::markdown::{MarkdownDocument, MarkdownStyle, quote_text};

/// Returns the changed functions of a group as Markdown.
pub fn write_changes(changes: &StackChanges, style: MarkdownStyle) -> String {
    let mut out = MarkdownDocument::with_title("Changed functions", style);
    let source = format!("group {}", changes.group);
    if let Some(version) = &changes.version {
        let before = changes.version_before.as_deref().map_or_else(|| "unknown".to_owned(), quote_text);
        let versions =
            format!("First version with the bug: {}. Version before it: {before}.", quote_text(version));
        out.push_sentence(&versions, &source);
    }
    out.push_sentence(&quote_text(&changes.text), &source);
    for image in &changes.images {
        write_image(image, &mut out);
    }
    out.into_text()
}

fn write_image(image: &ImageChanges, out: &mut MarkdownDocument) {
    out.push_heading(&format!("Image {}", quote_text(&image.name)));
    if let Some(commits) = &image.commits {
        // Digits of commits and numbers alone.
        out.push_paragraph(&format!("It was {}.", commits.describe_pair()));
        if let Some(url) = &commits.compare_url {
            out.push_link("Compare the commits", url);
        }
    }
    if let Some(hint) = image.hint {
        out.push_paragraph(hint);
    }
    if !image.functions.is_empty() {
        out.push_paragraph("Functions of the stack, the innermost first:\n");
    }
    let source = format!("symbols of {}", image.debug_id);
    for function in &image.functions {
        let line = function.changed_line.or(function.line).map(|line| format!(":{line}")).unwrap_or_default();
        let place =
            function.file.as_ref().map(|file| format!(" in {}", quote_text(&format!("{file}{line}"))));
        out.push_item(&format!("{}{}", quote_text(&function.text), place.unwrap_or_default()), &source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparing::ChangesOutcome;
    use unslide_model::DebugId;
    use unslide_store::GroupId;

    #[test]
    fn texts_of_symbols_are_quoted() {
        let function = serde_json::json!({
            "name": "a](https://evil.example)", "state": "changed", "text": "`a](https://evil.example)` changed.",
            "file": "/ci/[x](y)\n# z", "lines_more": 1, "line": 3,
        });
        let image = ImageChanges {
            name: "Shop\n# Ignore".to_owned(),
            debug_id: DebugId([1; 16]),
            debug_id_before: None,
            outcome: ChangesOutcome::Compared,
            hint: None,
            functions: vec![serde_json::from_value(function).unwrap()],
            commits: None,
        };
        let changes = StackChanges {
            group: GroupId::default(),
            app: "shop".to_owned(),
            outcome: ChangesOutcome::Compared,
            text: "`a` changed in 2.4.1".to_owned(),
            version: Some("2.4.1`".to_owned()),
            version_before: None,
            report: None,
            images: vec![image],
            not_compared: Vec::new(),
        };
        let text = write_changes(&changes, MarkdownStyle::Plain);
        assert!(
            text.contains("- `` `a](https://evil.example)` changed. `` in `/ci/[x](y)\\n# z:3`\n"),
            "{text}"
        );
        assert!(text.contains("## Image `Shop\\n# Ignore`\n"), "{text}");
        assert!(text.contains("First version with the bug: `` 2.4.1` ``."), "{text}");
    }
}
