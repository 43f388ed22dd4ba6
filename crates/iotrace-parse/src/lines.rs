//! Lines of a text of any size, numbered, without trusting their length.
//!
//! A line longer than `LONGEST` is cut there and its rest passed over, so that a file without line
//! ends needs no more memory than any other. Ends of lines may be LF or CR LF.

use std::io::BufRead;

use crate::Error;

/// Bytes of a line that are looked at; no event is longer.
const LONGEST: usize = 1 << 16;

/// Hands out one line after the other.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: R,
    path: String,
    line: Vec<u8>,
    number: u64,
    offset: u64,
    is_cut: bool,
    /// Why it could not be read on; the text ends there.
    failure: Option<Error>,
}

impl<R: BufRead> Lines<R> {
    /// `path` is the file's name in errors.
    pub(crate) fn new(reader: R, path: &str) -> Self {
        let (path, line) = (path.to_owned(), Vec::new());
        Self { reader, path, line, number: 0, offset: 0, is_cut: false, failure: None }
    }

    /// The next line, without its end; `None` at the end of the text, and where it cannot be read
    /// on, which `take_failure` tells.
    pub(crate) fn next(&mut self) -> Option<&[u8]> {
        if self.failure.is_some() {
            return None;
        }
        self.line.clear();
        self.is_cut = false;
        let mut any = false;
        loop {
            let (used, ended) = {
                let block = match self.reader.fill_buf() {
                    Ok(block) => block,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                    Err(source) => {
                        let path = self.path.clone();
                        self.failure = Some(Error::Read { path, offset: self.offset, source });
                        break;
                    }
                };
                if block.is_empty() {
                    break;
                }
                any = true;
                let end = memchr::memchr(b'\n', block);
                let part = block.get(..end.unwrap_or(block.len())).unwrap_or_default();
                let room = LONGEST - self.line.len();
                self.is_cut |= part.len() > room;
                self.line.extend_from_slice(part.get(..room.min(part.len())).unwrap_or_default());
                (part.len() + usize::from(end.is_some()), end.is_some())
            };
            self.reader.consume(used);
            self.offset += used as u64;
            if ended {
                break;
            }
        }
        if !any {
            return None;
        }
        self.number += 1;
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        Some(&self.line)
    }

    /// Why the operating system, or a decompressor, could not read on, told once.
    pub(crate) fn take_failure(&mut self) -> Option<Error> {
        self.failure.take()
    }

    /// Number of the line that was handed out last, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Whether that line was longer than what was handed out.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Read};

    use super::*;

    #[test]
    fn lines_come_without_their_ends() {
        check(b"", &[]);
        check(b"one", &["one"]);
        check(b"one\n\ntwo\r\n", &["one", "", "two"]);
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let mut text = vec![b'x'; 3 * LONGEST];
        text.extend(b"\nnext");
        let mut lines = Lines::new(BufReader::with_capacity(7, text.as_slice()), "text");
        assert_eq!(lines.next().map(<[u8]>::len), Some(LONGEST));
        assert!(lines.is_cut());
        assert_eq!(lines.next(), Some(b"next".as_slice()));
        assert_eq!((lines.is_cut(), lines.number()), (false, 2));
    }

    #[test]
    fn what_was_read_before_an_error_is_not_lost() {
        let reader = BufReader::new(b"one\ntwo".as_slice().chain(Failing));
        let mut lines = Lines::new(reader, "text");
        assert_eq!(lines.next(), Some(b"one".as_slice()));
        assert_eq!(lines.next(), Some(b"two".as_slice()));
        assert_eq!(lines.next(), None);
        assert!(matches!(lines.take_failure(), Some(Error::Read { offset: 7, .. })));
    }

    struct Failing;

    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("a disk fails"))
        }
    }

    #[track_caller]
    fn check(text: &[u8], expected: &[&str]) {
        let mut lines = Lines::new(BufReader::with_capacity(2, text), "text");
        for line in expected {
            assert_eq!(lines.next(), Some(line.as_bytes()));
        }
        assert_eq!(lines.next(), None);
    }
}
