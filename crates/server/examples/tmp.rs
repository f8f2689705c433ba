fn main() {
    let source = millrace_settings::Source { site_dir: Some(std::env::args().nth(1).unwrap().into()), listen: vec!["127.0.0.1:18080".into()], set: std::env::args().skip(2).collect(), ..Default::default() };
    let (plan, _) = millrace_settings::load(&source).map_err(|e| e.to_string()).unwrap();
    millrace_server::run(plan, Box::new(|| Err("no".into()))).unwrap();
}
