//! GET_VALUES (section 4.1): how many connections an application accepts at once. php-cgi reports this number (php-src
//! sapi/cgi/cgi_main.c). php-fpm responds without it (`fpm_php_set_fcgi_mgmt_vars` in sapi/fpm/fpm/fpm_php.c is
//! disabled); then PHP before 8.2.13 closes the connection, later versions keep it open (bug 76922, main/fastcgi.c).

use super::request::split_length;
use super::{GET_VALUES, GET_VALUES_RESULT, HEADER_BYTES, RecordHeader};

const MAX_CONNS: &[u8] = b"FCGI_MAX_CONNS";

/// The query.
pub fn get_values() -> Vec<u8> {
    record(GET_VALUES, Some(b""))
}

/// The response, for stand-ins of php-fpm; `None`: without the number.
pub fn values_result(connections: Option<usize>) -> Vec<u8> {
    record(GET_VALUES_RESULT, connections.map(|number| number.to_string()).as_deref().map(str::as_bytes))
}

/// Whether a connection begins with this query, for stand-ins of php-fpm.
pub fn asks_for_values(bytes: &[u8]) -> bool {
    RecordHeader::decode(bytes).is_some_and(|header| header.kind == GET_VALUES)
}

/// Whether these bytes hold the whole response, with or without the number.
pub fn is_values_result(bytes: &[u8]) -> bool {
    RecordHeader::decode(bytes)
        .is_some_and(|header| bytes.len() >= HEADER_BYTES + usize::from(header.content))
}

/// Maximum number of connections, from all bytes of the response; `None` if they are not a response, or don't contain
/// it.
pub fn max_connections(bytes: &[u8]) -> Option<usize> {
    let header = RecordHeader::decode(bytes).filter(|header| header.kind == GET_VALUES_RESULT)?;
    let mut content = bytes.get(HEADER_BYTES..HEADER_BYTES + usize::from(header.content))?;
    while !content.is_empty() {
        let (name, rest) = split_length(content)?;
        let (value, rest) = split_length(rest)?;
        let (name, rest) = rest.split_at_checked(name)?;
        let (value, rest) = rest.split_at_checked(value)?;
        if name == MAX_CONNS {
            return std::str::from_utf8(value).ok()?.parse().ok();
        }
        content = rest;
    }
    None
}

/// A management record with this variable, or without one.
fn record(kind: u8, value: Option<&[u8]>) -> Vec<u8> {
    let variable = |value: &[u8]| [&[MAX_CONNS.len() as u8, value.len() as u8], MAX_CONNS, value].concat();
    let content = value.map(variable).unwrap_or_default();
    let header = RecordHeader { id: 0, ..RecordHeader::new(kind, content.len()) };
    [&header.encode()[..], &content].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_and_answer() {
        assert_eq!(get_values(), b"\x01\x09\0\0\0\x10\0\0\x0e\0FCGI_MAX_CONNS");
        assert!(asks_for_values(&get_values()) && !asks_for_values(b"x"));
        assert_eq!(max_connections(&values_result(Some(5))), Some(5));
        for (number, answer) in [(Some(17), values_result(Some(17))), (None, values_result(None))] {
            assert_eq!((is_values_result(&answer), max_connections(&answer)), (true, number));
            for part in (0..answer.len()).map(|length| &answer[..length]) {
                assert_eq!((is_values_result(part), max_connections(part)), (false, None));
            }
        }
        assert_eq!(max_connections(&get_values()), None);
        let both = b"\x01\x0a\0\0\0\x17\x01\0\x01\x02Aok\x0e\x02FCGI_MAX_CONNS12\0";
        assert_eq!(max_connections(both), Some(12));
    }
}
