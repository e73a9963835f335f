//! No wake-up is lost: every interleaving of the statements of an indexer, which stores a report
//! that lacks symbols, and a builder, which publishes them and wakes.

use crate::outbox::NeededSymbols;
use crate::reports::{Arrival, Change, Effects, record_in_steps};
use crate::tests::database::{Database, acme, arrival, debug_id, image, symbols};
use crate::{Store, TenantTx, slots, wakes};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, mpsc};
use unslide_model::{Quality, ReportId};

/// How the indexer asks for what is newer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Protocol {
    /// As the store does it.
    Real,
    /// Without `FOR SHARE`: the slot is only looked at.
    WithoutLock,
    /// The generation is read, then the slot is locked, then the older reading is compared.
    ReadBeforeLock,
}

/// Lets an actor take one step at a time.
struct Steps {
    permits: Mutex<mpsc::UnboundedReceiver<()>>,
    done: mpsc::UnboundedSender<()>,
    begun: std::sync::atomic::AtomicBool,
}

impl Steps {
    /// Says that the step before is done, and waits to be let into the next.
    async fn pause(&self) {
        if self.begun.swap(true, std::sync::atomic::Ordering::SeqCst) {
            let _ = self.done.send(());
        }
        self.permits.lock().await.recv().await;
    }
}

struct Actor {
    permit: mpsc::UnboundedSender<()>,
    done: mpsc::UnboundedReceiver<()>,
}

fn actor() -> (Actor, Arc<Steps>) {
    let (permit, permits) = mpsc::unbounded_channel();
    let (done, heard) = mpsc::unbounded_channel();
    let steps = Steps { permits: Mutex::new(permits), done, begun: false.into() };
    (Actor { permit, done: heard }, Arc::new(steps))
}

/// Every order of `a` steps of the indexer (false) and `b` of the builder (true).
fn interleavings(a: usize, b: usize) -> Vec<Vec<bool>> {
    if a == 0 || b == 0 {
        return vec![[vec![false; a], vec![true; b]].concat()];
    }
    let with = |first: bool, rest: Vec<Vec<bool>>| {
        rest.into_iter().map(move |order| [vec![first], order].concat()).collect::<Vec<_>>()
    };
    [with(false, interleavings(a - 1, b)), with(true, interleavings(a, b - 1))].concat()
}

async fn look(tx: &mut TenantTx, n: u8) -> u64 {
    slots::get(tx, &debug_id(n)).await.unwrap().unwrap().generation
}

/// The four steps of the indexer; gives what it would ask for.
async fn index(store: Store, arrival: Arrival, n: u8, protocol: Protocol, steps: Arc<Steps>) -> bool {
    let mut tx = store.tenant(&acme()).await.unwrap();
    let changes = [Change::for_first_arrival(&mut tx, &arrival).await.unwrap()];
    let asks = if protocol == Protocol::Real {
        let needs: Vec<Vec<NeededSymbols>> =
            record_in_steps(&mut tx, &changes, Effects::Now, async || steps.pause().await).await.unwrap();
        !needs[0].is_empty()
    } else {
        let ids = [debug_id(n).uuid()];
        steps.pause().await;
        slots::ensure_slots(&mut tx, &ids).await.unwrap();
        steps.pause().await;
        let generation = look(&mut tx, n).await;
        steps.pause().await;
        if protocol == Protocol::ReadBeforeLock {
            slots::lock_slots(&mut tx, &ids).await.unwrap();
        }
        let (connection, tenant, _) = tx.parts();
        sqlx::query("INSERT INTO waits VALUES ($1, $2, $3, $4, 0, 0)")
            .bind(tenant)
            .bind(ids[0])
            .bind(arrival.received_at)
            .bind(arrival.report_id.uuid())
            .execute(connection)
            .await
            .unwrap();
        generation > 0
    };
    steps.pause().await;
    tx.commit().await.unwrap();
    let _ = steps.done.send(());
    asks
}

