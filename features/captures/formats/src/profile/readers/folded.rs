//! Folded stacks: `outermost;...;innermost count`.

use crate::profile::{Profile, ProfileFormat, ProfileFrame};
use std::collections::HashMap;
use unslide_calltree::{MOST_DEPTH, folded_kernel_name};

/// Returns a line's frames and its count.
pub(super) fn folded_line(line: &str) -> Option<(&str, u64)> {
    let (stack, count) = line.trim_end().rsplit_once([' ', '\t'])?;
    Some((stack.trim_end(), count.parse().ok()?)).filter(|(stack, _)| !stack.is_empty())
}

pub(super) fn read_folded(text: &str) -> Profile {
    let mut profile = Profile::new(ProfileFormat::Folded);
    let mut known: HashMap<(Option<u32>, &str), u32> = HashMap::new();
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let Some((stack, count)) = folded_line(line) else {
            profile.skipped += 1;
            continue;
        };
        // Of a deeper stack the outermost frames count.
        profile.skipped += stack.split(';').skip(MOST_DEPTH).count() as u64;
        let mut parent = None;
        for name in stack.split(';').take(MOST_DEPTH) {
            let position = match known.get(&(parent, name)) {
                Some(position) => *position,
                None => {
                    let (symbol, kernel) = folded_kernel_name(name);
                    let symbol = Some(symbol.to_owned());
                    let frame = ProfileFrame { parent, symbol, kernel, ..ProfileFrame::default() };
                    let Some(position) = profile.push(frame) else { break };
                    known.insert((parent, name), position);
                    position
                }
            };
            let total = &mut profile.frames[position as usize].count;
            *total = total.saturating_add(count);
            parent = Some(position);
        }
    }
    profile
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_beyond_the_depth_are_counted() {
        let deep = vec!["f"; MOST_DEPTH + 7].join(";");
        let profile = read_folded(&format!("{deep} 2\n"));
        assert_eq!((profile.frames.len(), profile.skipped), (MOST_DEPTH, 7));
    }

    #[test]
    fn stacks_become_a_tree_with_inclusive_counts() {
        let profile =
            read_folded("# made by hand\nmain;a b;c 3\nmain 2\n\nmain;a b 1\nno count\nread_[k] 4\n");
        let frames: Vec<(Option<u32>, &str, u64)> = profile
            .frames
            .iter()
            .map(|frame| (frame.parent, frame.symbol.as_deref().unwrap(), frame.count))
            .collect();
        let expected = [(None, "main", 6), (Some(0), "a b", 4), (Some(1), "c", 3), (None, "read", 4)];
        assert_eq!((frames.as_slice(), profile.skipped), (&expected[..], 1));
        assert!(profile.frames[3].kernel);
    }
}
