//! The first version with a group, and the last one before it without.

use crate::store::VersionWithGroup;
use std::cmp::Ordering;
use unslide_model::compare_versions;

/// The versions whose builds are compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionPair {
    /// The oldest version with reports of the group; `None` if they name no version.
    pub first: Option<String>,
    /// The newest version of the app before it.
    pub before: Option<String>,
}

/// Chooses the versions of a group to compare.
pub fn choose_versions(versions: &[VersionWithGroup]) -> VersionPair {
    let with_group = versions.iter().filter(|version| version.has_group && !version.version.is_empty());
    let with_group = with_group.map(|version| &version.version);
    let Some(first) = with_group.min_by(|a, b| compare_versions(a, b)) else {
        return VersionPair::default();
    };
    VersionPair { first: Some(first.clone()), before: find_version_before(versions, first) }
}

/// Returns the newest version before another one.
pub fn find_version_before(versions: &[VersionWithGroup], version: &str) -> Option<String> {
    let named = versions.iter().map(|known| &known.version).filter(|known| !known.is_empty());
    let older = named.filter(|known| compare_versions(known, version) == Ordering::Less);
    older.max_by(|a, b| compare_versions(a, b)).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(app: &[&str], group: &[&str]) -> (Option<String>, Option<String>) {
        let version =
            |has_group| move |version: &&str| VersionWithGroup { version: (*version).to_owned(), has_group };
        let all: Vec<_> = app.iter().map(version(false)).chain(group.iter().map(version(true))).collect();
        let VersionPair { first, before } = choose_versions(&all);
        (first, before)
    }

    #[test]
    fn the_newest_version_before_the_first_one_with_the_group_is_compared() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(choose(&["2.9", "2.8", "2.11"], &["2.10", "2.12"]), (text("2.10"), text("2.9")));
        assert_eq!(choose(&["3.0"], &["2.10"]), (text("2.10"), None));
        assert_eq!(choose(&["", "1.0"], &[""]), (None, None));
        assert_eq!(choose(&["1.0"], &[]), (None, None));
    }
}
