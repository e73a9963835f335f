//! A private Apache Kafka (KRaft: broker and controller in one JVM), of one node or several.

use crate::child::{Child, ServerProgram, end_leftover, run};
use crate::error::{AtPath, Error};
use crate::place::private_folder;
use crate::ports;
use crate::random::cluster_id;
use nix::sys::signal::Signal;
use std::ffi::OsString;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Heap and JVM: 160 MB is too little for the broker. A small, short-lived server gains nothing from
/// the optimising compiler or from concurrent collection.
const JVM: [&str; 10] = [
    "-Xms48m",
    "-Xmx256m",
    "-Xss512k",
    // Memory that a burst took is given back.
    "-XX:MinHeapFreeRatio=15",
    "-XX:MaxHeapFreeRatio=30",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
    "-Dlog4j2.configurationFile=log4j2.properties",
];
/// The line that the broker logs when it is unfenced and its listeners are open.
const STARTED: &str = "Kafka Server started";
const LONGEST_START: Duration = Duration::from_secs(90);

const LOG4J: &str = "\
status=error
appender.out.type=Console
appender.out.name=OUT
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d{ISO8601} %p %c: %m%n
rootLogger.level=warn
rootLogger.appenderRef.out.ref=OUT
logger.srv.name=kafka.server.KafkaRaftServer
logger.srv.level=info
";

/// A user of a broker that asks for passwords.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerLogin {
    /// The name, of `a` to `z`, digits and dashes.
    pub name: String,
    /// The password, of `a` to `z`, digits and dashes.
    pub password: String,
}

pub(crate) struct Kafka {
    pub(crate) child: Child,
    pub(crate) listen: SocketAddr,
    pub(crate) bootstrap: SocketAddr,
}

/// One node of a cluster.
pub(crate) struct KafkaNode<'a> {
    /// From 1.
    pub(crate) id: usize,
    pub(crate) listen: SocketAddr,
    /// The address for clients.
    pub(crate) advertised: SocketAddr,
    /// The addresses of all nodes' controllers, in the order of their ids.
    pub(crate) controllers: &'a [SocketAddr],
    pub(crate) logins: &'a [BrokerLogin],
}

/// Starts the broker on `data/kafka`. Formats that folder first if it is new.
pub(crate) fn start(
    jars: &Path,
    data: &Path,
    listen: Option<SocketAddr>,
    advertise: Option<SocketAddr>,
    logins: &[BrokerLogin],
) -> Result<Kafka, Error> {
    let folder = data.join("kafka");
    private_folder(&folder)?;
    end_leftover(&data.join("kafka.log"), &folder);
    let listen = ports::address(listen, &folder.join("port"))?;
    let controller = ports::address(None, &folder.join("controller-port"))?;
    let bootstrap = advertise.unwrap_or_else(|| advertised(listen));
    let node = KafkaNode { id: 1, listen, advertised: bootstrap, controllers: &[controller], logins };
    Ok(Kafka { child: start_node(jars, data, "kafka", &node, &cluster_id()?)?, listen, bootstrap })
}

/// Starts a node on the folder `name` of `data`. Formats that folder first if it is new, as one of this cluster.
pub(crate) fn start_node(
    jars: &Path,
    data: &Path,
    name: &str,
    node: &KafkaNode<'_>,
    cluster: &str,
) -> Result<Child, Error> {
    let (folder, log) = (data.join(name), data.join(format!("{name}.log")));
    private_folder(&folder)?;
    write(&folder.join("server.properties"), &properties(node))?;
    write(&folder.join("log4j2.properties"), LOG4J)?;
    let java = java();
    let mut arguments: Vec<OsString> = JVM.iter().map(OsString::from).collect();
    let mut class_path = jars.as_os_str().to_owned();
    class_path.push("/*");
    arguments.extend(["-cp".into(), class_path]);
    if !folder.join("logs/meta.properties").exists() {
        let mut format = arguments.clone();
        format.extend(["kafka.tools.StorageTool", "format", "--cluster-id"].map(OsString::from));
        format.extend([
            cluster.into(),
            "--config".into(),
            "server.properties".into(),
            "--ignore-formatted".into(),
        ]);
        run("formatting Kafka's storage", false, &java, &format, &folder)?;
    }
    arguments.extend(["kafka.Kafka", "server.properties"].map(OsString::from));
    let program = ServerProgram {
        what: "Apache Kafka",
        program: &java,
        arguments,
        folder: &folder,
        log: &log,
        ready: (STARTED, LONGEST_START),
        end: &[(Signal::SIGTERM, 20)],
        // A clean end. A killed broker stays registered with itself for the nine seconds of its
        // session, and could not start again before.
        orphaned: "TERM",
        unprivileged: false,
    };
    Child::start(&program)
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).at("write", path)
}

