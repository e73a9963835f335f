//! Links from source positions to the web view of an app's repository.

use unslide_model::DebugId;
use unslide_site::encode_segment;
use unslide_store::app_settings::AppSettings;

/// The links of source positions of one report.
#[derive(Clone, Debug, Default)]
pub struct SourceLinks {
    url: String,
    root: String,
    /// The path of the page of source files of source maps, if the viewer may open it.
    file_page: Option<&'static str>,
}

impl SourceLinks {
    /// Creates the links of an app with these settings, for a version and a build.
    pub fn from_settings(settings: &AppSettings, version: &str, build: &str) -> SourceLinks {
        let url = settings
            .source_url
            .replace("{version}", &encode_segment(version))
            .replace("{build}", &encode_segment(build));
        let root = settings.source_root.trim_end_matches('/').to_owned();
        SourceLinks { url, root, file_page: None }
    }

    /// Adds the page of source files.
    pub fn with_file_page(self, file_page: Option<&'static str>) -> SourceLinks {
        SourceLinks { file_page, ..self }
    }

    /// Returns the address of a line in the page of a source file of a source map.
    pub fn link_to_file(&self, debug_id: DebugId, path: &str, line: u64) -> Option<String> {
        let (page, path) = (self.file_page?, encode_segment(path));
        Some(format!("{page}?debug_id={debug_id}&path={path}&line={line}#L{line}"))
    }

    /// Returns the address of a line of a file; `None` if it is not known.
    pub fn link_to_line(&self, path: &str, line: Option<u64>) -> Option<String> {
        if self.url.is_empty() {
            return None;
        }
        let path = self.strip_root(path)?;
        let segments = path.split('/').filter(|segment| !matches!(*segment, "" | "."));
        let segments: Vec<String> =
            segments.map(|name| (name != "..").then(|| encode_segment(name))).collect::<Option<_>>()?;
        let line = line.map(|line| line.to_string()).unwrap_or_default();
        (!segments.is_empty())
            .then(|| self.url.replace("{path}", &segments.join("/")).replace("{line}", &line))
    }

    /// Returns the part of a path after the root.
    fn strip_root<'p>(&self, path: &'p str) -> Option<&'p str> {
        if self.root.is_empty() {
            return (!path.starts_with('/')).then_some(path);
        }
        let (_, inside) = path.split_once(self.root.as_str())?;
        inside.strip_prefix('/')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(url: &str, root: &str) -> SourceLinks {
        let settings = AppSettings {
            source_url: url.to_owned(),
            source_root: root.to_owned(),
            ..AppSettings::default()
        };
        SourceLinks::from_settings(&settings, "2.4 (beta)", "381")
    }

    #[test]
    fn a_position_below_the_root_is_a_link() {
        let shop = links("https://git.example.com/shop/blob/v{version}/{path}#L{line}", "/ci/shop/");
        let link = |path: &str| shop.link_to_line(path, Some(7));
        let base = "https://git.example.com/shop/blob/v2.4%20%28beta%29/";
        assert_eq!(
            link("/ci/shop/Sources/Cart Item.swift").unwrap(),
            format!("{base}Sources/Cart%20Item.swift#L7")
        );
        assert_eq!(link("/private/ci/shop/./a//b.c").unwrap(), format!("{base}a/b.c#L7"));
        for outside in
            ["/ci/shopping/a.c", "/ci/shop", "/ci/shop/", "/usr/include/vector", "/ci/shop/../../etc/x"]
        {
            assert_eq!(link(outside), None, "{outside}");
        }
        assert_eq!(
            shop.link_to_line("/ci/shop/a?b#{line}", None).unwrap(),
            format!("{base}a%3Fb%23%7Bline%7D#L")
        );
    }

    #[test]
    fn without_a_root_relative_paths_are_links_and_without_a_url_none() {
        assert_eq!(
            links("https://a/{build}/{path}", "").link_to_line("a/b.c", None).unwrap(),
            "https://a/381/a/b.c"
        );
        assert_eq!(links("https://a/{path}", "").link_to_line("/a/b.c", None), None);
        assert_eq!(links("", "/a").link_to_line("/a/b.c", None), None);
    }
}
