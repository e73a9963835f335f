//! Two cells with a tenant each: acme in eu, umbrella in us.

use crate::test_door::{TestDoor, make_directory};
use std::ops::Deref;
use unslide_api::ApiFeatures;
use unslide_world::World;

/// Two apis, each with a database, topics and a bucket of its own, and the door before them.
pub struct TwoCells {
    pub door: TestDoor,
    pub eu: World,
    pub us: World,
}

impl Deref for TwoCells {
    type Target = TestDoor;

    fn deref(&self) -> &TestDoor {
        &self.door
    }
}

fn features() -> ApiFeatures {
    unslide_feature::for_api(&[
        unslide_console::feature(),
        unslide_ingest::feature(unslide_ingest::Config::default()),
        unslide_symbol_server::feature(),
        unslide_uploaders::feature(unslide_uploaders::Config::default()),
    ])
}

/// Starts the api of a cell, which trusts doors in these networks.
pub async fn start_cell_with(networks: &[&str]) -> World {
    World::start(features(), |config| {
        config.api.trusted_proxies = networks.iter().map(|network| (*network).to_owned()).collect();
        // A test that stops an api under a door does not wait for balancers.
        config.api.stop_delay_seconds = 0;
    })
    .await
}

impl TwoCells {
    /// Starts everything.
    pub async fn start() -> Box<TwoCells> {
        let eu = start_cell_with(&["127.0.0.0/8"]).await;
        let us = start_cell_with(&["127.0.0.0/8"]).await;
        let cells = [("eu", eu.url.as_str()), ("us", us.url.as_str())];
        let directory = make_directory(&cells, &[("acme", "eu"), ("umbrella", "us")]).await;
        let door = TestDoor::start(directory).await;
        door.wait_for_cell("eu", true).await;
        door.wait_for_cell("us", true).await;
        Box::new(TwoCells { door, eu, us })
    }

    /// Stops everything.
    pub async fn stop(self: Box<TwoCells>) {
        self.door.stop().await;
        self.eu.stop().await;
        self.us.stop().await;
    }
}
