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

use crate::bytes::Place;

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
    /// Where its bytes lie. Those of a `__data_loc` field are 4, which say where its data lie.
    pub(crate) place: Place,
    pub(crate) kind: Kind,
}

/// What the bytes of a field are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Unsigned,
    Signed,
    /// `__data_loc`: length and offset of the data behind the fixed fields.
    Elsewhere,
}

impl Format {
    /// Reads a description; `None` when it is none.
    pub(crate) fn parse(text: &str) -> Option<Format> {
        format(text).ok().map(|(_, format)| format)
    }

    /// The place of a field whose bytes are its value; `None` when there is none of that name.
    pub(crate) fn place(&self, name: &str) -> Option<Place> {
        let field = self.fields.iter().find(|field| field.name == name)?;
        (field.kind != Kind::Elsewhere).then_some(field.place)
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
    let (rest, (.., sign, _)) = (multispace0, tag("signed:"), digit1, tag(";")).parse(rest)?;
    // `char rwbs[10]`, `__data_loc char[] cmd`: the last word, without its array.
    let word = declaration.split_whitespace().next_back().unwrap_or_default();
    let kind = match sign {
        _ if declaration.contains("__data_loc") => Kind::Elsewhere,
        "0" => Kind::Unsigned,
        _ => Kind::Signed,
    };
    let name = word.split('[').next().unwrap_or_default().trim_start_matches('*');
    Ok((rest, Field { name: name.to_owned(), place: Place { offset, size }, kind }))
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
        let text = include_str!("../tests/data/formats-6.18/block_rq_complete");
        let format = Format::parse(text).unwrap();
        assert_eq!((format.name.as_str(), format.id), ("block_rq_complete", 2107));
        check(&format, "common_type", Some((0, 2, Kind::Unsigned)));
        check(&format, "dev", Some((8, 4, Kind::Unsigned)));
        check(&format, "sector", Some((16, 8, Kind::Unsigned)));
        check(&format, "error", Some((28, 4, Kind::Signed)));
        check(&format, "ioprio", Some((32, 2, Kind::Unsigned)));
        check(&format, "rwbs", Some((34, 10, Kind::Unsigned)));
        check(&format, "cmd", Some((44, 4, Kind::Elsewhere)));
        check(&format, "errors", None);
        assert_eq!(format.place("cmd"), None);
        assert_eq!(format.place("dev"), Some(Place { offset: 8, size: 4 }));
    }

    #[test]
    fn the_layout_of_linux_6_1_is_read() {
        let text = include_str!("../tests/data/formats-6.1/block_rq_issue");
        let format = Format::parse(text).unwrap();
        check(&format, "rwbs", Some((32, 8, Kind::Unsigned)));
        check(&format, "comm", Some((40, 16, Kind::Unsigned)));
        check(&format, "ioprio", None);
    }

    #[test]
    fn what_is_no_format_is_refused() {
        assert_eq!(Format::parse(""), None);
        assert_eq!(Format::parse("name: x\nID: 70000\nformat:\n"), None);
    }

    #[track_caller]
    fn check(format: &Format, name: &str, expected: Option<(usize, usize, Kind)>) {
        let field = format.fields.iter().find(|field| field.name == name);
        let found = field.map(|field| (field.place.offset, field.place.size, field.kind));
        assert_eq!(found, expected, "{name}");
    }
}
