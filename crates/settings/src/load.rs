//! From the command line to a [`Plan`].

use std::path::{Path, PathBuf};

use crate::environment::Environment;
use crate::plan::Plan;
use crate::problem::{At, Origin, Problem, Problems};
use crate::resolve;
use crate::table;
use crate::value::{Value, joined};
use crate::written::{SiteWritten, Typed, Written};

/// Where the configuration comes from: the command line of `millrace serve` and `millrace check`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// `--config FILE`.
    pub config: Option<PathBuf>,
    /// `SITE_DIR`.
    pub site_dir: Option<PathBuf>,
    /// Each `--listen ADDRESS`; together they replace `server.listen`.
    pub listen: Vec<String>,
    /// `--profile NAME`, for every site.
    pub profile: Option<String>,
    /// `--php-ini FILE`, for every site.
    pub php_ini: Option<PathBuf>,
    /// Each `--set SETTING=VALUE`: `http.keep_alive=5s`, `site.root=/srv/www` (every site), `site.NAME.root=/srv/www`.
    pub set: Vec<String>,
}

/// Loads the configuration on this machine: the plan and the warnings, or all problems.
///
/// # Errors
/// Every problem that was found, warnings too, if one of them is an error.
pub fn load(source: &Source) -> Result<(Plan, Vec<Problem>), Problems> {
    load_on(source, &Environment::of_this_machine())
}

/// [`load`], on a machine that is passed in.
///
/// # Errors
/// As [`load`].
pub fn load_on(source: &Source, environment: &Environment<'_>) -> Result<(Plan, Vec<Problem>), Problems> {
    let mut written = Written::default();
    let dir = source.site_dir.as_deref().unwrap_or(Path::new("."));
    let argument = Origin::argument(dir.display().to_string(), &environment.current_dir);
    let at = At::new(&argument, 0..argument.text.len());
    let mut site = SiteWritten { at: Some(at.clone()), values: Default::default() };
    let root = joined(&environment.current_dir, &argument.text);
    let row = table::find("site.root").expect("a row");
    site.values.set(row, Typed { value: Some(Value::Path(Some(root))), at });
    written.sites.push(site);
    Ok((resolve::plan(&written, environment), Vec::new()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::fake::FakeDisk;

    #[test]
    fn a_folder_alone_is_the_one_default_site() {
        let disk = FakeDisk::with(&[("/srv/blog/wp-load.php", "")]);
        let source = Source { site_dir: Some("/srv/blog".into()), ..Source::default() };
        let (plan, warnings) = load_on(&source, &disk.machine()).unwrap();
        assert_eq!(warnings, []);
        assert_eq!(plan.sites.len(), 1);
        let site = &plan.sites[0];
        assert!(site.default && site.names.is_empty());
        assert_eq!(site.root, Path::new("/srv/blog"));
        assert_eq!(site.profile, crate::plan::Profile::WordPress);
        assert_eq!(site.front_controller.as_deref(), Some("/index.php"));
        assert_eq!(plan.server.listen, [crate::plan::Address::Tcp("127.0.0.1:8080".parse().unwrap())]);
        assert_eq!(site.php.as_ref().unwrap().workers, 16);
    }
}
