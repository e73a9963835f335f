//! An API that answers as a test says, for commands that talk to one.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

/// A running API.
pub struct Api {
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

/// A request that came.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Such as `GET /v1/symbols`.
    pub line: String,
    pub authorization: String,
    pub body: String,
}

impl Api {
    /// Answers each request, named by its method and path, with a status and a JSON body.
    pub fn start(answer: impl Fn(&str) -> (u16, String) + Send + Sync + 'static) -> Api {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (noted, answer) = (asked.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let (mut connection, noted, answer) = (connection.unwrap(), noted.clone(), answer.clone());
                std::thread::spawn(move || {
                    let Some(request) = read(&connection) else { return };
                    let (status, body) = answer(&request.line);
                    noted.lock().unwrap().push(request);
                    let length = body.len();
                    let head = format!(
                        "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
                    );
                    // A client that has gone needs no answer.
                    let _ = connection.write_all(format!("{head}{body}").as_bytes());
                });
            }
        });
        Api { url, asked }
    }

    /// An API that lacks every file, and builds each that it is sent. This is what it skipped in each.
    pub fn empty(skipped: &str) -> Api {
        let object = r#"{"sha256":"0","arch":"arm64","status":"ready"}"#;
        let done = format!(r#"{{"id":"7","status":"done","objects":[{object}],"skipped":[{skipped}]}}"#);
        Api::start(move |line| match line.split_once(' ').unwrap() {
            ("POST", _) => (202, r#"{"id":"7","existing":false}"#.to_owned()),
            (_, path) if path.starts_with("/v1/symbols/uploads/7") => (200, done.clone()),
            _ => (404, r#"{"title":"Not found"}"#.to_owned()),
        })
    }

    /// The requests until now.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// How many of them were made with this method.
    pub fn count(&self, method: &str) -> usize {
        self.asked().iter().filter(|asked| asked.line.starts_with(method)).count()
    }
}

/// Reads a request with its body.
fn read(connection: &std::net::TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(connection);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_owned()),
        }
    }
    let header = |name: &str| {
        let of = |line: &String| {
            let (own, value) = line.split_once(": ")?;
            own.eq_ignore_ascii_case(name).then(|| value.to_owned())
        };
        head.iter().find_map(of)
    };
    let length = header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body).ok()?;
    let body = String::from_utf8_lossy(&body).into_owned();
    let line = head.first()?.rsplit_once(' ')?.0.to_owned();
    Some(Asked { line, authorization: header("authorization").unwrap_or_default(), body })
}
