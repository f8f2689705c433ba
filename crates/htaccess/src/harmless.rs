//! Directives without a meaning here that are known to restrict nothing: they are ignored. What neither this list nor the table of
//! directives has may restrict access, so what it covers is refused: Apache, which doesn't know it either, answers 500.

use millrace_wire::glob::is_like;

/// Names in lower case; a star stands for the rest of a name.
const HARMLESS: &[&str] = &[
    // Apache's own, that a .htaccess file may have
    "action",
    "addalt*",
    "addiconbyencoding",
    "addinputfilter",
    "cgipassauth",
    "cgivar",
    "charset*",
    "checkcaseonly",
    "checkspelling",
    "contentdigest",
    "cookie*",
    "defaulticon",
    "deflate*",
    "directoryindexredirect",
    "extfilteroptions",
    "forcelanguage",
    "imap*",
    "indexheadinsert",
    "indexorderdefault",
    "isapi*",
    "keptbodysize",
    "meta*",
    "multiviewsmatch",
    "passenv",
    "proxyerroroverride",
    "qualifyredirecturl",
    "reflectorheader",
    "removeinputfilter",
    "removeoutputfilter",
    "rlimit*",
    "scriptinterpretersource",
    "session*",
    "ssi*",
    "substitute*",
    "xbithack",
    // of others: page speed, ways to run programs, switches of firewalls
    "fcgid*",
    "fastcgi*",
    "lsapi_*",
    "lsphp_*",
    "mod_gzip_*",
    "modpagespeed*",
    "pagespeed*",
    "passenger*",
    "rails*",
    "secauditengine",
    "secfiltercheck*",
    "secfilterengine",
    "secfilterscanpost",
    "secrequestbodyaccess",
    "secresponsebodyaccess",
    "secruleengine",
    "secruleremoveby*",
    "suphp_*",
];

/// Whether an unknown directive, whose name is in lower case, is known to restrict nothing.
pub fn is_harmless(name: &str) -> bool {
    HARMLESS.iter().any(|known| is_like(known, name.as_bytes()))
}
