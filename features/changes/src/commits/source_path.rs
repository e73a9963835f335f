//! Paths of source files in a repository.

/// Returns the path in the repository of a source file that symbols name. `root` is the folder of the checkout on the machine of the build.
/// None if the file lies elsewhere.
pub fn find_path_in_repository(file: &str, root: Option<&str>) -> Option<String> {
    let inside = match (file.strip_prefix('/'), root) {
        (None, _) => file,
        (Some(_), Some(root)) => file.strip_prefix(root.trim_end_matches('/'))?.strip_prefix('/')?,
        (Some(_), None) => return None,
    };
    let names: Vec<&str> = inside.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    (!names.is_empty() && !names.contains(&"..")).then(|| names.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_below_the_root_has_a_path() {
        let find = |file: &str| find_path_in_repository(file, Some("/ci/shop/"));
        assert_eq!(find("/ci/shop/Sources/./Cart.swift").as_deref(), Some("Sources/Cart.swift"));
        assert_eq!(find("Sources/Cart.swift").as_deref(), Some("Sources/Cart.swift"));
        for other in [
            "/ci/shopping/Cart.swift",
            "/usr/include/stdio.h",
            "/ci/shop/../Cart.swift",
            "/ci/shop/",
            "",
            "../a",
        ] {
            assert_eq!(find(other), None, "{other}");
        }
        assert_eq!(find_path_in_repository("/ci/shop/Cart.swift", None), None);
    }
}
