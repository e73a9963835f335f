//! Inputs that differ a little from known ones.

use unslide_testkit::reports::SCRIPTS;
use unslide_tests::dice::Dice;

/// Numbers at which counts, lengths and offsets go wrong.
const EDGES: [u64; 7] = [0, 1, 0x7F, 0xFF, 0xFFFF, 0x7FFF_FFFF, u64::MAX];
/// The most changes of one input, and the most bytes that a change moves.
const MOST_CHANGES: u64 = 4;
const MOST_MOVED: usize = 256;

/// The variation with this number of one of the inputs.
pub fn of(inputs: &[&[u8]], number: u64) -> Vec<u8> {
    let mut dice = Dice::new(number);
    let mut input = dice.pick_one(inputs).to_vec();
    for _ in 0..=dice.number_below(MOST_CHANGES) {
        let other = dice.pick_one(inputs);
        change(&mut input, other, &mut dice);
    }
    input
}

/// Changes a byte, a number or a piece, or puts letters of another script between.
fn change(input: &mut Vec<u8>, other: &[u8], dice: &mut Dice) {
    let at = index(input.len(), dice);
    let end = input.len().min(at + index(MOST_MOVED, dice));
    match dice.number_below(9) {
        0 => input.truncate(at),
        1 => drop(input.drain(at..end)),
        2 => {
            let piece = input[at..end].to_vec();
            let to = index(input.len(), dice);
            drop(input.splice(to..to, piece));
        }
        3 => {
            let from = index(other.len(), dice);
            let piece = &other[from..other.len().min(from + end - at)];
            drop(input.splice(at..end, piece.iter().copied()));
        }
        4 => {
            let number = dice.pick_one(&EDGES).to_le_bytes();
            let width = [1, 2, 4, 8][index(4, dice)];
            let end = input.len().min(at + width);
            input[at..end].copy_from_slice(&number[..end - at]);
        }
        5 => drop(input.splice(at..at, dice.pick_one(&SCRIPTS).bytes())),
        6 => {
            for byte in input.iter_mut().skip(at).take(1) {
                *byte ^= 1 << dice.number_below(8);
            }
        }
        _ => {
            let [new, ..] = dice.roll().to_le_bytes();
            for byte in input.iter_mut().skip(at).take(1) {
                *byte = new;
            }
        }
    }
}

/// A place below `end`; 0 where that is 0.
fn index(end: usize, dice: &mut Dice) -> usize {
    usize::try_from(dice.number_below(end.max(1) as u64)).unwrap_or(0)
}
