//! Recipients of mail: they are asked seldom, links end, and mails are counted by day.

use time::Duration;
use unslide_alerts::store::recipients::{
    LINK_LIFETIME, MAX_UNCONFIRMED, claim_confirmation, confirmations_due, find_by_link, finish_confirmation,
    read_statuses, request_confirmations, return_mails, set_accepted, take_mails,
};
use unslide_alerts::store::rules::RecipientStatus;
use unslide_alerts::store::{ALERT_HOOK, messages::SEND_LEASE_TIMEOUT};
use unslide_harness::database::{TestDatabase, acme, umbrella};
use unslide_store::TenantTx;
use unslide_store::tables::purge_old_rows;

const KIM: &str = "kim@example.com";

async fn in_tx<T>(database: &TestDatabase, work: impl AsyncFnOnce(&mut TenantTx) -> T) -> T {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let done = work(&mut tx).await;
    tx.commit().await.unwrap();
    done
}

async fn asked(database: &TestDatabase) -> bool {
    in_tx(database, async |tx| request_confirmations(tx, &[KIM.to_owned()]).await.unwrap()).await
}

async fn is_due(database: &TestDatabase) -> bool {
    !confirmations_due(&database.store, 9).await.unwrap().is_empty()
}

/// Takes the confirmation mail that is due, and has it sent, or not.
async fn sent(database: &TestDatabase, token: u8, is_sent: bool) -> bool {
    let claimed =
        in_tx(database, async |tx| claim_confirmation(tx, KIM, &[token; 32], 9).await.unwrap()).await;
    let Some(claimed) = claimed else { return false };
    in_tx(database, async |tx| finish_confirmation(tx, KIM, claimed, is_sent).await.unwrap()).await;
    true
}

async fn status(database: &TestDatabase) -> Option<RecipientStatus> {
    in_tx(database, async |tx| read_statuses(tx, &[KIM.to_owned()]).await.unwrap().remove(KIM)).await
}

#[tokio::test]
async fn a_recipient_is_asked_once_a_day_and_its_last_link_counts() {
    let database = TestDatabase::new(&[ALERT_HOOK]).await;
    assert!(asked(&database).await && asked(&database).await);
    assert!(sent(&database, 1, true).await);
    assert!(!is_due(&database).await && asked(&database).await && !is_due(&database).await);
    database.wait(Duration::hours(25));
    assert!(asked(&database).await && sent(&database, 2, true).await);
    let found = async |token: u8| find_by_link(&database.store, &[token; 32]).await.unwrap();
    assert_eq!(found(1).await, None);
    assert_eq!(found(2).await.unwrap().tenant, acme());
    let mut other = database.store.tenant(&umbrella()).await.unwrap();
    assert!(read_statuses(&mut other, &[KIM.to_owned()]).await.unwrap().is_empty());
    set_accepted(&mut other, KIM, true).await.unwrap();
    other.commit().await.unwrap();
    assert_eq!(status(&database).await, Some(RecipientStatus::Waiting));
    // The link ends with its week. A confirmed recipient keeps it.
    database.wait(LINK_LIFETIME + Duration::SECOND);
    assert_eq!(found(2).await, None);
    assert_eq!((purge_old_rows(&database.store).await.unwrap(), status(&database).await), (1, None));
    assert!(asked(&database).await && sent(&database, 3, true).await);
    for (accepted, expected) in [(true, RecipientStatus::Confirmed), (false, RecipientStatus::Refused)] {
        in_tx(&database, async |tx| set_accepted(tx, KIM, accepted).await.unwrap()).await;
        database.wait(LINK_LIFETIME * 2);
        assert_eq!(purge_old_rows(&database.store).await.unwrap(), 0);
        assert_eq!(found(3).await.unwrap().recipient.status, expected);
        assert!(asked(&database).await && !is_due(&database).await, "nothing is left to ask");
    }
}

#[tokio::test]
async fn a_confirmation_mail_that_fails_is_sent_again_a_few_times() {
    let database = TestDatabase::new(&[ALERT_HOOK]).await;
    assert!(asked(&database).await);
    // Its sender dies.
    in_tx(&database, async |tx| claim_confirmation(tx, KIM, &[9; 32], 9).await.unwrap().unwrap()).await;
    assert!(!is_due(&database).await);
    database.wait(SEND_LEASE_TIMEOUT);
    for token in 1..=4 {
        assert!(sent(&database, token, false).await);
        assert!(!is_due(&database).await);
        database.wait(Duration::hours(6));
    }
    assert!(!is_due(&database).await, "it is given up");
    assert!(asked(&database).await && !sent(&database, 5, true).await, "not within a day");
    database.wait(Duration::DAY);
    assert!(asked(&database).await && sent(&database, 5, true).await);
}

#[tokio::test]
async fn mails_are_counted_for_each_day() {
    let database = TestDatabase::new(&[ALERT_HOOK]).await;
    let take = async |mails| in_tx(&database, async |tx| take_mails(tx, mails, 10).await.unwrap()).await;
    assert!(!take(11).await && take(6).await && !take(5).await && take(4).await && !take(1).await);
    in_tx(&database, async |tx| return_mails(tx, 2).await.unwrap()).await;
    assert!(!take(3).await && take(2).await);
    assert!(asked(&database).await);
    let claim =
        async || in_tx(&database, async |tx| claim_confirmation(tx, KIM, &[1; 32], 10).await.unwrap()).await;
    assert!(claim().await.is_none() && !is_due(&database).await, "it is put off");
    database.wait(Duration::DAY);
    assert!(claim().await.is_some());
    assert!(!take(10).await && take(9).await && !take(1).await);
}

#[tokio::test]
async fn a_tenant_has_a_bounded_number_of_recipients_that_have_not_confirmed() {
    let database = TestDatabase::new(&[ALERT_HOOK]).await;
    let fill = format!(
        "INSERT INTO alert_recipients (tenant, address, status, asked_at)
         SELECT 'acme', n || '@example.com', 'waiting_for_confirmation', now() FROM generate_series(1, {MAX_UNCONFIRMED}) n"
    );
    database.execute(&fill).await;
    assert!(!asked(&database).await && status(&database).await.is_none());
    database
        .execute("UPDATE alert_recipients SET status = 'confirmed' WHERE address = '1@example.com'")
        .await;
    assert!(asked(&database).await);
}
