//! The stylesheet and the scripts, embedded in the binary. Their paths change with their content, so that a
//! browser may cache them forever.

use axum::extract::Path;
use axum::response::IntoResponse;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use sha2::{Digest, Sha256};
use std::sync::LazyLock;
use unslide_api::problem::{Kind, Problem};

const STYLE: &str = include_str!("../templates/site/assets/console.css");
const FLAME: &str = include_str!("../templates/site/assets/flame.js");
const ICON: &str = include_str!("../templates/site/assets/icon.svg");
const SCRIPT: &str = include_str!("../templates/site/assets/console.js");

pub static STYLE_PATH: LazyLock<String> = LazyLock::new(|| asset_path("console.css", STYLE));
pub static SCRIPT_PATH: LazyLock<String> = LazyLock::new(|| asset_path("console.js", SCRIPT));
pub static ICON_PATH: LazyLock<String> = LazyLock::new(|| asset_path("icon.svg", ICON));
/// Path of the script of flame graphs.
pub static FLAME_PATH: LazyLock<String> = LazyLock::new(|| asset_path("flame.js", FLAME));

fn asset_path(name: &str, text: &str) -> String {
    let hash = Sha256::digest(text.as_bytes());
    let hash: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("/console/assets/{hash}/{name}")
}

pub async fn serve_asset(Path((hash, name)): Path<(String, String)>) -> Result<impl IntoResponse, Problem> {
    let asked = format!("/console/assets/{hash}/{name}");
    let (kind, text) = match asked {
        asked if asked == *STYLE_PATH => ("text/css; charset=utf-8", STYLE),
        asked if asked == *SCRIPT_PATH => ("text/javascript; charset=utf-8", SCRIPT),
        asked if asked == *ICON_PATH => ("image/svg+xml", ICON),
        asked if asked == *FLAME_PATH => ("text/javascript; charset=utf-8", FLAME),
        _ => return Err(Problem::from_kind(Kind::NotFound)),
    };
    Ok(([(CONTENT_TYPE, kind), (CACHE_CONTROL, "public, max-age=31536000, immutable")], text))
}

/// `GET /favicon.ico`: the icon, for views that are no page, such as the text of a report.
pub async fn serve_icon() -> impl IntoResponse {
    ([(CONTENT_TYPE, "image/svg+xml"), (CACHE_CONTROL, "public, max-age=86400")], ICON)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_of_a_page_are_small() {
        assert!(SCRIPT.len() + FLAME.len() < 50_000, "{} and {} bytes", SCRIPT.len(), FLAME.len());
    }
}
