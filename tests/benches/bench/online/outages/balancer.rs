//! A real load balancer in front of two processes of the api.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use unslide_embedded::free_port;

/// haproxy, which asks `/readyz` twice a second. Dropped, it is killed.
pub struct Balancer {
    child: Child,
    /// The address that clients use.
    pub url: String,
}

impl Balancer {
    /// Starts it in front of these ports. Returns `None` if haproxy is not installed.
    pub fn start(folder: &Path, ports: [u16; 2]) -> Option<Balancer> {
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
        command.arg("-f").arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().ok()?;
        Some(Balancer { child, url: format!("http://127.0.0.1:{port}") })
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
