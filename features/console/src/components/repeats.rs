//! Finds the repetitions of a recursion in a stack.

/// The longest turn of a recursion that is found, in frames.
const TURN_FRAMES_LIMIT: usize = 16;
/// Fewer frames than these are not worth folding.
const FOLDED_FRAMES_MIN: usize = 4;

/// Frames at the beginning of a stack that are there several times, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// Frames of one turn.
    pub frames: usize,
    /// Turns after the first one.
    pub further_turns: usize,
}

/// Finds the shortest turn that repeats itself at the beginning of a stack, given by a key for each frame.
pub fn find_repeat(keys: &[u64]) -> Option<Repeat> {
    (1..=TURN_FRAMES_LIMIT.min(keys.len() / 2)).find_map(|frames| {
        let equal = keys.iter().zip(keys.iter().skip(frames)).take_while(|(key, later)| key == later).count();
        let further_turns = equal / frames;
        (further_turns >= 2 && further_turns * frames >= FOLDED_FRAMES_MIN)
            .then_some(Repeat { frames, further_turns })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeat(text: &str) -> Option<(usize, usize)> {
        let keys: Vec<u64> = text.bytes().map(u64::from).collect();
        find_repeat(&keys).map(|found| (found.frames, found.further_turns))
    }

    #[test]
    fn the_shortest_turn_is_found() {
        assert_eq!(repeat("aaaaab"), Some((1, 4)));
        assert_eq!(repeat("ababababc"), Some((2, 3)));
        assert_eq!(repeat("aabaabaab"), Some((3, 2)));
        for other in ["", "a", "aaa", "abab", "abcdef", "baaaaa"] {
            assert_eq!(repeat(other), None, "{other}");
        }
    }
}
