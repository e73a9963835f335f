//! A Kafka cluster of several nodes, for tests of clients that lose some of them.

use crate::child::Child;
use crate::error::{AtPath, Error};
use crate::fetch::{Progress, fetch};
use crate::kafka::{KafkaNode, start_node};
use crate::place::private_folder;
use crate::ports::free_port;
use crate::random::cluster_id;
use parking_lot::Mutex;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// The nodes of a cluster, each broker and controller; dropped, they are stopped.
pub struct KafkaCluster {
    nodes: Vec<Mutex<Option<Child>>>,
    listens: Vec<SocketAddr>,
    controllers: Vec<SocketAddr>,
    cluster: String,
    jars: PathBuf,
    data: PathBuf,
}

impl KafkaCluster {
    /// Starts as many nodes on new folders below `data`, and returns when all answer. Blocks.
    ///
    /// # Errors
    /// Returns an [`Error`] if Kafka cannot be fetched or a node does not start. Nothing is left running.
    pub fn start(data: &Path, nodes: usize, progress: &Progress<'_>) -> Result<KafkaCluster, Error> {
        let jars = fetch(progress)?.kafka;
        private_folder(data)?;
        let data = fs::canonicalize(data).at("open", data)?;
        let port = || Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?)));
        let cluster = KafkaCluster {
            nodes: (0..nodes).map(|_| Mutex::new(None)).collect(),
            listens: (0..nodes).map(|_| port()).collect::<Result<_, Error>>()?,
            controllers: (0..nodes).map(|_| port()).collect::<Result<_, Error>>()?,
            cluster: cluster_id()?,
            jars,
            data,
        };
        cluster.start_nodes(&(0..nodes).collect::<Vec<_>>())?;
        Ok(cluster)
    }

    /// Returns the addresses for clients, separated by commas.
    #[must_use]
    pub fn bootstrap(&self) -> String {
        let addresses: Vec<String> = self.listens.iter().map(ToString::to_string).collect();
        addresses.join(",")
    }

    /// Starts nodes that do not run, by their numbers from 0, at the same time: none is ready without a majority.
    ///
    /// # Errors
    /// Returns the first error of a node that does not start.
    pub fn start_nodes(&self, numbers: &[usize]) -> Result<(), Error> {
        std::thread::scope(|scope| {
            let starting: Vec<_> =
                numbers.iter().map(|number| scope.spawn(|| self.start_one(*number))).collect();
            let lost = |_| Err(Error::Thread(std::io::Error::other("it panicked")));
            starting.into_iter().try_for_each(|node| node.join().unwrap_or_else(lost))
        })
    }

    fn start_one(&self, number: usize) -> Result<(), Error> {
        let node = KafkaNode {
            id: number + 1,
            listen: self.listens[number],
            advertised: self.listens[number],
            controllers: &self.controllers,
            logins: &[],
        };
        let name = format!("kafka-{}", node.id);
        let child = start_node(&self.jars, &self.data, &name, &node, &self.cluster)?;
        *self.nodes[number].lock() = Some(child);
        Ok(())
    }

    /// Kills a node, by its number from 0.
    pub fn kill_node(&self, number: usize) {
        if let Some(child) = self.nodes[number].lock().take() {
            child.kill();
        }
    }
}

impl Drop for KafkaCluster {
    fn drop(&mut self) {
        std::thread::scope(|scope| {
            for node in &self.nodes {
                // In order, a node waits for a majority that ends as well.
                scope.spawn(|| node.lock().take().inspect(Child::kill));
            }
        });
    }
}
