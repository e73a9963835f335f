//! The engine of ClickHouse behind a small HTTP server, for tests.

use crate::cache::tools_folder;
use crate::child::{Child, ServerProgram, end_leftover};
use crate::error::{AtPath, Error};
use crate::ports;
use nix::sys::signal::Signal;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// The server, for the Python in which `scripts/setup test` installs the engine.
const PROGRAM: &str = include_str!("../../../tests/clickhouse/server.py");
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A running engine; dropped, it is stopped.
pub struct ClickHouse {
    child: Child,
    listen: SocketAddr,
}

impl ClickHouse {
    /// Starts the engine on a data folder, at the port of the run before or a free one. Returns `None` if it is not installed.
    /// Blocks until it answers.
    ///
    /// # Errors
    /// The engine cannot be started. Nothing is left running.
    pub fn start(data: &Path) -> Result<Option<ClickHouse>, Error> {
        let Some(python) = tools_folder().map(|tools| tools.join("clickhouse/bin/python")) else {
            return Ok(None);
        };
        if !python.exists() {
            return Ok(None);
        }
        let data = fs::canonicalize(data).at("open", data)?;
        let program = data.join("clickhouse.py");
        fs::write(&program, PROGRAM).at("write", &program)?;
        let log = data.join("clickhouse.log");
        end_leftover(&log, &data);
        let listen = ports::address(None, &data.join("clickhouse-port"))?;
        let folder = data.join("clickhouse");
        let port = listen.port().to_string();
        let program = ServerProgram {
            what: "ClickHouse",
            program: &python,
            arguments: vec![program.into(), folder.into(), port.into()],
            folder: &data,
            log: &log,
            ready: ("ready", START_TIMEOUT),
            end: &[(Signal::SIGTERM, 10)],
            orphaned: "KILL",
            unprivileged: false,
        };
        Ok(Some(ClickHouse { child: Child::start(&program)?, listen }))
    }

    /// Returns the URL of its HTTP interface.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.listen)
    }

    /// Returns its address.
    #[must_use]
    pub fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// Ends it at once, as a lost machine would.
    pub fn kill(self) {
        self.child.kill();
    }

    /// Returns how it ended unexpectedly, or `None` while it runs.
    #[must_use]
    pub fn failed(&self) -> Option<String> {
        Some(format!("ClickHouse has ended: {}", self.child.exit_status()?))
    }
}

impl Drop for ClickHouse {
    fn drop(&mut self) {
        self.child.stop();
    }
}
