//! The report that kills its workers, in a run.

use crate::installation_under_test::World;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedReceiver;

/// Kills each worker that asks for the symbols of such a report. Never returns.
pub async fn strike(world: &Arc<World>, mut caught: UnboundedReceiver<SocketAddr>) {
    while let Some(from) = caught.recv().await {
        // It may have died of something else meanwhile.
        if let Some((name, process)) = world.symbolizer_at(from) {
            let _ = kill(Pid::from_raw(i32::try_from(process).expect("a process id")), Signal::SIGKILL);
            world.note(&format!("{name} works on a deadly report and dies"));
        }
    }
}
