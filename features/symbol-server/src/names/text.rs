//! Breakpad's text format of symbols, written from a symcache.
//!
//! Addresses count from the image's start. A function with lines is a `FUNC` with an `INLINE` for each function that was
//! inlined into it, and a line for each stretch of code; one that only the symbol table names is a `PUBLIC`.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use unslide_model::RelativeAddress;
use unslide_symbolicate::symcache::{CodeAnswer, CodeCall, SymCache};

/// A text that is being written.
pub struct BreakpadText<'s> {
    /// Numbers of paths, by their escaped form.
    files: HashMap<&'s [u8], usize>,
    /// Numbers of names of inlined functions.
    origins: HashMap<&'s [u8], usize>,
    head: String,
    body: String,
}

/// A stretch of code with one answer.
struct Stretch<'s> {
    start: u64,
    size: u64,
    /// The innermost first; the last one owns the code.
    calls: Vec<CodeCall<'s>>,
    owner_start: Option<RelativeAddress>,
}

/// An inlined function, and the call of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct InlinedCall {
    /// 0 for a call in the function that owns the code.
    level: usize,
    line: u32,
    file: usize,
    origin: usize,
}

impl<'s> Stretch<'s> {
    fn from_answer(start: u64, end: u64, answer: &CodeAnswer<'s>) -> Stretch<'s> {
        let owner_start = answer.symbol_address;
        Stretch { start, size: end - start, calls: answer.calls().collect(), owner_start }
    }

    fn owner(&self) -> Option<&CodeCall<'s>> {
        self.calls.last()
    }

    /// Returns true if the code after this stretch belongs to the same function.
    fn continues_as(&self, next: &Stretch<'s>) -> bool {
        let owner = |stretch: &Stretch<'s>| stretch.owner().map(|owner| owner.function);
        self.start + self.size == next.start
            && self.owner_start == next.owner_start
            && owner(self) == owner(next)
    }
}

impl<'s> BreakpadText<'s> {
    /// Writes the symbols of an image with this name. Returns None if the text needs more than `most_bytes`.
    pub fn from_symcache(symcache: &'s SymCache, name: &str, most_bytes: usize) -> Option<Vec<u8>> {
        let mut text = BreakpadText {
            files: HashMap::new(),
            origins: HashMap::new(),
            head: String::new(),
            body: String::new(),
        };
        let id = symcache.debug_id().to_compact().to_uppercase();
        // Writing to a string has no error.
        let _ = writeln!(text.head, "MODULE mac {} {id}0 {}", symcache.cpu().name(), to_line(name));
        let mut function: Vec<Stretch<'s>> = Vec::new();
        let mut ranges = symcache.ranges().peekable();
        while let Some((start, answer)) = ranges.next() {
            let Some(answer) = answer else { continue };
            let end = ranges.peek().map_or(start.0, |(next, _)| next.0);
            let stretch = Stretch::from_answer(start.0, end.max(start.0), &answer);
            if function.last().is_some_and(|last| !last.continues_as(&stretch)) {
                text.write_function(&function);
                function.clear();
            }
            function.push(stretch);
            if text.head.len() + text.body.len() > most_bytes {
                return None;
            }
        }
        text.write_function(&function);
        text.head.push_str(&text.body);
        (text.head.len() <= most_bytes).then(|| text.head.into_bytes())
    }

