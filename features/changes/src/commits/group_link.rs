//! The link from a text about a group to the comparison of two commits.

use super::build_commits::find_common_repository;
use super::code_host::build_compare_url;
use crate::store::VersionCommit;
use unslide_model::shorten_commit;
use unslide_store::group_links::GroupLink;

/// Returns the link for the commits of two versions, in the order of their images: the pair of one repository that most images have.
/// None if there is no such pair, or their host has no known page.
pub fn choose_link(commits: &[VersionCommit]) -> Option<GroupLink> {
    let in_version = |place| commits.iter().filter(move |commit| commit.place == place);
    let pairs = in_version(2).flat_map(|after| in_version(1).map(move |before| (before, after)));
    let linked =
        pairs.filter(|(before, after)| before.commit != after.commit).filter_map(|(before, after)| {
            let repository = find_common_repository([&before.repository, &after.repository])?;
            let url = build_compare_url(&repository, &before.commit, &after.commit)?;
            let [from, to] = [before, after].map(|one| shorten_commit(&one.commit));
            let text = format!("Compare the commits before it and since: {from}, {to}");
            Some((before.images + after.images, GroupLink { text, url }))
        });
    // The first of several with as many images.
    linked.reduce(|best, other| if other.0 > best.0 { other } else { best }).map(|(_, link)| link)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(place: i64, commit: &str, repository: &str, images: i64) -> VersionCommit {
        let repository = Some(format!("https://github.com/example/{repository}"));
        VersionCommit { place, commit: commit.to_owned(), repository, images }
    }

    #[test]
    fn the_repository_of_most_images_is_linked() {
        let commits = [
            commit(1, "aaaaaaa", "shop", 4),
            commit(2, "bbbbbbb", "shop", 4),
            commit(1, "ccccccc", "kit", 1),
            commit(2, "ddddddd", "kit", 1),
        ];
        let link = choose_link(&commits).unwrap();
        assert_eq!(link.url, "https://github.com/example/shop/compare/aaaaaaa...bbbbbbb");
        assert_eq!(link.text, "Compare the commits before it and since: aaaaaaa, bbbbbbb");
        // A commit of one version alone is compared with none of another repository.
        assert_eq!(choose_link(&[commits[0].clone(), commits[3].clone()]), None);
        assert_eq!(choose_link(&[commit(1, "aaaaaaa", "shop", 1), commit(2, "aaaaaaa", "shop", 1)]), None);
        assert_eq!(choose_link(&[]), None);
    }
}
