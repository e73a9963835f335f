//! Saved views of groups, which the console and the API make.

use crate::prelude::*;
use unslide_cli::listing::{Listing, item_text};

const VIEWS: &str = "/v1/group-views";

/// Arguments of the command `unslide groups views`.
#[derive(Args)]
pub struct ViewsArguments {
    #[command(flatten)]
    server: ApiServer,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Lists the saved views of the key and of the tenant.
pub async fn list_views(arguments: ViewsArguments) -> Outcome {
    let listing = Listing {
        path: VIEWS,
        query: Vec::new(),
        limit: usize::MAX,
        head: &["NAME", "OF", "FILTER"],
        row,
        empty: "no view is saved; the console saves one",
    };
    listing.print_items(&Client::new(&arguments.server)?, arguments.json).await
}

fn row(view: &Value) -> [String; 3] {
    let owner = if view["shared"] == true { "tenant" } else { "key" };
    let filter = view["filter"].as_object().map(|filter| {
        let pairs = filter.iter().map(|(name, value)| match value.as_str() {
            Some(text) => format!("{name}={text}"),
            None => format!("{name}={value}"),
        });
        pairs.collect::<Vec<_>>().join(" ")
    });
    [item_text(view, "name"), owner.to_owned(), filter.unwrap_or_default()]
}
