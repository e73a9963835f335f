use super::*;

const MOST_BYTES: usize = 4096;

/// Names and, below each, what `llvm-cxxfilt-19` of LLVM 19.1.7 prints for it. They are from the libraries of LLVM, GCC and
/// Node.js, and from a source that uses what C++23 has.
const HARD_NAMES: &str = include_str!("hard-names.txt");

#[test]
fn hard_names_are_as_llvm_prints_them() {
    let lines: Vec<&str> = HARD_NAMES.lines().collect();
    assert!(lines.len() > 500 && lines.len().is_multiple_of(2), "{}", lines.len());
    for pair in lines.chunks(2) {
        assert_eq!(demangle(pair[0], MOST_BYTES).as_deref(), Some(pair[1].trim_start()), "{}", pair[0]);
    }
}

#[test]
fn what_is_no_name_has_no_readable_form() {
    for name in [
        "",
        "_",
        "__",
        "Z",
        "i",
        "main",
        "_main",
        "_Zi",
        "_ZN",
        "_Z1",
        "_ZTV",
        "_Z3foo ",
        "_____Z1fv",
        "_Z1fv\0",
    ] {
        assert_eq!(demangle(name, MOST_BYTES), None, "{name}");
    }
    // The length of the identifier ends inside of a character.
    assert_eq!(demangle("_ZN1é1xE", MOST_BYTES), None);
    assert_eq!(demangle("_ZN2éE", MOST_BYTES).as_deref(), Some("é"));
}

/// A type that stands for 2^`levels` times `int`.
fn doubled(levels: usize) -> String {
    let mut name = String::from("_Z1f1aIiiE");
    for level in 0..levels {
        let part = format!("S{}_", base_36(level));
        name += &format!("S_I{part}{part}E");
    }
    name
}

fn base_36(number: usize) -> String {
    let digit = |n: usize| char::from_digit(n as u32, 36).unwrap().to_ascii_uppercase();
    if number < 36 { digit(number).into() } else { format!("{}{}", digit(number / 36), digit(number % 36)) }
}

#[test]
fn names_that_stand_for_more_than_fits_are_refused_soon() {
    assert_eq!(doubled(1), "_Z1f1aIiiES_IS0_S0_E");
    assert!(demangle(&doubled(4), MOST_BYTES).is_some_and(|name| name.matches("int").count() == 62));
    for levels in [20, 100, 400] {
        assert_eq!(demangle(&doubled(levels), MOST_BYTES), None);
    }
    // Packs of packs.
    let packs = format!("_Z1fIJJiiiiiiiiiEEEvDp{}{}", "1aIJDpT_".repeat(60), "EE".repeat(60));
    assert!(demangle(&packs, MOST_BYTES).is_none_or(|name| name.len() <= MOST_BYTES));
    assert_eq!(demangle("_Z3foov", 5).as_deref(), Some("foo()"));
    assert_eq!(demangle("_Z3foov", 4), None);
}

#[test]
fn names_deeper_than_a_stack_are_refused() {
    let nested = |open: &str, inner: &str, close: &str, levels: usize| {
        format!("_Z1f{}{inner}{}", open.repeat(levels), close.repeat(levels))
    };
    let deep = move |levels| {
        [
            nested("P", "i", "", levels),
            nested("PFv", "v", "E", levels),
            nested("1aI", "i", "E", levels),
            nested("Xpl", "Li1E", "Li1EE", levels),
            nested("IJ", "i", "EE", levels),
            nested("Z1g", "v", "E1h", levels),
            nested("DTcl", "Li1E", "EE", levels),
            format!("_Z{}1fvE", "Z".repeat(levels)),
            format!("_ZN1acv{}T_IiEEv", "P".repeat(levels)),
            nested("u1aI", "i", "E", levels),
            format!("_Z1fI{}TyiEvv", "Tp".repeat(levels)),
        ]
    };
    // A stack that is as small as that of any thread, and names far longer than those that are asked for.
    let small = std::thread::Builder::new().stack_size(1 << 20);
    let asked = small.spawn(move || {
        for name in [10, 1_000, 2_000, 100_000].into_iter().flat_map(deep) {
            assert!(demangle(&name, MOST_BYTES).is_none_or(|readable| readable.len() <= MOST_BYTES));
        }
    });
    asked.unwrap().join().unwrap();
}

/// Names with parts of others in them end in time, and without a word from the sanitizers where these watch.
#[test]
fn damaged_names_are_read_or_refused() {
    let names: Vec<&str> = HARD_NAMES.lines().step_by(2).filter(|name| name.is_ascii()).collect();
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut below = |limit: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % limit
    };
    for _ in 0..50_000 {
        let (first, second) = (names[below(names.len())], names[below(names.len())]);
        let (at, from) = (below(first.len()), below(second.len()));
        let until = from + below(second.len() - from);
        let part = |name: &'static str, range: std::ops::Range<usize>| name.get(range).unwrap();
        let begin = part(first, 2..at.max(2));
        let mixed = format!("_Z{begin}{}{}", part(second, from..until), part(first, at..first.len()));
        assert!(demangle(&mixed, MOST_BYTES).is_none_or(|readable| readable.len() <= MOST_BYTES));
    }
}
