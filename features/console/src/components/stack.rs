//! A backtrace on a page: the app's own frames are prominent, runs of the system's frames are folded, and so
//! are the repetitions of a recursion.

use super::repeats::find_repeat;
use super::source_link::SourceLinks;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use unslide_model::upload_dsym_command;
use unslide_report::text::threads::{CallView, FrameView, ThreadView};
use unslide_site::words::{address, counted};
use unslide_site::{Template, escaping};

/// A run of at least this many system frames is folded.
const FOLDED_RUN_MIN: usize = 2;
/// A stack with more frames is reduced to its innermost and outermost ones.
const SHOWN_FRAMES_LIMIT: usize = 100;
const INNERMOST_FRAMES: usize = 50;
const OUTERMOST_FRAMES: usize = 10;
/// Maximum number of images that a folded run names.
const NAMED_IMAGES_LIMIT: usize = 3;

#[derive(Debug, Template)]
#[template(path = "console/components/stack.html", askama = escaping)]
pub struct ThreadStack {
    pub heading: String,
    pub crashed: bool,
    /// True if it was sampled before the end.
    pub is_sample: bool,
    pub name: Option<String>,
    /// The innermost frame of the app, for a collapsed thread.
    pub top: String,
    pub skipped: u64,
    /// How many frames of the system have no name.
    pub system_note: Option<String>,
    /// The address of the frames, if the page has no room for them.
    pub elsewhere: Option<String>,
    items: Vec<StackItem>,
}

#[derive(Debug)]
enum StackItem {
    One(FrameLine),
    Folded { summary: String, frames: Vec<FrameLine> },
}

impl StackItem {
    fn into_frames(self) -> Vec<FrameLine> {
        match self {
            StackItem::One(line) => vec![line],
            StackItem::Folded { frames, .. } => frames,
        }
    }
}

