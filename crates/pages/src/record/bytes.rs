//! Numbers and byte strings in sequence: the parts of payloads. All numbers are little-endian.

/// The bytes end too early, or have an impossible value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Appends a number.
pub fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

/// Appends a small number.
pub fn put_u16(out: &mut Vec<u8>, number: u16) {
    out.extend_from_slice(&number.to_le_bytes());
}

/// Appends bytes, preceded by their length.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u64(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends optional bytes.
pub fn put_maybe(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    out.push(u8::from(bytes.is_some()));
    if let Some(bytes) = bytes {
        put_bytes(out, bytes);
    }
}

/// Reads what the functions above wrote, in the same order.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next byte.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// The next small number.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    /// The next number.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    /// The next byte as a boolean.
    pub fn flag(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    /// The next number of items, `most` at most.
    pub fn count(&mut self, most: usize) -> Result<usize, Malformed> {
        Some(usize::from(self.u16()?)).filter(|count| *count <= most).ok_or(Malformed)
    }

    /// The next bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(self.u64()?).map_err(|_| Malformed)?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// The next text.
    pub fn text(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed)
    }

    /// The next optional bytes.
    pub fn maybe(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        if self.flag()? { self.bytes().map(Some) } else { Ok(None) }
    }

    /// The next optional text.
    pub fn maybe_text(&mut self) -> Result<Option<&'a str>, Malformed> {
        if self.flag()? { self.text().map(Some) } else { Ok(None) }
    }

    /// Checks that nothing is left.
    pub fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed) }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (array, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*array)
    }
}
