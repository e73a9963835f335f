//! Ids of entries on the command line.

use unslide_model::{ReportId, strip_page_address};

/// Reads the id of an entry, or the address of its page.
///
/// # Errors
/// Returns an error if the text has no id.
pub fn parse_entry_id(text: &str) -> Result<String, String> {
    let id = strip_page_address(text).parse::<ReportId>();
    id.map(|id| id.to_string()).map_err(|_| {
        "not an id, such as 5a9e21d4-0c7b-4e0f-9b1e-6f2c8d4a7b10, or the address of its page".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_alone_and_in_the_address_of_a_page() {
        let id = "5a9e21d4-0c7b-4e0f-9b1e-6f2c8d4a7b10";
        for text in [
            id,
            "5A9E21D40C7B4E0F9B1E6F2C8D4A7B10",
            "http://127.0.0.1:8080/console/reports/5a9e21d4-0c7b-4e0f-9b1e-6f2c8d4a7b10?variant=1",
        ] {
            assert_eq!(parse_entry_id(text).as_deref(), Ok(id), "{text}");
        }
        for wrong in ["", "123", "x", "../keys"] {
            assert!(parse_entry_id(wrong).unwrap_err().starts_with("not an id"), "{wrong}");
        }
    }
}
