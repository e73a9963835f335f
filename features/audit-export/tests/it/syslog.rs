//! Syslog over TLS: servers that are killed, restarted, slow, or that have a certificate of another authority.

use crate::audit_export::shop::{
    RECEIVERS, positions, put, read_receiver, send_now, start, wait_for_failures, wait_for_problem,
    wait_until_sent, write_entries,
};
use crate::audit_export::syslog_server::{AUTHORITY, Ending, SyslogServer};
use serde_json::{Value, json};
use unslide_world::World;

fn receiver(port: u16) -> Value {
    json!({"name": "siem", "kind": "syslog", "address": format!("localhost:{port}"), "authority": AUTHORITY})
}

async fn set_syslog(world: &World, key: &str, port: u16) {
    put(world, key, &receiver(port)).await.expect_status(200);
}

#[tokio::test]
async fn entries_are_messages_of_rfc_5424_in_order() {
    let server = SyslogServer::start().await;
    let world = start(&[server.port]).await;
    let key = world.create_master_key("acme").await;
    set_syslog(&world, &key, server.port).await;
    server.wait_for_entries(1).await;
    write_entries(&world, "acme", 1..=120).await;
    let entries = server.wait_for_entries(121).await;
    let begin = positions(&entries)[0];
    assert_eq!(positions(&entries), (begin..begin + 121).collect::<Vec<_>>());
    let message = server.messages().pop().unwrap();
    let fields: Vec<&str> = message.splitn(7, ' ').collect();
    assert_eq!((fields[0], fields[2], fields[3]), ("<109>1", "crashes.example.com", "unslide"), "{message}");
    assert_eq!((fields[4], fields[5]), ("-", "thing.change"), "{message}");
    let id = entries[120]["id"].as_str().unwrap();
    assert!(fields[6].starts_with(&format!("[audit@32473 id=\"{id}\" position=\"")), "{message}");
    assert!(message.contains("tenant=\"acme\"") && message.contains("subject=\"subject 120\""), "{message}");
    wait_until_sent(&world, &key).await;
    let test = world.post(&format!("{RECEIVERS}/siem/test"), &key, "").await.expect_status(200);
    assert!(test["ok"] == true && test["sent"].as_str().unwrap().contains("<109>1 "), "{test}");
    world.stop().await;
}

#[tokio::test]
async fn a_server_that_is_killed_or_slow_gets_the_entries_again() {
    let server = SyslogServer::start().await;
    let world = start(&[server.port]).await;
    let key = world.create_master_key("acme").await;
    set_syslog(&world, &key, server.port).await;
    wait_until_sent(&world, &key).await;
    let reached = read_receiver(&world, &key).await["position"].as_i64().unwrap();
    for (failures, ending) in [(1, Ending::Kill), (2, Ending::Never)] {
        server.end_with(ending);
        write_entries(&world, "acme", 1..=3).await;
        send_now(&world).await;
        wait_for_failures(&world, &key, failures).await;
        let receiver = read_receiver(&world, &key).await;
        assert_eq!(receiver["position"], json!(reached), "{ending:?}");
        assert!(receiver["problem"].as_str().unwrap().contains("cannot be reached"), "{receiver}");
    }
    // A server that does not close the TLS session has read everything nevertheless.
    server.end_with(Ending::CloseWithoutTls);
    send_now(&world).await;
    wait_until_sent(&world, &key).await;
    let taken = positions(&server.entries());
    let last = taken[taken.len() - 6..].to_vec();
    assert_eq!(last, (reached + 1..=reached + 6).collect::<Vec<_>>(), "{taken:?}");
    world.stop().await;
}

#[tokio::test]
async fn a_server_that_was_away_gets_what_it_missed() {
    let server = SyslogServer::start().await;
    let port = server.port;
    let world = start(&[port]).await;
    let key = world.create_master_key("acme").await;
    set_syslog(&world, &key, port).await;
    wait_until_sent(&world, &key).await;
    let before = server.stop().await.len();
    write_entries(&world, "acme", 1..=130).await;
    wait_for_problem(&world, &key, "cannot be reached").await;
    let again = SyslogServer::start_at(port).await;
    send_now(&world).await;
    wait_until_sent(&world, &key).await;
    let taken = positions(&again.entries());
    assert_eq!((before, taken.len()), (1, 130));
    assert_eq!(taken, (taken[0]..taken[0] + 130).collect::<Vec<_>>());
    world.stop().await;
}

#[tokio::test]
async fn a_certificate_of_another_authority_or_for_another_name_is_not_trusted() {
    let server = SyslogServer::start().await;
    let world = start(&[server.port]).await;
    let key = world.create_master_key("acme").await;
    // This machine does not trust the authority of tests.
    let mut body = receiver(server.port);
    body["authority"] = Value::Null;
    put(&world, &key, &body).await.expect_status(200);
    wait_for_problem(&world, &key, "cannot be reached").await;
    // The certificate is for localhost and 127.0.0.1.
    let mut body = receiver(server.port);
    body["address"] = json!(format!("127.0.0.2:{}", server.port));
    put(&world, &key, &body).await.expect_status(200);
    wait_for_problem(&world, &key, "cannot be reached").await;
    assert!(server.messages().is_empty());
    set_syslog(&world, &key, server.port).await;
    wait_until_sent(&world, &key).await;
    assert_eq!(server.messages().len(), 3);
    world.stop().await;
}