    fn write_function(&mut self, stretches: &[Stretch<'s>]) {
        let (Some(first), Some(last)) = (stretches.first(), stretches.last()) else { return };
        let Some(owner) = first.owner() else { return };
        let name = to_line(&owner.function.decode());
        if stretches.iter().all(|stretch| stretch.owner().is_none_or(|owner| owner.file.is_none())) {
            let _ = writeln!(self.body, "PUBLIC {:x} 0 {name}", first.start);
            return;
        }
        let size = last.start + last.size - first.start;
        let _ = writeln!(self.body, "FUNC {:x} {size:x} 0 {name}", first.start);
        let mut inlined: BTreeMap<InlinedCall, Vec<(u64, u64)>> = BTreeMap::new();
        for stretch in stretches {
            // All calls but the last one were inlined, each into the next.
            for (index, pair) in stretch.calls.windows(2).enumerate() {
                let [call, caller] = pair else { continue };
                let key = InlinedCall {
                    level: stretch.calls.len() - 2 - index,
                    line: caller.line.unwrap_or(0),
                    file: self.file_number(caller),
                    origin: self.origin_number(call),
                };
                add_range(inlined.entry(key).or_default(), stretch.start, stretch.size);
            }
        }
        for (call, ranges) in &inlined {
            let InlinedCall { level, line, file, origin } = call;
            let _ = write!(self.body, "INLINE {level} {line} {file} {origin}");
            for (start, size) in ranges {
                let _ = write!(self.body, " {start:x} {size:x}");
            }
            self.body.push('\n');
        }
        for stretch in stretches {
            if let Some(call) = stretch.calls.first().filter(|call| call.file.is_some()) {
                let file = self.file_number(call);
                let line = call.line.unwrap_or(0);
                let _ = writeln!(self.body, "{:x} {:x} {line} {file}", stretch.start, stretch.size);
            }
        }
    }

    fn file_number(&mut self, call: &CodeCall<'s>) -> usize {
        let raw = call.file.map_or(b"<unknown>".as_slice(), |file| file.raw());
        let shown = || call.file.map_or_else(|| "<unknown>".to_owned(), |file| to_line(&file.decode()));
        number_text(&mut self.files, &mut self.head, "FILE", raw, shown)
    }

    fn origin_number(&mut self, call: &CodeCall<'s>) -> usize {
        let shown = || to_line(&call.function.decode());
        number_text(&mut self.origins, &mut self.head, "INLINE_ORIGIN", call.function.raw(), shown)
    }
}

/// Returns the number of a text. A new one gets the next number and a line in the head.
fn number_text<'s>(
    numbers: &mut HashMap<&'s [u8], usize>,
    head: &mut String,
    word: &str,
    raw: &'s [u8],
    shown: impl FnOnce() -> String,
) -> usize {
    let next = numbers.len();
    *numbers.entry(raw).or_insert_with(|| {
        // Writing to a string has no error.
        let _ = writeln!(head, "{word} {next} {}", shown());
        next
    })
}

/// Adds a range to ascending ones. One that follows the last one at once makes it longer.
fn add_range(ranges: &mut Vec<(u64, u64)>, start: u64, size: u64) {
    match ranges.last_mut() {
        Some((last, length)) if *last + *length == start => *length += size,
        _ => ranges.push((start, size)),
    }
}

/// Returns a name on one line: it comes from a file of others.
fn to_line(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_symbolicate::object::{build_symcache, list_objects};
    use unslide_testkit::fixtures;

    fn symcache(dsym: &str) -> SymCache {
        let bytes = std::fs::read(fixtures::dsym(dsym)).unwrap();
        let range = list_objects(&bytes).unwrap().remove(0).range;
        SymCache::parse(build_symcache(&bytes[range]).unwrap().symcache).unwrap()
    }

    #[test]
    fn functions_lines_and_inlined_calls_are_written() {
        let symcache = symcache("app");
        let text = BreakpadText::from_symcache(&symcache, "app", usize::MAX).unwrap();
        let text = String::from_utf8(text).unwrap();
        let id = symcache.debug_id().to_compact().to_uppercase();
        assert!(text.starts_with(&format!("MODULE mac arm64 {id}0 app\nFILE 0 ")), "{text}");
        let file = |path: &str| {
            let line = text.lines().find(|line| line.starts_with("FILE ") && line.ends_with(path)).unwrap();
            line.split(' ').nth(1).unwrap().to_owned()
        };
        let source = file("/fixture/src/inline.c");
        let lines: Vec<&str> = text.lines().collect();
        let function = lines.iter().position(|line| line.starts_with("FUNC 400c ")).unwrap();
        assert!(lines[function].ends_with(" 0 do_work"), "{}", lines[function]);
        let own: Vec<&&str> =
            lines[function + 1..].iter().take_while(|line| !line.starts_with("FUNC")).collect();
        // The call of level_one in do_work is outermost.
        assert!(own.iter().any(|line| line.starts_with(&format!("INLINE 0 38 {source} "))), "{own:?}");
        assert!(own.iter().any(|line| line.ends_with(&format!(" 20 {source}"))), "{own:?}");
        assert!(text.contains("INLINE_ORIGIN") && text.contains(" level_three\n"), "{text}");
        assert!(
            lines.iter().any(|line| line.starts_with("PUBLIC ") && line.ends_with(" without_debug_info"))
        );
    }

    #[test]
    fn a_text_over_its_limit_is_none() {
        assert!(BreakpadText::from_symcache(&symcache("app"), "app", 100).is_none());
    }

    #[test]
    fn a_name_stays_on_its_line() {
        let text = BreakpadText::from_symcache(&symcache("kit"), "a\nFUNC 0 1 0 b", usize::MAX).unwrap();
        assert_eq!(String::from_utf8(text).unwrap().matches("FUNC 0 1 0 b").count(), 1);
        assert_eq!(to_line("a\nb"), "a b");
    }
}
