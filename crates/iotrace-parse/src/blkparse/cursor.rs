//! A place in a line, and what was expected there when it cannot be read.
//!
//! Every step is checked; none allocates.

/// What is left of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    pub(super) rest: &'a [u8],
}

/// Why a line cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// What should have come.
    pub(super) expected: &'static str,
    /// Bytes of the line from there to its end; 0 when the line ends too early.
    pub(super) left: usize,
    /// Columns that were read before.
    pub(super) columns: u8,
}

impl Fault {
    /// Whether the line begins as an event and ends too early, so that the next line may go on.
    pub(super) fn is_unfinished(&self) -> bool {
        self.left == 0 && self.columns >= 4
    }
}

impl<'a> Cursor<'a> {
    pub(super) fn new(line: &'a [u8]) -> Self {
        Self { rest: line.trim_ascii_end() }
    }

    pub(super) fn fault(self, expected: &'static str) -> Fault {
        Fault { expected, left: self.rest.len(), columns: 7 }
    }

    #[inline]
    pub(super) fn peek(self) -> Option<u8> {
        self.rest.first().copied()
    }

    #[inline]
    pub(super) fn skip_blanks(&mut self) {
        while let [b' ' | b'\t', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    /// Takes these bytes if they come next.
    #[inline]
    pub(super) fn take(&mut self, bytes: &[u8]) -> bool {
        match self.rest.strip_prefix(bytes) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// A decimal number; nothing is taken where there is none, or one of more than 64 bits.
    #[inline]
    pub(super) fn number(&mut self) -> Option<u64> {
        let mut rest = self.rest;
        let mut value = 0_u64;
        while let [digit @ b'0'..=b'9', after @ ..] = rest {
            value = value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
            rest = after;
        }
        if rest.len() == self.rest.len() {
            return None;
        }
        self.rest = rest;
        Some(value)
    }

    /// A decimal number of 32 bits.
    #[inline]
    pub(super) fn number_u32(&mut self) -> Option<u32> {
        let mut ahead = *self;
        let value = u32::try_from(ahead.number()?).ok()?;
        *self = ahead;
        Some(value)
    }

    /// A hexadecimal number of 32 bits.
    pub(super) fn hex(&mut self) -> Option<u32> {
        let mut rest = self.rest;
        let mut value = 0_u32;
        while let [byte, after @ ..] = rest
            && let Some(digit) = char::from(*byte).to_digit(16)
        {
            value = value.checked_mul(16)?.checked_add(digit)?;
            rest = after;
        }
        if rest.len() == self.rest.len() {
            return None;
        }
        self.rest = rest;
        Some(value)
    }

    /// The bytes up to the next blank.
    #[inline]
    pub(super) fn word(&mut self) -> &'a [u8] {
        self.take_while(|byte| !matches!(byte, b' ' | b'\t'))
    }

    #[inline]
    pub(super) fn take_while(&mut self, fits: impl Fn(u8) -> bool) -> &'a [u8] {
        let size = self.rest.iter().position(|byte| !fits(*byte)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at_checked(size).unwrap_or_default();
        self.rest = rest;
        word
    }

    /// Whether a column ends here.
    #[inline]
    pub(super) fn is_at_blank(self) -> bool {
        matches!(self.rest, [] | [b' ' | b'\t', ..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_where_their_digits_end() {
        let number = |text: &str| {
            let mut cursor = Cursor::new(text.as_bytes());
            (cursor.number(), cursor.rest.len())
        };
        assert_eq!(number("42 "), (Some(42), 0));
        assert_eq!(number("42]x"), (Some(42), 2));
        assert_eq!(number("x"), (None, 1));
        assert_eq!(number("18446744073709551615"), (Some(u64::MAX), 0));
        assert_eq!(number("18446744073709551616"), (None, 20));
        assert_eq!(Cursor::new(b"4294967296").number_u32(), None);
        assert_eq!(Cursor::new(b"ff,").hex(), Some(255));
        assert_eq!(Cursor::new(b"fffffffff").hex(), None);
    }
}
