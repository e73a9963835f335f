//! The text of the graph. Colours and weights are attributes of the elements, so that a page with a policy
//! that forbids styles shows them too.

use super::GraphPlace;
use std::borrow::Cow;
use std::fmt::Write as _;

const ROW_HEIGHT: usize = 18;
const HEAD_HEIGHT: usize = 44;
const FOOT_HEIGHT: usize = 26;

/// The app's code.
pub(super) const APP: &str = "fill=\"#f6b26b\" stroke=\"#ffffff\"|font-weight=\"bold\"";
/// Everything without a mark.
pub(super) const PLAIN: &str = "fill=\"#d5dbe0\" stroke=\"#ffffff\"|";
/// The kernel's code.
pub(super) const KERNEL: &str = "fill=\"#e3c5d6\" stroke=\"#60304a\" stroke-dasharray=\"3 2\"|";
/// Labels, and code of unknown origin.
pub(super) const LABEL: &str = "fill=\"#f4f4f1\" stroke=\"#9a9a94\"|font-style=\"italic\"";
/// Functions that have grown.
pub(super) const GROWN: &str = "fill=\"#f2a59d\" stroke=\"#ffffff\"|font-weight=\"bold\"";
/// Functions that have shrunk.
pub(super) const SHRUNK: &str = "fill=\"#a9c9ee\" stroke=\"#ffffff\"|";

/// Details are shown for the box under the pointer or with the focus.
const SVG_STYLE: &str = "\
.unslide-flame:hover>.unslide-flame-about,.unslide-flame:focus>.unslide-flame-about{visibility:visible}\
.unslide-flame:focus{outline:2px solid #1a1a1a}";

/// A box to be drawn.
pub(super) struct DrawnBox {
    pub(super) x: f64,
    pub(super) width: f64,
    pub(super) row: usize,
    pub(super) label: Option<String>,
    pub(super) about: String,
    /// Attributes of the box, `|`, attributes of its text.
    pub(super) style: &'static str,
    /// True if the keyboard reaches it.
    pub(super) reached: bool,
}

/// The graph while it is drawn.
pub(super) struct FlameCanvas {
    out: String,
    details_at: usize,
    place: GraphPlace,
    boxes: usize,
}

impl FlameCanvas {
    pub(super) fn new(width: f64, rows: usize, title: &str, legend: &str, place: GraphPlace) -> FlameCanvas {
        let below = HEAD_HEIGHT + rows * ROW_HEIGHT;
        let height = below + if place == GraphPlace::File { FOOT_HEIGHT } else { 0 };
        let mut canvas = FlameCanvas { out: String::new(), details_at: below + 18, place, boxes: 0 };
        let (title, legend) = (escape_xml(title), escape_xml(legend));
        let style = match place {
            GraphPlace::File => format!("<style>{SVG_STYLE}</style>\n"),
            GraphPlace::Page => String::new(),
        };
        canvas.write_text(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"group\" \
             aria-label=\"{title}\" font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"#1a1a1a\">\n\
             {style}\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
             <text x=\"4\" y=\"16\" font-size=\"14\" font-weight=\"bold\">{title}</text>\n\
             <text x=\"4\" y=\"34\" fill=\"#55554f\">{legend}</text>\n"
        ));
        canvas
    }

    /// Adds a box. The nested `svg` cuts off text that does not fit its box, and keeps the whole name for a
    /// search.
    pub(super) fn add_box(&mut self, one: &DrawnBox) {
        let (box_style, text_style) = one.style.split_once('|').unwrap_or((one.style, ""));
        let reached = match self.place {
            GraphPlace::File if one.reached => " tabindex=\"0\"",
            GraphPlace::File => "",
            GraphPlace::Page if self.boxes == 0 => " tabindex=\"0\"",
            GraphPlace::Page => " tabindex=\"-1\"",
        };
        self.boxes += 1;
        let (about, y, height) = (escape_xml(&one.about), HEAD_HEIGHT + one.row * ROW_HEIGHT, ROW_HEIGHT - 1);
        self.write_text(format_args!(
            "<g class=\"unslide-flame\" role=\"img\"{reached}><title>{about}</title>\
             <svg x=\"{:.1}\" y=\"{y}\" width=\"{:.1}\" height=\"{height}\">\
             <rect width=\"100%\" height=\"100%\" {box_style}/>",
            one.x, one.width
        ));
        if let Some(label) = &one.label {
            self.write_text(format_args!("<text x=\"3\" y=\"13\" {text_style}>{}</text>", escape_xml(label)));
        }
        self.write_text(format_args!("</svg>"));
        if one.reached && self.place == GraphPlace::File {
            let y = self.details_at;
            self.write_text(format_args!(
                "<text class=\"unslide-flame-about\" x=\"4\" y=\"{y}\" visibility=\"hidden\">{about}</text>"
            ));
        }
        self.write_text(format_args!("</g>\n"));
    }

    pub(super) fn into_svg(mut self) -> String {
        self.out.push_str("</svg>\n");
        self.out
    }

    fn write_text(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a string has no error.
        let _ = self.out.write_fmt(text);
    }
}

/// Escapes a text for XML. Characters with a meaning in XML become references. Those that XML forbids, and
/// those that change the direction of writing, become U+FFFD.
fn escape_xml(text: &str) -> Cow<'_, str> {
    if !text.contains(|c| xml_reference(c).is_some() || is_forbidden(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 32);
    for c in text.chars() {
        match xml_reference(c) {
            Some(reference) => out.push_str(reference),
            None if is_forbidden(c) => out.push(char::REPLACEMENT_CHARACTER),
            None => out.push(c),
        }
    }
    Cow::Owned(out)
}

fn xml_reference(c: char) -> Option<&'static str> {
    Some(match c {
        '<' => "&lt;",
        '>' => "&gt;",
        '&' => "&amp;",
        '"' => "&quot;",
        '\'' => "&#39;",
        _ => return None,
    })
}

fn is_forbidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}')
}
