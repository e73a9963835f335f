//! `unslide upload` on a bad network: what "resumes" means.

use sqlx::{Connection, PgConnection, Row};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use unslide_testkit::fixtures;
use unslide_tests::binary;
use unslide_tests::installation::{Installation, TENANT};

/// How much the network passes on at once.
const PIECE: usize = 64 << 10;
/// Bytes of an archive beside its dSYM, which nothing packs.
const PADDING: usize = 2 << 20;

/// A network between the command and the api that ends a connection once a number of bytes have gone through
/// it, or has the command wait there for ever.
#[derive(Clone)]
struct Wire {
    address: SocketAddr,
    left: Arc<AtomicU64>,
    cuts: Arc<AtomicU64>,
    /// Bytes that came from the command.
    carried: Arc<AtomicU64>,
}

impl Wire {
    async fn start(api: String, bytes: u64, hold: bool) -> Wire {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let wire =
            Wire { address, left: Arc::new(bytes.into()), cuts: Arc::default(), carried: Arc::default() };
        let state = wire.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&api).await.expect("the api");
                tokio::spawn(state.clone().carry(client, server, hold));
            }
        });
        wire
    }

    async fn carry(self, client: TcpStream, server: TcpStream, hold: bool) {
        let ((mut from, mut to), (mut answers, mut asks)) = (client.into_split(), server.into_split());
        let back = tokio::spawn(async move {
            let _ = tokio::io::copy(&mut answers, &mut to).await;
            if hold {
                std::future::pending::<()>().await;
            }
        });
        let mut piece = vec![0; PIECE];
        while let Ok(length @ 1..) = from.read(&mut piece).await {
            self.carried.fetch_add(length as u64, Ordering::SeqCst);
            let left = self.left.load(Ordering::SeqCst);
            self.left.store(left.saturating_sub(length as u64), Ordering::SeqCst);
            if (1..=length as u64).contains(&left) {
                self.cuts.fetch_add(1, Ordering::SeqCst);
                // The api gets the end in either case; a client that is held learns nothing.
                drop(asks);
                if hold {
                    std::future::pending::<()>().await;
                }
                back.abort();
                return;
            }
            if asks.write_all(&piece[..length]).await.is_err() {
                break;
            }
        }
        back.abort();
    }

    fn cuts(&self) -> u64 {
        self.cuts.load(Ordering::SeqCst)
    }

    fn carried(&self) -> u64 {
        self.carried.load(Ordering::SeqCst)
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// A `tar.gz` with a fixture's dSYM and `padding` bytes that nothing packs.
fn archive(folder: &Path, name: &str, fixture: &str, padding: usize) -> PathBuf {
    let inside = folder.join(format!("{name}-inside"));
    std::fs::create_dir(&inside).expect("a folder");
    std::fs::copy(fixtures::dsym(fixture), inside.join(fixture)).expect("copied");
    let mut state = 1_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    })
    .take(padding)
    .collect();
    std::fs::write(inside.join("noise"), noise).expect("written");
    let archive = folder.join(format!("{name}.tar.gz"));
    fixtures::run(Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(&inside).arg("."));
    archive
}

/// How often each file's bytes were begun to be sent, and how each time ended; as the service noted it.
async fn sent(installation: &Installation) -> Vec<(String, String)> {
    let mut connection = PgConnection::connect(&installation.database_url()).await.expect("PostgreSQL");
    let query =
        "SELECT file_name, COALESCE(reason, status) AS state FROM uploads ORDER BY file_name, created_at";
    let rows = sqlx::query(query).fetch_all(&mut connection).await.expect("rows");
    connection.close().await.expect("closed");
    rows.iter().map(|row| (row.get("file_name"), row.get("state"))).collect()
}

