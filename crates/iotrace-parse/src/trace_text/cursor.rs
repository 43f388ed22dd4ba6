//! A place in a line, moved on by what was read; never beyond its end.

/// Why something could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The text ends before the event does.
    Short,
    /// Something else stands there; what was expected.
    Wrong(&'static str),
}

/// The rest of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    /// Passes over blanks; the byte behind them, `None` at the end.
    pub(super) fn peek(&mut self) -> Option<u8> {
        loop {
            match self.0 {
                [b' ' | b'\t', rest @ ..] => self.0 = rest,
                [byte, ..] => return Some(*byte),
                [] => return None,
            }
        }
    }

    /// Passes over blanks and `byte`.
    pub(super) fn byte(&mut self, byte: u8, expected: &'static str) -> Result<(), Fault> {
        match self.peek() {
            Some(found) if found == byte => {
                self.0 = self.0.get(1..).unwrap_or_default();
                Ok(())
            }
            Some(_) => Err(Fault::Wrong(expected)),
            None => Err(Fault::Short),
        }
    }

    /// A number behind blanks: decimal, or hexadecimal with `0x`.
    pub(super) fn number(&mut self, expected: &'static str) -> Result<u64, Fault> {
        self.peek().ok_or(Fault::Short)?;
        let (number, rest) = match self.0 {
            [b'0', b'x', rest @ ..] => leading(rest, 16),
            rest => leading(rest, 10),
        }
        .ok_or(Fault::Wrong(expected))?;
        self.0 = rest;
        Ok(number)
    }

    /// A number with or without a minus, kept in the range of an `int`.
    pub(super) fn signed(&mut self, expected: &'static str) -> Result<i32, Fault> {
        let is_negative = self.peek() == Some(b'-');
        if is_negative {
            self.0 = self.0.get(1..).unwrap_or_default();
        }
        let number = i64::try_from(self.number(expected)?).unwrap_or(i64::MAX);
        let number = if is_negative { -number } else { number };
        i32::try_from(number).ok().ok_or(Fault::Wrong(expected))
    }

    /// What stands behind blanks, up to the next blank.
    pub(super) fn word(&mut self) -> Result<&'a [u8], Fault> {
        self.peek().ok_or(Fault::Short)?;
        let end = self.0.iter().position(|byte| is_blank(*byte)).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at_checked(end).unwrap_or((self.0, &[]));
        self.0 = rest;
        Ok(word)
    }

    /// Passes over everything up to and with `byte`.
    pub(super) fn behind(&mut self, byte: u8) -> Result<(), Fault> {
        let place = self.0.iter().position(|found| *found == byte).ok_or(Fault::Short)?;
        self.0 = self.0.get(place + 1..).unwrap_or_default();
        Ok(())
    }
}

/// A text that is a number and nothing else.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    match leading(text, 10)? {
        (number, []) => Some(number),
        _ => None,
    }
}

/// The number that a text begins with, and the rest; `None` without a digit and above 64 bits.
fn leading(text: &[u8], base: u8) -> Option<(u64, &[u8])> {
    let mut number = 0_u64;
    let mut digits = 0;
    for byte in text {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            _ => break,
        };
        if digit >= base {
            break;
        }
        number = number.checked_mul(u64::from(base))?.checked_add(u64::from(digit))?;
        digits += 1;
    }
    (digits > 0).then_some((number, text.get(digits..)?))
}

pub(super) const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

pub(super) fn trim_end(mut text: &[u8]) -> &[u8] {
    while let [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

pub(super) fn trim_start(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = text {
        text = rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_up_to_64_bits() {
        check("2072 + 8", Ok(2072));
        check(" 0x800000", Ok(0x80_0000));
        check("18446744073709551615", Ok(u64::MAX));
        check("18446744073709551616", Err(Fault::Wrong("a number")));
        check("x", Err(Fault::Wrong("a number")));
        check("0xg", Err(Fault::Wrong("a number")));
        check("  ", Err(Fault::Short));
    }

    #[test]
    fn a_sign_is_read() {
        let signed = |text: &str| Cursor(text.as_bytes()).signed("an error");
        assert_eq!(signed("-5]"), Ok(-5));
        assert_eq!(signed("5"), Ok(5));
        assert_eq!(signed("-"), Err(Fault::Short));
        assert_eq!(signed("4294967295"), Err(Fault::Wrong("an error")));
    }

    #[track_caller]
    fn check(text: &str, expected: Result<u64, Fault>) {
        assert_eq!(Cursor(text.as_bytes()).number("a number"), expected);
    }
}
