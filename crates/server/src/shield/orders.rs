//! What an administrator asks of the shield: `millrace shield list`, `ban`, `unban`, `explain`.

use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use millrace_settings::plan::{self, ShieldMode};
use millrace_shield::{Asked, Ban, Bans, Class};
use millrace_wire::network::Network;

use super::attend::unix_time;
use super::{Shield, applies, limit};

/// An order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShieldOrder {
    /// Which bans are in force.
    List,
    /// Ban a network for this long.
    Ban(Network, Duration, String),
    /// End a ban.
    Unban(Network),
    /// What is known of an address.
    Explain(IpAddr),
}

/// What came of an order.
#[derive(Clone, Debug)]
pub enum ShieldReport {
    /// The bans in force.
    Bans(Vec<BanStatus>),
    /// The network is banned; why the ban ends with the process.
    Banned(BanStatus, Option<String>),
    /// Whether there was a ban; why it is back after a restart.
    Unbanned(bool, Option<String>),
    /// What is known of an address.
    Address(Box<AddressReport>),
}

/// A ban in force.
#[derive(Clone, Debug)]
pub struct BanStatus {
    /// The network.
    pub network: Network,
    /// When it began and when it ends, seconds since 1970.
    pub since: u64,
    /// See `since`.
    pub until: u64,
    /// Time until its end.
    pub left: Duration,
    /// How many bans of this network came one after the other.
    pub times: u32,
    /// An administrator has ordered it.
    pub by_admin: bool,
    /// Why.
    pub reason: String,
}

/// What is known of an address.
#[derive(Clone, Debug)]
pub struct AddressReport {
    /// The address.
    pub address: IpAddr,
    /// What counts as one client.
    pub client: Network,
    /// The shield does not apply to it: it is off, or the address is exempt.
    pub is_exempt: bool,
    /// Its ban.
    pub ban: Option<BanStatus>,
    /// The network of a list that contains it, and its end, if it has one.
    pub listed: Option<(Network, Option<u64>)>,
    /// The crawler whose address it is.
    pub crawler: Option<String>,
    /// For each class with a limit: its name, the requests it may still send at once, and the most.
    pub limits: Vec<(&'static str, u64, u64)>,
}

/// Figures.
#[derive(Clone, Debug, Default)]
pub struct ShieldStatus {
    /// Number of bans in force.
    pub bans: usize,
    /// Number of networks in lists.
    pub listed: usize,
    /// The crawlers that can be verified.
    pub crawlers: Vec<CrawlerStatus>,
}

/// A crawler that can be verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrawlerStatus {
    /// Its name.
    pub name: String,
    /// Number of its networks.
    pub networks: usize,
    /// Number of the domains of its hosts.
    pub domains: usize,
    /// The date of its list.
    pub date: Option<String>,
}

impl ShieldOrder {
    /// The order in a form: `do`, `address`, `time` in seconds, `reason`.
    ///
    /// # Errors
    /// What is wrong with it, for its sender.
    pub fn from_form(form: &[(String, String)], settings: &plan::Shield) -> Result<ShieldOrder, String> {
        let value =
            |name: &str| form.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str());
        let network = || value("address").ok_or_else(|| "name an address".to_owned())?.parse::<Network>();
        match value("do").unwrap_or("") {
            "list" => Ok(ShieldOrder::List),
            "unban" => Ok(ShieldOrder::Unban(network()?)),
            "explain" => {
                let text = value("address").unwrap_or("");
                let address = text
                    .parse()
                    .map_err(|_| format!("{text:?} is no address: write 192.0.2.1 or 2001:db8::1"))?;
                Ok(ShieldOrder::Explain(address))
            }
            "ban" => {
                let network = network()?;
                if settings.exempt.iter().any(|exempt| exempt.contains(network.first())) {
                    return Err(format!(
                        "{network} is exempt, so the ban would have no effect: change shield.exempt"
                    ));
                }
                let time = match value("time") {
                    None => settings.ban_time,
                    Some(text) => Duration::from_secs(
                        text.parse()
                            .ok()
                            .filter(|seconds| *seconds > 0)
                            .ok_or("the time must be seconds, more than 0")?,
                    ),
                };
                // A line of the file in which bans outlive the process.
                let reason = value("reason").unwrap_or("").replace(char::is_control, " ");
                Ok(ShieldOrder::Ban(network, time, reason))
            }
            other => Err(format!("{other:?} is no order: list, ban, unban or explain")),
        }
    }
}

