//! Markdown that is cut and leaves no block open.

/// Cuts a text at the end of a line, and says so outside of any block.
pub fn limit_text(mut text: String, bytes_limit: usize) -> String {
    if text.len() <= bytes_limit {
        return text;
    }
    let left_out = text.len() - bytes_limit;
    let end = text.floor_char_boundary(bytes_limit);
    text.truncate(text.get(..end).and_then(|kept| kept.rfind('\n')).unwrap_or(end));
    let fence = open_fence(&text).unwrap_or_default();
    text.push_str(&format!("\n{fence}\n\nAbout {left_out} bytes are left out.\n"));
    text
}

/// Returns the fence of the block that the end of the text lies in.
fn open_fence(text: &str) -> Option<String> {
    let mut open: Option<String> = None;
    for line in text.lines() {
        let ticks = line.bytes().take_while(|byte| *byte == b'`').count();
        match &open {
            Some(fence) if ticks >= fence.len() && ticks == line.len() => open = None,
            None if ticks >= 3 => open = Some("`".repeat(ticks)),
            _ => {}
        }
    }
    open
}
