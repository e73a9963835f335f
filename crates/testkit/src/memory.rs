//! How much memory something takes: an allocator that counts, for each thread by itself.
//!
//! A test binary that measures names it once:
//!
//! ```text
//! #[global_allocator]
//! static ALLOCATOR: Counting = Counting;
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, with a count of what each thread has.
pub struct Counting;

thread_local! {
    static LIVE: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

fn taken(bytes: usize) {
    // A thread that ends has no counts any more.
    let _ = LIVE.try_with(|live| {
        live.set(live.get().saturating_add(bytes));
        MOST.try_with(|most| most.set(most.get().max(live.get())))
    });
}

fn given_back(bytes: usize) {
    let _ = LIVE.try_with(|live| live.set(live.get().saturating_sub(bytes)));
}

#[expect(unsafe_code, reason = "an allocator is unsafe; this one passes everything on")]
// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        given_back(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Large ones are moved by their pages: at no time are there two.
        given_back(layout.size());
        taken(size);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// What `work` gives, and the most bytes that this thread had at one time on top of what it had
/// before. Only in a binary that allocates with [`Counting`].
pub fn peak<R>(work: impl FnOnce() -> R) -> (R, usize) {
    let before = LIVE.with(|live| live.replace(0));
    MOST.with(|most| most.set(0));
    let result = work();
    LIVE.with(|live| live.set(live.get().saturating_add(before)));
    (result, MOST.with(Cell::get))
}
