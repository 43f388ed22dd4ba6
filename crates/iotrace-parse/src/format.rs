//! The kernel's description of a tracepoint: `events/<system>/<name>/format` in tracefs.
//!
//! ```text
//! name: block_rq_issue
//! ID: 2104
//! format:
//!     field:dev_t dev;    offset:8;   size:4; signed:0;
//! ```

use nom::Parser;
use nom::bytes::complete::{tag, take_until};
use nom::character::complete::{digit1, multispace0, not_line_ending, space0};
use nom::combinator::map_res;
use nom::multi::many0;
use nom::sequence::{delimited, preceded};
use nom::{IResult, error::Error as NomError};

/// One tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) name: String,
    /// `common_type` of its samples.
    pub(crate) id: u16,
    pub(crate) fields: Vec<Field>,
}

/// One field of a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: String,
    /// Bytes from the start of the raw sample.
    pub(crate) offset: usize,
    /// Bytes; a `__data_loc` field has 4, which say where its data lie.
    pub(crate) size: usize,
}

impl Format {
    /// Reads a description; `None` when it is none.
    pub(crate) fn parse(text: &str) -> Option<Format> {
        format(text).ok().map(|(_, format)| format)
    }

    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

type Parsed<'a, T> = IResult<&'a str, T, NomError<&'a str>>;

fn format(text: &str) -> Parsed<'_, Format> {
    let (rest, name) = preceded(tag("name:"), not_line_ending).parse(text.trim_start())?;
    let (rest, id) = preceded((multispace0, tag("ID:"), space0), number).parse(rest)?;
    let (rest, _) = (multispace0, tag("format:")).parse(rest)?;
    let (rest, fields) = many0(preceded(multispace0, field)).parse(rest)?;
    Ok((rest, Format { name: name.trim().to_owned(), id, fields }))
}

fn field(text: &str) -> Parsed<'_, Field> {
    let (rest, declaration) = delimited(tag("field:"), take_until(";"), tag(";")).parse(text)?;
    let (rest, offset) = property("offset:", rest)?;
    let (rest, size) = property("size:", rest)?;
    let (rest, _) = (multispace0, tag("signed:"), digit1, tag(";")).parse(rest)?;
    // `char rwbs[10]`, `__data_loc char[] cmd`: the last word, without its array.
    let word = declaration.split_whitespace().next_back().unwrap_or_default();
    let name = word.split('[').next().unwrap_or_default().trim_start_matches('*');
    Ok((rest, Field { name: name.to_owned(), offset, size }))
}

fn property<'a>(name: &'static str, text: &'a str) -> Parsed<'a, usize> {
    delimited((multispace0, tag(name)), number, tag(";")).parse(text)
}

fn number<T: std::str::FromStr>(text: &str) -> Parsed<'_, T> {
    map_res(digit1, str::parse).parse(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_of_linux_6_18_is_read() {
        let format = Format::parse(include_str!("../tests/data/6.18/block_rq_issue")).unwrap();
        assert_eq!((format.name.as_str(), format.id), ("block_rq_issue", 2104));
        let field = |name| format.field(name).map(|field| (field.offset, field.size));
        assert_eq!(field("dev"), Some((8, 4)));
        assert_eq!(field("sector"), Some((16, 8)));
        assert_eq!(field("rwbs"), Some((34, 10)));
        assert_eq!(field("comm"), Some((44, 16)));
        assert_eq!(field("cmd"), Some((60, 4)));
        assert_eq!(field("errors"), None);
    }

    #[test]
    fn what_is_no_format_is_refused() {
        assert_eq!(Format::parse(""), None);
        assert_eq!(Format::parse("name: x\nID: 70000\nformat:\n"), None);
    }
}
