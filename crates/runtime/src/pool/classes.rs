//! Scheduling of waiting jobs: classes of jobs share the threads by weight, and within a class tenants
//! take turns.
//!
//! Stride scheduling: each class has a pass that grows by `SCALE / weight` with each of its jobs, and
//! the class with the lowest pass is next. So a class with work always gets its share of the weights,
//! regardless of the other classes, which get any unused share at once.

use std::collections::{HashMap, VecDeque};
use unslide_model::TenantId;

/// The pass increment of a job with weight 1: divisible by every usual weight.
const PASS_SCALE: u64 = 720_720;

/// The tenant that owns a job, or `None` for no tenant.
pub(super) type JobOwner = Option<TenantId>;

/// One owner's jobs of a class.
#[derive(Debug)]
struct TenantQueue<T> {
    owner: JobOwner,
    jobs: VecDeque<T>,
}

/// One class of jobs.
#[derive(Debug)]
struct Class<T> {
    /// Owners with waiting jobs, the next one first.
    queues: VecDeque<TenantQueue<T>>,
    stride: u64,
    pass: u64,
}

/// The waiting jobs, in classes.
#[derive(Debug)]
pub(super) struct Classes<T> {
    classes: Vec<Class<T>>,
    /// The pass of the last job that was taken. A class that was idle starts from it, so that it cannot
    /// save up.
    now: u64,
    /// The number of running jobs of each owner.
    running: HashMap<JobOwner, usize>,
    /// The maximum number of running jobs per owner.
    most: usize,
}

impl<T> Classes<T> {
    /// Creates a scheduler that runs at most `most` jobs of one owner at the same time.
    pub(super) fn new(most: usize) -> Classes<T> {
        Classes { classes: Vec::new(), now: 0, running: HashMap::new(), most }
    }

    /// Adds a class and returns its number.
    pub(super) fn add_class(&mut self, weight: u32) -> usize {
        let stride = (PASS_SCALE / u64::from(weight.max(1))).max(1);
        self.classes.push(Class { queues: VecDeque::new(), stride, pass: self.now });
        self.classes.len() - 1
    }

    /// Appends a job to its owner's queue.
    pub(super) fn push(&mut self, class: usize, owner: JobOwner, job: T) {
        let Some(class) = self.classes.get_mut(class) else { return };
        if class.queues.is_empty() {
            class.pass = class.pass.max(self.now);
        }
        match class.queues.iter_mut().find(|queue| queue.owner == owner) {
            Some(queue) => queue.jobs.push_back(job),
            None => class.queues.push_back(TenantQueue { owner, jobs: VecDeque::from([job]) }),
        }
    }

    /// Returns the next job of an owner that may run one more, and its owner. The job runs until [`Classes::finish_job`].
    /// Of several classes with the same pass, the first added one is used.
    pub(super) fn pop(&mut self) -> Option<(JobOwner, T)> {
        let (running, most) = (&self.running, self.most);
        let may_run = |queue: &TenantQueue<T>| running.get(&queue.owner).is_none_or(|jobs| *jobs < most);
        let next = self.classes.iter_mut().filter(|class| class.queues.iter().any(may_run));
        let class = next.min_by_key(|class| class.pass)?;
        let mut queue = class.queues.iter().position(may_run).and_then(|place| class.queues.remove(place))?;
        let job = queue.jobs.pop_front()?;
        let owner = queue.owner.clone();
        if !queue.jobs.is_empty() {
            class.queues.push_back(queue);
        }
        self.now = self.now.max(class.pass);
        class.pass += class.stride;
        *self.running.entry(owner.clone()).or_default() += 1;
        Some((owner, job))
    }

    /// Records the end of a job of this owner.
    pub(super) fn finish_job(&mut self, owner: &JobOwner) {
        if let Some(jobs) = self.running.get_mut(owner) {
            *jobs = jobs.saturating_sub(1);
            if *jobs == 0 {
                self.running.remove(owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Classes<char> {
        let mut classes = Classes::new(usize::MAX);
        assert_eq!((classes.add_class(8), classes.add_class(2), classes.add_class(1)), (0, 1, 2));
        classes
    }

    fn fill(classes: &mut Classes<char>, jobs: &[(usize, char, usize)]) {
        for (class, name, count) in jobs {
            (0..*count).for_each(|_| classes.push(*class, None, *name));
        }
    }

    fn taken(classes: &mut Classes<char>, count: usize) -> (usize, usize, usize) {
        let jobs: Vec<char> = (0..count).map_while(|_| Some(classes.pop()?.1)).collect();
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

    fn tenant(slug: &str) -> JobOwner {
        Some(TenantId::new(slug).unwrap())
    }

    #[test]
    fn tenants_of_a_class_take_turns_however_many_jobs_each_has() {
        let mut classes = Classes::new(usize::MAX);
        let class = classes.add_class(8);
        (0..100).for_each(|_| classes.push(class, tenant("noisy"), 'n'));
        (0..2).for_each(|_| classes.push(class, tenant("quiet"), 'q'));
        classes.push(class, None, '-');
        let order: String = (0..6).map(|_| classes.pop().unwrap().1).collect();
        assert_eq!(order, "nq-nqn");
    }

    #[test]
    fn a_tenant_runs_no_more_jobs_at_once_than_it_may_in_all_classes_together() {
        let mut classes = Classes::new(2);
        let (first, second) = (classes.add_class(8), classes.add_class(1));
        for class in [first, second] {
            (0..3).for_each(|_| classes.push(class, tenant("noisy"), 'n'));
        }
        classes.push(second, tenant("quiet"), 'q');
        let order: String = (0..3).map(|_| classes.pop().unwrap().1).collect();
        assert_eq!(order, "nnq");
        assert!(classes.pop().is_none(), "the others wait and block no job");
        classes.finish_job(&tenant("quiet"));
        assert!(classes.pop().is_none());
        classes.finish_job(&tenant("noisy"));
        assert_eq!(classes.pop(), Some((tenant("noisy"), 'n')));
        assert!(classes.pop().is_none());
    }
}
