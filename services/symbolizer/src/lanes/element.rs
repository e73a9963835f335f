//! The document of an element of a record.

use std::borrow::Cow;
use unslide_report::Element;
use unslide_report::reader::ReportReaders;

/// An element with a document that may be a report.
pub struct ElementDocument<'e> {
    /// The bytes of the element in its record.
    pub bytes: &'e [u8],
    /// The document: the element itself, or the text of a string.
    pub document: Cow<'e, [u8]>,
}

/// An element that is no report.
pub struct UnreadableElement<'e> {
    /// The bytes of the element in its record.
    pub bytes: &'e [u8],
    /// The reason, in a sentence for people.
    pub detail: String,
}

/// Returns the document of an element.
///
/// # Errors
/// Returns [`UnreadableElement`] for a text that no reader recognises, and for a value that is neither an object nor a text.
pub fn open_element<'e>(
    element: &Element<'e>,
    readers: &ReportReaders,
) -> Result<ElementDocument<'e>, UnreadableElement<'e>> {
    match element {
        Element::Report(bytes) => Ok(ElementDocument { bytes, document: Cow::Borrowed(bytes) }),
        Element::Text(text) => {
            let document = text.decode_bytes();
            if readers.find(&document).is_some() {
                return Ok(ElementDocument { bytes: text.raw(), document });
            }
            let detail =
                "a string is a report that the device rendered as text, and this text is in no known form";
            Err(UnreadableElement { bytes: text.raw(), detail: detail.to_owned() })
        }
        Element::Other { bytes, found } => {
            Err(UnreadableElement { bytes, detail: format!("a report is an object, this is {found}") })
        }
    }
}
