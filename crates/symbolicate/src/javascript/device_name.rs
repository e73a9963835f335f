//! Function names from devices, and their parts that minification keeps.

/// Names up to this many characters are always minified.
const MINIFIED_CHARS: usize = 2;
/// Texts that engines write instead of a name.
const NO_NAMES: [&str; 4] = ["<anonymous>", "anonymous", "<computed>", "<unknown>"];

/// Returns the part of a device's name that is the same in every build and engine; None if minification left
/// none.
///
/// The class in `e.pay` and the `Object` in `Object.pay` are removed. `new t`, `async e` and
/// `Object.<anonymous>` are not names. In `e.t [as onPress]` the property has the name.
pub(crate) fn stable_device_name(name: &str) -> Option<String> {
    let name = ["async ", "async*"].iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
    let (name, property) = match name.strip_suffix(']').and_then(|rest| rest.split_once(" [as ")) {
        Some((name, property)) => (name, Some(property)),
        None => (name, None),
    };
    // Firefox and Safari name an anonymous function after the one around it: `pay/<`.
    let around = name.trim_end_matches("/<");
    let is_anonymous = around.len() < name.len();
    let (constructor, path) = match around.strip_prefix("new ") {
        Some(path) => ("new ", path),
        None => ("", around),
    };
    // Bundlers name modules after their files.
    let is_file = path.contains(['/', '\\']);
    let (classes, own) = path.rsplit_once('.').filter(|_| !is_file).unwrap_or(("", path));
    let own = ["get ", "set "].iter().find_map(|prefix| own.strip_prefix(prefix)).unwrap_or(own);
    if is_minified(own) {
        return property.filter(|property| !is_minified(property)).map(str::to_owned);
    }
    let classes = classes.split('.').filter(|class| *class != "Object" && !is_minified(class));
    let path = classes.chain([own]).collect::<Vec<_>>().join(".");
    let anonymous = if is_anonymous { ".<anonymous>" } else { "" };
    Some(format!("{constructor}{path}{anonymous}"))
}

/// True if a bundler appended a number to a name: `total2`, `total$1`.
pub(super) fn is_numbered(name: &str, original: &str) -> bool {
    let own = name.rsplit('.').next().unwrap_or_default();
    let number = own.strip_prefix(original).map(|rest| rest.strip_prefix('$').unwrap_or(rest));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// True for an empty name, a name of one or two characters, a name of three that is not a word, such as `aXe`
/// or `t1e`, and the number of a bundler's module.
fn is_minified(word: &str) -> bool {
    let is_number = word.bytes().all(|b| b.is_ascii_digit());
    let is_no_word = word.chars().skip(1).any(|c| !c.is_lowercase()) || word.starts_with(['$', '_']);
    let is_constant = word.chars().all(char::is_uppercase);
    match word.chars().count() {
        0..=MINIFIED_CHARS => true,
        3 if is_no_word && !is_constant => true,
        _ => is_number || NO_NAMES.contains(&word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minified_parts_of_a_name_do_not_count() {
        for (name, expected) in [
            ("pay", Some("pay")),
            ("Cart.pay", Some("Cart.pay")),
            ("e.step2", Some("step2")),
            ("t.step2", Some("step2")),
            ("Object.pay", Some("pay")),
            ("async e.load", Some("load")),
            ("async*load", Some("load")),
            ("new Cart", Some("new Cart")),
            ("get total [as total]", Some("total")),
            ("e.get total [as total]", Some("total")),
            ("e.t [as onPress]", Some("onPress")),
            ("Cart.pay [as onPress]", Some("Cart.pay")),
            ("pay/<", Some("pay.<anonymous>")),
            ("pay/</<", Some("pay.<anonymous>")),
            ("shop.e.pay", Some("shop.pay")),
            ("buy", Some("buy")),
            ("API", Some("API")),
            ("./src/cart.ts", Some("./src/cart.ts")),
            ("t", None),
            ("aB", None),
            ("new t", None),
            ("async e", None),
            ("e.t", None),
            ("e/<", None),
            ("aXe", None),
            ("t1e", None),
            ("_e$", None),
            ("858", None),
            ("Object.858", None),
            ("Object.<anonymous>", None),
            ("e.<anonymous>", None),
            ("<anonymous>", None),
            ("", None),
        ] {
            assert_eq!(stable_device_name(name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn a_number_that_a_bundler_has_added_is_known_by_the_original() {
        assert!(
            is_numbered("total2", "total")
                && is_numbered("total$1", "total")
                && is_numbered("e.total$1", "total")
        );
        assert!(
            !is_numbered("total", "total")
                && !is_numbered("totals", "total")
                && !is_numbered("buy", "handler")
        );
    }
}