/// The four steps of the builder and its wake job; says whether the report was found waiting.
async fn build(store: Store, n: u8, steps: Arc<Steps>) -> bool {
    let mut tx = store.tenant(&acme()).await.unwrap();
    let new = symbols(n, Quality::Dwarf);
    let generation = slots::publish_in_steps(&mut tx, &new, async || steps.pause().await).await.unwrap();
    steps.pause().await;
    tx.commit().await.unwrap();
    steps.pause().await;
    let mut tx = store.tenant(&acme()).await.unwrap();
    let page = wakes::request_page(&mut tx, &debug_id(n), generation, None, 10).await.unwrap();
    tx.commit().await.unwrap();
    let _ = steps.done.send(());
    page.waiting > 0
}

/// Runs one interleaving; true where the report would never be made better.
async fn is_lost(database: &Database, n: u8, order: &[bool], protocol: Protocol) -> bool {
    let mut arrival = arrival(n);
    arrival.report_id = ReportId([n; 16]);
    arrival.images = vec![image(n, false, None)];
    let (mut indexer, indexer_steps) = actor();
    let (mut builder, builder_steps) = actor();
    let schedule = async {
        for is_builder in order {
            let actor = if *is_builder { &mut builder } else { &mut indexer };
            actor.permit.send(()).unwrap();
            // One that waits for the other's lock is left waiting, and has its turn later.
            let _ = tokio::time::timeout(Duration::from_millis(40), actor.done.recv()).await;
        }
    };
    let indexing = index(database.store.clone(), arrival, n, protocol, indexer_steps);
    let building = build(database.store.clone(), n, builder_steps);
    let all = Box::pin(async { tokio::join!(indexing, building, schedule) });
    let (asked, woken, ()) =
        tokio::time::timeout(Duration::from_secs(120), all).await.expect("neither waits for ever");
    !asked && !woken
}

async fn lost(protocol: Protocol, slot_exists: bool) -> Vec<Vec<bool>> {
    let database = Database::new().await;
    let orders = interleavings(4, 4);
    assert_eq!(orders.len(), 70);
    if slot_exists {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let ids: Vec<_> = (1..=70).map(|n| debug_id(n).uuid()).collect();
        slots::ensure_slots(&mut tx, &ids).await.unwrap();
        tx.commit().await.unwrap();
    }
    let mut lost = Vec::new();
    for some in orders.iter().zip(1..).collect::<Vec<_>>().chunks(5) {
        let runs = some.iter().map(|(order, n)| is_lost(&database, *n, order, protocol));
        for ((order, _), is_lost) in some.iter().zip(futures_of(runs).await) {
            if is_lost {
                lost.push((*order).clone());
            }
        }
    }
    lost
}

/// Runs futures at the same time on this task.
async fn futures_of<F: Future<Output = bool>>(futures: impl Iterator<Item = F>) -> Vec<bool> {
    let mut futures: Vec<_> = futures.map(|f| (Box::pin(f), None)).collect();
    std::future::poll_fn(|context| {
        for (future, result) in &mut futures {
            if result.is_none()
                && let std::task::Poll::Ready(value) = future.as_mut().poll(context)
            {
                *result = Some(value);
            }
        }
        match futures.iter().map(|(_, result)| *result).collect::<Option<Vec<bool>>>() {
            Some(results) => std::task::Poll::Ready(results),
            None => std::task::Poll::Pending,
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_interleaving_loses_a_wake_up() {
    assert_eq!(lost(Protocol::Real, false).await, Vec::<Vec<bool>>::new());
    assert_eq!(lost(Protocol::Real, true).await, Vec::<Vec<bool>>::new());
}

/// What the test above is worth: it finds the losses of protocols that look as good.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_interleavings_find_what_the_lock_and_the_order_prevent() {
    assert!(!lost(Protocol::WithoutLock, true).await.is_empty());
    assert!(!lost(Protocol::ReadBeforeLock, true).await.is_empty());
}
