//! Numbers and texts of the table: LEB128 without a sign, and bytes after their length.

/// The reason for which bytes are no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    #[error("the table of variables is of another version, or none")]
    Version,
    #[error("the table of variables is cut off")]
    Cut,
    #[error("the table of variables has a number that is too large")]
    Number,
    #[error("the table of variables has a text that is no UTF-8")]
    Text,
}

/// Writes a table.
#[derive(Debug, Default)]
pub struct TableWriter {
    pub bytes: Vec<u8>,
}

impl TableWriter {
    pub fn write_number(&mut self, mut number: u64) {
        loop {
            let low = u8::try_from(number & 0x7f).unwrap_or(0);
            number >>= 7;
            if number == 0 {
                return self.bytes.push(low);
            }
            self.bytes.push(low | 0x80);
        }
    }

    pub fn write_count(&mut self, count: usize) {
        self.write_number(count as u64);
    }

    pub fn write_bytes(&mut self, bytes: &[u8]) {
        self.write_count(bytes.len());
        self.bytes.extend_from_slice(bytes);
    }
}

/// Reads a table. It never reads beyond the bytes, and allocates nothing by a count.
#[derive(Clone, Copy, Debug)]
pub struct TableReader<'t> {
    pub rest: &'t [u8],
}

impl<'t> TableReader<'t> {
    pub fn read_number(&mut self) -> Result<u64, TableError> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first().ok_or(TableError::Cut)?;
            self.rest = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(TableError::Number)
    }

    /// Reads the count of things that take at least a byte each.
    pub fn read_count(&mut self) -> Result<usize, TableError> {
        let count = usize::try_from(self.read_number()?).map_err(|_| TableError::Number)?;
        if count > self.rest.len() { Err(TableError::Cut) } else { Ok(count) }
    }

    pub fn read_bytes(&mut self) -> Result<&'t [u8], TableError> {
        let length = self.read_count()?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(TableError::Cut)?;
        self.rest = rest;
        Ok(bytes)
    }

    pub fn read_text(&mut self) -> Result<&'t str, TableError> {
        std::str::from_utf8(self.read_bytes()?).map_err(|_| TableError::Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_bytes_are_read_as_they_were_written() {
        let mut writer = TableWriter::default();
        for number in [0, 1, 127, 128, 300, u64::MAX] {
            writer.write_number(number);
        }
        writer.write_bytes(b"name");
        let mut reader = TableReader { rest: &writer.bytes };
        for number in [0, 1, 127, 128, 300, u64::MAX] {
            assert_eq!(reader.read_number().unwrap(), number);
        }
        assert_eq!(reader.read_text().unwrap(), "name");
        assert!(reader.read_number().is_err());
        assert!(TableReader { rest: &[9, 1] }.read_bytes().is_err());
        assert!(TableReader { rest: &[0xff; 20] }.read_number().is_err());
    }
}
