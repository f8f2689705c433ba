//! Numbers in decimal digits. Every response and every request for PHP contains some, and formatting by `write!`
//! costs ten times as much.

/// Appends a number.
pub fn push(number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let length = write(number, &mut digits);
    out.extend_from_slice(&digits[..length]);
}

/// Writes a number to the start of `out`, which must have room (20 bytes are enough for any); returns its number of
/// digits.
pub fn write(number: u64, out: &mut [u8]) -> usize {
    let length = number.checked_ilog10().unwrap_or(0) as usize + 1;
    let mut rest = number;
    for place in out[..length].iter_mut().rev() {
        *place = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_format_has_it() {
        for number in [0, 1, 7, 9, 10, 99, 100, 12_345, 65_535, u64::MAX] {
            let mut out = b"x".to_vec();
            push(number, &mut out);
            assert_eq!(out, format!("x{number}").into_bytes());
        }
    }
}
