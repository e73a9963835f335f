//! The app's own frames of a stored report, and the images of another one.

use unslide_api::feature::operation::Problem;
use unslide_api::feature::site::stored_body::read_report;
use unslide_model::{CpuType, DebugId, RelativeAddress};
use unslide_symbolicate::Plan;

/// Images of a stack that are compared, those of the innermost frames first.
pub const IMAGES_LIMIT: usize = 4;
/// Frames of a stack that are read.
pub const FRAMES_LIMIT: usize = 200;

/// An image of the app with frames in a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackImage {
    pub debug_id: DebugId,
    pub name: String,
    pub cpu: Option<CpuType>,
    /// The addresses of its frames to look up, the innermost first.
    pub addresses: Vec<RelativeAddress>,
}

/// An image of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedImage {
    pub debug_id: DebugId,
    pub name: String,
    pub cpu: Option<CpuType>,
}

/// Reads the frames of the crash that lie in the app's own images.
///
/// # Errors
/// A failure of the service: the same report was read before it was stored.
pub fn read_stack(json: &[u8]) -> Result<Vec<StackImage>, Problem> {
    let report = read_report(json)?;
    let plan = Plan::new(&report);
    let crashed = report.crashed_backtrace();
    let position =
        crashed.and_then(|crashed| report.backtraces.iter().position(|one| std::ptr::eq(one, crashed)));
    let Some(position) = position else { return Ok(Vec::new()) };
    let own: Vec<_> = plan.list_needs().into_iter().filter(|need| !need.system).collect();
    let mut images: Vec<StackImage> = Vec::new();
    for frame in plan.located_frames(position).into_iter().take(FRAMES_LIMIT) {
        let Some(need) = own.iter().find(|need| Some(need.debug_id) == frame.debug_id) else { continue };
        let address = RelativeAddress(frame.lookup);
        if let Some(image) = images.iter_mut().find(|image| image.debug_id == need.debug_id) {
            image.addresses.push(address);
        } else if images.len() < IMAGES_LIMIT {
            images.push(StackImage {
                debug_id: need.debug_id,
                name: need.name.clone(),
                cpu: need.cpu,
                addresses: vec![address],
            });
        }
    }
    Ok(images)
}

/// Reads the images that a report lists.
///
/// # Errors
/// As [`read_stack`].
pub fn read_images(json: &[u8]) -> Result<Vec<ListedImage>, Problem> {
    let report = read_report(json)?;
    let images = report.parts.iter().flat_map(|part| &part.images);
    let listed = images.filter_map(|image| {
        let path = image.name?.decode().into_owned();
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        Some(ListedImage { debug_id: image.uuid?, name, cpu: image.cpu })
    });
    Ok(listed.collect())
}

/// Returns the image of an older build: one of the same file name and, if both reports say, of the same CPU type.
pub fn find_counterpart(image: &StackImage, older: &[ListedImage]) -> Option<DebugId> {
    let is_same_cpu = |other: &ListedImage| match (image.cpu, other.cpu) {
        (Some(own), Some(other)) => own == other,
        _ => true,
    };
    let same = older.iter().find(|other| {
        !image.name.is_empty()
            && other.name == image.name
            && other.debug_id != image.debug_id
            && is_same_cpu(other)
    });
    same.map(|other| other.debug_id)
}
