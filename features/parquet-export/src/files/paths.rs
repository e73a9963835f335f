//! The paths of files behind the prefix, in the form of Hive.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use time::Date;

/// The path of the object that a test writes and deletes.
pub const TEST_PATH: &str = "unslide-test";

/// The characters of an app that stay as they are. Readers take the escapes of the others back.
const FOLDER_NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');

/// Returns the path of a file with rows.
pub fn file_path(day: Date, app: &str, generation: i64, number: usize) -> String {
    let app = utf8_percent_encode(app, FOLDER_NAME);
    format!("reports/day={day}/app={app}/part-{generation}-{number}.parquet")
}

/// Returns the path of the manifest of a day. The folder of the reports has Parquet files only, so that a reader can take it as a table.
pub fn manifest_path(day: Date) -> String {
    format!("manifests/{day}.json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::date;

    #[test]
    fn paths_have_the_form_of_hive() {
        let day = date!(2026 - 11 - 29);
        assert_eq!(
            file_path(day, "com.acme.shop", 7, 0),
            "reports/day=2026-11-29/app=com.acme.shop/part-7-0.parquet"
        );
        assert_eq!(
            file_path(day, "../My Shop=ä", 7, 12),
            "reports/day=2026-11-29/app=..%2FMy%20Shop%3D%C3%A4/part-7-12.parquet"
        );
        assert_eq!(manifest_path(day), "manifests/2026-11-29.json");
    }
}
