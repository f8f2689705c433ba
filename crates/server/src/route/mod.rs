//! From a request to the way it is answered: which site, which rule of its application, which file or script.

mod site;

pub use site::Site;

use std::rc::Rc;

use crate::files;

/// A PHP script to run, as CGI names its parts (RFC 3875 section 4.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// `SCRIPT_FILENAME`: absolute path, without NUL.
    pub filename: Rc<[u8]>,
    /// `SCRIPT_NAME`: the script's part of the URL path, decoded.
    pub name: Rc<[u8]>,
    /// `PATH_INFO`: what follows it, decoded; empty if nothing does.
    pub path_info: Vec<u8>,
    /// `DOCUMENT_ROOT`.
    pub document_root: Rc<[u8]>,
}

/// How a request is answered.
#[derive(Debug)]
pub enum Way {
    /// With a file.
    File(Rc<files::Entry>),
    /// By a PHP run.
    Php(Script),
    /// By sending the client elsewhere: status and absolute location.
    Redirect(u16, String),
    /// Not: with this status.
    Refuse(u16),
    /// `OPTIONS` on something that isn't PHP: the methods it has.
    Allow,
}
