//! Reports with names in many scripts.

use super::{ARM64, Error, Frame, Image, Report, Thread};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

/// Parts of names: letters of one to four bytes, marks that combine, both directions, emoji, and words that grouping
/// knows with letters of other scripts in them.
pub const SCRIPTS: [&str; 28] = [
    "größe",
    "naïve",
    "données_à_charger",
    "Ñandú",
    "καλάθι",
    "Корзина",
    "ショップ",
    "合計",
    "장바구니",
    "سلة",
    "עגלה",
    "ตะกร้า",
    "टोकरी",
    "e\u{301}",
    "\u{202e}abc",
    "👜",
    "👩\u{200d}🚀",
    "𝒻",
    "\u{10ffff}",
    "ß",
    "İ",
    "ſ",
    "\u{85}",
    "assertÉ",
    "fatalÉrror",
    "panicß",
    "Abört",
    "die",
];

/// What stands between parts: everything that names are taken apart by.
pub const JOINTS: [&str; 40] = [
    "",
    "_",
    ".",
    "::",
    " ",
    "(",
    ")",
    "<",
    ">",
    "[",
    "]",
    "{",
    "}",
    "-[",
    "+[",
    ":",
    "'",
    "$",
    " #1 ",
    " in ",
    " of ",
    " as ",
    " infix(",
    " prefix",
    "(*",
    ".func1",
    "closure #1 ",
    "decltype(",
    "operator",
    "->",
    "_block_invoke",
    "__20",
    ".cold.",
    " [clone",
    "[abi:",
    "(extension in ",
    "):",
    "OUTLINED_FUNCTION_",
    " value witness for ",
    "17h",
];

/// A crash or an exception with these names and texts in functions, images, the exception and the reason, always the
/// same for a seed. The first image is the app's.
#[must_use]
pub fn scripts(seed: u64) -> Report {
    const STARTS: [u64; 2] = [0x1_0400_0000, 0x1_9000_0000];
    let rng = &mut StdRng::seed_from_u64(seed);
    let paths = [
        format!("/private/var/containers/Bundle/Application/{0}.app/{0}", text(rng).replace('/', "")),
        format!("/System/Library/Frameworks/{0}.framework/{0}", text(rng).replace('/', "")),
    ];
    let ids = ["0F1E2D3C-4B5A-6978-8796-A5B4C3D2E1F3", "0F1E2D3C-4B5A-6978-8796-A5B4C3D2E1F7"];
    let images = paths.iter().zip(ids).zip(STARTS);
    let images = images.map(|((path, id), start)| Image::new(path, id, start).size(0x1000).cpu(ARM64));
    let frames = (0..rng.random_range(1..6_u64)).map(|n| {
        let start = STARTS[rng.random_range(0..STARTS.len())];
        let symbol = start + 0x100 + n * 0x10;
        Frame::at(symbol + 8).object(&text(rng), start).symbol(&text(rng), symbol)
    });
    let thread = Thread::new(0).crashed().frames(frames.collect::<Vec<_>>());
    let is_raised = rng.random_bool(0.5);
    let report = Report::standard().error(if is_raised { Error::NsException } else { Error::Mach });
    let exception =
        if is_raised { "crash.error.nsexception.name" } else { "crash.error.mach.exception_name" };
    let report = report.set(exception, text(rng)).set("crash.error.reason", text(rng));
    report.images(images).thread(thread)
}

fn text(rng: &mut StdRng) -> String {
    let parts = (0..rng.random_range(1..8)).map(|n| {
        let parts: &[&str] = if n % 2 == 0 { &SCRIPTS } else { &JOINTS };
        parts.choose(rng).copied().unwrap_or_default()
    });
    parts.collect()
}
