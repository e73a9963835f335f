//! Behind PgBouncer: a pool of sessions is fine, and one of transactions is refused at the start.

use crate::tests::database::{Database, START_MICROS};
use crate::{Settings, Store, StoreError};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use unslide_model::FixedClock;

/// PgBouncer before the test's server, in one of its modes.
struct Pooler {
    child: Child,
    url: String,
    _folder: tempfile::TempDir,
}

impl Pooler {
    async fn start(server: &str, mode: &str) -> Pooler {
        for _ in 0..10 {
            if let Some(pooler) = Pooler::try_start(server, mode).await {
                return pooler;
            }
        }
        panic!("pgbouncer does not start");
    }

    /// Returns None if it ends at once, as another process has taken the port in between.
    async fn try_start(server: &str, mode: &str) -> Option<Pooler> {
        let folder = tempfile::tempdir().unwrap();
        let (login, address) = server.strip_prefix("postgres://").unwrap().split_once('@').unwrap();
        let (user, password) = login.split_once(':').unwrap();
        let (address, database) = address.split_once('/').unwrap();
        let (host, port) = address.rsplit_once(':').unwrap();
        let listen = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let users = folder.path().join("users");
        std::fs::write(&users, format!("\"{user}\" \"{password}\"\n")).unwrap();
        let settings = format!(
            "[databases]\n* = host={host} port={port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {}\n\
             unix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = {mode}\n\
             ignore_startup_parameters = extra_float_digits\nlogfile = {}\n",
            listen.port(),
            users.display(),
            folder.path().join("log").display()
        );
        let file = folder.path().join("settings");
        std::fs::write(&file, settings).unwrap();
        open_to_all(folder.path());
        let mut command = Command::new("pgbouncer");
        if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
            // It refuses to run as root.
            command.args(["-u", "nobody"]);
        }
        command.arg("-q").arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("pgbouncer (Debian: pgbouncer)");
        while tokio::net::TcpStream::connect(listen).await.is_err() {
            if child.try_wait().unwrap().is_some() {
                return None;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        Some(Pooler { child, url: format!("postgres://{login}@{listen}/{database}"), _folder: folder })
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn open_to_all(folder: &Path) {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777)).unwrap();
}

#[tokio::test]
async fn a_pool_of_transactions_is_refused_and_one_of_sessions_is_fine() {
    let database = Database::new().await;
    for (mode, works) in [("transaction", false), ("statement", false), ("session", true)] {
        let pooler = Pooler::start(&database.url, mode).await;
        let clock = Arc::new(FixedClock::at_micros(START_MICROS));
        let store = Store::connect(&Settings::with_url(pooler.url.clone()), clock).await;
        match store {
            Ok(store) => {
                assert!(works, "{mode}");
                store.ping().await.unwrap();
                store.close().await;
            }
            Err(error) => assert!(!works && matches!(error, StoreError::SharedSession), "{mode}: {error:?}"),
        }
    }
}
