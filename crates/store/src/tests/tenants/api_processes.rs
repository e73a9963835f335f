//! Processes of the api count while they say that they run.

use crate::api_processes::{beat, join, leave};
use crate::tests::database::{Database, execute};

#[tokio::test]
async fn processes_count_until_they_leave_or_fall_silent() {
    let database = Database::new().await;
    let store = &database.store;
    let a = join(store).await.unwrap();
    assert_eq!(beat(store, a).await.unwrap(), 1);
    let b = join(store).await.unwrap();
    assert_eq!(beat(store, b).await.unwrap(), 2);
    assert_eq!(beat(store, b).await.unwrap(), 2, "one that says so again counts once");
    let c = join(store).await.unwrap();
    assert_eq!(beat(store, c).await.unwrap(), 3);
    leave(store, b).await.unwrap();
    assert_eq!(beat(store, a).await.unwrap(), 2);
    execute(&database, "UPDATE api_processes SET seen_at = now() - interval '1 minute'").await;
    assert_eq!(beat(store, a).await.unwrap(), 1, "one that fell silent itself counts again");
}
