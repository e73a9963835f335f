//! Both servers of one data folder.

use crate::child::Child;
use crate::error::{AtPath, Error};
use crate::fetch::{Distribution, Progress, fetch};
use crate::kafka::{self, BrokerLogin, Kafka};
use crate::place::{self, private_folder};
use crate::postgres::{self, Postgres};
use parking_lot::Mutex;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// How to run the servers.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The folder of their state. It is created if there is none.
    pub data: PathBuf,
    /// The address that Kafka listens on. Port 0 or `None` takes the port of the run before, or a free one.
    pub kafka_listen: Option<SocketAddr>,
    /// The address that Kafka tells its clients to connect to. `None`: the address that it listens on.
    /// Another address is that of a proxy in front of it.
    pub kafka_advertised: Option<SocketAddr>,
    /// PostgreSQL's port on the loopback interface; `None` as above.
    pub postgres_port: Option<u16>,
    /// For tests: who may log in to Kafka, with SASL/PLAIN. The first may do everything, the others what ACLs allow.
    /// Empty: everyone may do everything, without a login.
    pub kafka_logins: Vec<BrokerLogin>,
    /// For tests: PostgreSQL does not wait for the disk. A crash of the machine may cost the data.
    pub fast: bool,
    /// Further settings of PostgreSQL, such as `max_wal_size=16GB`.
    pub postgres_settings: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    Kafka,
    Postgres,
}

/// Running servers; dropped, they are stopped.
pub struct Servers {
    kafka: Mutex<Kafka>,
    postgres: Mutex<Postgres>,
    distribution: Distribution,
    options: Options,
    /// The superuser's, from the first start.
    url: String,
    /// Held as long as the data folder is in use.
    _lock: File,
}

impl Servers {
    /// Fetches missing programs, starts both servers at the same time, and returns when both answer. Blocks;
    /// on an async runtime call it where blocking is allowed.
    ///
    /// # Errors
    /// Returns an [`Error`] if a program cannot be fetched or started. Nothing is left running.
    pub fn start(options: &Options, progress: &Progress<'_>) -> Result<Servers, Error> {
        let distribution = fetch(progress)?;
        if !options.data.exists() {
            private_folder(&options.data)?;
        }
        let data = fs::canonicalize(&options.data).at("open", &options.data)?;
        let lock_file = data.join("servers.lock");
        let lock = File::create(&lock_file).at("create", &lock_file)?;
        if lock.try_lock().is_err() {
            return Err(Error::InUse(data));
        }
        let (kafka, postgres) = std::thread::scope(|scope| {
            let postgres =
                scope.spawn(|| start_postgres(&distribution, &data, options.postgres_port, options));
            let kafka = kafka::start(
                &distribution.kafka,
                &data,
                options.kafka_listen,
                options.kafka_advertised,
                &options.kafka_logins,
            );
            let lost = |_| Err(Error::Thread(std::io::Error::other("it panicked")));
            (kafka, postgres.join().unwrap_or_else(lost))
        });
        match (kafka, postgres) {
            (Ok(kafka), Ok(postgres)) => Ok(Servers {
                url: postgres.url.clone(),
                kafka: Mutex::new(kafka),
                postgres: Mutex::new(postgres),
                distribution,
                options: Options { data, ..options.clone() },
                _lock: lock,
            }),
            (Ok(kafka), Err(error)) => {
                kafka.child.stop();
                Err(error)
            }
            (Err(error), Ok(postgres)) => {
                postgres.child.stop();
                Err(error)
            }
            (Err(error), Err(_)) => Err(error),
        }
    }

    /// Returns Kafka's address for clients.
    #[must_use]
    pub fn kafka_bootstrap(&self) -> String {
        self.kafka.lock().bootstrap.to_string()
    }

    /// Returns the address that Kafka listens on.
    #[must_use]
    pub fn kafka_listen(&self) -> SocketAddr {
        self.kafka.lock().listen
    }

    /// Returns the URL of a superuser's connection, with its password.
    #[must_use]
    pub fn postgres_url(&self) -> &str {
        &self.url
    }

    /// Returns the process ids of both servers, for measurements.
    #[must_use]
    pub fn process_ids(&self) -> [i32; 2] {
        [self.kafka.lock().child.id(), self.postgres.lock().child.id()]
    }

    /// Returns which server has ended unexpectedly, and how. Returns `None` while both run.
    #[must_use]
    pub fn failed(&self) -> Option<String> {
        let ended = |name, child: &Child| Some(format!("{name} has ended: {}", child.exit_status()?));
        ended("Apache Kafka", &self.kafka.lock().child)
            .or_else(|| ended("PostgreSQL", &self.postgres.lock().child))
    }

    /// Ends one server and starts it again on its state and its port, to test its clients. `sudden` kills it,
    /// as in the loss of a machine but not of its disk. Blocks until the server answers again.
    ///
    /// # Errors
    /// Returns an error if the server does not start again, or if its port was taken in between.
    pub fn restart(&self, server: Server, sudden: bool) -> Result<(), Error> {
        let Options { data, kafka_advertised, kafka_logins, .. } = &self.options;
        let end = |child: &Child| if sudden { child.kill() } else { child.stop() };
        match server {
            Server::Kafka => {
                let mut kafka = self.kafka.lock();
                end(&kafka.child);
                let listen = Some(kafka.listen);
                *kafka =
                    kafka::start(&self.distribution.kafka, data, listen, *kafka_advertised, kafka_logins)?;
            }
            Server::Postgres => {
                let mut postgres = self.postgres.lock();
                end(&postgres.child);
                *postgres = start_postgres(&self.distribution, data, Some(postgres.port), &self.options)?;
            }
        }
        Ok(())
    }

    /// Stops both servers cleanly, at the same time. Kills those that do not stop. Blocks up to half a
    /// minute. Dropping does the same.
    pub fn stop(self) {
        drop(self);
    }

    /// Deletes the state of servers that do not run, including a database outside of the folder.
    ///
    /// # Errors
    /// Returns an error if something cannot be deleted.
    pub fn delete(data: &Path) -> Result<(), Error> {
        place::remove_outside(data)?;
        match fs::remove_dir_all(data) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).at("remove", data),
            _ => Ok(()),
        }
    }
}

fn start_postgres(
    distribution: &Distribution,
    data: &Path,
    port: Option<u16>,
    options: &Options,
) -> Result<Postgres, Error> {
    postgres::start(&distribution.postgres, data, port, options.fast, &options.postgres_settings)
}

impl Drop for Servers {
    fn drop(&mut self) {
        std::thread::scope(|scope| {
            scope.spawn(|| self.postgres.lock().child.stop());
            self.kafka.lock().child.stop();
        });
    }
}
