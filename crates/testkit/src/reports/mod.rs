//! Crash reports in the form that KSCrash writes, made up: by hand with [`Report`], in every known
//! shape with [`shapes`], and at random from a seed with [`random`], [`sized`] and [`scripts`].

mod builder;
mod errors;
mod json;
mod pieces;
mod random;
mod scripts;
mod shapes;

pub use builder::{Report, record};
pub use errors::{Error, sampled_hang};
pub use json::{Json, Style};
pub use pieces::{ARM64, ARM64_32, ARM64E, ARMV7, Frame, I386, Image, Thread, X86_64, backtrace};
pub use random::{random, sized};
pub use scripts::{JOINTS, SCRIPTS, scripts};
pub use shapes::shapes;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn parse(report: &Report) -> Value {
        // What no double holds is JSON, and more than this parser reads.
        let text = String::from_utf8(report.bytes()).unwrap_or_else(|error| panic!("{error}"));
        serde_json::from_str(&text.replace("1e999", "1e308")).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn every_style_writes_the_same_values() {
        for (name, report) in shapes() {
            let compact = parse(&report.clone().style(Style::Compact));
            for style in [Style::Pretty, Style::Apple, Style::Wild(1), Style::Wild(2)] {
                assert_eq!(parse(&report.clone().style(style)), compact, "{name}");
            }
        }
    }

    #[test]
    fn a_seed_gives_the_same_bytes_each_time() {
        assert_eq!(random(7).bytes(), random(7).bytes());
        assert_ne!(random(7).bytes(), random(8).bytes());
        assert_eq!(sized(1, 5, 20).bytes(), sized(1, 5, 20).bytes());
        assert_ne!(sized(1, 5, 20).bytes(), sized(2, 5, 20).bytes());
        for seed in 0..200 {
            parse(&random(seed));
        }
    }

    #[test]
    fn a_sized_report_has_its_size() {
        let report = sized(1, 150, 160);
        let bytes = report.clone().style(Style::Compact).bytes().len();
        assert!((70_000..78_000).contains(&bytes), "{bytes}");
        let value = parse(&report);
        assert_eq!(value["binary_images"].as_array().map(Vec::len), Some(150));
        assert_eq!(value["crash"]["threads"].as_array().map(Vec::len), Some(10));
    }

    #[test]
    fn a_path_is_made_where_it_is_not() {
        let report = Report::empty().set("a.b", 1).set("a.c.0", 2).duplicate("a", "b", 3).without("a.c");
        assert_eq!(report.bytes(), br#"{"a":{"b":1,"b":3}}"#);
        let list = Report::empty().set("a", Json::array([])).set("a.1.x", 1).without("a.0");
        assert_eq!(list.bytes(), br#"{"a":[{"x":1}]}"#);
    }

    #[test]
    fn addresses_have_their_old_spellings() {
        assert_eq!(Json::negative(u64::MAX), Json::Raw("-1".into()));
        assert_eq!(Json::float(u64::MAX), Json::Raw("1.84467e+19".into()));
        assert_eq!(Json::float(0x1000), Json::Raw("4.096e+03".into()));
    }
}
