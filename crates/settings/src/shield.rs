//! The shield of a plan.

use crate::plan::{Shield, ShieldLimits, ShieldMode};
use crate::resolve::View;

/// `[shield]`.
pub(crate) fn shield(view: &View<'_>) -> Shield {
    Shield {
        mode: match view.choice("shield.mode") {
            "watch" => ShieldMode::Watch,
            "off" => ShieldMode::Off,
            _ => ShieldMode::On,
        },
        exempt: view.networks("shield.exempt"),
        limits: ShieldLimits {
            login: view.number("shield.login"),
            xmlrpc: view.number("shield.xmlrpc"),
            search: view.number("shield.search"),
            filter: view.number("shield.filter"),
            cart: view.number("shield.cart"),
            users: view.number("shield.users"),
            not_found: view.number("shield.not_found"),
            php: view.number("shield.php"),
        },
        share: view.number("shield.share"),
        ban_after: view.number("shield.ban_after"),
        ban_time: view.duration("shield.ban_time"),
        ban_max: view.duration("shield.ban_max"),
        state_file: view.path("shield.state_file"),
        lists: view.path("shield.lists"),
        crawlers: view.path("shield.crawlers"),
    }
}
