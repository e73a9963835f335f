//! What building one symcache takes in memory, counted before it is taken.
//!
//! A file can make things of a hundred bytes out of one of its own, so its size bounds nothing: each
//! list that grows by what the file says is paid for as it grows.

use std::cell::Cell;
use std::rc::Rc;

/// There is no memory left for this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoMemory;

/// A share in the memory that one build may take. What was taken through it is given back when it is
/// dropped.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// What all shares may still take.
    left: Rc<Cell<u64>>,
    taken: Cell<u64>,
}

impl Memory {
    /// A memory of so many bytes.
    pub(crate) fn new(bytes: u64) -> Memory {
        Memory { left: Rc::new(Cell::new(bytes)), taken: Cell::new(0) }
    }

    /// One more share, for what goes before the rest does.
    pub(crate) fn share(&self) -> Memory {
        Memory { left: Rc::clone(&self.left), taken: Cell::new(0) }
    }

    /// Takes so many bytes.
    #[inline]
    pub(crate) fn take(&self, bytes: usize) -> Result<(), NoMemory> {
        let bytes = bytes as u64;
        self.left.set(self.left.get().checked_sub(bytes).ok_or(NoMemory)?);
        self.taken.set(self.taken.get() + bytes);
        Ok(())
    }

    /// Appends to a list, paying where it has to grow.
    #[inline]
    pub(crate) fn push<T>(&self, list: &mut Vec<T>, item: T) -> Result<(), NoMemory> {
        if list.len() == list.capacity() {
            self.grow(list)?;
        }
        list.push(item);
        Ok(())
    }

    #[cold]
    fn grow<T>(&self, list: &mut Vec<T>) -> Result<(), NoMemory> {
        let more = (list.len() / 2).max(4);
        self.take(more.saturating_mul(size_of::<T>()))?;
        list.reserve_exact(more);
        Ok(())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.left.set(self.left.get() + self.taken.get());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_paid_for_as_they_grow_and_given_back_with_their_share() {
        let memory = Memory::new(1_000);
        {
            let share = memory.share();
            let mut list: Vec<u64> = Vec::new();
            while share.push(&mut list, 7).is_ok() {}
            assert!((50..=125).contains(&list.len()) && list.capacity() * 8 <= 1_000, "{}", list.len());
            assert_eq!(memory.take(1_000), Err(NoMemory));
        }
        assert_eq!(memory.take(1_000), Ok(()));
        assert_eq!(memory.take(1), Err(NoMemory));
    }
}
