//! A real load balancer in front of two processes of the api.

use std::path::Path;
use std::process::Command;
use unslide_embedded::free_port;
use unslide_tests::binary::Process;

/// haproxy, which asks `/readyz` twice a second. Dropped, it is killed.
pub struct Balancer {
    _process: Process,
    /// The address that clients use.
    pub url: String,
}

impl Balancer {
    /// Starts it in front of these ports.
    pub fn start(folder: &Path, ports: [u16; 2]) -> Balancer {
        let port = free_port().expect("a port");
        let file = folder.join("haproxy.cfg");
        let [one, two] = ports;
        let text = format!(
            "defaults
  mode http
  timeout connect 1s
  timeout client 60s
  timeout server 60s
  retry-on conn-failure
  option redispatch 1
frontend clients
  bind 127.0.0.1:{port}
  default_backend apis
backend apis
  option httpchk GET /readyz
  default-server inter 500ms fall 1 rise 1
  server one 127.0.0.1:{one} check
  server two 127.0.0.1:{two} check
"
        );
        std::fs::write(&file, text).expect("the folder can be written");
        let mut command = Command::new("haproxy");
        command.arg("-f").arg(&file);
        let process = Process::start("haproxy", command, &folder.join("haproxy.log"));
        Balancer { _process: process, url: format!("http://127.0.0.1:{port}") }
    }
}
