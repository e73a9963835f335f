//! Sections of a configuration that `unslide dev` does not use, because it starts servers of its own.

use serde::Serialize;

/// Returns the sections that say something.
pub fn sections(api: &unslide_api::Config) -> Vec<&'static str> {
    let usual = unslide_api::Config::default();
    let sections = [
        ("kafka", differs(&api.kafka, &usual.kafka)),
        ("postgres", differs(&api.postgres, &usual.postgres)),
        ("objects", differs(&api.objects, &usual.objects)),
    ];
    sections.into_iter().filter(|(_, says_something)| *says_something).map(|(name, _)| name).collect()
}

fn differs(one: &impl Serialize, other: &impl Serialize) -> bool {
    serde_json::to_value(one).ok() != serde_json::to_value(other).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_of_servers_are_named_and_no_others() {
        let mut config = unslide_api::Config::default();
        config.api.public_url = "https://crashes.example.com".to_owned();
        assert!(sections(&config).is_empty());
        config.kafka.topic_prefix = "a.".to_owned();
        config.postgres.url = unslide_model::Secret::new("postgres://127.0.0.1/a");
        config.objects.bucket = "a".to_owned();
        assert_eq!(sections(&config), ["kafka", "postgres", "objects"]);
    }
}