async fn wait_sent(installation: &Installation, wanted: &[(&str, &str)]) {
    let wanted: Vec<(String, String)> =
        wanted.iter().map(|(name, state)| ((*name).to_owned(), (*state).to_owned())).collect();
    let mut last = Vec::new();
    for _ in 0..3_000 {
        last = sent(installation).await;
        if last == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{last:?} and not {wanted:?}");
}

fn upload(url: &str, key: &str, more: &[&str], files: &[&PathBuf]) -> Child {
    let mut command = binary::build_command(&["upload", "--url", url, "--api-key", key]);
    command.args(more).args(files).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("starts")
}

/// Kills a command once its connection was cut.
async fn kill_when_cut(wire: &Wire, mut command: Child) {
    while wire.cuts() == 0 {
        if command.try_wait().expect("can be asked").is_some() {
            let ended = command.wait_with_output().expect("ended");
            panic!("nothing was cut: {}", String::from_utf8_lossy(&ended.stderr));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    command.kill().expect("killed");
    command.wait().expect("ends");
}

/// The output of a command that succeeds.
async fn succeeds(child: Child) -> String {
    let done = tokio::task::spawn_blocking(|| child.wait_with_output()).await.expect("no panic");
    let done = done.expect("ends");
    let output = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{output}{}", String::from_utf8_lossy(&done.stderr));
    output
}

/// Proves: uploads
#[tokio::test(flavor = "multi_thread")]
async fn what_the_service_has_is_not_sent_again_and_what_is_cut_off_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = archive(folder.path(), "first", "app", PADDING);
    let second = archive(folder.path(), "second", "app-next", PADDING);
    let third = archive(folder.path(), "third", "kit", PADDING);
    let mut installation = Installation::prepare().await;
    installation.start_service("api", "api", &[]);
    installation.start_service("builder", "builder", &[]);
    let key = installation.make_tenant(TENANT);
    installation.wait_ready("api").await;
    installation.wait_ready("builder").await;
    let builder = installation.take_process("builder");
    tokio::task::block_in_place(|| builder.terminate());
    let (url, api) = (installation.url.clone(), installation.url.strip_prefix("http://").unwrap().to_owned());

    // A run that is killed in the middle of its second file.
    let half = PADDING as u64 / 2;
    let wire = Wire::start(api.clone(), std::fs::metadata(&first).expect("a file").len() + half, true).await;
    let killed = upload(&wire.url(), &key, &["--jobs", "1", "--no-wait"], &[&first, &second]);
    kill_when_cut(&wire, killed).await;
    wait_sent(&installation, &[("first.tar.gz", "queued"), ("second.tar.gz", "incomplete-body")]).await;

    // The next sends the second file alone, and waits for both: no builder runs yet.
    let next = upload(&url, &key, &[], &[&first, &second]);
    let both =
        [("first.tar.gz", "queued"), ("second.tar.gz", "incomplete-body"), ("second.tar.gz", "queued")];
    wait_sent(&installation, &both).await;
    installation.start_service("builder", "builder", &[]);
    let output = succeeds(next).await;
    assert!(output.contains("1 uploaded, 1 known before, 0 failed"), "{output}");

    // A third file's connection is cut in the middle: the same run sends it once more.
    let wire = Wire::start(api, half, false).await;
    let output = succeeds(upload(&wire.url(), &key, &[], &[&third])).await;
    assert!(output.contains("1 uploaded, 0 known before, 0 failed"), "{output}");
    assert_eq!(wire.cuts(), 1);
    let all = [
        ("first.tar.gz", "done"),
        ("second.tar.gz", "incomplete-body"),
        ("second.tar.gz", "done"),
        ("third.tar.gz", "incomplete-body"),
        ("third.tar.gz", "done"),
    ];
    wait_sent(&installation, &all).await;
    let received =
        installation.fetch_metric("api", "unslide_api_upload_bytes_total").await.expect("a figure");
    let sizes = [&first, &second, &third].map(|file| std::fs::metadata(file).expect("a file").len());
    assert_eq!(received, sizes.iter().sum::<u64>() as f64, "each file arrived whole once");

    // Once more, all of them, and a folder: nothing is sent.
    let output = succeeds(upload(&url, &key, &[], &[&first, &second, &third])).await;
    assert!(output.contains("0 uploaded, 3 known before, 0 failed"), "{output}");
    wait_sent(&installation, &all).await;
    assert_eq!(installation.fetch_metric("api", "unslide_api_upload_bytes_total").await, Some(received));
    installation.stop().await;
}

/// Bytes of a part.
const PART: u64 = 8 << 20;
/// More than the heads of a run's requests have.
const HEADS: u64 = 64 << 10;

/// A file of several parts: what has come of it stays, over the end of the command, of the api and of
/// connections.
/// Proves: uploads
#[tokio::test(flavor = "multi_thread")]
async fn a_half_sent_file_goes_on_where_it_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    let [first, second] = [("large", "app"), ("larger", "kit")]
        .map(|(name, fixture)| archive(folder.path(), name, fixture, 2 * PART as usize + (2 << 20)));
    let size = |file: &PathBuf| std::fs::metadata(file).expect("a file").len();
    let mut installation = Installation::prepare().await;
    installation.start_service("api", "api", &[]);
    installation.start_service("builder", "builder", &[]);
    let key = installation.make_tenant(TENANT);
    installation.wait_ready("api").await;
    installation.wait_ready("builder").await;
    let api = installation.url.strip_prefix("http://").unwrap().to_owned();

    // A run that is killed in the middle of the second of three parts.
    let wire = Wire::start(api.clone(), PART + PART / 2, true).await;
    let killed = upload(&wire.url(), &key, &[], &[&first]);
    kill_when_cut(&wire, killed).await;
    wait_sent(&installation, &[("large.tar.gz", "receiving")]).await;

    // The api ends and comes again; the next run sends the other two parts.
    let ended = installation.take_process("api");
    tokio::task::block_in_place(|| ended.terminate());
    installation.start_service("api", "api", &[]);
    installation.wait_ready("api").await;
    let wire = Wire::start(api.clone(), u64::MAX, false).await;
    let output = succeeds(upload(&wire.url(), &key, &[], &[&first])).await;
    assert!(output.contains("1 uploaded, 0 known before, 0 failed"), "{output}");
    let missing = size(&first) - PART;
    assert!((missing..missing + HEADS).contains(&wire.carried()), "{} of {missing}", wire.carried());
    wait_sent(&installation, &[("large.tar.gz", "done")]).await;

    // A connection that is cut costs the part that it carried.
    let wire = Wire::start(api.clone(), PART + PART / 2, false).await;
    let output = succeeds(upload(&wire.url(), &key, &[], &[&second])).await;
    assert!(output.contains("1 uploaded, 0 known before, 0 failed"), "{output}");
    assert_eq!(wire.cuts(), 1);
    // The piece in which the cut falls counts whole.
    let most = size(&second) + PART / 2 + PIECE as u64 + HEADS;
    assert!((size(&second)..most).contains(&wire.carried()), "{} of {most}", wire.carried());
    wait_sent(&installation, &[("large.tar.gz", "done"), ("larger.tar.gz", "done")]).await;
    let output = succeeds(upload(&installation.url, &key, &[], &[&first, &second])).await;
    assert!(output.contains("0 uploaded, 2 known before, 0 failed"), "{output}");

    // A dSYM is compressed on its way, and known by the hash of its own bytes.
    let dsym = fixtures::dsym("large");
    let wire = Wire::start(api, u64::MAX, false).await;
    for expected in ["1 uploaded, 0 known before, 0 failed", "0 uploaded, 1 known before, 0 failed"] {
        let output = succeeds(upload(&wire.url(), &key, &[], &[&dsym])).await;
        assert!(output.contains(expected), "{output}");
    }
    assert!(wire.carried() < size(&dsym) / 2, "{} of {}", wire.carried(), size(&dsym));
    installation.stop().await;
}
