//! The terminal: its own screen while the value lives, keys without echo, and everything as before afterwards.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::frame::Line;
use crate::failure::{Explain, Failure};

/// Another screen without a cursor, and back (xterm, ECMA-48).
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A printable character.
    Text(char),
    /// Up.
    Up,
    /// Down.
    Down,
    /// Enter.
    Enter,
    /// Backspace.
    Erase,
    /// Escape.
    Escape,
    /// Ctrl-C or Ctrl-D.
    Interrupt,
    /// Any other.
    Other,
}

/// The terminal of standard input and output.
pub struct Terminal {
    before: Termios,
    /// Keys that came together with an earlier one.
    waiting: VecDeque<Key>,
}

impl Terminal {
    /// Takes the screen.
    ///
    /// # Errors
    /// It is no terminal.
    pub fn open() -> Result<Terminal, Failure> {
        let before = tcgetattr(io::stdin()).or_fail(|| "cannot use the terminal".to_owned())?;
        let mut raw = before.clone();
        raw.make_raw();
        let terminal = Terminal { before, waiting: VecDeque::new() };
        tcsetattr(io::stdin(), OptionalActions::Flush, &raw)
            .or_fail(|| "cannot use the terminal".to_owned())?;
        print(ENTER)?;
        Ok(terminal)
    }

    /// Columns and lines.
    pub fn size(&self) -> (usize, usize) {
        match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
            _ => super::PLAIN,
        }
    }

    /// Shows a frame.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn show(&mut self, lines: &[Line]) -> Result<(), Failure> {
        let mut text = "\x1b[H".to_owned();
        for (at, line) in lines.iter().enumerate() {
            let (begin, end) = if line.is_strong { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
            text += if at > 0 { "\r\n" } else { "" };
            text += &format!("{begin}{}{end}\x1b[K", line.text);
        }
        print(&(text + "\x1b[J"))
    }

    /// The next key; `None`: there was none for so long.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn key(&mut self, most: Duration) -> Result<Option<Key>, Failure> {
        if let Some(key) = self.waiting.pop_front() {
            return Ok(Some(key));
        }
        let stdin = io::stdin();
        let most = Timespec::try_from(most).or_fail(|| "cannot wait for a key".to_owned())?;
        match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&most)) {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            // The window has another size: the next frame has, too.
            Err(rustix::io::Errno::INTR) => return Ok(None),
            Err(error) => return Err(Failure::new(format!("cannot wait for a key: {error}"))),
        }
        let mut bytes = [0; 256];
        match rustix::io::read(&stdin, &mut bytes) {
            Ok(0) => Ok(Some(Key::Interrupt)),
            Ok(length) => {
                self.waiting.extend(keys(&bytes[..length]));
                Ok(self.waiting.pop_front())
            }
            Err(error) => Err(Failure::new(format!("cannot read from the terminal: {error}"))),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = print(LEAVE);
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
    }
}

fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .or_fail(|| "cannot write to the terminal".to_owned())
}

/// What one read of a terminal in raw mode means: several keys, if they were pasted or pressed quickly.
fn keys(mut bytes: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    while !bytes.is_empty() {
        let (first, rest) = bytes.split_at(length(bytes));
        keys.push(key(first));
        bytes = rest;
    }
    keys
}

/// Length of the first key: a character, or an escape sequence (ECMA-48: parameters, and a final byte from `@` on).
fn length(bytes: &[u8]) -> usize {
    match bytes {
        [0x1b, b'[', rest @ ..] => {
            rest.iter().position(|byte| *byte >= 0x40).map_or(bytes.len(), |at| at + 3)
        }
        [0x1b, b'O', _, ..] => 3,
        [first, ..] => {
            let of_character = if *first < 0xc0 { 1 } else { first.leading_ones() as usize };
            of_character.min(bytes.len())
        }
        [] => 0,
    }
}

fn key(bytes: &[u8]) -> Key {
    match bytes {
        [3 | 4, ..] => Key::Interrupt,
        [b'\r' | b'\n', ..] => Key::Enter,
        [8 | 127, ..] => Key::Erase,
        [0x1b] => Key::Escape,
        b"\x1b[A" | b"\x1bOA" => Key::Up,
        b"\x1b[B" | b"\x1bOB" => Key::Down,
        _ => match std::str::from_utf8(bytes).ok().and_then(|text| text.chars().next()) {
            Some(c) if !c.is_control() => Key::Text(c),
            _ => Key::Other,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_keys() {
        for (bytes, expected) in [
            (&b"q"[..], Key::Text('q')),
            ("é".as_bytes(), Key::Text('é')),
            (b"\x1b", Key::Escape),
            (b"\x1b[A", Key::Up),
            (b"\x1bOB", Key::Down),
            (b"\x1b[5~", Key::Other),
            (b"\x03", Key::Interrupt),
            (b"\x7f", Key::Erase),
            (b"\r", Key::Enter),
            (b"\xff", Key::Other),
        ] {
            assert_eq!(keys(bytes), [expected], "{bytes:?}");
        }
        let pasted = [Key::Text('/'), Key::Text('é'), Key::Up, Key::Other, Key::Enter, Key::Text('q')];
        assert_eq!(keys("/é\x1b[A\x1b[5~\rq".as_bytes()), pasted);
    }
}