fn java() -> PathBuf {
    std::env::var_os("JAVA_HOME")
        .map(|home| PathBuf::from(home).join("bin/java"))
        .filter(|java| java.exists())
        .unwrap_or_else(|| PathBuf::from("java"))
}

/// Returns the address that clients have to connect to: that of the listener, or for a listener on all
/// interfaces the machine's own address.
fn advertised(listen: SocketAddr) -> SocketAddr {
    if !listen.ip().is_unspecified() {
        return listen;
    }
    // Connecting a datagram socket sends nothing: it only asks the routing table.
    let own = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
        .and_then(|socket| {
            socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).and_then(|()| socket.local_addr())
        })
        .map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |address| address.ip());
    SocketAddr::new(own, listen.port())
}

/// Paths are relative to the broker's working folder: no path can break the file's syntax.
fn properties(node: &KafkaNode<'_>) -> String {
    let KafkaNode { id, listen, advertised, controllers, logins } = node;
    let (protocol, access) = match logins {
        [] => ("PLAINTEXT", String::new()),
        [first, ..] => ("SASL_PLAINTEXT", access(first, logins)),
    };
    let voters: Vec<String> =
        controllers.iter().zip(1..).map(|(address, id)| format!("{id}@{address}")).collect();
    let voters = voters.join(",");
    let controller = controllers[*id - 1];
    // Internal topics are replicated as far as there are nodes.
    let replicas = controllers.len().min(3);
    let in_sync = replicas.div_ceil(2);
    format!(
        "\
{access}\
process.roles=broker,controller
node.id={id}
controller.quorum.voters={voters}
controller.listener.names=CONTROLLER
listeners={protocol}://{listen},CONTROLLER://{controller}
advertised.listeners={protocol}://{advertised}
listener.security.protocol.map={protocol}:{protocol},CONTROLLER:PLAINTEXT
inter.broker.listener.name={protocol}
log.dirs=logs
num.partitions=4
auto.create.topics.enable=false
offsets.topic.replication.factor={replicas}
offsets.topic.num.partitions=4
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr={in_sync}
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor={replicas}
share.coordinator.state.topic.min.isr={in_sync}
share.coordinator.state.topic.num.partitions=1
# nobody should wait for members that may still join
group.initial.rebalance.delay.ms=0
log.segment.bytes=67108864
log.index.size.max.bytes=2097152
message.max.bytes=10485760
# memory: the cleaner's buffer is 128 MB by default
log.cleaner.threads=1
log.cleaner.dedupe.buffer.size=8388608
log.cleaner.io.buffer.size=131072
num.network.threads=2
num.io.threads=4
background.threads=2
"
    )
}

/// Clients log in with SASL/PLAIN and may do what ACLs allow. The first may do everything: the broker itself logs in as
/// the first. The controller listens on the loopback interface only. Its peer, the broker, has no name there.
fn access(first: &BrokerLogin, logins: &[BrokerLogin]) -> String {
    let BrokerLogin { name, password } = first;
    let users = logins.iter().map(|login| format!(" user_{}=\"{}\"", login.name, login.password));
    let users: String = users.collect();
    format!(
        "\
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
username=\"{name}\" password=\"{password}\"{users};
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:{name};User:ANONYMOUS
allow.everyone.if.no.acl.found=false
"
    )
}
