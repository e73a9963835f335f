//! The console on real servers: sessions, sign-ins, and an api without it.
#![expect(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

mod absence;
mod sessions;
mod sign_ins;

use unslide_world::World;

/// Starts an api whose only feature is the console.
async fn start() -> World {
    World::start(unslide_feature::for_api(&[unslide_console::feature()]), |_| {}).await
}
