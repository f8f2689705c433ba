//! The server's account at the authority, with its key: created once and stored.

use instant_acme::{Account, AccountCredentials, NewAccount};
use millrace_settings::plan;
use serde_json::{Value, json};

use super::client::AcmeClient;
use super::failure::{AcmeFailure, Cause};
use super::store::Store;

const FILE: &str = "account.json";

/// The stored account, or a new one.
///
/// # Errors
/// The authority is unreachable or refuses, or the account can't be stored.
pub async fn open(settings: &plan::Acme, store: &Store, client: &AcmeClient) -> Result<Account, AcmeFailure> {
    let builder = Account::builder_with_http(Box::new(client.clone()));
    let Some(kept) = store.read(FILE)? else {
        let contact = contact(settings);
        let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
        let new = NewAccount {
            contact: &contact,
            terms_of_service_agreed: settings.terms_agreed,
            only_return_existing: false,
        };
        let (account, credentials) = builder.create(&new, settings.directory.clone(), None).await?;
        write(settings, store, &json!(credentials))?;
        return Ok(account);
    };
    let (credentials, email) = parse(&kept).ok_or_else(|| {
        let text = format!(
            "the stored ACME account ({FILE}) is damaged: restore it from a backup, or delete it to register a new one"
        );
        AcmeFailure::new(Cause::Disk, text)
    })?;
    let shown = json!(credentials);
    let account = builder.from_credentials(credentials).await?;
    if email != settings.email {
        let contact = contact(settings);
        account.update_contacts(&contact.iter().map(String::as_str).collect::<Vec<_>>()).await?;
        write(settings, store, &shown)?;
    }
    Ok(account)
}

/// The authority no longer knows the account: the next order creates another one.
pub fn forget(store: &Store) {
    store.remove(FILE);
}

fn contact(settings: &plan::Acme) -> Option<String> {
    settings.email.as_ref().map(|email| format!("mailto:{email}"))
}

fn write(settings: &plan::Acme, store: &Store, credentials: &Value) -> Result<(), AcmeFailure> {
    let text = json!({ "email": settings.email, "credentials": credentials }).to_string();
    store.write(FILE, text.as_bytes())
}

fn parse(bytes: &[u8]) -> Option<(AccountCredentials, Option<String>)> {
    let mut all: Value = serde_json::from_slice(bytes).ok()?;
    let email = all.get("email").and_then(Value::as_str).map(str::to_owned);
    Some((serde_json::from_value(all.get_mut("credentials")?.take()).ok()?, email))
}
