//! Which waiting job runs next: classes of jobs share the threads by weight.
//!
//! Stride scheduling: each class has a pass that grows by `SCALE / weight` with each of its jobs, and
//! the lowest pass is next. So of any run of jobs a class with work gets its share of the weights,
//! whatever the others do, and what a class does not use goes to the others at once.

use std::collections::VecDeque;

/// What a job of a class with weight 1 adds to its pass: divisible by every usual weight.
const SCALE: u64 = 720_720;

/// One class of jobs.
#[derive(Debug)]
struct Class<T> {
    jobs: VecDeque<T>,
    stride: u64,
    pass: u64,
}

/// The jobs that wait, in classes.
#[derive(Debug)]
pub(super) struct Classes<T> {
    classes: Vec<Class<T>>,
    /// The pass of the last job that was taken: where a class that had nothing to do begins again, so
    /// that it can't save up.
    now: u64,
}

impl<T> Classes<T> {
    pub(super) fn new() -> Classes<T> {
        Classes { classes: Vec::new(), now: 0 }
    }

    /// A further class; its number.
    pub(super) fn add(&mut self, weight: u32) -> usize {
        let stride = (SCALE / u64::from(weight.max(1))).max(1);
        self.classes.push(Class { jobs: VecDeque::new(), stride, pass: self.now });
        self.classes.len() - 1
    }

    /// Puts a job at the end of its class.
    pub(super) fn push(&mut self, class: usize, job: T) {
        if let Some(class) = self.classes.get_mut(class) {
            if class.jobs.is_empty() {
                class.pass = class.pass.max(self.now);
            }
            class.jobs.push_back(job);
        }
    }

    /// The next job; of classes with the same pass, that which was added first.
    pub(super) fn pop(&mut self) -> Option<T> {
        let waiting = self.classes.iter_mut().filter(|class| !class.jobs.is_empty());
        let next = waiting.min_by_key(|class| class.pass)?;
        self.now = next.pass;
        next.pass += next.stride;
        next.jobs.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Classes<char> {
        let mut classes = Classes::new();
        assert_eq!((classes.add(8), classes.add(2), classes.add(1)), (0, 1, 2));
        classes
    }

    fn fill(classes: &mut Classes<char>, jobs: &[(usize, char, usize)]) {
        for (class, name, count) in jobs {
            (0..*count).for_each(|_| classes.push(*class, *name));
        }
    }

    fn taken(classes: &mut Classes<char>, count: usize) -> (usize, usize, usize) {
        let jobs: Vec<char> = (0..count).map_while(|_| classes.pop()).collect();
        let of = |name| jobs.iter().filter(|job| **job == name).count();
        (of('a'), of('b'), of('c'))
    }

    #[test]
    fn full_classes_share_by_weight_in_every_stretch() {
        let mut classes = three();
        fill(&mut classes, &[(0, 'a', 100), (1, 'b', 100), (2, 'c', 100)]);
        for _ in 0..5 {
            assert_eq!(taken(&mut classes, 11), (8, 2, 1));
        }
    }

    #[test]
    fn what_an_idle_class_leaves_goes_to_the_others_by_weight() {
        let mut classes = three();
        fill(&mut classes, &[(1, 'b', 100), (2, 'c', 100)]);
        assert_eq!(taken(&mut classes, 30), (0, 20, 10));
        fill(&mut classes, &[(0, 'a', 3)]);
        assert_eq!(taken(&mut classes, 400), (3, 80, 90), "nothing is lost");
    }

    #[test]
    fn a_class_saves_nothing_up_while_it_is_idle() {
        let mut classes = three();
        fill(&mut classes, &[(0, 'a', 8_000)]);
        assert_eq!(taken(&mut classes, 8_000), (8_000, 0, 0));
        fill(&mut classes, &[(0, 'a', 100), (2, 'c', 100)]);
        let (first, _, last) = taken(&mut classes, 18);
        assert!(last <= 3, "the late class took {last} of 18 and left {first}");
    }
}
