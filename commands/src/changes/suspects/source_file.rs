//! The file of a repository that symbols name by a path of the machine of the build.

/// Returns true for a path that lies in a repository, and that git cannot take for an option.
pub fn is_inside(path: &str) -> bool {
    let is_name = |name: &str| !matches!(name, "" | "." | "..") && !name.chars().any(char::is_control);
    !path.starts_with('-') && path.split('/').all(is_name)
}

/// Returns the file of a repository that has most of the last names of a path. None if none has, or several have as many.
pub fn find_by_names<'p>(paths: impl IntoIterator<Item = &'p str>, file: &str) -> Option<&'p str> {
    let (mut best, mut found) = (0, None);
    for path in paths {
        let names = path.rsplit('/').zip(file.rsplit('/')).take_while(|(a, b)| a == b).count();
        if names > best {
            (best, found) = (names, Some(path));
        } else if names == best {
            found = None;
        }
    }
    found.filter(|path| is_inside(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_with_most_of_the_last_names_is_meant() {
        let paths = ["Shop/Cart.swift", "Kit/Sources/Cart.swift", "Kit/Sources/Shelf.swift", "README.md"];
        let find = |file: &str| find_by_names(paths, file);
        assert_eq!(find("/Users/ci/shop/Kit/Sources/Cart.swift"), Some("Kit/Sources/Cart.swift"));
        assert_eq!(find("/Users/ci/Sources/Shelf.swift"), Some("Kit/Sources/Shelf.swift"));
        assert_eq!(find("/Users/ci/Cart.swift"), None, "two have as many");
        assert_eq!(find("/Users/ci/Basket.swift"), None);
    }

    #[test]
    fn a_path_stays_in_its_repository_and_is_no_option() {
        assert!(is_inside("Sources/Cart.swift") && is_inside("a b:c.swift"));
        for path in ["", "/etc/passwd", "../a", "a/../b", "-a", "--output=x", "a//b", "a\nb", "./a"] {
            assert!(!is_inside(path), "{path}");
        }
        assert_eq!(find_by_names(["-x.swift"], "/ci/-x.swift"), None);
    }
}
