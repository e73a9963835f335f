//! A line of a list of binary images, as `sample` and spindump write it.

use crate::profile::{ProfileImage, parse_hex};

/// Reads `0xSTART - 0xEND +name (version) <UUID> path`. The end is the last address, or `???` if it is not
/// known. `*` marks images that the kernel has loaded.
pub(super) fn image_line(line: &str) -> Option<ProfileImage> {
    let (start, rest) = next_word(line)?;
    let (kernel_start, start) = strip_star(start);
    let (_, rest) = next_word(rest).filter(|(dash, _)| *dash == "-")?;
    let (end, rest) = next_word(rest)?;
    let (kernel_end, end) = strip_star(end);
    let rest = rest.trim_start();
    let kernel = kernel_start || kernel_end || rest.starts_with('*');
    let rest = rest.trim_start_matches(['+', '*']);
    let (named, after) = rest.split_once('<').unwrap_or((rest, ""));
    let (uuid, path) = after.split_once('>').unwrap_or(("", ""));
    let path = path.trim();
    let name = named.split_once(" (").map_or(named, |(name, _)| name).trim();
    let file = path.rsplit('/').next().filter(|file| !file.is_empty()).unwrap_or(name);
    Some(ProfileImage {
        name: file.to_owned(),
        path: path.to_owned(),
        debug_id: uuid.trim().parse().ok(),
        start: parse_hex(start)?,
        end: if end == "???" { None } else { Some(parse_hex(end)?.saturating_add(1)) },
        kernel,
    })
}

fn next_word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    text.split_at_checked(end).filter(|(word, _)| !word.is_empty())
}

fn strip_star(text: &str) -> (bool, &str) {
    text.strip_prefix('*').map_or((false, text), |rest| (true, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_sample_and_spindump_are_read() {
        let app = "       0x104a00000 -        0x104a0ffff +org.example.demo (4.2.0 - 4201) \
                   <A1B2C3D4-0000-3111-8222-0123456789AB> /Applications/My Demo.app/Contents/MacOS/My Demo";
        let image = image_line(app).unwrap();
        assert_eq!(
            (image.name.as_str(), image.start, image.end),
            ("My Demo", 0x1_04a0_0000, Some(0x1_04a1_0000))
        );
        assert!(image.debug_id.is_some() && !image.kernel && !image.is_system());
        let kernel = "   *0xffffff8000200000 -                ???  kernel (20.1) \
                      <A1B2C3D4-0000-3111-8222-0123456789AB> /System/Library/Kernels/kernel";
        let image = image_line(kernel).unwrap();
        assert!(image.kernel && image.end.is_none() && image.is_system());
        let bare = image_line("0x1000 - 0x1fff  *com.apple.driver.X (1)  <>").unwrap();
        assert!(bare.kernel && bare.name == "com.apple.driver.X" && bare.debug_id.is_none());
    }

    #[test]
    fn other_lines_are_no_images() {
        for line in ["", "0x1000", "0x1000 - ", "Binary Images:", "0x1000 + 0x2000 x", "x - y z"] {
            assert_eq!(image_line(line), None, "{line}");
        }
    }
}