#[derive(Debug)]
struct FrameLine {
    index: usize,
    system: bool,
    /// A class of the stylesheet, a mark and a word.
    status: (&'static str, &'static str, &'static str),
    image: String,
    calls: Vec<LinkedCall>,
    address: String,
    uuid: Option<String>,
    command: Option<String>,
    context: Vec<ContextLine>,
    /// The address of the whole source file.
    file_page: Option<Box<str>>,
    explain: Option<Box<str>>,
}

impl FrameLine {
    /// Returns a number that is equal for frames with the same functions of the same image.
    fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.image.hash(&mut hasher);
        for linked in &self.calls {
            linked.call.function.hash(&mut hasher);
        }
        if self.calls.is_empty() {
            self.address.hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// A source line around a frame's own.
#[derive(Debug)]
struct ContextLine {
    number: u64,
    text: String,
    own: bool,
}

/// A call with the address of its source line.
#[derive(Debug)]
struct LinkedCall {
    call: CallView,
    /// The function's name in two parts: the first is cut if the row is too narrow.
    name: (String, String),
    source: Option<String>,
}

/// The number of characters at the end of a name that always fit.
const NAME_END_CHARS: usize = 20;
/// A name with fewer characters stays in one part.
const SPLIT_NAME_CHARS_MIN: usize = 40;

/// Splits a long name, so that a narrow row cuts its middle.
fn split_name(name: &str) -> (String, String) {
    let chars = name.chars().count();
    if chars < SPLIT_NAME_CHARS_MIN {
        return (name.to_owned(), String::new());
    }
    let at = name.char_indices().nth(chars - NAME_END_CHARS).map_or(name.len(), |(at, _)| at);
    let (start, end) = name.split_at(at);
    (start.to_owned(), end.to_owned())
}

/// Returns a sentence about the frames of the system without a name, or `None` if there are none.
fn describe_unnamed(frames: &[FrameView]) -> Option<String> {
    let unnamed = || frames.iter().filter(|frame| frame.system && frame.calls.is_empty());
    let count = unnamed().count();
    let libraries: HashSet<_> = unnamed().map(|frame| &frame.image).collect();
    (count > 0).then(|| {
        let frames = counted(count, "frame", "frames");
        let libraries = counted(libraries.len(), "system library", "system libraries");
        format!("{frames} of {libraries} without a name: an operator can upload the symbols of the system.")
    })
}

impl ThreadStack {
    /// Creates the stack of a thread; `explain` is the address of its explanation, which leads to a frame by
    /// its number.
    pub fn from_thread(thread: &ThreadView, explain: Option<&str>, links: &SourceLinks) -> ThreadStack {
        let line = |frame| build_line(frame, thread.position, explain, links);
        let mut lines: Vec<FrameLine> = thread.frames.iter().map(line).collect();
        say_once(&mut lines);
        let own = thread.frames.iter().find(|frame| !frame.system && !frame.calls.is_empty());
        let top = own.or(thread.frames.first()).map(first_name).unwrap_or_default();
        let foldable = thread.frames.iter().any(|frame| !frame.system);
        ThreadStack {
            heading: match thread.number {
                Some(number) => format!("Thread {number}"),
                None if thread.is_javascript => "JavaScript".to_owned(),
                None if thread.is_sample => "Last sampled stack".to_owned(),
                None => "Exception".to_owned(),
            },
            crashed: thread.crashed,
            is_sample: thread.is_sample,
            name: thread.name.clone(),
            top,
            skipped: thread.skipped,
            system_note: describe_unnamed(&thread.frames),
            elsewhere: None,
            items: fold_middle(lines, foldable),
        }
    }
}

/// Keeps an image's id and upload command only at its first frame.
fn say_once(lines: &mut [FrameLine]) {
    let mut said = HashSet::new();
    for line in lines {
        if line.uuid.as_ref().is_some_and(|uuid| !said.insert(uuid.clone())) {
            (line.uuid, line.command) = (None, None);
        }
    }
}

fn first_name(frame: &FrameView) -> String {
    match frame.calls.first() {
        Some(call) => call.function.clone(),
        None => frame.image.clone().unwrap_or_default(),
    }
}

/// Returns the frames, with those in the middle of a very deep stack folded.
fn fold_middle(lines: Vec<FrameLine>, foldable: bool) -> Vec<StackItem> {
    let mut items = fold_repeats(lines);
    if items.len() <= SHOWN_FRAMES_LIMIT {
        return fold_system_frames(items, foldable);
    }
    let outermost = items.split_off(items.len() - OUTERMOST_FRAMES);
    let middle = items.split_off(INNERMOST_FRAMES);
    let frames: Vec<FrameLine> = middle.into_iter().flat_map(StackItem::into_frames).collect();
    let summary = format!("{} in between", counted(frames.len(), "frame", "frames"));
    let mut shown = fold_system_frames(items, foldable);
    shown.push(StackItem::Folded { summary, frames });
    shown.extend(fold_system_frames(outermost, foldable));
    shown
}

/// Folds the turns of a recursion after its first one.
fn fold_repeats(lines: Vec<FrameLine>) -> Vec<StackItem> {
    let keys: Vec<u64> = lines.iter().map(FrameLine::key).collect();
    let mut items = Vec::new();
    let mut lines = lines.into_iter();
    let mut place = 0;
    while place < keys.len() {
        let repeat = find_repeat(keys.get(place..).unwrap_or_default());
        let first_turn = repeat.map_or(1, |repeat| repeat.frames);
        items.extend(lines.by_ref().take(first_turn).map(StackItem::One));
        place += first_turn;
        if let Some(repeat) = repeat {
            let folded = repeat.frames * repeat.further_turns;
            let frames: Vec<FrameLine> = lines.by_ref().take(folded).collect();
            let turns = counted(repeat.further_turns, "more time", "more times");
            let summary = match repeat.frames {
                1 => format!("The same frame {turns}"),
                frames => format!("The same {frames} frames {turns}"),
            };
            items.push(StackItem::Folded { summary, frames });
            place += folded;
        }
    }
    items
}

fn fold_system_frames(frames: Vec<StackItem>, foldable: bool) -> Vec<StackItem> {
    let mut items = Vec::new();
    let mut run: Vec<FrameLine> = Vec::new();
    for item in frames {
        match item {
            StackItem::One(line) if line.system && foldable => run.push(line),
            other => {
                flush_run(&mut run, &mut items);
                items.push(other);
            }
        }
    }
    flush_run(&mut run, &mut items);
    items
}

fn flush_run(run: &mut Vec<FrameLine>, items: &mut Vec<StackItem>) {
    let frames = std::mem::take(run);
    if frames.len() < FOLDED_RUN_MIN {
        items.extend(frames.into_iter().map(StackItem::One));
        return;
    }
    let summary = summarize_libraries(&frames);
    items.push(StackItem::Folded { summary, frames });
}

/// Returns the number of frames, in all and of each library.
fn summarize_libraries(frames: &[FrameLine]) -> String {
    let mut libraries: Vec<(&str, usize)> = Vec::new();
    for frame in frames {
        match libraries.iter_mut().find(|(name, _)| *name == frame.image) {
            Some((_, count)) => *count += 1,
            None => libraries.push((&frame.image, 1)),
        }
    }
    let all = counted(frames.len(), "system frame", "system frames");
    if let [(name, _)] = libraries.as_slice() {
        return format!("{all}: {name}");
    }
    let more = libraries.len().saturating_sub(NAMED_IMAGES_LIMIT);
    let mut named: Vec<String> =
        libraries.iter().take(NAMED_IMAGES_LIMIT).map(|(name, count)| format!("{name} {count}")).collect();
    if more > 0 {
        named.push(counted(more, "more library", "more libraries"));
    }
    format!("{all}: {}", named.join(", "))
}

fn build_line(frame: &FrameView, position: usize, explain: Option<&str>, links: &SourceLinks) -> FrameLine {
    let missing = frame.status == "missing";
    let image = frame.image.clone();
    FrameLine {
        index: frame.index,
        system: frame.system,
        status: line_status(frame),
        calls: frame.calls.iter().map(|call| link_call(call, links)).collect(),
        address: match &frame.bundle_place {
            Some(place) => place.clone(),
            None => native_address(frame),
        },
        context: frame.context.iter().map(|(number, text)| context_line(*number, text, frame)).collect(),
        file_page: link_file(frame, links).map(String::into_boxed_str),
        uuid: frame.debug_id.filter(|_| missing && !frame.system).map(|id| id.to_string().to_uppercase()),
        command: frame
            .upload
            .clone()
            .or_else(|| frame.debug_id.filter(|_| missing && !frame.system).map(upload_dsym_command)),
        image: image.unwrap_or_else(|| "unknown image".to_owned()),
        explain: explain.map(|explain| {
            let and = if explain.contains('?') { '&' } else { '?' };
            format!("{explain}{and}thread={position}#frame-{}", frame.index).into_boxed_str()
        }),
    }
}

/// Returns the address of the source file of a JavaScript frame, if its source map has the text.
fn link_file(frame: &FrameView, links: &SourceLinks) -> Option<String> {
    let call = frame.calls.first().filter(|_| frame.is_mapped && !frame.context.is_empty())?;
    links.link_to_file(frame.debug_id?, call.path.as_deref()?, call.line?)
}

/// Returns the outcome of a frame. A frame of the system has no colour, because the app's team cannot change it.
fn line_status(frame: &FrameView) -> (&'static str, &'static str, &'static str) {
    let (class, mark, word) = frame_status(&frame.status, frame.approximate);
    match (frame.system, frame.calls.is_empty()) {
        (true, true) => ("", "·", "system"),
        (true, false) => ("", mark, word),
        (false, _) => (class, mark, word),
    }
}

fn native_address(frame: &FrameView) -> String {
    frame.relative.map_or_else(|| address(frame.address), |at| format!("+ {at:#x}"))
}

fn context_line(number: u64, text: &str, frame: &FrameView) -> ContextLine {
    let own = frame.calls.first().is_some_and(|call| call.line == Some(number));
    ContextLine { number, text: text.to_owned(), own }
}

fn link_call(call: &CallView, links: &SourceLinks) -> LinkedCall {
    let source = call.path.as_deref().and_then(|path| links.link_to_line(path, call.line));
    LinkedCall { call: call.clone(), name: split_name(&call.function), source }
}

/// Returns the outcome of a frame: a class of the stylesheet, a mark and a word.
pub fn frame_status(status: &str, approximate: bool) -> (&'static str, &'static str, &'static str) {
    match status {
        "symbolicated" if approximate => ("warn", "◐", "approximate"),
        "symbolicated" => ("good", "●", "symbolicated"),
        "device" => ("info", "◐", "named by device"),
        "missing" => ("bad", "○", "symbols missing"),
        "missing_symbol" => ("warn", "○", "no function here"),
        "unknown_image" => ("warn", "○", "no image here"),
        "malformed" => ("bad", "○", "symbols broken"),
        "unsupported" => ("bad", "○", "symbols unsupported"),
        "fetching_failed" => ("warn", "○", "symbols not fetched"),
        "invalid_address" => ("warn", "○", "no address"),
        _ => ("warn", "○", "not symbolicated"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_model::DebugId;

    fn frame(index: usize, system: bool) -> FrameView {
        let image = Some(if system { "UIKitCore" } else { "Shop" }.to_owned());
        FrameView { index, system, image, status: "missing".to_owned(), ..FrameView::default() }
    }

    fn folds(systems: &[bool]) -> Vec<usize> {
        // Each frame has an address of its own.
        let at = |index: usize, system: bool| FrameView { address: index as u64, ..frame(index, system) };
        let frames = systems.iter().enumerate().map(|(index, system)| at(index, *system)).collect();
        let stack = ThreadStack::from_thread(
            &ThreadView { frames, ..ThreadView::default() },
            None,
            &SourceLinks::default(),
        );
        let length = |item: &StackItem| match item {
            StackItem::One(_) => 1,
            StackItem::Folded { frames, .. } => frames.len(),
        };
        stack.items.iter().map(length).collect()
    }

    #[test]
    fn runs_of_system_frames_are_folded_where_the_app_has_frames_too() {
        assert_eq!(folds(&[true, true, false, true, false, true, true, true]), [2, 1, 1, 1, 3]);
        assert_eq!(folds(&[true, true, true]), [1, 1, 1]);
    }

    #[test]
    fn a_folded_run_counts_the_frames_of_each_library() {
        let of = |image: &str| FrameView { image: Some(image.to_owned()), ..frame(0, true) };
        let summary = |images: &[&str]| {
            let lines: Vec<_> =
                images.iter().map(|image| build_line(&of(image), 0, None, &SourceLinks::default())).collect();
            summarize_libraries(&lines)
        };
        assert_eq!(summary(&["UIKitCore", "UIKitCore"]), "2 system frames: UIKitCore");
        assert_eq!(summary(&["A", "B", "A", "C", "D"]), "5 system frames: A 2, B 1, C 1, 1 more library");
    }

    #[test]
    fn frames_of_the_system_have_no_mark_and_are_counted_once() {
        let line = build_line(&frame(0, true), 0, None, &SourceLinks::default());
        assert_eq!((line.status, line.uuid), (("", "·", "system"), None));
        let note = describe_unnamed(&[frame(0, true), frame(1, true), frame(2, false)]);
        assert!(note.is_some_and(|note| note.starts_with("2 frames of 1 system library without a name")));
        assert_eq!(describe_unnamed(&[frame(0, false)]), None);
    }

    #[test]
    fn a_long_name_is_split_before_its_end() {
        assert_eq!(split_name("Cart.total()"), ("Cart.total()".to_owned(), String::new()));
        let long = format!("é{}::iterator const&)", "x".repeat(200));
        let (start, end) = split_name(&long);
        assert_eq!((format!("{start}{end}"), end.chars().count()), (long, NAME_END_CHARS));
    }

    #[test]
    fn further_turns_of_a_recursion_are_folded() {
        let call = |function: &str| CallView { function: function.to_owned(), ..CallView::default() };
        let own =
            |index: usize, function: &str| FrameView { calls: vec![call(function)], ..frame(index, false) };
        let mut names = vec!["fail"];
        names.extend(["visit", "walk"].repeat(100));
        names.push("main");
        let frames = names.iter().enumerate().map(|(index, name)| own(index, name)).collect();
        let thread = ThreadView { frames, ..ThreadView::default() };
        let stack = ThreadStack::from_thread(&thread, None, &SourceLinks::default());
        let page = stack.render().unwrap();
        assert_eq!(stack.items.len(), 5, "{page}");
        assert!(page.contains("The same 2 frames 99 more times"), "{page}");
    }

    #[test]
    fn a_source_position_leads_to_its_repository() {
        let at = |path: &str| CallView {
            function: "total".to_owned(),
            file: Some("Cart.swift".to_owned()),
            path: Some(path.to_owned()),
            line: Some(7),
            inlined: false,
        };
        let calls = vec![at("/ci/shop/Cart.swift"), at("/usr/Cart.swift")];
        let thread =
            ThreadView { frames: vec![FrameView { calls, ..frame(0, false) }], ..ThreadView::default() };
        let settings = unslide_store::app_settings::AppSettings {
            source_url: "https://git.example.com/{path}?\"#L{line}".to_owned(),
            source_root: "/ci/shop".to_owned(),
            ..unslide_store::app_settings::AppSettings::default()
        };
        let page = ThreadStack::from_thread(&thread, None, &SourceLinks::from_settings(&settings, "", ""))
            .render()
            .unwrap();
        assert!(page.contains("href=\"https://git.example.com/Cart.swift?&#34;#L7\""), "{page}");
        assert_eq!(page.matches("href").count(), 1, "{page}");
    }

    #[test]
    fn an_error_of_javascript_shows_its_source_and_the_command_for_a_missing_map() {
        let call = CallView {
            function: "total".to_owned(),
            file: Some("cart.ts".to_owned()),
            path: Some("src/cart.ts".to_owned()),
            line: Some(2),
            inlined: false,
        };
        let found = FrameView {
            calls: vec![call],
            context: vec![(1, "function total() {".to_owned()), (2, "  return <b>;".to_owned())],
            status: "symbolicated".to_owned(),
            ..frame(0, false)
        };
        let missing = FrameView {
            bundle_place: Some("1:2345".to_owned()),
            upload: Some("unslide upload --source-map MAP".to_owned()),
            ..frame(1, false)
        };
        let thread =
            ThreadView { frames: vec![found, missing], is_javascript: true, ..ThreadView::default() };
        let stack = ThreadStack::from_thread(&thread, None, &SourceLinks::default());
        assert_eq!(stack.heading, "JavaScript");
        let page = stack.render().unwrap();
        for shown in ["line own", "return &#60;b&#62;;", "1:2345", "unslide upload --source-map MAP"] {
            assert!(page.contains(shown), "{shown}: {page}");
        }
        assert_eq!(page.matches("line own").count(), 1);
    }

    #[test]
    fn a_sample_is_not_called_an_exception() {
        let thread = ThreadView { is_sample: true, ..ThreadView::default() };
        let stack = ThreadStack::from_thread(&thread, None, &SourceLinks::default());
        assert_eq!((stack.heading.as_str(), stack.is_sample), ("Last sampled stack", true));
    }

    #[test]
    fn only_an_app_image_has_a_command() {
        let links = SourceLinks::default();
        let known = |system| FrameView { debug_id: Some(DebugId([7; 16])), ..frame(0, system) };
        assert!(build_line(&known(false), 0, None, &links).command.is_some());
        assert!(build_line(&known(true), 0, None, &links).command.is_none());
        assert!(build_line(&frame(0, false), 0, None, &links).command.is_none(), "no UUID to look for");
        let explained = build_line(&frame(3, false), 2, Some("/a?variant=1"), &links).explain;
        assert_eq!(explained.as_deref(), Some("/a?variant=1&thread=2#frame-3"));
    }
}