impl Shield {
    /// Carries out an order. A ban and its end take effect on all event loops with their next request, and are on disk when this
    /// returns, or the report says why not.
    pub fn obey(&self, order: ShieldOrder, settings: &plan::Shield) -> ShieldReport {
        let now = unix_time();
        match order {
            ShieldOrder::List => ShieldReport::Bans(self.banned_now(now)),
            ShieldOrder::Ban(network, time, reason) => {
                let order = |bans: &mut Bans| bans.order(network, now, time.as_secs().max(1), &reason);
                let ((), unsaved) = self.change(now, settings, order);
                self.process.log.info(format_args!("shield: an administrator has banned {network}"));
                let ban = self.banned_now(now).into_iter().find(|ban| ban.network == network);
                match ban {
                    Some(ban) => ShieldReport::Banned(ban, unsaved),
                    None => ShieldReport::Unbanned(false, unsaved),
                }
            }
            ShieldOrder::Unban(network) => {
                let (was, unsaved) = self.change(now, settings, |bans| bans.lift(&network, now));
                self.process
                    .log
                    .info(format_args!("shield: an administrator has ended the ban of {network}"));
                ShieldReport::Unbanned(was, unsaved)
            }
            ShieldOrder::Explain(address) => {
                ShieldReport::Address(Box::new(self.explain(address, settings, now)))
            }
        }
    }

    /// Figures for the status.
    pub fn status(&self) -> ShieldStatus {
        let view = self.view.get();
        let crawlers = view.crawlers.iter();
        ShieldStatus {
            bans: view.banned.len(),
            listed: view.listed.len(),
            crawlers: crawlers
                .map(|list| CrawlerStatus {
                    name: list.name.to_string(),
                    networks: list.networks.len(),
                    domains: list.domains.len(),
                    date: list.date.clone(),
                })
                .collect(),
        }
    }

    fn change<T>(
        &self,
        now: u64,
        settings: &plan::Shield,
        change: impl FnOnce(&mut Bans) -> T,
    ) -> (T, Option<String>) {
        let mut bans = self.bans();
        let result = change(&mut bans);
        self.publish(&bans, now);
        drop(bans);
        self.is_dirty.store(false, Ordering::Relaxed);
        (result, self.save(settings.state_file.as_deref()).err())
    }

    fn banned_now(&self, now: u64) -> Vec<BanStatus> {
        let bans = self.bans();
        let status = |(network, ban): (Network, &Ban)| BanStatus {
            network,
            since: ban.since,
            until: ban.until,
            left: Duration::from_secs(ban.until.saturating_sub(now)),
            times: ban.times,
            by_admin: ban.by_admin,
            reason: ban.reason.to_string(),
        };
        bans.in_force(now).into_iter().map(status).collect()
    }

    fn explain(&self, address: IpAddr, settings: &plan::Shield, now: u64) -> AddressReport {
        let banned = self.bans().find(address, now).map(|(network, _)| network);
        let view = self.view.get();
        let listed = view.listed.find(address, |until| *until > now);
        let host_name = self.names.known(address, Instant::now());
        let micros = self.micros(Instant::now());
        let left = |class: Class| {
            let limit = limit(settings, class, 1);
            let asked = Asked { address, class: class as u64, limit, cost: 1, now: micros };
            Some((class.name(), self.table.left(&asked)?, limit.client?.burst()))
        };
        AddressReport {
            address,
            client: Network::client(address),
            is_exempt: settings.mode == ShieldMode::Off || !applies(settings, address),
            ban: banned
                .and_then(|network| self.banned_now(now).into_iter().find(|ban| ban.network == network)),
            listed: listed.map(|(network, until)| (network, Some(*until).filter(|until| *until < u64::MAX))),
            crawler: view
                .crawlers
                .iter()
                .find(|list| list.has(address) || host_name.is_below(&list.domains) == Some(true))
                .map(|list| list.name.to_string()),
            limits: Class::ALL.into_iter().filter_map(left).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(form: &[(&str, &str)]) -> Result<ShieldOrder, String> {
        let source = millrace_settings::Source { site_dir: Some("/".into()), ..Default::default() };
        let (plan, _) = millrace_settings::load(&source).unwrap();
        let form: Vec<_> =
            form.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        ShieldOrder::from_form(&form, &plan.shield)
    }

    #[test]
    fn orders_are_read_from_forms() {
        let network = "192.0.2.0/24".parse::<Network>().unwrap();
        let ban = [("do", "ban"), ("address", "192.0.2.7/24"), ("time", "60"), ("reason", "a\nb")];
        let expected = ShieldOrder::Ban(network, Duration::from_secs(60), "a b".to_owned());
        assert_eq!(order(&ban), Ok(expected));
        assert_eq!(order(&ban[..2]), Ok(ShieldOrder::Ban(network, Duration::from_secs(600), String::new())));
        assert_eq!(order(&[("do", "list")]), Ok(ShieldOrder::List));
        assert_eq!(order(&[("do", "unban"), ("address", "192.0.2.0/24")]), Ok(ShieldOrder::Unban(network)));
        for (form, why) in [
            (&[][..], "no order"),
            (&[("do", "ban")], "name an address"),
            (&[("do", "ban"), ("address", "10.1.1.1")], "exempt"),
            (&[("do", "ban"), ("address", "192.0.2.1"), ("time", "0")], "more than 0"),
            (&[("do", "explain"), ("address", "192.0.2.0/24")], "no address"),
        ] {
            let error = order(form).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
