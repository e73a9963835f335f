//! `unslide events`: the stream of live events.

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};
use serde_json::{Value, json};
use std::time::Duration;
use unslide_cli::listing::{filter_given, with_query};
use unslide_cli::{
    ApiServer, Client, ClientError, ClientFeature, Console, Exit, FeatureCommand, Outcome, block_on, note,
    say,
};

/// Everything that the feature adds to the command line.
pub const FEATURE: ClientFeature = ClientFeature {
    commands: &[FeatureCommand { follows: "reports", command: Arguments::command, run, key_kind: None }],
    ..ClientFeature::new("export")
};

/// How long a stream without --follow lasts. The API sends the events that are kept at once.
const KEPT_EVENTS_SECONDS: &str = "2";
/// The pause before the stream is opened again after it broke off.
const RECONNECT_INTERVAL: Duration = Duration::from_secs(3);
/// The most bytes of one event. The API's have a few hundred.
const MAX_EVENT_BYTES: usize = 1 << 20;

/// Print what happened to reports, groups and symbols, and follow it
#[derive(Parser)]
#[command(
    name = "events",
    after_help = "\
Events are kept for a day. The key needs the scope reports:read.

Examples:
  unslide events
  unslide events --follow --app com.example.shop
  unslide events --follow --json | jq -r 'select(.event == \"group_regressed\") | .data.title'"
)]
struct Arguments {
    #[command(flatten)]
    server: ApiServer,
    /// Events of this app, and those of no app
    #[arg(long)]
    app: Option<String>,
    /// Begin after the event with this number; 0: all that are kept [default: 0, and now with --follow]
    #[arg(long, value_name = "NUMBER")]
    after: Option<u64>,
    /// Go on with new events until Ctrl-C
    #[arg(long, short)]
    follow: bool,
    /// Print a JSON object a line
    #[arg(long)]
    json: bool,
}

fn run(matches: &ArgMatches) -> Outcome {
    let arguments = Arguments::from_arg_matches(matches)?;
    block_on(follow_events(&arguments))
}

async fn follow_events(arguments: &Arguments) -> Outcome {
    let client = Client::new(&arguments.server)?;
    let kept = (!arguments.follow).then(|| "0".to_owned());
    let mut after = arguments.after.map(|after| after.to_string()).or(kept);
    let mut printed = 0_u64;
    loop {
        let query = filter_given([
            ("app", arguments.app.clone()),
            ("after", after.clone()),
            ("seconds", (!arguments.follow).then(|| KEPT_EVENTS_SECONDS.to_owned())),
        ]);
        let mut reader = EventReader::default();
        let ended = client
            .get_pieces(&with_query("/v1/events", &query)?, |piece| {
                for event in reader.read_piece(piece) {
                    print_event(&event, arguments.json);
                    printed += 1;
                }
                !Console::get().is_closed()
            })
            .await;
        after = reader.last_id.or(after);
        match ended {
            _ if Console::get().is_closed() => return Ok(Exit::Ready),
            // The service was restarted, or the network failed: no event is lost.
            Err(ClientError::Unreachable { .. } | ClientError::NoAnswer { .. })
                if arguments.follow && after.is_some() =>
            {
                note!("the stream broke off; trying again");
            }
            Err(error) => return Err(error.into()),
            Ok(()) if !arguments.follow => {
                if printed == 0 && !arguments.json {
                    note!("no event is kept; --follow waits for new ones");
                }
                return Ok(Exit::Ready);
            }
            // A stream ends after an hour.
            Ok(()) => {}
        }
        tokio::time::sleep(RECONNECT_INTERVAL).await;
    }
}

/// An event of the stream.
#[derive(Debug, PartialEq)]
struct StreamedEvent {
    id: String,
    name: String,
    data: Value,
}

fn print_event(event: &StreamedEvent, as_json: bool) {
    if as_json {
        say!("{}", json!({ "id": event.id, "event": event.name, "data": event.data }));
    } else {
        say!("{:>6}  {:<16}  {}", event.id, event.name, describe_data(&event.data));
    }
}

/// Returns the members of an event in the order of their names.
fn describe_data(data: &Value) -> String {
    let members = data.as_object().into_iter().flatten();
    let texts = members.filter(|(_, value)| !value.is_null()).map(|(name, value)| match value.as_str() {
        Some(text) => format!("{name}={text}"),
        None => format!("{name}={value}"),
    });
    texts.collect::<Vec<_>>().join("  ")
}

/// Reads events from the pieces in which they arrive.
#[derive(Default)]
struct EventReader {
    buffer: Vec<u8>,
    /// The number of the last event, also of one without data.
    last_id: Option<String>,
}

impl EventReader {
    /// Adds a piece, and returns the events that it completes.
    fn read_piece(&mut self, piece: &[u8]) -> Vec<StreamedEvent> {
        self.buffer.extend_from_slice(piece);
        let mut events = Vec::new();
        while let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
            let block: Vec<u8> = self.buffer.drain(..end + 2).collect();
            events.extend(self.read_block(&String::from_utf8_lossy(&block)));
        }
        if self.buffer.len() > MAX_EVENT_BYTES {
            note!("an event has more than {} MiB and is left out", MAX_EVENT_BYTES >> 20);
            self.buffer.clear();
        }
        events
    }

    fn read_block(&mut self, block: &str) -> Option<StreamedEvent> {
        let field = |name: &str| {
            let line = block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            Some(line.strip_prefix(' ').unwrap_or(line))
        };
        if let Some(id) = field("id") {
            self.last_id = Some(id.to_owned());
        }
        let data = field("data")?;
        let data = serde_json::from_str(data).unwrap_or_else(|_| data.into());
        let id = self.last_id.clone().unwrap_or_default();
        Some(StreamedEvent { id, name: field("event").unwrap_or("message").to_owned(), data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_from_pieces_of_any_size() {
        let text = "id: 4\nretry: 3000\n\n: comment\n\nid: 5\nevent: reports_stored\ndata: {\"app\":\"shop\",\"reports\":2}\n\n\
                    id: 6\nevent: symbols_ready\ndata: {\"debug_id\":null}\n\n";
        for size in [1, 3, 7, 1_000] {
            let mut reader = EventReader::default();
            let pieces = text.as_bytes().chunks(size);
            let events: Vec<StreamedEvent> = pieces.flat_map(|piece| reader.read_piece(piece)).collect();
            assert_eq!(events.len(), 2, "{size}: {events:?}");
            assert_eq!((events[0].id.as_str(), events[0].name.as_str()), ("5", "reports_stored"));
            assert_eq!(describe_data(&events[0].data), "app=shop  reports=2");
            assert_eq!(describe_data(&events[1].data), "");
            assert_eq!(reader.last_id.as_deref(), Some("6"));
        }
        let mut reader = EventReader::default();
        assert!(reader.read_piece(b"id: 4\nretry: 3000\n\n").is_empty());
        assert_eq!(
            reader.last_id.as_deref(),
            Some("4"),
            "a stream that breaks off at once goes on from here"
        );
    }

    #[test]
    fn an_endless_event_takes_no_endless_memory() {
        let mut reader = EventReader::default();
        assert!(reader.read_piece(&vec![b'x'; MAX_EVENT_BYTES + 1]).is_empty());
        assert!(reader.buffer.is_empty());
    }
}
