//! Short ids of groups in messages of commits: `Fixes SHOP-1A2B`.

use unslide_model::short_id::normalize_short_id;

/// The words before a short id, in lower case.
const KEYWORDS: [&str; 9] =
    ["close", "closes", "closed", "fix", "fixes", "fixed", "resolve", "resolves", "resolved"];
/// The most bytes of a message that are read.
const MESSAGE_BYTES_LIMIT: usize = 16 << 10;
/// Short ids of one message.
const MESSAGE_IDS_LIMIT: usize = 20;

/// Returns the short ids that a message says to be fixed, each once. Further ones follow the first with commas between them.
pub fn read_fixed_ids(message: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let end = message.floor_char_boundary(MESSAGE_BYTES_LIMIT);
    let (read, _) = message.split_at(end);
    let mut is_after_keyword = false;
    for word in read.split_whitespace() {
        let plain = word.trim_end_matches([',', '.', ';', ':', ')', '!']).trim_start_matches('(');
        if KEYWORDS.contains(&plain.to_ascii_lowercase().as_str()) {
            is_after_keyword = true;
            continue;
        }
        let id = normalize_short_id(plain).filter(|_| is_after_keyword);
        // A comma goes on with the list.
        is_after_keyword = id.is_some() && word.ends_with(',');
        if let Some(id) = id
            && !found.contains(&id)
            && found.len() < MESSAGE_IDS_LIMIT
        {
            found.push(id);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_id_counts_after_a_keyword_only() {
        for (message, ids) in [
            ("Fixes SHOP-1A2B", vec!["SHOP-1A2B"]),
            ("Keep the cart\n\nfixes: shop-1a2b, SHOP-9ZZZ and SHOP-8888.", vec!["SHOP-1A2B", "SHOP-9ZZZ"]),
            ("Resolved (SHOP-1A2B). Closes SHOP-9ZZZ, SHOP-1A2B", vec!["SHOP-1A2B", "SHOP-9ZZZ"]),
            ("SHOP-1A2B", vec![]),
            ("See SHOP-1A2B, which this fixes", vec![]),
            ("Fixes the cart of SHOP-1A2B", vec![]),
            ("Fixes #12", vec![]),
            ("Fixes SHOP-12", vec![]),
            ("Unfixes SHOP-1A2B", vec![]),
        ] {
            assert_eq!(read_fixed_ids(message), ids, "{message}");
        }
    }

    /// Proves: bounded-input
    #[test]
    fn a_long_message_is_read_up_to_its_limit() {
        let long = format!("{}é Fixes SHOP-1A2B", "x ".repeat(MESSAGE_BYTES_LIMIT));
        assert!(read_fixed_ids(&long).is_empty());
        let many: String = (0..100).map(|n| format!("Fixes SHOP-{n:04}\n")).collect();
        assert_eq!(read_fixed_ids(&many).len(), MESSAGE_IDS_LIMIT);
    }
}
