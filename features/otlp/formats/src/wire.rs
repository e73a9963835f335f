//! The wire format of Protocol Buffers: the fields of a message, one after the other, without a copy.

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireValue<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    /// A text, bytes, or an embedded message.
    Bytes(&'a [u8]),
}

impl<'a> WireValue<'a> {
    /// Returns the bytes of a length-delimited field.
    pub fn as_bytes(self) -> Option<&'a [u8]> {
        match self {
            WireValue::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Returns an integer of any width.
    pub fn as_unsigned(self) -> Option<u64> {
        match self {
            WireValue::Varint(number) | WireValue::Fixed64(number) => Some(number),
            WireValue::Fixed32(number) => Some(number.into()),
            WireValue::Bytes(_) => None,
        }
    }
}

/// The fields of a message that are left.
#[derive(Clone, Copy, Debug)]
pub struct WireFields<'a>(&'a [u8]);

impl<'a> WireFields<'a> {
    /// Returns the fields of a message.
    pub fn from_message(message: &'a [u8]) -> WireFields<'a> {
        WireFields(message)
    }

    /// Reads the next field. Returns None at the end.
    ///
    /// # Errors
    /// Returns what is wrong with the bytes.
    pub fn next(&mut self) -> Result<Option<(u64, WireValue<'a>)>, &'static str> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => WireValue::Varint(self.varint()?),
            1 => WireValue::Fixed64(u64::from_le_bytes(self.chunk()?)),
            2 => {
                let length =
                    usize::try_from(self.varint()?).map_err(|_| "a field is longer than its message")?;
                let (bytes, rest) =
                    self.0.split_at_checked(length).ok_or("a field is longer than its message")?;
                self.0 = rest;
                WireValue::Bytes(bytes)
            }
            5 => WireValue::Fixed32(u32::from_le_bytes(self.chunk()?)),
            _ => return Err("a field has a wire type that proto3 does not have"),
        };
        match tag >> 3 {
            0 => Err("a field has the number 0"),
            number => Ok(Some((number, value))),
        }
    }

    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], &'static str> {
        let (chunk, rest) = self.0.split_first_chunk::<N>().ok_or("the message ends within a number")?;
        self.0 = rest;
        Ok(*chunk)
    }

    fn varint(&mut self) -> Result<u64, &'static str> {
        let mut number = 0;
        for at in 0..10 {
            let (byte, rest) = self.0.split_first().ok_or("the message ends within a number")?;
            self.0 = rest;
            number |= u64::from(byte & 0x7F) << (7 * at);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err("a number has more than 64 bits")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(message: &[u8]) -> Result<Vec<(u64, WireValue<'_>)>, &'static str> {
        let (mut fields, mut found) = (WireFields::from_message(message), Vec::new());
        while let Some(field) = fields.next()? {
            found.push(field);
        }
        Ok(found)
    }

    #[test]
    fn fields_of_every_wire_type_are_read() {
        let message = [8, 0x96, 1, 0x12, 2, b'o', b'k', 0x19, 1, 0, 0, 0, 0, 0, 0, 0, 0x25, 2, 0, 0, 0];
        let fields = read_all(&message).unwrap();
        let expected = [
            (1, WireValue::Varint(150)),
            (2, WireValue::Bytes(b"ok")),
            (3, WireValue::Fixed64(1)),
            (4, WireValue::Fixed32(2)),
        ];
        assert_eq!(fields, expected);
    }

    #[test]
    fn damaged_messages_are_refused() {
        for damaged in [&[0x08][..], &[0x12, 5, 1], &[0x0B], &[0x02, 0], &[0xFF; 11], &[0x19, 1]] {
            assert!(read_all(damaged).is_err(), "{damaged:?}");
        }
    }
}
