//! Lists of the API, page by page.

use crate::{BoxError, Client, Console, Exit, Outcome, Table, note, quantity};
use clap::Args;
use reqwest::Url;
use serde_json::Value;

/// Items that are asked for with one request.
const PAGE_ENTRIES: usize = 200;

/// How a list that the API can export is printed.
#[derive(Args)]
pub struct ListForm {
    /// The most entries; where absent, 50, and all with --csv, --ndjson or --elasticsearch
    #[arg(long, value_parser = quantity::entries)]
    limit: Option<usize>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    /// Print the list as CSV
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print the list as JSON objects, one a line
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    ndjson: bool,
    /// Print the list as a file for the bulk API of Elasticsearch
    #[arg(long, conflicts_with_all = ["json", "csv", "ndjson"])]
    elasticsearch: bool,
}

impl ListForm {
    /// Reads the list and prints it.
    ///
    /// # Errors
    /// Returns an error if the API does not answer.
    pub async fn print_list<const N: usize>(self, mut listing: Listing<N>, client: &Client) -> Outcome {
        let forms = [(self.csv, "csv"), (self.ndjson, "ndjson"), (self.elasticsearch, "elasticsearch")];
        let Some((_, format)) = forms.into_iter().find(|(is_wanted, _)| *is_wanted) else {
            listing.limit = self.limit.unwrap_or(listing.limit);
            return listing.print_items(client, self.json).await;
        };
        let mut query = listing.query;
        query.push(("format", format.to_owned()));
        query.extend(self.limit.map(|limit| ("limit", limit.to_string())));
        let print = |piece: &[u8]| {
            Console::get().write_bytes(piece);
            !Console::get().is_closed()
        };
        client.get_pieces(&with_query(listing.path, &query)?, print).await?;
        Ok(Exit::Ready)
    }
}

/// A list, and how it is shown.
pub struct Listing<const N: usize> {
    /// Its path in the API.
    pub path: &'static str,
    /// The query that narrows it.
    pub query: Vec<(&'static str, String)>,
    /// The most items to show, if no number is requested.
    pub limit: usize,
    pub head: &'static [&'static str; N],
    pub row: fn(&Value) -> [String; N],
    /// Printed instead of a table without rows, such as `no group matches`.
    pub empty: &'static str,
}

impl<const N: usize> Listing<N> {
    /// Reads the list and prints it.
    ///
    /// # Errors
    /// Returns an error if the API does not answer.
    pub async fn print_items(self, client: &Client, as_json: bool) -> Outcome {
        let (mut found, mut cursor): (Vec<Value>, Option<String>) = (Vec::new(), None);
        while found.len() < self.limit {
            let mut query = self.query.clone();
            query.push(("limit", (self.limit - found.len()).min(PAGE_ENTRIES).to_string()));
            query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
            let mut answer: Value = client.get(&with_query(self.path, &query)?).await?;
            found.extend(answer["items"].as_array_mut().map(std::mem::take).unwrap_or_default());
            cursor = answer["next_cursor"].as_str().map(str::to_owned);
            if let Some(time) = answer["history_unavailable"].as_str() {
                note!("older reports than {time} are left out: ClickHouse, which has them, does not answer");
            }
            if cursor.is_none() {
                break;
            }
            // Of a list that compares its entries one by one.
            if let Some(time) = answer["searched_to"].as_str() {
                note!("searched back to {time}, {} found; the search goes on", found.len());
            }
        }
        if as_json {
            Console::get().print_json(&found)?;
            return Ok(Exit::Ready);
        }
        if found.is_empty() {
            note!("{}", self.empty);
            return Ok(Exit::Ready);
        }
        let mut table = Table::new(self.head);
        found.iter().for_each(|item| table.add_row((self.row)(item)));
        table.print();
        if cursor.is_some() {
            note!("there are more; --limit shows them");
        }
        Ok(Exit::Ready)
    }
}

/// Returns those of a query's parameters that have a value.
pub fn filter_given<const M: usize>(
    parameters: [(&'static str, Option<String>); M],
) -> Vec<(&'static str, String)> {
    parameters.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// Returns a path with a query.
///
/// # Errors
/// Returns an error if the path is none.
pub fn with_query(path: &str, query: &[(&str, String)]) -> Result<String, BoxError> {
    if query.is_empty() {
        return Ok(path.to_owned());
    }
    // Only for its way of writing a query.
    let mut url = Url::parse("http://api")?.join(path)?;
    url.query_pairs_mut().extend_pairs(query);
    Ok(format!("{path}?{}", url.query().unwrap_or_default()))
}

/// Returns a path below an app, with each part as one segment.
///
/// # Errors
/// Returns an error if the address has no path.
pub fn app_path(app: &str, rest: &[&str]) -> Result<String, BoxError> {
    let mut url = Url::parse("http://api/v1/apps")?;
    url.path_segments_mut().map_err(|()| "an address without a path")?.push(app).extend(rest);
    Ok(url.path().to_owned())
}

/// Returns a text of an item, or an empty one if there is none.
pub fn item_text(item: &Value, name: &str) -> String {
    item[name].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_encoded() {
        let query = [("reason", "a b&c".to_owned()), ("tenant", String::new())];
        let path = with_query("/v1/dead-letters", &query).unwrap();
        assert_eq!(path, "/v1/dead-letters?reason=a+b%26c&tenant=");
    }

    #[test]
    fn an_app_is_one_segment_of_a_path() {
        assert_eq!(
            app_path("com.example/a b", &["versions"]).unwrap(),
            "/v1/apps/com.example%2Fa%20b/versions"
        );
    }
}
