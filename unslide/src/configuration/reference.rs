//! `docs/settings.md` and the example file: both are made from the settings' own documentation.

use super::settings::{Setting, format_toml, list_settings};
use serde_json::Value;
use std::fmt::Write as _;

/// The purpose of each section, in the order of the page.
const SECTIONS: [(&str, &str); 15] = [
    ("kafka", "Kafka. Every service reads it."),
    ("postgres", "PostgreSQL. Symbolizers do not read it."),
    ("objects", "Object storage. Every service reads it."),
    ("history", "ClickHouse, for the rows of old reports. Symbolizers do not read it."),
    ("tenants", "Limits of tenants that have none of their own."),
    ("api", "The HTTP API."),
    ("symbolizer", "The workers that symbolicate."),
    ("builder", "The workers that build symcaches."),
    ("indexer", "The workers that store enriched reports."),
    ("stored_events", "Events about stored reports. The api, builders and indexers read it."),
    (
        "cells",
        "An installation that is one cell of several. The api, doors and commands of operators read it.",
    ),
    ("door", "The door, which passes requests on to the cells of their tenants."),
    ("symcaches", "The local cache of symcaches, of `api` and `symbolizer`."),
    ("admin", "The port for health checks and metrics."),
    ("log", "Logs of every process."),
];

fn section_name(key: &str) -> &str {
    key.split_once('.').map_or(key, |(section, _)| section)
}

fn list_sections() -> impl Iterator<Item = (&'static str, &'static str, Vec<Setting>)> {
    let mut settings = list_settings();
    let sections = SECTIONS.into_iter().chain([("process", "Every process.")]);
    sections.map(move |(name, purpose)| {
        let own = settings.extract_if(.., |setting| section_name(&setting.key) == name).collect();
        (name, purpose, own)
    })
}

pub fn render_page() -> String {
    let mut page = "# Settings\n\n\
        `unslide config reference` prints this page; a test compares them.\n\n\
        Services read a TOML file (`--config FILE` or `UNSLIDE_CONFIG`) and then the environment, which wins: \
        `kafka.bootstrap` is `bootstrap` in the file's section `[kafka]`, or the variable `UNSLIDE_KAFKA__BOOTSTRAP`. \
        Sizes are texts such as `\"64MiB\"` or `\"10GB\"`, durations such as `\"30s\"`, `\"12h\"` or `\"7d\"`. \
        A list in a variable has commas between its items: `UNSLIDE_API__TRUSTED_PROXIES=10.0.0.0/8,192.168.0.0/16`.\n\n\
        * `unslide config example` prints a file with every setting.\n\
        * `unslide config show` prints each value and where it comes from, without secrets.\n\
        * `unslide config check` lists everything that is wrong, and what is unsafe outside of a private network; \
        with `--connect` it tries the connections.\n"
        .to_owned();
    for (name, purpose, settings) in list_sections() {
        let _ = write!(page, "\n## {name}\n{purpose}\n\n| setting | default | meaning |\n|---|---|---|\n");
        for setting in settings {
            let default = if setting.required {
                "required".to_owned()
            } else {
                format!("`{}`", format_toml(&setting.default))
            };
            let meaning = setting.meaning.replace('|', "\\|");
            let _ = writeln!(page, "| `{}` | {default} | {meaning} |", setting.key);
        }
    }
    page
}

/// Returns a file with every setting: required ones to be filled in, the others as comments with their
/// defaults.
pub fn render_example() -> String {
    let mut text =
        "# Every setting of Unslide. Settings that are commented out have the default that is shown.\n"
            .to_owned();
    for (name, purpose, settings) in list_sections() {
        let _ = write!(text, "\n# {purpose}\n[{name}]\n");
        for setting in settings {
            let key = setting.key.trim_start_matches(name).trim_start_matches('.');
            for line in wrap_text(&setting.meaning) {
                let _ = writeln!(text, "# {line}");
            }
            let value = format_toml(&setting.default);
            let unset = setting.default == Value::Null || setting.default == "";
            let comment = if setting.required { "" } else { "#" };
            let note = if setting.required {
                "   # required"
            } else if unset {
                "   # not set"
            } else {
                ""
            };
            let _ = writeln!(text, "{comment}{key} = {value}{note}");
        }
    }
    text
}

/// Wraps a text in lines of at most 100 characters.
fn wrap_text(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + word.len() < 100 => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_a_meaning_and_a_section() {
        let all = list_settings();
        let without: Vec<&str> =
            all.iter().filter(|s| s.meaning.is_empty()).map(|s| s.key.as_str()).collect();
        assert_eq!(without, [""; 0]);
        let shown: usize = list_sections().map(|(_, _, settings)| settings.len()).sum();
        assert_eq!(shown, all.len());
        let required: Vec<&str> = all.iter().filter(|s| s.required).map(|s| s.key.as_str()).collect();
        assert_eq!(required, ["kafka.bootstrap", "objects.bucket", "postgres.url"]);
    }

    #[test]
    fn the_page_of_the_documentation_is_what_the_program_prints() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/settings.md");
        let written = std::fs::read_to_string(path).unwrap();
        assert!(written == render_page(), "run: unslide config reference > docs/settings.md");
    }

    #[test]
    fn the_example_is_a_configuration_with_every_key_known() {
        let all_set: String = render_example()
            .lines()
            .map(|line| {
                let setting =
                    line.strip_prefix('#').filter(|rest| !rest.starts_with(' ') && rest.contains(" = "));
                format!("{}\n", setting.unwrap_or(line))
            })
            .collect();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("unslide.toml");
        std::fs::write(&file, all_set).unwrap();
        let mut reader = unslide_runtime::config::Sources::new(Some(&file), []).read();
        let read = crate::configuration::Configuration::from_reader(&mut reader);
        reader.finish().unwrap();
        let (read, defaults) =
            (read.setting_values(), crate::configuration::Configuration::default().setting_values());
        for (key, value) in defaults {
            let text = format_toml(&value);
            assert!(text.contains("/tmp") || text == format_toml(&read[&key]), "{key}: {text}");
        }
    }
}
